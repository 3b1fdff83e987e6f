"""Functions over windows answered from rollups, where they say the same as the samples would.

    sum_over_time(m[1d]) at midnight, everything rolled up and current: one row per series instead of 5,760

Which frequency serves which part is decided in `windows.choice`; here the rows are found, read and merged,
and cells that buckets cannot tell are computed from samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.promql.context import Answered
from lakerunner_query.protocol.units import RollupRef, SegmentRef
from lakerunner_query.syntax import Matcher
from lakerunner_query.windows.functions import BY_SELECTOR, Function
from lakerunner_query.windows.grid import Evaluated, Grid
from lakerunner_query.windows.rollup_buckets import Buckets, Columns, of_samples, over_buckets, together
from lakerunner_query.windows.rollup_choice import Piece, choose
from lakerunner_query.windows.rollup_rows import columns_of, wanted_columns
from lakerunner_query.windows.samples import Samples, over_samples
from lakerunner_query.worker.metrics.row_groups import DAMAGE
from lakerunner_query.worker.metrics.segment_opener import Reading
from lakerunner_query.worker.metrics.series_table import Numbering, SeriesTable, ranges
from lakerunner_query.worker.parquet.page_kernels import cut_runs
from resources.arrays import Int64s
from resources.lake import rollup_columns as names
from resources.lake.frequency import AS_SENT

NS_PER_MS = 1_000_000
HISTOGRAMS = frozenset({names.HIST_COUNT, names.HIST_LAST})
SampleReader = Callable[[Sequence[Matcher], int, int, Int64s | None], "Numbered | None"]


@dataclass(frozen=True, slots=True)
class Numbered:
    """Float samples of interned series."""

    numbers: Int64s
    samples: Samples


@dataclass(frozen=True, slots=True)
class _Rows:
    numbers: Int64s
    """By row."""
    columns: Columns


@dataclass(slots=True)
class RollupSource:
    """Rollup segments of one unit of work, and how to get samples where they do not reach."""

    reading: Reading
    rollups: Sequence[RollupRef]
    numbering: Numbering
    samples: SampleReader
    rows_read: Counter[int] = field(default_factory=Counter)
    """By frequency."""

    def over_windows(self, function: Function, matchers: Sequence[Matcher], grid: Grid) -> Answered | None:
        current = {each.frequency_ms: frozenset(each.starts) for each in self.rollups}
        pieces = choose(grid, current, look_back=function in BY_SELECTOR)
        if all(piece.frequency_ms == AS_SENT for piece in pieces):
            return None
        parts: list[_Rows] = []
        for piece in pieces:
            found = self._piece(piece, function, matchers)
            if found is None:
                return None
            parts += found
        return self._answer(function, matchers, grid, parts)

    def _answer(
        self, function: Function, matchers: Sequence[Matcher], grid: Grid, parts: list[_Rows]
    ) -> Answered | None:
        parts = [part for part in parts if len(part.numbers)]
        if not parts:
            nothing = np.zeros((0, grid.steps))
            return Answered([], Evaluated(nothing, nothing.astype(np.bool_)))
        numbers = np.unique(np.concatenate([part.numbers for part in parts]))
        labels = [self.numbering.labels[number] for number in numbers.tolist()]
        order = np.array(sorted(range(len(labels)), key=labels.__getitem__), np.int64)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        columns = together(
            [_with_series(p.columns, place[np.searchsorted(numbers, p.numbers)]) for p in parts]
        )
        if columns.has_others.any():
            return None
        found = over_buckets(function, Buckets(columns, len(labels)), grid)
        values, present = found.values, found.present
        unclear = np.flatnonzero(found.needs_samples.any(axis=1))
        if len(unclear):
            only = numbers[order[unclear]]
            exact = self.samples(matchers, grid.from_ms, grid.to_ms, only)
            if exact is None:
                return None
            _fill(values, present, found.needs_samples, function, exact, grid, numbers[order])
        return Answered([labels[at] for at in order.tolist()], Evaluated(values, present))

    def _piece(self, piece: Piece, function: Function, matchers: Sequence[Matcher]) -> list[_Rows] | None:
        from_ms, to_ms = piece.from_ns // NS_PER_MS, piece.to_ns // NS_PER_MS
        if piece.frequency_ms == AS_SENT:
            exact = self.samples(matchers, from_ms, to_ms, None)
            if exact is None:
                return None
            return [_Rows(exact.numbers[exact.samples.series], of_samples(exact.samples))]
        refs = [each for each in self.rollups if each.frequency_ms == piece.frequency_ms]
        segments = [
            segment
            for each in refs
            for segment in each.segments
            if segment.min_ns < piece.to_ns + NS_PER_MS and segment.max_ns > piece.from_ns
        ]
        found: list[_Rows] = []
        for segment, table in self.reading.tables(segments):
            rows = self._of_segment(segment, table, piece.frequency_ms, function, matchers, from_ms, to_ms)
            if rows is None:
                return None
            found += rows
        return None if self.reading.missing else found

    def _of_segment(
        self,
        segment: SegmentRef,
        table: SeriesTable,
        width_ms: int,
        function: Function,
        matchers: Sequence[Matcher],
        from_ms: int,
        to_ms: int,
    ) -> list[_Rows] | None:
        """None where only samples can tell: histograms, or a file that cannot be read."""
        wanted = np.flatnonzero(table.matching(matchers))
        path = self.reading.paths([segment]).get(segment.segment_id)
        shape = None if path is None else self.reading.shape(segment, path)
        if path is None or shape is None:
            return None
        if shape.columns & HISTOGRAMS and may_derive(table, matchers):
            return None
        if not len(wanted):
            return []
        begin, end = table.row[wanted], table.row[wanted] + table.rows[wanted]
        numbers = self.numbering.of(table, wanted)
        found: list[_Rows] = []
        first = np.searchsorted(shape.starts, begin, "right") - 1
        last = np.searchsorted(shape.starts, end, "left") - 1
        try:
            for number in range(int(first.min()), int(last.max()) + 1):
                here = np.flatnonzero((first <= number) & (last >= number))
                if not len(here):
                    continue
                low = np.maximum(begin[here] - shape.starts[number], 0)
                high = np.minimum(end[here], shape.starts[number + 1]) - shape.starts[number]
                rows = self._rows(segment, path, number, function)
                cut_runs(rows.times, low, high, from_ms, to_ms)
                sizes = high - low
                index = ranges(low, sizes)
                if len(index):
                    self.rows_read[width_ms] += len(index)
                    chosen = (
                        rows.table.take(pa.array(index)) if len(index) < rows.table.num_rows else rows.table
                    )
                    series = np.repeat(numbers[here], sizes)
                    columns = columns_of(names.filled(chosen, rows.wanted), series, width_ms)
                    found.append(_Rows(series, columns))
        except DAMAGE as error:
            self.reading.damaged(segment, str(error))
            return None
        return found

    def _rows(self, segment: SegmentRef, path: Path, number: int, function: Function) -> StoredRows:
        cache = self.reading.shared.rollup_rows
        part = (number, int(function))
        found = cache.get(segment.key, part)
        if not isinstance(found, StoredRows):
            found = _read(path, number, function)
            cache.put(segment.key, part, found)
        return found


def may_derive(table: SeriesTable, matchers: Sequence[Matcher]) -> bool:
    """Whether classic series may be meant, if there are histograms: rollups do not list those."""
    stored = [m for m in matchers if m.name not in {"le", "quantile"}]
    return any(table.matching(stored, suffix).any() for suffix in ("_bucket", "_sum", "_count"))


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Columns of one row group, as they are stored."""

    table: pa.Table
    times: Int64s
    wanted: tuple[str, ...]

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes)


def _read(path: Path, number: int, function: Function) -> StoredRows:
    with pq.ParquetFile(path) as file:
        stored, wanted = wanted_columns(file, function)
        table = file.read_row_group(number, stored, use_threads=False).combine_chunks()
    return StoredRows(table, table.column(names.TIMESTAMP).chunk(0).to_numpy(), wanted)


def _with_series(columns: Columns, series: Int64s) -> Columns:
    kept = {name: getattr(columns, name) for name in columns.__slots__ if name != "series"}
    return Columns(series=series, **kept)


def _fill(
    values: npt.NDArray[np.float64],
    present: npt.NDArray[np.bool_],
    needed: npt.NDArray[np.bool_],
    function: Function,
    exact: Numbered,
    grid: Grid,
    numbers: Int64s,
) -> None:
    """Cells that buckets cannot tell, from samples."""
    found = over_samples(function, exact.samples, grid)
    rows = {number: row for row, number in enumerate(numbers.tolist())}
    for place, number in enumerate(exact.numbers.tolist()):
        row = rows.get(number)
        if row is None:
            continue
        cells = needed[row]
        values[row, cells] = found.values[place, cells]
        present[row, cells] = found.present[place, cells]
