"""Functions over windows: lines and bytes counted as they pass, samples kept by series and time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lakerunner_query.logql.frame import LogFrame
from lakerunner_query.logql.kernels.samples import Marks, is_ascending, mark_lines, order_by_series
from lakerunner_query.logql.lang.aggregations import RANGE
from lakerunner_query.logql.lang.ast import LogRange
from lakerunner_query.logql.metrics.context import Context, LogGrid, Naming
from lakerunner_query.vectors.vector import Labels
from lakerunner_query.windows import sums_kernels
from lakerunner_query.windows.extremes_kernels import extremes
from lakerunner_query.windows.functions import PRESENT, Function
from lakerunner_query.windows.grid import WindowValues
from lakerunner_query.windows.ranks_kernels import ranks
from lakerunner_query.windows.sums_kernels import are_whole, whole_sums
from resources.arrays import Doubles, Int64s

NO_SIZES = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class WindowCounts:
    """Lines and bytes by series and window."""

    lines: Int64s
    bytes: Int64s


class LineCounter:
    """Counter of lines that grows with the series that frames bring along."""

    def __init__(self, grid: LogGrid, *, with_bytes: bool) -> None:
        self._grid = grid
        self._with_bytes = with_bytes
        self._series = 0
        self._lines = self._marks(0)
        self._totals = self._marks(0)

    def add(self, series: Int64s, count: int, times: Int64s, sizes: Int64s) -> None:
        """Count lines of series below `count`."""
        self._make_room(count)
        mark_lines(series, times, sizes, self._grid.windows, self._lines, self._totals)

    def counts(self) -> WindowCounts:
        lines = np.cumsum(self._lines[: self._series, :-1], axis=1)
        return WindowCounts(lines, np.cumsum(self._totals[: self._series, :-1], axis=1))

    def _marks(self, series: int) -> Marks:
        return np.zeros((series, self._grid.steps + 1), np.int64)

    def _make_room(self, count: int) -> None:
        self._series = max(self._series, count)
        missing = count - len(self._lines)
        if missing <= 0:
            return
        more = self._marks(max(missing, len(self._lines)))
        self._lines = np.concatenate((self._lines, more))
        if self._with_bytes:
            self._totals = np.concatenate((self._totals, more))


MAX_BUCKETS = 50_000
"""Upper bound of buckets; finer ones cost more than they save."""


def from_buckets(
    context: Context, ranged: LogRange, grid: LogGrid, naming: Naming, *, with_bytes: bool
) -> tuple[list[Labels], WindowCounts] | None:
    """Add up windows from buckets that the source counts without its lines; None if that takes rows.

    range 5m, step 2m:   buckets of 1m, from where the first window begins
                         each window is five of them, the next begins two later
    """
    if ranged.unwrap is not None or naming.is_without:
        return None
    width = width_of(grid)
    count = (grid.to_ns - grid.from_ns) // width
    if count > MAX_BUCKETS:
        return None
    by = tuple(sorted(naming.names))
    buckets = context.source.buckets(ranged.query, by, grid.from_ns, width, count, with_bytes=with_bytes)
    if buckets is None:
        return None
    context.check_series(len(buckets.labels))
    lines, sizes = (over_windows(each, grid, width) for each in (buckets.counts, buckets.bytes))
    return buckets.labels, WindowCounts(lines, sizes)


def width_of(grid: LogGrid) -> int:
    """Return the widest bucket of which every window is a whole number."""
    return grid.range_ns if grid.steps == 1 else math.gcd(grid.range_ns, grid.step_ns)


def over_windows(counts: Int64s, grid: LogGrid, width: int) -> Int64s:
    """Sum (series, buckets) to (series, windows)."""
    until = np.zeros((len(counts), counts.shape[1] + 1), np.int64)
    np.cumsum(counts, axis=1, out=until[:, 1:])
    first = np.arange(grid.steps, dtype=np.int64) * (grid.step_ns // width if grid.steps > 1 else 0)
    sums: Int64s = until[:, first + grid.range_ns // width] - until[:, first]
    return sums


@dataclass(frozen=True, slots=True)
class SampleRow:
    """Kernel of one aggregation of numbers: exactly one of the first three. No field has a default."""

    sums: int | None
    """Mode of `over_windows`."""
    extreme: Function | None
    """Function of `extremes`."""
    is_quantile: bool
    has_whole_sums: bool
    """Whole numbers are added up by differences of running sums."""


SAMPLE_ROWS: Mapping[str, SampleRow] = {
    "rate": SampleRow(sums_kernels.SUM, None, False, True),
    "sum_over_time": SampleRow(sums_kernels.SUM, None, False, True),
    "avg_over_time": SampleRow(sums_kernels.AVG, None, False, True),
    "stdvar_over_time": SampleRow(sums_kernels.STDVAR, None, False, False),
    "stddev_over_time": SampleRow(sums_kernels.STDDEV, None, False, False),
    "first_over_time": SampleRow(sums_kernels.FIRST, None, False, False),
    "last_over_time": SampleRow(sums_kernels.LAST, None, False, False),
    "rate_counter": SampleRow(sums_kernels.GROWTH, None, False, False),
    "min_over_time": SampleRow(None, Function.MIN, False, False),
    "max_over_time": SampleRow(None, Function.MAX, False, False),
    "quantile_over_time": SampleRow(None, None, True, False),
}


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples by series: series s has `[offsets[s], offsets[s + 1])`, times ascending."""

    offsets: Int64s
    times: Int64s
    numbers: Doubles


@dataclass(slots=True)
class Sampler:
    """Collector of samples; of equal times the row that was stored first comes first."""

    _series: list[Int64s] = field(default_factory=list)
    _times: list[Int64s] = field(default_factory=list)
    _numbers: list[Doubles] = field(default_factory=list)
    _objects: list[Int64s] = field(default_factory=list)
    _positions: list[Int64s] = field(default_factory=list)
    count: int = 0

    def add(self, series: Int64s, frame: LogFrame, numbers: Doubles) -> None:
        self.count += len(series)
        self._series.append(series)
        self._times.append(frame.tsns)
        self._numbers.append(numbers)
        none = np.zeros(len(series), np.int64)
        self._objects.append(none if frame.row_object is None else frame.row_object)
        self._positions.append(none if frame.row_position is None else frame.row_position)

    def samples(self, series: int) -> Samples:
        if not self._series:
            return Samples(np.zeros(series + 1, np.int64), np.zeros(0, np.int64), np.zeros(0))
        codes, times = np.concatenate(self._series), np.concatenate(self._times)
        order = order_by_series(codes, series)
        offsets = np.searchsorted(codes[order], np.arange(series + 1)).astype(np.int64)
        if not is_ascending(codes[order], times[order]):
            ties = (np.concatenate(self._positions), np.concatenate(self._objects))
            order = np.lexsort((*ties, times, codes)).astype(np.int64)
        return Samples(offsets, times[order], np.concatenate(self._numbers)[order])


def over_samples(op: str, parameter: float, samples: Samples, grid: LogGrid) -> WindowValues:
    """Compute `op` for each series in each window."""
    shape = (len(samples.offsets) - 1, grid.steps)
    values, present = np.full(shape, np.nan), np.zeros(shape, np.bool_)
    data = (samples.offsets, samples.times, samples.numbers, grid.windows)
    row = SAMPLE_ROWS[op]
    if row.extreme is not None or row.is_quantile:
        states = np.zeros(shape, np.int8)
        if row.extreme is not None:
            extremes(row.extreme, *data, values, states)
        else:
            ranks(*data, np.full(grid.steps, parameter), values, states)
        return WindowValues(values, states == PRESENT)
    if row.has_whole_sums and are_whole(samples.numbers):
        whole_sums(row.sums == sums_kernels.AVG, *data, values, present)
    elif row.sums is not None:
        sums_kernels.over_windows(row.sums, *data, values, present)
    return WindowValues(values / (grid.range_ns / 1e9) if RANGE[op].is_per_second else values, present)
