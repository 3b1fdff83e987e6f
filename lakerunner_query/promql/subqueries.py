"""Subqueries and `smoothed` selectors: samples at times that no series was sampled at.

    x[5m:1m] at 10:00:30   x at 9:56, 9:57, 9:58, 9:59, 10:00

The times of a subquery are multiples of its step, whatever the times of the query are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from lakerunner_query.histogram.growth import MIXED, Growth, Note, interpolate
from lakerunner_query.histogram.model import Hint, Histogram
from lakerunner_query.promql.context import Context
from lakerunner_query.promql.functions.messages import ADDITION, SUBTRACTION, ArgumentAnnotations
from lakerunner_query.promql.lang.ast import Selector, Subquery
from lakerunner_query.promql.lang.functions import ResetHints
from lakerunner_query.promql.selectors import check_size, drop_stale, milliseconds, select_samples, window
from lakerunner_query.vectors.labels import value_of
from lakerunner_query.vectors.rows import (
    drop_empty_rows,
    empty_objects,
    empty_vector,
    is_histogram,
    merge_rows,
    repeat_steps,
)
from lakerunner_query.vectors.vector import NAME, Objects, Series, Steps, Vector, histogram_mask
from resources.arrays import Doubles, Flags, Int64s

_COUNTER_HINTS = frozenset({Hint.RESET, Hint.NO_RESET})


def subquery_steps(context: Context, subquery: Subquery) -> Steps:
    """Return the evaluation times of a subquery that lie in any window; there may be none."""
    grid = window(context, subquery).grid
    step = context.options.default_subquery_step_ms
    if subquery.step is not None:
        step = milliseconds(subquery.step)
    start = (grid.from_ms // step + 1) * step
    return Steps(start, step, max((grid.to_ms - start) // step + 1, 0))


def subquery_samples(context: Context, subquery: Subquery) -> Series:
    steps = subquery_steps(context, subquery)
    vector = empty_vector(0)
    check_size(context, steps.count)
    if steps.count:
        inner = replace(context, steps=steps, hints=ResetHints.FINAL)
        vector = merge_rows(inner.vector(subquery.expr))
    check_size(context, vector.present.size)
    return to_series(vector, steps)


def to_series(vector: Vector, steps: Steps) -> Series:
    """Turn every cell into a sample; series come in the order of their labels."""
    order = sorted(range(len(vector.labels)), key=vector.labels.__getitem__)
    if order != list(range(len(order))):
        vector = vector.take(np.array(order, np.int64))
    columns = np.nonzero(vector.present)[1]
    offsets = np.concatenate(([0], np.cumsum(vector.present.sum(axis=1)))).astype(np.int64)
    return Series(
        vector.labels,
        offsets,
        steps.times_ms[columns],
        vector.values[vector.present],
        _without_hints(vector),
        drop_name=vector.drop_name,
    )


def _without_hints(vector: Vector) -> Objects | None:
    """Drop reset hints: they compare neighbouring samples, and these are not neighbours."""
    if vector.histograms is None or not is_histogram(vector).any():
        return None
    found = vector.histograms[vector.present]
    for at in np.flatnonzero(histogram_mask(found)).tolist():
        histogram: Histogram = found[at]
        if histogram.hint in _COUNTER_HINTS:
            found[at] = histogram.with_hint(Hint.UNKNOWN)
    return found


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """Numbers of the samples around each step, in one series."""

    before: Int64s
    """Newest sample at or before the step."""
    after: Int64s
    """Next sample; the same one where it lies at the step or none follows."""
    found: Flags
    begin: Int64s
    end: Int64s
    """End of the look-back to both sides."""


def interpolated_vector(context: Context, selector: Selector) -> Vector:
    """Evaluate `x smoothed`: on the straight line between the samples around each step.

        samples 1 at 0 s and 4 at 30 s, step at 10 s: 1 + (4 - 1) x 10/30 = 2

    After the newest sample its value goes on until the look-back ends.
    """
    where, lookback = window(context, selector), context.options.lookback_ms
    series = drop_stale(select_samples(context, selector))
    if not series.labels:
        return empty_vector(context.steps.count)
    grid = where.grid
    check_size(context, series.count * grid.steps)
    times = grid.first_end_ms + grid.step_ms * np.arange(grid.steps, dtype=np.int64)
    shape = (series.count, grid.steps)
    values, present, histograms = np.full(shape, np.nan), np.zeros(shape, np.bool_), empty_objects(shape)
    for row, (low, high) in enumerate(pairwise(series.offsets.tolist())):
        if low == high:
            continue
        time_ms, value = series.time_ms[low:high], series.value[low:high]
        near = _find_neighbours(time_ms, times, lookback)
        values[row], present[row] = _interpolate_floats(value, time_ms, times, near), near.found
        if series.histograms is not None and histogram_mask(series.histograms[low:high]).any():
            name = value_of(series.labels[row], NAME)
            cells = series.histograms[low:high]
            histograms[row], present[row] = _interpolate_histograms(
                context, selector, name, cells, time_ms, times, near
            )
    vector = drop_empty_rows(Vector(series.labels, values, present, histograms))
    return repeat_steps(vector, context.steps) if where.is_fixed else vector


def _find_neighbours(time_ms: Int64s, times: Int64s, lookback: int) -> _Neighbours:
    begin = np.searchsorted(time_ms, times - lookback, side="right")
    end = np.searchsorted(time_ms, times + lookback, side="right")
    before = np.searchsorted(time_ms, times, side="right") - 1
    found = before >= begin
    before = np.maximum(before, 0)
    after = np.where((time_ms[before] == times) | (before + 1 >= end), before, before + 1)
    return _Neighbours(before, after, found, begin, end)


def _interpolate_floats(value: Doubles, time_ms: Int64s, times: Int64s, near: _Neighbours) -> Doubles:
    first, last = value[near.before], value[near.after]
    span = (time_ms[near.after] - time_ms[near.before]).astype(np.float64)
    since = (times - time_ms[near.before]).astype(np.float64)
    with np.errstate(all="ignore"):
        return np.where(span > 0, first + (last - first) * since / span, first)


def _interpolate_histograms(
    context: Context,
    selector: Selector,
    name: str,
    cells: Objects,
    time_ms: Int64s,
    times: Int64s,
    near: _Neighbours,
) -> tuple[Objects, Flags]:
    """Interpolate the histograms of a series; steps with floats near have no value."""
    said = ArgumentAnnotations(context.annotations, selector.span)
    found, histograms = near.found.copy(), empty_objects(times.shape)
    counted = np.concatenate(([0], np.cumsum(histogram_mask(cells))))
    counts = counted[near.end] - counted[near.begin]
    mixed = found & (counts > 0) & (counts < near.end - near.begin)
    if mixed.any():
        said.mixed_samples(name)
    found &= ~mixed
    for step in np.flatnonzero(found & (counts > 0)).tolist():
        at, to = int(near.before[step]), int(near.after[step])
        if to == at:
            is_there = time_ms[at] == times[step]
            histograms[step] = cells[at] if is_there else cells[at].with_hint(Hint.UNKNOWN)
            continue
        line = _between(cells[at], int(time_ms[at]), cells[to], int(time_ms[to]), int(times[step]))
        histograms[step], found[step] = line.histogram, line.histogram is not None
        for note in sorted(line.notes, key=lambda note: note.name):
            _NOTES[note](said, name)
    return histograms, found


def _between(first: Histogram, first_ms: int, second: Histogram, second_ms: int, at_ms: int) -> Growth:
    """Interpolate; unless both are gauges, a histogram that follows a reset grew from nothing."""
    if first.is_custom != second.is_custom:
        return MIXED
    is_counter = not first.hint == second.hint == Hint.GAUGE
    return interpolate(first, first_ms, second, second_ms, at_ms, is_counter)


_NOTES: dict[Note, Callable[[ArgumentAnnotations, str], None]] = {
    Note.MIXED_SCHEMAS: ArgumentAnnotations.mixed_layouts,
    Note.BOUNDS_ADDED: lambda notes, _: notes.reconciled_bounds(ADDITION),
    Note.BOUNDS_SUBTRACTED: lambda notes, _: notes.reconciled_bounds(SUBTRACTION),
}
