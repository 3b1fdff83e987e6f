"""`RollupSource` answers functions over windows from rollups, where samples would give the same result.

    sum_over_time(m[1d]) at midnight, everything rolled up and current: one row per series instead of 5,760

`windows.rollup_choice` chooses the frequency for each part; here the rows are found, read and merged, and
cells that buckets leave open are computed from samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_query.promql.context import SourceAnswer
from lakerunner_query.protocol.units import RollupRef, SegmentRef
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.labels import SharedLabels
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
from lakerunner_query.worker.metrics.row_groups import UNREADABLE, FileLayout, read_columns
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


@dataclass(frozen=True, slots=True)
class _Part:
    """Stored rows of one row group."""

    logical: tuple[str, ...]
    """Columns to make of the stored ones."""
    table: pa.Table
    numbers: Int64s
    """Series numbers by row."""


def _decode(parts: Sequence[_Part], width_ms: int) -> Iterator[_Rows]:
    """Decode rows of all files that have the same columns at once: files are many and have few rows each."""
    alike: dict[tuple[tuple[str, ...], pa.Schema], list[_Part]] = {}
    for part in parts:
        alike.setdefault((part.logical, part.table.schema.remove_metadata()), []).append(part)
    for (logical, _), some in alike.items():
        table = pa.concat_tables([part.table for part in some])
        numbers = np.concatenate([part.numbers for part in some])
        yield _Rows(numbers, columns_of(names.filled(table, logical), numbers, width_ms))


@dataclass(frozen=True, slots=True)
class _Joined:
    """Rows of all pieces of a query, as windows are computed from them."""

    owner: SeriesNumbers
    keys: tuple[str, ...]
    """Segments that were read."""
    rows: dict[int, int]
    """Rows by frequency."""
    numbers: Int64s
    """Series numbers in order of labels."""
    labels: SharedLabels
    buckets: Buckets | None
    """None: no rows."""

    @property
    def nbytes(self) -> int:
        return 0 if self.buckets is None else self.buckets.columns.nbytes


@dataclass(slots=True)
class RollupSource:
    """Rollup segments of one unit, and the reader of samples where they do not reach."""

    reader: UnitReader
    rollups: Sequence[RollupRef]
    numbers: SeriesNumbers
    samples: SampleReader

    def over_windows(
        self, function: Function, matchers: Sequence[Matcher], grid: Grid
    ) -> SourceAnswer | None:
        current = {each.frequency_ms: frozenset(each.starts) for each in self.rollups}
        pieces = choose_pieces(grid, current, look_back=function in BY_SELECTOR)
        if all(piece.frequency_ms == AS_SENT for piece in pieces):
            return None
        joined = self._joined(pieces, function, matchers)
        return None if joined is None else self._answer(function, matchers, grid, joined)

    def _joined(
        self, pieces: Sequence[Piece], function: Function, matchers: Sequence[Matcher]
    ) -> _Joined | None:
        """Return the rows of all pieces; cached where none are samples, whose segments may change."""
        cache, key = self.reader.shared.rollup_rows, ("", (tuple(pieces), tuple(matchers), function))
        segments = [each for piece in pieces for each in self._segments(piece)]
        known = cache.get(key)
        keys = tuple(segment.key for segment in segments)
        if isinstance(known, _Joined) and known.owner is self.numbers and known.keys == keys:
            self._count(known.rows)
            return known
        parts: list[_Rows] = []
        before = dict(self.reader.rollup_rows)
        for piece in pieces:
            found = self._piece(piece, function, matchers)
            if found is None:
                return None
            parts += found
        rows = {f: n - before.get(f, 0) for f, n in self.reader.rollup_rows.items()}
        joined = self._join([part for part in parts if len(part.numbers)], keys, rows)
        if not self.reader.missing and all(piece.frequency_ms != AS_SENT for piece in pieces):
            cache.put(key, joined)
        return joined

    def _count(self, rows: Mapping[int, int]) -> None:
        for frequency_ms, count in rows.items():
            self.reader.rollup_rows[frequency_ms] = self.reader.rollup_rows.get(frequency_ms, 0) + count

    def _join(self, parts: Sequence[_Rows], keys: tuple[str, ...], rows: dict[int, int]) -> _Joined:
        """Put rows in order of labels and time."""
        if not parts:
            return _Joined(self.numbers, keys, rows, np.zeros(0, np.int64), SharedLabels([]), None)
        numbers = np.unique(np.concatenate([part.numbers for part in parts]))
        order, labels = self.numbers.in_order(numbers)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        columns = join_columns(
            [_with_series(p.columns, place[np.searchsorted(numbers, p.numbers)]) for p in parts]
        )
        buckets = Buckets(columns, len(labels))
        return _Joined(self.numbers, keys, rows, numbers[order], labels.for_other_samples(), buckets)

    def _answer(
        self, function: Function, matchers: Sequence[Matcher], grid: Grid, joined: _Joined
    ) -> SourceAnswer | None:
        if joined.buckets is None:
            nothing = np.zeros((0, grid.steps))
            return SourceAnswer([], WindowValues(nothing, nothing.astype(np.bool_)))
        if joined.buckets.columns.has_others.any():
            return None
        found = over_buckets(function, joined.buckets, grid)
        values, present = found.values, found.present
        unclear = np.flatnonzero(found.needs_samples.any(axis=1))
        if len(unclear):
            exact = self.samples(matchers, grid.from_ms, grid.to_ms, np.sort(joined.numbers[unclear]))
            if exact is None:
                return None
            _fill(values, present, found.needs_samples, function, exact, grid, joined.numbers)
        return SourceAnswer(joined.labels.for_other_samples(), WindowValues(values, present))

    def _segments(self, piece: Piece) -> list[SegmentRef]:
        """Return the rollup segments of a piece."""
        return [
            segment
            for each in self.rollups
            if each.frequency_ms == piece.frequency_ms != AS_SENT
            for segment in each.segments
            if segment.min_ns < piece.to_ns + NS_PER_MS and segment.max_ns > piece.from_ns
        ]

    def _piece(self, piece: Piece, function: Function, matchers: Sequence[Matcher]) -> list[_Rows] | None:
        from_ms, to_ms = piece.from_ns // NS_PER_MS, piece.to_ns // NS_PER_MS
        if piece.frequency_ms == AS_SENT:
            exact = self.samples(matchers, from_ms, to_ms, None)
            if exact is None:
                return None
            return [_Rows(exact.numbers[exact.samples.series], columns_of_samples(exact.samples))]
        segments = self._segments(piece)
        tables = dict(self.reader.tables(segments))
        layouts = dict(self.reader.layouts(list(tables)))
        if self.reader.missing:
            return None
        chosen = [
            _ChosenRows.of(segment, layout, tables[segment], matchers, function)
            for segment, layout in layouts.items()
        ]
        if any(one is None for one in chosen):
            return None
        files = [one for one in chosen if one is not None and len(one.series)]
        for one in files:
            unread = (n for n in one.groups if one.key(n) not in self.reader.shared.rollup_rows)
            self.reader.fetch(one.segment, [r for n in unread for r in one.layout.chunks(n, one.stored)])
        parts: list[_Part] = []
        for one in files:
            try:
                parts += self._parts(one, piece.frequency_ms, from_ms, to_ms)
            except UNREADABLE as error:
                self.reader.lose(one.segment, error)
                return None
        return None if self.reader.missing else list(_decode(parts, piece.frequency_ms))

    def _parts(self, chosen: _ChosenRows, width_ms: int, from_ms: int, to_ms: int) -> Iterator[_Part]:
        """Yield the rows of one segment in `(from_ms, to_ms]`, by row group."""
        numbers = self.numbers.of(chosen.table, chosen.series)
        starts = chosen.layout.starts
        for number in chosen.groups:
            here = np.flatnonzero((chosen.first <= number) & (chosen.last >= number))
            low = np.maximum(chosen.begin[here] - starts[number], 0)
            high = np.minimum(chosen.end[here], starts[number + 1]) - starts[number]
            rows = self._rows(chosen, number)
            cut_runs(rows.times, low, high, from_ms, to_ms)
            sizes = high - low
            index = expand_runs(low, sizes)
            if len(index):
                read = self.reader.rollup_rows
                read[width_ms] = read.get(width_ms, 0) + len(index)
                table = rows.table if len(index) == rows.table.num_rows else rows.table.take(pa.array(index))
                yield _Part(chosen.logical, table, np.repeat(numbers[here], sizes))

    def _rows(self, chosen: _ChosenRows, number: int) -> StoredRows:
        cache = self.reader.shared.rollup_rows
        found = cache.get(chosen.key(number))
        if not isinstance(found, StoredRows):
            file = self.reader.file(chosen.segment)
            if file is None:
                raise ValueError("the segment was lost meanwhile")
            table = read_columns(file, chosen.layout, number, chosen.stored)
            found = StoredRows(table, table.column(names.TIMESTAMP).chunk(0).to_numpy())
            cache.put(chosen.key(number), found)
        return found


@dataclass(frozen=True, slots=True)
class _ChosenRows:
    """Series of one rollup segment, where their rows are, and the columns that the function needs."""

    segment: SegmentRef
    layout: FileLayout
    table: SeriesTable
    function: Function
    series: Int64s
    begin: Int64s
    end: Int64s
    first: Int64s
    last: Int64s
    """Row groups of first and last rows."""
    stored: tuple[str, ...]
    logical: tuple[str, ...]
    """Columns to make of the stored ones."""

    @classmethod
    def of(
        cls,
        segment: SegmentRef,
        layout: FileLayout,
        table: SeriesTable,
        matchers: Sequence[Matcher],
        function: Function,
    ) -> _ChosenRows | None:
        """Return None where samples are needed, for classic series of histograms."""
        if layout.places.keys() & HISTOGRAMS and may_derive(table, matchers):
            return None
        series = np.flatnonzero(table.matching(matchers))
        begin, end = table.row[series], table.row[series] + table.rows[series]
        first = np.searchsorted(layout.starts, begin, "right") - 1
        last = np.searchsorted(layout.starts, end, "left") - 1
        stored, logical = layout.once(function, lambda: columns_to_read(layout.metadata, function))
        return cls(segment, layout, table, function, series, begin, end, first, last, tuple(stored), logical)

    @property
    def groups(self) -> list[int]:
        return [
            number
            for number in range(int(self.first.min()), int(self.last.max()) + 1)
            if ((self.first <= number) & (self.last >= number)).any()
        ]

    def key(self, number: int) -> tuple[str, tuple[int, int]]:
        return self.segment.key, (number, int(self.function))


def may_derive(table: SeriesTable, matchers: Sequence[Matcher]) -> bool:
    """Tell whether matchers may mean classic series of histograms, which rollups do not list."""
    stored = [m for m in matchers if m.name not in {"le", "quantile"}]
    return any(table.matching(stored, suffix).any() for suffix in ("_bucket", "_sum", "_count"))


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Columns of one row group of a rollup."""

    table: pa.Table
    times: Int64s

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes)


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
