"""`irate` and `idelta`: the last two samples of a window, whatever else there is."""

from __future__ import annotations

import numpy as np

from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.functions.deltas import mixed_temporality
from lakerunner_query.evaluate.functions.float_windows import over_floats, room
from lakerunner_query.evaluate.functions.growing import told
from lakerunner_query.evaluate.functions.ranged import Mixture, Ranged, ranged
from lakerunner_query.evaluate.functions.simple import Implementation
from lakerunner_query.evaluate.functions.sourced import answered
from lakerunner_query.histogram.arithmetic import divide
from lakerunner_query.histogram.growth import Growth, Note, step_growth
from lakerunner_query.histogram.model import Hint, Histogram, compact
from lakerunner_query.lang.promql.ast import Call
from lakerunner_query.vectors.rows import no_objects
from lakerunner_query.vectors.vector import Objects, Value
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.start_time_kernels import is_restart, since_starts
from resources.arrays import Doubles, Flags


def of_last_two(function: Function) -> Implementation:
    def apply(context: Context, call: Call) -> Value:
        found = answered(context, call, function)
        if found is not None:
            return found
        windows = ranged(context, call)
        values, present = _floats(windows, function)
        histograms = _histograms(windows, function, values, present)
        return windows.answer(values, present, histograms)

    return apply


def _floats(windows: Ranged, function: Function) -> tuple[Doubles, Flags]:
    samples = windows.floats
    if function == Function.IDELTA or not windows.looks_at_starts or samples.is_delta is not None:
        found = over_floats(windows, function)
        return found.values, found.present
    values, states = room(windows, windows.windows.steps)
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
    return values, states != 0


def _histograms(windows: Ranged, function: Function, values: Doubles, present: Flags) -> Objects | None:
    """Where the newest two of a window are not both floats."""
    histograms: Objects | None = None
    for mixture in windows.mixtures():
        enough = mixture.high - mixture.low > 1
        last = np.where(enough, mixture.high - 1, 1) if len(mixture.times) > 1 else mixture.high
        for step in np.flatnonzero(enough).tolist():
            place = int(last[step])
            pair = mixture.is_histogram[place - 1 : place + 1]
            if not pair.any():
                continue
            present[mixture.row, step] = False
            if not pair.all():
                windows.notes.mixed_samples(mixture.name)
                continue
            growth = _grown(windows, mixture, function, place, step)
            told(growth.notes, mixture.name, windows.notes)
            if growth.histogram is not None:
                histograms = no_objects(values.shape) if histograms is None else histograms
                histograms[mixture.row, step] = growth.histogram
                present[mixture.row, step] = True
        present[mixture.row, ~enough] = False
    return histograms


def _grown(windows: Ranged, mixture: Mixture, function: Function, place: int, step: int) -> Growth:
    before: Histogram = mixture.histograms[place - 1]
    after: Histogram = mixture.histograms[place]
    is_rate = function == Function.IRATE
    deltas = mixture.is_delta[place - 1 : place + 1]
    if is_rate and deltas.any() and not deltas.all():
        end = windows.windows.first_end + step * windows.windows.step
        raise mixed_temporality(windows.series.labels[mixture.row], end, function)
    times, starts = mixture.times, mixture.starts
    restarted = is_restart(starts[place - 1], times[place - 1], starts[place], times[place])
    if is_rate and (restarted or deltas.all()):
        is_gauge = Hint.GAUGE in (before.hint, after.hint) and not deltas.all()
        notes = frozenset({Note.NOT_COUNTER} if is_gauge else ())
        growth = Growth(compact(after.with_hint(Hint.GAUGE)), notes)
    else:
        growth = step_growth(before, after, is_rate)
    if not is_rate or growth.histogram is None:
        return growth
    seconds = float(times[place] - times[place - 1]) / 1000
    return Growth(divide(growth.histogram, seconds), growth.notes)
