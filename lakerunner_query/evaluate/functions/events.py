"""`resets` and `changes`: how often a window's samples began anew, or differ from the one before.

From a float to a histogram, or back, is one of either.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.functions.float_windows import over_floats, room
from lakerunner_query.evaluate.functions.ranged import Mixture, Ranged, ranged
from lakerunner_query.evaluate.functions.simple import Implementation
from lakerunner_query.evaluate.functions.sourced import answered
from lakerunner_query.histogram.arithmetic import equal
from lakerunner_query.histogram.growth import detect_reset
from lakerunner_query.lang.promql.ast import Call, Reach
from lakerunner_query.vectors.vector import Value
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.start_time_kernels import is_restart, reaching, since_starts
from resources.arrays import Doubles, Flags

Happened = Callable[[Mixture, int], bool]
"""Whether there is an event at a sample, from the one before it."""


def counting(function: Function) -> Implementation:
    happened = _is_reset if function == Function.RESETS else _is_change

    def apply(context: Context, call: Call) -> Value:
        found = answered(context, call, function)
        if found is not None:
            return found
        windows = ranged(context, call)
        values, present = _floats(windows, function)
        for mixture in windows.mixtures():
            events = _events(windows, mixture, happened)
            anchored = mixture
            if windows.window.reach == Reach.ANCHORED:
                anchored = mixture.anchored(windows.windows)
            values[mixture.row] = anchored.counted(events)
            present[mixture.row] = anchored.high > anchored.low
        return windows.answer(values, present)

    return apply


def _events(windows: Ranged, mixture: Mixture, happened: Happened) -> Flags:
    """By sample."""
    by_counts = happened is _is_reset and not windows.looks_at_starts and not mixture.is_delta.any()
    if by_counts and mixture.dense is not None:
        return mixture.dense.fell()
    return np.array([False, *(happened(mixture, place) for place in range(1, len(mixture.times)))], np.bool_)


def _floats(windows: Ranged, function: Function) -> tuple[Doubles, Flags]:
    samples = windows.floats
    if windows.window.reach == Reach.PLAIN:
        is_plain = function == Function.CHANGES or not windows.looks_at_starts
        if is_plain or samples.is_delta is not None:
            found = over_floats(windows, function)
            return found.values, found.present
    values, states = room(windows, windows.windows.steps)
    if windows.window.reach == Reach.PLAIN:
        since_starts(
            int(function),
            samples.offsets,
            samples.time_ms,
            samples.value,
            windows.float_starts,
            windows.windows,
            values,
            states,
            np.zeros(windows.series.count, np.bool_),
        )
    else:
        reaching(
            int(function),
            False,
            windows.context.options.lookback_ms,
            samples.offsets,
            samples.time_ms,
            samples.value,
            windows.float_starts,
            windows.windows,
            values,
            states,
        )
    return values, states != 0


def _is_reset(mixture: Mixture, place: int) -> bool:
    before, after = mixture.histograms[place - 1], mixture.histograms[place]
    if (before is None) != (after is None):
        return True
    if mixture.is_delta[place - 1] and mixture.is_delta[place]:
        return False
    times, starts = mixture.times, mixture.starts
    if is_restart(starts[place - 1], times[place - 1], starts[place], times[place]):
        return True
    if after is None:
        return bool(mixture.values[place] < mixture.values[place - 1])
    return detect_reset(after, before)


def _is_change(mixture: Mixture, place: int) -> bool:
    before, after = mixture.histograms[place - 1], mixture.histograms[place]
    if (before is None) != (after is None):
        return True
    if after is not None:
        return not equal(after, before)
    old, new = float(mixture.values[place - 1]), float(mixture.values[place])
    return new != old and not (np.isnan(new) and np.isnan(old))
