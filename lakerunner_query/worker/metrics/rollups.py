"""`RollupSource` answers functions over windows from rollups, where samples would give the same result.

    sum_over_time(m[1d]) at midnight, everything rolled up and current: one row per series instead of 5,760

`windows.rollup_choice` chooses the frequency for each part; here the rows are found, read and merged, and
cells that buckets leave open are computed from samples.
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

from lakerunner_query.promql.context import SourceAnswer
from lakerunner_query.protocol.units import RollupRef, SegmentRef
from lakerunner_query.syntax import Matcher
from lakerunner_query.windows.functions import BY_SELECTOR, Function
from lakerunner_query.windows.grid import Grid, WindowValues
from lakerunner_query.windows.rollup_buckets import (
    Buckets,
    Columns,
    columns_of_samples,
    join_columns,
    over_buckets,
)
from lakerunner_query.windows.rollup_choice import Piece, choose_pieces
from lakerunner_query.windows.rollup_rows import columns_of, columns_to_read
from lakerunner_query.windows.samples import Samples, over_samples
from lakerunner_query.worker.metrics.row_groups import DAMAGE
from lakerunner_query.worker.metrics.segment_opener import UnitReader
from lakerunner_query.worker.metrics.series_table import SeriesNumbers, SeriesTable, expand_runs
from lakerunner_query.worker.parquet.run_kernels import cut_runs
from resources.arrays import Int64s
from resources.lake import rollup_columns as names
from resources.lake.frequency import AS_SENT

NS_PER_MS = 1_000_000
HISTOGRAMS = frozenset({names.HIST_COUNT, names.HIST_LAST})
SampleReader = Callable[[Sequence[Matcher], int, int, Int64s | None], "NumberedSamples | None"]


@dataclass(frozen=True, slots=True)
class NumberedSamples:
    """Float samples of interned series."""

    numbers: Int64s
    samples: Samples


@dataclass(frozen=True, slots=True)
class _Rows:
    numbers: Int64s
    """Series numbers by row."""
    columns: Columns


@dataclass(slots=True)
class RollupSource:
    """Rollup segments of one unit, and the reader of samples where they do not reach."""

    reader: UnitReader
    rollups: Sequence[RollupRef]
    numbers: SeriesNumbers
    samples: SampleReader
    rows_read: Counter[int] = field(default_factory=Counter)
    """Rows that were read, by frequency."""

    def over_windows(
        self, function: Function, matchers: Sequence[Matcher], grid: Grid
    ) -> SourceAnswer | None:
        current = {each.frequency_ms: frozenset(each.starts) for each in self.rollups}
        pieces = choose_pieces(grid, current, look_back=function in BY_SELECTOR)
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
    ) -> SourceAnswer | None:
        parts = [part for part in parts if len(part.numbers)]
        if not parts:
            nothing = np.zeros((0, grid.steps))
            return SourceAnswer([], WindowValues(nothing, nothing.astype(np.bool_)))
        numbers = np.unique(np.concatenate([part.numbers for part in parts]))
        labels = [self.numbers.labels[number] for number in numbers.tolist()]
        order = np.array(sorted(range(len(labels)), key=labels.__getitem__), np.int64)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        columns = join_columns(
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
        return SourceAnswer([labels[at] for at in order.tolist()], WindowValues(values, present))

    def _piece(self, piece: Piece, function: Function, matchers: Sequence[Matcher]) -> list[_Rows] | None:
        from_ms, to_ms = piece.from_ns // NS_PER_MS, piece.to_ns // NS_PER_MS
        if piece.frequency_ms == AS_SENT:
            exact = self.samples(matchers, from_ms, to_ms, None)
            if exact is None:
                return None
            return [_Rows(exact.numbers[exact.samples.series], columns_of_samples(exact.samples))]
        refs = [each for each in self.rollups if each.frequency_ms == piece.frequency_ms]
        segments = [
            segment
            for each in refs
            for segment in each.segments
            if segment.min_ns < piece.to_ns + NS_PER_MS and segment.max_ns > piece.from_ns
        ]
        found: list[_Rows] = []
        for segment, table in self.reader.tables(segments):
            rows = self._read_segment(segment, table, piece.frequency_ms, function, matchers, from_ms, to_ms)
            if rows is None:
                return None
            found += rows
        return None if self.reader.missing else found

    def _read_segment(
        self,
        segment: SegmentRef,
        table: SeriesTable,
        width_ms: int,
        function: Function,
        matchers: Sequence[Matcher],
        from_ms: int,
        to_ms: int,
    ) -> list[_Rows] | None:
        """Read rows of one segment; None where samples are needed: histograms, or an unreadable file."""
        chosen = np.flatnonzero(table.matching(matchers))
        path = self.reader.paths([segment]).get(segment.segment_id)
        layout = None if path is None else self.reader.layout(segment, path)
        if path is None or layout is None:
            return None
        if layout.columns & HISTOGRAMS and may_derive(table, matchers):
            return None
        if not len(chosen):
            return []
        begin, end = table.row[chosen], table.row[chosen] + table.rows[chosen]
        numbers = self.numbers.of(table, chosen)
        found: list[_Rows] = []
        first = np.searchsorted(layout.starts, begin, "right") - 1
        last = np.searchsorted(layout.starts, end, "left") - 1
        try:
            for number in range(int(first.min()), int(last.max()) + 1):
                here = np.flatnonzero((first <= number) & (last >= number))
                if not len(here):
                    continue
                low = np.maximum(begin[here] - layout.starts[number], 0)
                high = np.minimum(end[here], layout.starts[number + 1]) - layout.starts[number]
                rows = self._rows(segment, path, number, function)
                cut_runs(rows.times, low, high, from_ms, to_ms)
                sizes = high - low
                index = expand_runs(low, sizes)
                if len(index):
                    self.rows_read[width_ms] += len(index)
                    selected = (
                        rows.table.take(pa.array(index)) if len(index) < rows.table.num_rows else rows.table
                    )
                    series = np.repeat(numbers[here], sizes)
                    columns = columns_of(names.filled(selected, rows.columns), series, width_ms)
                    found.append(_Rows(series, columns))
        except DAMAGE as error:
            self.reader.report_damage(segment, str(error))
            return None
        return found

    def _rows(self, segment: SegmentRef, path: Path, number: int, function: Function) -> StoredRows:
        cache = self.reader.shared.rollup_rows
        key = (segment.key, (number, int(function)))
        found = cache.get(key)
        if not isinstance(found, StoredRows):
            found = _read(path, number, function)
            cache.put(key, found)
        return found


def may_derive(table: SeriesTable, matchers: Sequence[Matcher]) -> bool:
    """Tell whether matchers may mean classic series of histograms, which rollups do not list."""
    stored = [m for m in matchers if m.name not in {"le", "quantile"}]
    return any(table.matching(stored, suffix).any() for suffix in ("_bucket", "_sum", "_count"))


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Columns of one row group of a rollup."""

    table: pa.Table
    times: Int64s
    columns: tuple[str, ...]
    """Names that the function needs, stored or not."""

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes)


def _read(path: Path, number: int, function: Function) -> StoredRows:
    with pq.ParquetFile(path) as file:
        stored, needed = columns_to_read(file, function)
        table = file.read_row_group(number, stored, use_threads=False).combine_chunks()
    return StoredRows(table, table.column(names.TIMESTAMP).chunk(0).to_numpy(), needed)


def _with_series(columns: Columns, series: Int64s) -> Columns:
    others = {name: getattr(columns, name) for name in columns.__slots__ if name != "series"}
    return Columns(series=series, **others)


def _fill(
    values: npt.NDArray[np.float64],
    present: npt.NDArray[np.bool_],
    needed: npt.NDArray[np.bool_],
    function: Function,
    exact: NumberedSamples,
    grid: Grid,
    numbers: Int64s,
) -> None:
    """Fill cells that buckets leave open, from samples."""
    found = over_samples(function, exact.samples, grid)
    rows = {number: row for row, number in enumerate(numbers.tolist())}
    for place, number in enumerate(exact.numbers.tolist()):
        row = rows.get(number)
        if row is None:
            continue
        cells = needed[row]
        values[row, cells] = found.values[place, cells]
        present[row, cells] = found.present[place, cells]
