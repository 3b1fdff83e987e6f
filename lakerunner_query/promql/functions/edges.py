"""`resets` and `changes`, and the growth of histograms in `anchored` and `smoothed` windows.

A change from a float to a histogram, or back, is both a reset and a change.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lakerunner_query.histogram.arithmetic import add, divide, equal, sub
from lakerunner_query.histogram.growth import Growth, Note, detect_reset, interpolate, reset_correction
from lakerunner_query.histogram.model import Hint, Histogram, IncompatibleHistogramsError, compact
from lakerunner_query.promql.context import Context, FunctionBody
from lakerunner_query.promql.functions.sums import empty_cells, over_float_samples
from lakerunner_query.promql.functions.windows import MixedSeries, RangeVector, range_vector, source_vector
from lakerunner_query.promql.lang.ast import Call, Reach
from lakerunner_query.vectors.vector import Value
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.start_time_kernels import is_restart, reaching, since_starts
from resources.arrays import Doubles, Flags, Int64s

EventTest = Callable[[MixedSeries, int], bool]
"""Test of a sample against the one before it."""


def event_count_function(function: Function) -> FunctionBody:
    """Build `resets` or `changes`, which count events between neighbouring samples."""
    is_event = _is_reset if function == Function.RESETS else _is_change

    def apply(context: Context, call: Call) -> Value:
        found = source_vector(context, call, function)
        if found is not None:
            return found
        windows = range_vector(context, call)
        values, present = _count_float_events(windows, function)
        for mixed in windows.mixed_series():
            events = _event_flags(windows, mixed, is_event)
            anchored = mixed
            if windows.window.reach == Reach.ANCHORED:
                anchored = mixed.anchor(windows.windows)
            values[mixed.row] = anchored.count_events(events)
            present[mixed.row] = anchored.high > anchored.low
        return windows.to_vector(values, present)

    return apply


def _event_flags(windows: RangeVector, mixed: MixedSeries, is_event: EventTest) -> Flags:
    """Flag the samples at which the event happens."""
    by_counts = is_event is _is_reset and not windows.uses_start_times and not mixed.is_delta.any()
    if by_counts and mixed.dense is not None:
        return mixed.dense.fell()
    return np.array([False, *(is_event(mixed, place) for place in range(1, len(mixed.times)))], np.bool_)


def _count_float_events(windows: RangeVector, function: Function) -> tuple[Doubles, Flags]:
    samples = windows.floats
    if windows.window.reach == Reach.PLAIN:
        is_plain = function == Function.CHANGES or not windows.uses_start_times
        if is_plain or samples.is_delta is not None:
            found = over_float_samples(windows, function)
            return found.values, found.present
    values, states = empty_cells(windows, windows.windows.steps)
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


def _is_reset(mixed: MixedSeries, place: int) -> bool:
    before, after = mixed.histograms[place - 1], mixed.histograms[place]
    if (before is None) != (after is None):
        return True
    if mixed.is_delta[place - 1] and mixed.is_delta[place]:
        return False
    times, starts = mixed.times, mixed.starts
    if is_restart(starts[place - 1], times[place - 1], starts[place], times[place]):
        return True
    if after is None:
        return bool(mixed.values[place] < mixed.values[place - 1])
    return detect_reset(after, before)


def _is_change(mixed: MixedSeries, place: int) -> bool:
    before, after = mixed.histograms[place - 1], mixed.histograms[place]
    if (before is None) != (after is None):
        return True
    if after is not None:
        return not equal(after, before)
    old, new = float(mixed.values[place - 1]), float(mixed.values[place])
    return new != old and not (np.isnan(new) and np.isnan(old))


_NOTHING = Growth(None)
_MIXED = frozenset({Note.MIXED_SCHEMAS})


def growth_between_edges(
    mixed: MixedSeries, function: Function, place: slice, until: int, windows: RangeVector
) -> Growth:
    """Compute the growth of a window from the interpolated or nearest histograms at its edges."""
    times, histograms = mixed.times[place], list(mixed.histograms[place])
    since, is_smoothed = until - windows.windows.range, windows.window.reach == Reach.SMOOTHED
    first = max(0, int(np.searchsorted(times[:-1], since, "right")) - 1)
    last = int(np.searchsorted(times[:-1], until, "left")) if is_smoothed else len(times) - 1
    if times[last] <= since or (is_smoothed and times[first] > until):
        return _NOTHING
    looked_at = histograms[first : last + 1]
    is_counter = function != Function.DELTA
    notes: set[Note] = set()
    if is_counter and any(one.hint == Hint.GAUGE for one in looked_at):
        notes.add(Note.NOT_COUNTER)
    if len({one.is_custom for one in looked_at}) > 1:
        return Growth(None, frozenset(notes | _MIXED))
    left, right = _edges(times, histograms, (first, last), (since, until), is_smoothed, is_counter)
    notes |= left.notes | right.notes
    if left.histogram is None or right.histogram is None:
        return Growth(None, frozenset(notes))
    if not is_counter and not left.histogram.hint == right.histogram.hint == Hint.GAUGE:
        notes.add(Note.NOT_GAUGE)
    total = sub(right.histogram, left.histogram)
    notes |= {Note.BOUNDS_SUBTRACTED} if total.bounds_reconciled else set()
    grown = Growth(total.histogram)
    if is_counter:
        between, anchor = _samples_between(times, histograms, first, last, since, is_smoothed)
        grown = _correct_resets(total.histogram, between, anchor or left.histogram, right.histogram)
    if grown.histogram is None:
        return Growth(None, frozenset(notes | grown.notes))
    found = grown.histogram
    if function == Function.RATE:
        found = divide(found, windows.windows.range / 1000)
    return Growth(compact(found.with_hint(Hint.GAUGE)), frozenset(notes | grown.notes))


def _correct_resets(
    total: Histogram, between: list[Histogram] | None, left: Histogram, right: Histogram
) -> Growth:
    """Add the counts that resets took away."""
    if between is None:
        return Growth(total)
    correction = reset_correction(between, left, right)
    if Note.MIXED_SCHEMAS in correction.notes:
        return Growth(None, correction.notes)
    if correction.histogram is None:
        return Growth(total, correction.notes)
    try:
        corrected = add(total, correction.histogram)
    except IncompatibleHistogramsError:
        return Growth(None, correction.notes | _MIXED)
    reconciled = {Note.BOUNDS_ADDED} if corrected.bounds_reconciled else set()
    return Growth(corrected.histogram, correction.notes | reconciled)


def _edges(
    times: Int64s,
    histograms: list[Histogram],
    ends: tuple[int, int],
    window: tuple[int, int],
    is_smoothed: bool,
    is_counter: bool,
) -> tuple[Growth, Growth]:
    (first, last), (since, until) = ends, window
    left, right = Growth(histograms[first]), Growth(histograms[last])
    if is_smoothed and times[first] < since:
        left = _interpolate(times, histograms, first, since, is_counter)
    if is_smoothed and last > 0 and times[last] > until:
        right = _interpolate(times, histograms, last - 1, until, is_counter)
    return left, right


def _interpolate(
    times: Int64s, histograms: list[Histogram], place: int, at_ms: int, is_counter: bool
) -> Growth:
    return interpolate(
        histograms[place],
        int(times[place]),
        histograms[place + 1],
        int(times[place + 1]),
        at_ms,
        is_counter,
    )


def _samples_between(
    times: Int64s, histograms: list[Histogram], first: int, last: int, since: int, is_smoothed: bool
) -> tuple[list[Histogram] | None, Histogram | None]:
    """Return the samples between the edges, and the histogram to compare the first of them with.

    That is None for the left edge itself. If the left edge lies between a sample and a reset, its value
    includes the reset already. No samples (None) means that both edges lie between the same two samples.
    """
    anchor = None
    begin = first + 1
    if is_smoothed and times[first] < since and detect_reset(histograms[first + 1], histograms[first]):
        anchor = histograms[first + 1]
        begin += 1
    return (None if begin > last else histograms[begin:last]), anchor
