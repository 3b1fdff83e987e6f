"""`rate`, `increase` and `delta`: what the samples of a window grew by, drawn out to the window's edges.

Floats go to kernels. A series with histograms is asked about window by window; where a window holds both
kinds there is no answer. `anchored` and `smoothed` windows take the values at the edges
instead of drawing out.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lakerunner_query.histogram.arithmetic import add, divide, scale
from lakerunner_query.histogram.batch_windows import any_within, batch_growth
from lakerunner_query.histogram.growth import Growth, Note, growth, step_growth
from lakerunner_query.histogram.model import Hint, Histogram, IncompatibleHistogramsError, compact
from lakerunner_query.promql.context import Context, FunctionBody
from lakerunner_query.promql.functions.edges import grown_between_edges
from lakerunner_query.promql.functions.messages import ADDITION, SUBTRACTION, Notes
from lakerunner_query.promql.functions.sums import (
    delta_rows,
    mixed_temporality,
    over_floats,
    room,
    summed_deltas,
)
from lakerunner_query.promql.functions.windows import (
    Mixture,
    Ranged,
    answered,
    are_histograms,
    notes_at,
    ranged,
)
from lakerunner_query.promql.lang.ast import Call, Reach
from lakerunner_query.vectors.labels import metric_names, value_of
from lakerunner_query.vectors.rows import has_float, no_objects
from lakerunner_query.vectors.vector import NAME, Objects, Value, Vector
from lakerunner_query.windows.edge_kernels import extrapolation_factor
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.start_time_kernels import (
    extrapolation_factor_from_start,
    is_restart,
    overlaps,
    reaching,
    since_starts,
)
from resources.arrays import Doubles, Flags

# << `rate`, `increase` and `delta` of one window of histograms.

NOTHING = Growth(None)


def annotate_growth(notes: Iterable[Note], name: str, to: Notes) -> None:
    for note in notes:
        match note:
            case Note.NOT_COUNTER:
                to.not_a_counter(name)
            case Note.NOT_GAUGE:
                to.not_a_gauge(name)
            case Note.MIXED_SCHEMAS:
                to.mixed_layouts(name)
            case Note.BOUNDS_SUBTRACTED:
                to.reconciled_bounds(SUBTRACTION)
            case Note.BOUNDS_ADDED:
                to.reconciled_bounds(ADDITION)


def grown(mixture: Mixture, function: Function, place: slice, until: int, windows: Ranged) -> Growth:
    """Of histograms only. One alone counts if counting began within the window."""
    histograms: list[Histogram] = list(mixture.histograms[place])
    is_counter = function != Function.DELTA
    found, notes = NOTHING, frozenset[Note]()
    if len(histograms) > 1:
        restarts = _restarts(mixture, place, windows.notes) if is_counter else None
        found = growth(histograms, is_counter, restarts)
        if found.histogram is None:
            return found
        notes = found.notes
    if not is_counter and found.histogram is None:
        return NOTHING
    total, factor = found.histogram, 1.0
    times, first = mixture.times[place], histograms[0]
    width = windows.windows.range
    count = total.count if total is not None else 0.0
    if is_counter:
        start = int(mixture.starts[place.start])
        is_known, factor, adds_first = extrapolation_factor_from_start(
            times[0], times[-1], start, len(histograms) - 1, until, width, first.count, count
        )
        if not is_known:
            return NOTHING
        if adds_first and total is None:
            total = first
        elif adds_first and total is not None:
            try:
                joined = add(total, first)
            except IncompatibleHistogramsError:
                return Growth(None, notes | {Note.MIXED_SCHEMAS})
            total = joined.histogram
            notes |= {Note.BOUNDS_ADDED} if joined.bounds_reconciled else set()
    else:
        factor = extrapolation_factor(times[0], times[-1], len(histograms), until, width, False, first.count, count)
    if function == Function.RATE:
        factor /= width / 1000
    return Growth(None if total is None else scale(total, factor), notes)


def _restarts(mixture: Mixture, place: slice, notes: Notes) -> list[bool]:
    """By sample: its start timestamp tells of a reset since the one before."""
    times, starts = mixture.times[place].tolist(), mixture.starts[place].tolist()
    pairs = list(zip(starts, times, starts[1:], times[1:], strict=False))
    if any(overlaps(start_before, before, start) for start_before, before, start, _ in pairs):
        notes.overlapping_starts(mixture.name)
    return [False, *(bool(is_restart(*pair)) for pair in pairs)]


# << `irate` and `idelta`: the last two samples of a window, whatever else there is.


def difference_function(function: Function) -> FunctionBody:
    def apply(context: Context, call: Call) -> Value:
        found = answered(context, call, function)
        if found is not None:
            return found
        windows = ranged(context, call)
        values, present = _last_two_floats(windows, function)
        histograms = _last_two_histograms(windows, function, values, present)
        return windows.answer(values, present, histograms)

    return apply


def _last_two_floats(windows: Ranged, function: Function) -> tuple[Doubles, Flags]:
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


def _last_two_histograms(
    windows: Ranged, function: Function, values: Doubles, present: Flags
) -> Objects | None:
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
            annotate_growth(growth.notes, mixture.name, windows.notes)
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


_COUNTER_ENDINGS = ("_total", "_sum", "_count", "_bucket")
_COUNTER_TYPES = frozenset({"counter", "histogram"})


def growth_function(function: Function) -> FunctionBody:
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
    numbers = batch_growth(dense, mixture.times, low, high, ends, windows.windows.range, function)
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
    annotate_growth(answer.notes, mixture.name, windows.notes)
    return answer.histogram
