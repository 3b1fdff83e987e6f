"""`rate`, `increase` and `delta`: what the samples of a window grew by, drawn out to the window's edges.

Floats go to kernels. A series with histograms is asked about window by window; where a window holds both
kinds there is no answer. `anchored` and `smoothed` windows take the values at the edges
instead of drawing out.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.functions.arguments import notes_at
from lakerunner_query.evaluate.functions.deltas import delta_rows, summed_deltas
from lakerunner_query.evaluate.functions.float_windows import over_floats, room
from lakerunner_query.evaluate.functions.growing import grown, told
from lakerunner_query.evaluate.functions.messages import Notes
from lakerunner_query.evaluate.functions.ranged import Mixture, Ranged, ranged
from lakerunner_query.evaluate.functions.reaching_histograms import grown_between_edges
from lakerunner_query.evaluate.functions.results import are_histograms
from lakerunner_query.evaluate.functions.simple import Implementation
from lakerunner_query.evaluate.functions.sourced import answered
from lakerunner_query.histogram.batch_windows import any_within, growth
from lakerunner_query.histogram.model import Hint, Histogram
from lakerunner_query.lang.promql.ast import Call, Reach
from lakerunner_query.vectors.labels import metric_names, value_of
from lakerunner_query.vectors.rows import has_float, no_objects
from lakerunner_query.vectors.vector import NAME, Objects, Value, Vector
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.start_time_kernels import reaching, since_starts
from resources.arrays import Doubles, Flags

_COUNTER_ENDINGS = ("_total", "_sum", "_count", "_bucket")
_COUNTER_TYPES = frozenset({"counter", "histogram"})


def growing(function: Function) -> Implementation:
    def apply(context: Context, call: Call) -> Value:
        found = answered(context, call, function)
        if found is None:
            windows = ranged(context, call)
            values, present = _floats(windows, function)
            histograms = _histograms(windows, function, values, present)
            found = windows.answer(values, present, histograms)
        if function != Function.DELTA:
            _doubt_names(context, found, notes_at(context, call, 0))
        return found

    return apply


def _doubt_names(context: Context, found: Vector, notes: Notes) -> None:
    """Floats under a name, or of a type, that no counter should have."""
    floats: Flags = np.asarray(has_float(found).any(axis=1))
    labels = found.labels if floats.all() else [found.labels[row] for row in np.flatnonzero(floats).tolist()]
    if context.options.type_and_unit_labels:
        for one in labels:
            if value_of(one, NAME) and value_of(one, "__type__") not in _COUNTER_TYPES:
                notes.maybe_no_counter_by_label(value_of(one, NAME), value_of(one, "__type__"))
        return
    for name in metric_names(labels):
        if not name.endswith(_COUNTER_ENDINGS):
            notes.maybe_no_counter(name)


def _floats(windows: Ranged, function: Function) -> tuple[Doubles, Flags]:
    samples = windows.floats
    if windows.window.reach != Reach.PLAIN:
        return _reaching(windows, function)
    if windows.looks_at_starts and function != Function.DELTA and samples.is_delta is None:
        values, states = room(windows, windows.windows.steps)
        overlapping = np.zeros(windows.series.count, np.bool_)
        since_starts(
            int(function),
            samples.offsets,
            samples.time_ms,
            samples.value,
            windows.float_starts,
            windows.windows,
            values,
            states,
            overlapping,
        )
        for row in np.flatnonzero(overlapping).tolist():
            windows.notes.overlapping_starts(windows.name(row))
        return values, states != 0
    found = over_floats(windows, function)
    return found.values, found.present


def _reaching(windows: Ranged, function: Function) -> tuple[Doubles, Flags]:
    values, states = room(windows, windows.windows.steps)
    samples = windows.floats
    reaching(
        int(function),
        windows.window.reach == Reach.SMOOTHED,
        windows.context.options.lookback_ms,
        samples.offsets,
        samples.time_ms,
        samples.value,
        windows.float_starts,
        windows.windows,
        values,
        states,
    )
    present = states != 0
    deltas = delta_rows(windows)
    if deltas.any():
        plain = over_floats(windows, function)
        values[deltas], present[deltas] = plain.values[deltas], plain.present[deltas]
    return values, present


def _histograms(windows: Ranged, function: Function, values: Doubles, present: Flags) -> Objects | None:
    """Fills what series with histograms have; `present` is corrected where both kinds stand in a window."""
    histograms: Objects | None = None
    for mixture in windows.mixtures():
        both = mixture.has_floats & mixture.has_histograms
        if both.any():
            windows.notes.mixed_samples(mixture.name)
        present[mixture.row, both] = False
        found = _all_at_once(windows, mixture, function)
        if found is None:
            found = no_objects((values.shape[1],))
            for step in np.flatnonzero(mixture.has_histograms & ~both).tolist():
                found[step] = _one(windows, mixture, function, step)
        histograms = no_objects(values.shape) if histograms is None else histograms
        histograms[mixture.row] = found
        present[mixture.row] |= are_histograms(found)
    return histograms


def _all_at_once(windows: Ranged, mixture: Mixture, function: Function) -> Objects | None:
    """All windows of a series whose histograms have one layout; None where windows are asked one by one."""
    dense = mixture.dense
    is_plain = windows.window.reach == Reach.PLAIN and not windows.looks_at_starts
    if dense is None or not is_plain or mixture.is_delta.any():
        return None
    found = no_objects(mixture.low.shape)
    steps = np.flatnonzero(mixture.high - mixture.low > 1)
    if not len(steps):
        return found
    low, high = mixture.low[steps], mixture.high[steps]
    ends = windows.windows.first_end + windows.windows.step * steps
    is_gauge = dense.hints == Hint.GAUGE
    if function == Function.DELTA:
        if not (is_gauge[low] & is_gauge[high - 1]).all():
            windows.notes.not_a_gauge(mixture.name)
    elif any_within(is_gauge, low, high).any():
        windows.notes.not_a_counter(mixture.name)
    numbers = growth(dense, mixture.times, low, high, ends, windows.windows.range, function)
    found[steps] = dense.histograms(numbers, [Hint.GAUGE] * len(steps))
    return found


def _one(windows: Ranged, mixture: Mixture, function: Function, step: int) -> Histogram | None:
    place = mixture.of_window(step)
    until = windows.windows.first_end + step * windows.windows.step
    if mixture.is_delta[place].any():
        return summed_deltas(windows, mixture, function, step)
    if windows.window.reach != Reach.PLAIN:
        answer = grown_between_edges(mixture, function, place, until, windows)
    else:
        answer = grown(mixture, function, place, until, windows)
    told(answer.notes, mixture.name, windows.notes)
    return answer.histogram
