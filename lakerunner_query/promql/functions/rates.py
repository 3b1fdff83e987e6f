"""`rate`, `increase` and `delta`, extrapolated to the edges of the window; `irate` and `idelta`.

Floats go to kernels. A series with histograms is computed window by window, or all at once where its
histograms share a layout; a window with both kinds has no value. `anchored` and `smoothed` windows use the
values at their edges instead of extrapolating.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lakerunner_query.histogram.arithmetic import add, divide, scale
from lakerunner_query.histogram.batch_windows import any_within, batch_growth
from lakerunner_query.histogram.growth import Growth, Note, growth, step_growth
from lakerunner_query.histogram.model import Hint, Histogram, IncompatibleHistogramsError, compact
from lakerunner_query.promql.context import Context, FunctionBody
from lakerunner_query.promql.functions.edges import growth_between_edges
from lakerunner_query.promql.functions.messages import ADDITION, SUBTRACTION, ArgumentAnnotations
from lakerunner_query.promql.functions.sums import (
    delta_rows,
    empty_cells,
    mixed_temporality_error,
    over_float_samples,
    sum_deltas,
)
from lakerunner_query.promql.functions.windows import (
    MixedSeries,
    RangeVector,
    histogram_flags,
    notes_at,
    range_vector,
    source_vector,
)
from lakerunner_query.promql.lang.ast import Call, Reach
from lakerunner_query.vectors.labels import metric_names, value_of
from lakerunner_query.vectors.rows import empty_objects, has_float
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

NO_GROWTH = Growth(None)


def annotate_growth(notes: Iterable[Note], name: str, to: ArgumentAnnotations) -> None:
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


def window_growth(
    mixed: MixedSeries, function: Function, place: slice, until: int, windows: RangeVector
) -> Growth:
    """Compute the growth of a window of histograms; one alone counts if it started within the window."""
    histograms: list[Histogram] = list(mixed.histograms[place])
    is_counter = function != Function.DELTA
    found, notes = NO_GROWTH, frozenset[Note]()
    if len(histograms) > 1:
        restarts = _restarts(mixed, place, windows.notes) if is_counter else None
        found = growth(histograms, is_counter, restarts)
        if found.histogram is None:
            return found
        notes = found.notes
    if not is_counter and found.histogram is None:
        return NO_GROWTH
    total, factor = found.histogram, 1.0
    times, first = mixed.times[place], histograms[0]
    width = windows.windows.range
    count = total.count if total is not None else 0.0
    if is_counter:
        start = int(mixed.starts[place.start])
        is_known, factor, adds_first = extrapolation_factor_from_start(
            times[0], times[-1], start, len(histograms) - 1, until, width, first.count, count
        )
        if not is_known:
            return NO_GROWTH
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
        factor = extrapolation_factor(
            times[0], times[-1], len(histograms), until, width, False, first.count, count
        )
    if function == Function.RATE:
        factor /= width / 1000
    return Growth(None if total is None else scale(total, factor), notes)


def _restarts(mixed: MixedSeries, place: slice, notes: ArgumentAnnotations) -> list[bool]:
    """Flag the samples whose start time shows a reset since the sample before."""
    times, starts = mixed.times[place].tolist(), mixed.starts[place].tolist()
    pairs = list(zip(starts, times, starts[1:], times[1:], strict=False))
    if any(overlaps(start_before, before, start) for start_before, before, start, _ in pairs):
        notes.overlapping_starts(mixed.name)
    return [False, *(bool(is_restart(*pair)) for pair in pairs)]


def difference_function(function: Function) -> FunctionBody:
    """Build `irate` or `idelta`, which use the last two samples of a window only."""

    def apply(context: Context, call: Call) -> Value:
        found = source_vector(context, call, function)
        if found is not None:
            return found
        windows = range_vector(context, call)
        values, present = _last_two_floats(windows, function)
        histograms = _last_two_histograms(windows, function, values, present)
        return windows.to_vector(values, present, histograms)

    return apply


def _last_two_floats(windows: RangeVector, function: Function) -> tuple[Doubles, Flags]:
    samples = windows.floats
    if function == Function.IDELTA or not windows.uses_start_times or samples.is_delta is not None:
        found = over_float_samples(windows, function)
        return found.values, found.present
    values, states = empty_cells(windows, windows.windows.steps)
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
    windows: RangeVector, function: Function, values: Doubles, present: Flags
) -> Objects | None:
    """Compute the windows whose newest two samples are not both floats."""
    histograms: Objects | None = None
    for mixed in windows.mixed_series():
        enough = mixed.high - mixed.low > 1
        last = np.where(enough, mixed.high - 1, 1) if len(mixed.times) > 1 else mixed.high
        for step in np.flatnonzero(enough).tolist():
            place = int(last[step])
            pair = mixed.is_histogram[place - 1 : place + 1]
            if not pair.any():
                continue
            present[mixed.row, step] = False
            if not pair.all():
                windows.notes.mixed_samples(mixed.name)
                continue
            growth = _pair_growth(windows, mixed, function, place, step)
            annotate_growth(growth.notes, mixed.name, windows.notes)
            if growth.histogram is not None:
                histograms = empty_objects(values.shape) if histograms is None else histograms
                histograms[mixed.row, step] = growth.histogram
                present[mixed.row, step] = True
        present[mixed.row, ~enough] = False
    return histograms


def _pair_growth(
    windows: RangeVector, mixed: MixedSeries, function: Function, place: int, step: int
) -> Growth:
    before: Histogram = mixed.histograms[place - 1]
    after: Histogram = mixed.histograms[place]
    is_rate = function == Function.IRATE
    deltas = mixed.is_delta[place - 1 : place + 1]
    if is_rate and deltas.any() and not deltas.all():
        end = windows.windows.first_end + step * windows.windows.step
        raise mixed_temporality_error(windows.series.labels[mixed.row], end, function)
    times, starts = mixed.times, mixed.starts
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
    """Build `rate`, `increase` or `delta`."""

    def apply(context: Context, call: Call) -> Value:
        found = source_vector(context, call, function)
        if found is None:
            windows = range_vector(context, call)
            values, present = _float_growth(windows, function)
            histograms = _histogram_growth(windows, function, values, present)
            found = windows.to_vector(values, present, histograms)
        if function != Function.DELTA:
            _annotate_doubtful_names(context, found, notes_at(context, call, 0))
        return found

    return apply


def _annotate_doubtful_names(context: Context, found: Vector, notes: ArgumentAnnotations) -> None:
    """Annotate floats whose metric name or type is not that of a counter."""
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


def _float_growth(windows: RangeVector, function: Function) -> tuple[Doubles, Flags]:
    samples = windows.floats
    if windows.window.reach != Reach.PLAIN:
        return _edge_float_growth(windows, function)
    if windows.uses_start_times and function != Function.DELTA and samples.is_delta is None:
        values, states = empty_cells(windows, windows.windows.steps)
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
    found = over_float_samples(windows, function)
    return found.values, found.present


def _edge_float_growth(windows: RangeVector, function: Function) -> tuple[Doubles, Flags]:
    values, states = empty_cells(windows, windows.windows.steps)
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
        plain = over_float_samples(windows, function)
        values[deltas], present[deltas] = plain.values[deltas], plain.present[deltas]
    return values, present


def _histogram_growth(
    windows: RangeVector, function: Function, values: Doubles, present: Flags
) -> Objects | None:
    """Compute the windows with histograms; `present` is cleared where a window has both kinds."""
    histograms: Objects | None = None
    for mixed in windows.mixed_series():
        both = mixed.has_floats & mixed.has_histograms
        if both.any():
            windows.notes.mixed_samples(mixed.name)
        present[mixed.row, both] = False
        found = _batch_growth(windows, mixed, function)
        if found is None:
            found = empty_objects((values.shape[1],))
            for step in np.flatnonzero(mixed.has_histograms & ~both).tolist():
                found[step] = _growth_at_step(windows, mixed, function, step)
        histograms = empty_objects(values.shape) if histograms is None else histograms
        histograms[mixed.row] = found
        present[mixed.row] |= histogram_flags(found)
    return histograms


def _batch_growth(windows: RangeVector, mixed: MixedSeries, function: Function) -> Objects | None:
    """Compute all windows of a series at once; None unless its histograms share a layout."""
    dense = mixed.dense
    is_plain = windows.window.reach == Reach.PLAIN and not windows.uses_start_times
    if dense is None or not is_plain or mixed.is_delta.any():
        return None
    found = empty_objects(mixed.low.shape)
    steps = np.flatnonzero(mixed.high - mixed.low > 1)
    if not len(steps):
        return found
    low, high = mixed.low[steps], mixed.high[steps]
    ends = windows.windows.first_end + windows.windows.step * steps
    is_gauge = dense.hints == Hint.GAUGE
    if function == Function.DELTA:
        if not (is_gauge[low] & is_gauge[high - 1]).all():
            windows.notes.not_a_gauge(mixed.name)
    elif any_within(is_gauge, low, high).any():
        windows.notes.not_a_counter(mixed.name)
    numbers = batch_growth(dense, mixed.times, low, high, ends, windows.windows.range, function)
    found[steps] = dense.histograms(numbers, [Hint.GAUGE] * len(steps))
    return found


def _growth_at_step(
    windows: RangeVector, mixed: MixedSeries, function: Function, step: int
) -> Histogram | None:
    place = mixed.window_slice(step)
    until = windows.windows.first_end + step * windows.windows.step
    if mixed.is_delta[place].any():
        return sum_deltas(windows, mixed, function, step)
    if windows.window.reach != Reach.PLAIN:
        answer = growth_between_edges(mixed, function, place, until, windows)
    else:
        answer = window_growth(mixed, function, place, until, windows)
    annotate_growth(answer.notes, mixed.name, windows.notes)
    return answer.histogram
