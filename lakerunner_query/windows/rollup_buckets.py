"""Range functions over rollup rows merge the buckets of a window in time order.

    1 m buckets, function max, window (12:00, 12:02]

    bucket end  count  max                      window
    12:01       4      3                        max = 7
    12:02       4      7

Every value is the one that samples would give; where buckets cannot tell, `needs_samples` says so and there
is no value. Buckets of several widths may stand in one window, and samples as buckets of one millisecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lakerunner_query.windows.edge_kernels import Runs, edges
from lakerunner_query.windows.extremes_kernels import extremes, newest
from lakerunner_query.windows.functions import (
    ABSENT,
    BY_EXTREME,
    BY_SELECTOR,
    BY_SUM,
    IS_SUM,
    UNSURE,
    Function,
)
from lakerunner_query.windows.grid import Grid, WindowValues
from lakerunner_query.windows.rollup_sum_kernels import BucketSums, merged_sums
from lakerunner_query.windows.samples import Samples, fill_delta_sums, offsets_of
from resources.arrays import Doubles, Flags, Int8s, Int64s


@dataclass(frozen=True, slots=True)
class Columns:
    """Float columns of rollup rows, by series and bucket end; a null may hold anything."""

    series: npt.NDArray[np.integer]
    end_ms: Int64s
    width_ms: Int64s
    """Width of each bucket."""
    count: Int64s
    sum: Doubles
    sum_c: Doubles
    min: Doubles
    max: Doubles
    first: Doubles
    first_ts: Int64s
    last: Doubles
    last_ts: Int64s
    last_stale: Flags
    prev: Doubles
    prev_ts: Int64s
    reset_sum: Doubles
    resets: Int64s
    changes: Int64s
    m2: Doubles
    kind: Int8s
    """Temporality: CUMULATIVE, IS_DELTA or MIXED."""
    has_others: Flags
    """Histograms or summaries are in the bucket too: floats alone do not answer for it."""

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, field.name).nbytes for field in fields(self))

    def take(self, rows: npt.NDArray[np.generic]) -> Columns:
        return Columns(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


@dataclass(frozen=True)
class Buckets:
    """Rollup rows of many series."""

    columns: Columns
    count: int
    """Number of series, those without rows too."""

    @cached_property
    def offsets(self) -> Int64s:
        return offsets_of(self.columns.series, self.columns.end_ms, self.count)

    @cached_property
    def filled(self) -> Buckets:
        """Buckets without those that hold only stale markers, which range functions do not see."""
        has_samples = self.columns.count > 0
        return self if has_samples.all() else Buckets(self.columns.take(has_samples), self.count)

    @property
    def runs(self) -> Runs:
        columns = self.columns
        # several drops below zero: their sum depends on the order of additions, a counter's does not
        unclear = (columns.resets > 1) & (columns.min < 0)
        reset_sum = np.where(unclear, np.nan, columns.reset_sum) if unclear.any() else columns.reset_sum
        return Runs(
            self.offsets,
            columns.end_ms,
            columns.first,
            columns.last,
            columns.first_ts,
            columns.last_ts,
            columns.kind,
            columns.count,
            columns.prev,
            columns.prev_ts,
            reset_sum,
            columns.resets,
            columns.changes,
        )

    @property
    def folded(self) -> BucketSums:
        columns = self.columns
        return BucketSums(
            self.offsets,
            columns.end_ms,
            columns.count,
            columns.sum,
            columns.sum_c,
            columns.min,
            columns.max,
            columns.m2,
        )


@dataclass(frozen=True, slots=True)
class BucketValues(WindowValues):
    """Values from buckets; where `needs_samples` is set, not even their presence is known."""

    needs_samples: Flags


def columns_of_samples(samples: Samples) -> Columns:
    """Return samples as buckets of one millisecond, for the edges of windows that rollups do not reach."""
    size = len(samples.value)
    zeros, none = np.zeros(size), np.zeros(size, np.int64)
    value, time = samples.value, samples.time_ms
    return Columns(
        series=samples.series,
        end_ms=time,
        width_ms=np.ones(size, np.int64),
        count=(~samples.is_stale).astype(np.int64),
        sum=value,
        sum_c=zeros,
        min=value,
        max=value,
        first=value,
        first_ts=time,
        last=value,
        last_ts=time,
        last_stale=samples.is_stale,
        prev=zeros,
        prev_ts=none,
        reset_sum=zeros,
        resets=none,
        changes=none,
        m2=np.where(np.isfinite(value), 0.0, np.nan),
        kind=np.zeros(size, np.int8) if samples.is_delta is None else samples.is_delta.astype(np.int8),
        has_others=np.zeros(size, np.bool_),
    )


def join_columns(pieces: Sequence[Columns]) -> Columns:
    """Join rows of several frequencies, each with an interval of its own, by series and time."""
    found: dict[str, Any] = {}
    series = np.concatenate([piece.series for piece in pieces])
    end_ms = np.concatenate([piece.end_ms for piece in pieces])
    order = np.argsort(series, kind="stable")  # pieces are runs in order, mostly one behind the other in time
    found["series"], found["end_ms"] = series[order], end_ms[order]
    behind = np.diff(found["end_ms"]) > 0
    if not (behind | (np.diff(found["series"]) != 0)).all():
        order = np.lexsort((end_ms, series))
        found["series"], found["end_ms"] = series[order], end_ms[order]
    for field in fields(Columns):
        if field.name not in found:
            parts = [getattr(piece, field.name) for piece in pieces]
            if any(part.any() for part in parts):
                found[field.name] = np.concatenate(parts)[order]
            else:  # a column that the function does not need
                found[field.name] = np.zeros(len(order), parts[0].dtype)
    return Columns(**found)


def over_buckets(function: Function, buckets: Buckets, grid: Grid) -> BucketValues:
    """Evaluate the function over every window of every series; windows must be unions of the buckets."""
    _check_cut(buckets.columns, grid, look_back=function in BY_SELECTOR)
    values = np.full((buckets.count, grid.steps), np.nan)
    states = np.zeros((buckets.count, grid.steps), np.int8)
    windows = grid.windows
    if function in BY_SELECTOR:
        columns = buckets.columns
        answers = columns.last if function == Function.INSTANT else columns.last_ts / 1000
        usable = (columns.count > 0) & ~columns.last_stale
        newest(buckets.offsets, columns.end_ms, answers, columns.last_ts, usable, windows, values, states)
    elif function in BY_EXTREME:
        filled = buckets.filled
        numbers = filled.columns.max if function == Function.MAX else filled.columns.min
        extremes(int(function), filled.offsets, filled.columns.end_ms, numbers, windows, values, states)
    elif function in BY_SUM:
        merged_sums(int(function), buckets.filled.folded, windows, values, states)
    else:
        edges(int(function), buckets.filled.runs, windows, values, states)
        if (states == IS_SUM).any():
            totals = over_buckets(Function.SUM, buckets, grid)
            unclear = (states == IS_SUM) & totals.needs_samples
            fill_delta_sums(function, totals.values, grid, values, states)
            states[unclear] = UNSURE
    if buckets.columns.has_others.any():
        states[_with_others(buckets, grid)] = UNSURE
    return BucketValues(values, (states != ABSENT) & (states != UNSURE), states == UNSURE)


def _with_others(buckets: Buckets, grid: Grid) -> Flags:
    """Return the windows with other samples than floats: only samples say which of them count, and when."""
    others = Buckets(buckets.columns.take(buckets.columns.has_others), buckets.count)
    values = np.full((buckets.count, grid.steps), np.nan)
    states = np.zeros((buckets.count, grid.steps), np.int8)
    edges(int(Function.PRESENT), others.runs, grid.windows, values, states)
    found: Flags = states != ABSENT
    return found


def _widths(widths: Int64s) -> list[int]:
    """Return the distinct widths; mostly there is one, which needs no sorting."""
    if len(widths) and (widths == widths[0]).all():
        return [int(widths[0])]
    return [int(width) for width in np.unique(widths)]


def _check_cut(columns: Columns, grid: Grid, *, look_back: bool) -> None:
    """Raise ValueError for a window that cuts through a bucket: what lies on which side is not known."""
    if grid.steps > 1:
        for width in _widths(columns.width_ms):
            if not grid.is_cut_by(width, look_back=look_back):
                raise ValueError(f"buckets of {width} ms: {grid} has windows that are no unions of them")
        return
    starts = columns.end_ms - columns.width_ms
    edges_ms = (grid.to_ms,) if look_back else (grid.from_ms, grid.to_ms)
    for edge in edges_ms:
        through = (starts < edge) & (edge < columns.end_ms)
        if through.any():
            row = int(np.argmax(through))
            raise ValueError(
                f"row {row}: the bucket ({starts[row]}, {columns.end_ms[row]}] ms lies on both sides of "
                f"{edge}, where the window of {grid} has an edge"
            )
