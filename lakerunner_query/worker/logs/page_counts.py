"""Unfiltered counts read time and dictionary pages directly, bypassing DuckDB.

    row group     streams  a b      levels  info warn      minutes 12:05 … 12:09
    counts        (a, info) (a, warn) (b, info) (b, warn)  by minute

A column that has one value in a row group, by its footer, is not read, nor are times within one bucket.
Columns of another kind are left to DuckDB, and so are files that contradict their footers: DuckDB names the
damage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from lakerunner_query.logql.frame import ABSENT
from lakerunner_query.worker.logs.segment_opener import OpenSegment
from lakerunner_query.worker.parquet.column_chunks import (
    Chunk,
    ColumnLocation,
    Constant,
    DictionaryChunk,
    delta_pages,
    locate,
    plain_integers,
    plain_texts,
)
from lakerunner_query.worker.parquet.run_kernels import OUT_OF_RANGE, count_keys, count_rows
from resources.arrays import Int32s, Int64s
from resources.lake.columns import CHQ_TSNS

Render = Callable[[pa.Array], pa.StringArray]
CELLS, CELLS_PER_ROW = 1 << 16, 4
"""Cells of a row group's table of counts; more are worth a hash table."""
CACHED_BYTES = 4096
"""A dictionary up to this size is remembered: neighbouring row groups often have the same one."""
UNREADABLE = (ValueError, IndexError, OSError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class BucketGrid:
    """Bucket b covers `(start + b * width, start + (b + 1) * width]`."""

    start_ns: int
    width_ns: int
    count: int

    @property
    def first_ns(self) -> int:
        return self.start_ns + 1

    @property
    def end_ns(self) -> int:
        """End of the last bucket, exclusive."""
        return self.first_ns + self.width_ns * self.count


@dataclass(frozen=True, slots=True)
class Cells:
    """Counts by the numbers of values and by bucket; several cells may have the same key."""

    numbers: tuple[Int32s, ...]
    """Numbers of values, by column."""
    bucket: Int64s
    lines: Int64s


class Vocabulary(Protocol):
    """Numbers of a column's values, the same in all row groups; `ABSENT` for a value that does not count.

    "info" "warn"  ->  0 1        "warn" "debug" "info"  ->  1 2 0
    """

    def numbers_of_dictionary(self, raw: bytes) -> Int32s: ...

    def number_of(self, value: int | str | None) -> Int32s: ...


class StreamVocabulary:
    """Numbers of stream ids; streams that the query does not select are absent."""

    def __init__(self, numbers: Mapping[int, int]) -> None:
        self._numbers = numbers

    def numbers_of_dictionary(self, raw: bytes) -> Int32s:
        return np.array([self._numbers.get(one, ABSENT) for one in plain_integers(raw)], np.int32)

    def number_of(self, value: int | str | None) -> Int32s:
        return np.array([self._numbers.get(value, ABSENT) if isinstance(value, int) else ABSENT], np.int32)


class TextVocabulary:
    """Numbers of label values, as the label renders them."""

    def __init__(self, render: Render) -> None:
        self._render = render
        self._numbers: dict[str | None, int] = {None: ABSENT}
        self._dictionaries: dict[bytes, Int32s] = {}

    @property
    def values(self) -> pa.StringArray:
        return pa.array(list(self._numbers)[1:], pa.string())

    def numbers_of_dictionary(self, raw: bytes) -> Int32s:
        known = self._dictionaries.get(raw)
        if known is None:
            known = self._number(plain_texts(raw))
            if len(raw) <= CACHED_BYTES:
                self._dictionaries[raw] = known
        return known

    def number_of(self, value: int | str | None) -> Int32s:
        return self._number([None if value is None else str(value)])

    def _number(self, stored: Sequence[str | None]) -> Int32s:
        numbers = self._numbers
        rendered = self._render(pa.array(stored, pa.string())).to_pylist()
        return np.array([numbers.setdefault(text, len(numbers) - 1) for text in rendered], np.int32)


class PageCounter:
    """Counts lines by columns, whose values the vocabularies number."""

    def __init__(self, grid: BucketGrid, columns: Sequence[tuple[str, Vocabulary]]) -> None:
        self._grid = grid
        self._columns = columns
        self.columns = [CHQ_TSNS, *(name for name, _ in columns)]
        """Columns that are read, if not all their rows have one value."""

    def count(self, one: OpenSegment, chosen: Mapping[int, Int64s] | None = None) -> list[Cells] | None:
        """Count by row group; None where DuckDB has to read the file.

        `chosen` has the rows to count by row group; without it all rows count.
        """
        try:
            return list(self._row_groups(one, chosen))
        except UNREADABLE:
            return None

    def groups(self, one: OpenSegment) -> list[int]:
        """Return the numbers of the row groups that may have lines to count."""
        matching = one.matching_groups(self._grid.first_ns, self._grid.end_ns)
        found: list[int] = np.flatnonzero(matching).tolist()
        return found

    def _row_groups(self, one: OpenSegment, chosen: Mapping[int, Int64s] | None) -> Iterator[Cells]:
        by_group = list(zip(*column_locations(one, self.columns), strict=True))
        for number in self.groups(one):
            rows = None if chosen is None else chosen[number]
            if rows is None or len(rows):
                times, *keys = by_group[number]
                yield self._row_group(one, number, times, keys, rows)

    def _row_group(
        self,
        one: OpenSegment,
        number: int,
        times: ColumnLocation,
        columns: Sequence[ColumnLocation],
        chosen: Int64s | None,
    ) -> Cells:
        groups = one.footer.groups
        low, high = int(groups.min_ns[number]), int(groups.max_ns[number])
        rows = int(groups.first[number + 1] - groups.first[number])
        first, behind = self._buckets(low, high)
        values, keys = self._keys(one, columns, rows)
        size = math.prod(map(len, values))
        if chosen is not None:
            keys = keys[chosen]
        if size * (behind - first) > max(CELLS, CELLS_PER_ROW * rows):
            raise ValueError(f"{size} groups in {behind - first} buckets of {rows} rows")
        counts = np.zeros((size, behind - first), np.int64)
        if behind - first == 1 and low >= self._grid.first_ns and high < self._grid.end_ns:
            count_keys(keys, counts)
        else:
            pages = self._times(one, times, rows)
            self._count_rows(pages if chosen is None else [(0, _take(pages, chosen))], keys, first, counts)
        return _cells(counts, values, first)

    def _buckets(self, low: int, high: int) -> tuple[int, int]:
        grid = self._grid
        first = max(low, grid.first_ns) - grid.first_ns
        last = min(high, grid.end_ns - 1) - grid.first_ns
        return first // grid.width_ns, last // grid.width_ns + 1

    def _keys(
        self, one: OpenSegment, columns: Sequence[ColumnLocation], rows: int
    ) -> tuple[list[Int32s], Int32s]:
        """Combine the codes of all columns to one key per row; return what codes stand for, too."""
        keys = np.zeros(rows, np.int32)
        values: list[Int32s] = []
        for location, (_, vocabulary) in zip(columns, self._columns, strict=True):
            if isinstance(location, Constant):
                values.append(vocabulary.number_of(location.value))
                continue
            if location is None:
                raise ValueError("a column that is not kept as a dictionary")
            codes = DictionaryChunk.read(one, location)
            values.append(vocabulary.numbers_of_dictionary(codes.dictionary))
            codes.add_to(keys, len(values[-1]))
        return values, keys

    def _times(self, one: OpenSegment, times: ColumnLocation, rows: int) -> Iterator[tuple[int, Int64s]]:
        if not isinstance(times, Chunk):
            raise ValueError("times that are not kept as differences")  # noqa: TRY004 - it is the file
        return delta_pages(one, times, rows)

    def _count_rows(
        self, times: Iterable[tuple[int, Int64s]], keys: Int32s, first: int, counts: Int64s
    ) -> None:
        width = self._grid.width_ns
        begin = self._grid.first_ns + first * width
        for row, page in times:
            part = keys[row : row + len(page)]
            if count_rows(page, part, begin, self._grid.end_ns, width, counts) == OUT_OF_RANGE:
                raise ValueError("a time that is later than the footer says")


def _take(pages: Iterable[tuple[int, Int64s]], chosen: Int64s) -> Int64s:
    """Return the numbers of these rows, which ascend."""
    found = [page[chosen[(chosen >= row) & (chosen < row + len(page))] - row] for row, page in pages]
    return np.concatenate(found)


def column_locations(one: OpenSegment, columns: Sequence[str]) -> list[tuple[ColumnLocation, ...]]:
    """Return locations by column and row group, kept with the footer of the file."""
    known = one.footer.locations
    if any(name not in known for name in columns):
        metadata = one.footer.metadata
        known.update((name, locate(metadata, name, are_deltas=name == CHQ_TSNS)) for name in columns)
    return [known[name] for name in columns]


def _cells(counts: Int64s, values: Sequence[Int32s], first: int) -> Cells:
    key, bucket = np.nonzero(counts)
    numbers: list[Int32s] = []
    lines, rest = counts[key, bucket], key
    for each in reversed(values):
        rest, code = np.divmod(rest, len(each))
        numbers.append(each[code])
    return Cells(tuple(reversed(numbers)), bucket + first, lines)


def merge_cells(parts: Sequence[Cells], *, with_streams: bool) -> Cells:
    """Concatenate; `with_streams`: the first column is the stream, and absent streams are left out."""
    columns = [np.concatenate(each) for each in zip(*(one.numbers for one in parts), strict=True)]
    bucket, lines = (np.concatenate([getattr(one, name) for one in parts]) for name in ("bucket", "lines"))
    if with_streams and (columns[0] == ABSENT).any():
        present = columns[0] != ABSENT
        columns, bucket, lines = [one[present] for one in columns], bucket[present], lines[present]
    return Cells(tuple(columns), bucket, lines)
