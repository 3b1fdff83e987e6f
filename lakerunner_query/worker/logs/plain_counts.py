"""Lines counted without DuckDB: times and dictionary codes, decoded and counted at once.

    row group     streams  a b      levels  info warn      minutes 12:05 … 12:09
    counts        (a, info) (a, warn) (b, info) (b, warn)  by minute

Only for lines that nothing is asked of, by labels that are kept as dictionaries. That a row group has one
stream, or one minute, is said by its footer, and the column is not read. Files of another kind are left
to DuckDB, and so are those that contradict their footers: it says what is wrong with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_query.logql.frame import ABSENT
from lakerunner_query.worker.logs.code_kernels import Keys, count_keys, count_rows
from lakerunner_query.worker.logs.places import (
    TIMES,
    Codes,
    Constant,
    Place,
    places,
    times_of,
)
from lakerunner_query.worker.logs.vocabulary import Vocabulary
from lakerunner_query.worker.logs.windows import wanted_groups
from lakerunner_query.worker.metrics.page_kernels import UNKNOWN
from lakerunner_query.worker.metrics.plain_groups import Chunk
from lakerunner_query.worker.opening import Opened
from resources.arrays import Int32s, Int64s

CELLS, CELLS_PER_ROW = 1 << 16, 4
"""So many counts are worth having for a row group; more are for a hash table."""
UNREADABLE = (ValueError, IndexError, OSError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class Grid:
    """Bucket b covers `(start + b * width, start + (b + 1) * width]`."""

    start_ns: int
    width_ns: int
    count: int

    @property
    def first_ns(self) -> int:
        return self.start_ns + 1

    @property
    def end_ns(self) -> int:
        """Behind the last bucket."""
        return self.first_ns + self.width_ns * self.count


@dataclass(frozen=True, slots=True)
class Cells:
    """Lines by the numbers of their values and by bucket; some may be equal."""

    numbers: tuple[Int32s, ...]
    """By column of the question."""
    bucket: Int64s
    lines: Int64s


class PlainCounter:
    """Counts by columns, whose values vocabularies number."""

    def __init__(self, grid: Grid, columns: Sequence[tuple[str, Vocabulary]]) -> None:
        self._grid = grid
        self._columns = columns
        self._names = [TIMES, *(name for name, _ in columns)]

    def count(self, one: Opened) -> list[Cells] | None:
        """By row group; None where DuckDB has to look."""
        try:
            return list(self._counted(one))
        except UNREADABLE:
            return None

    def _counted(self, one: Opened) -> Iterator[Cells]:
        by_group = list(zip(*places(one, self._names), strict=True))
        wanted = wanted_groups(one, self._grid.first_ns, self._grid.end_ns)
        for number in np.flatnonzero(wanted).tolist():
            times, *keys = by_group[number]
            yield self._group(one, number, times, keys)

    def _group(self, one: Opened, number: int, times: Place, places: Sequence[Place]) -> Cells:
        groups = one.footer.groups
        low, high = int(groups.min_ns[number]), int(groups.max_ns[number])
        rows = int(groups.first[number + 1] - groups.first[number])
        first, behind = self._buckets(low, high)
        values, keys = self._keys(one, places, rows)
        size = math.prod(map(len, values))
        if size * (behind - first) > max(CELLS, CELLS_PER_ROW * rows):
            raise ValueError(f"{size} groups in {behind - first} buckets of {rows} rows")
        counts = np.zeros((size, behind - first), np.int64)
        if behind - first == 1 and low >= self._grid.first_ns and high < self._grid.end_ns:
            count_keys(keys, counts)
        else:
            self._count_rows(one, times, keys, first, counts)
        return _cells(counts, values, first)

    def _buckets(self, low: int, high: int) -> tuple[int, int]:
        grid = self._grid
        first = max(low, grid.first_ns) - grid.first_ns
        last = min(high, grid.end_ns - 1) - grid.first_ns
        return first // grid.width_ns, last // grid.width_ns + 1

    def _keys(self, one: Opened, places: Sequence[Place], rows: int) -> tuple[list[Int32s], Keys]:
        """What codes mean, by column, and the codes of all columns as one number per row."""
        keys = np.zeros(rows, np.int32)
        values: list[Int32s] = []
        for place, (_, vocabulary) in zip(places, self._columns, strict=True):
            if isinstance(place, Constant):
                values.append(vocabulary.of_value(place.value))
                continue
            if place is None:
                raise ValueError("a column that is not kept as a dictionary")
            codes = Codes.read(one, place)
            values.append(vocabulary.of_page(codes.dictionary))
            codes.add_to(keys, len(values[-1]))
        return values, keys

    def _count_rows(self, one: Opened, times: Place, keys: Keys, first: int, counts: Int64s) -> None:
        if not isinstance(times, Chunk):
            raise ValueError("times that are not kept as differences")  # noqa: TRY004 - it is the file
        width = self._grid.width_ns
        begin = self._grid.first_ns + first * width
        for row, page in times_of(one, times, len(keys)):
            part = keys[row : row + len(page)]
            if count_rows(page, part, begin, self._grid.end_ns, width, counts) == UNKNOWN:
                raise ValueError("a time that is later than the footer says")


def _cells(counts: Int64s, values: Sequence[Int32s], first: int) -> Cells:
    key, bucket = np.nonzero(counts)
    numbers: list[Int32s] = []
    lines, rest = counts[key, bucket], key
    for each in reversed(values):
        rest, code = np.divmod(rest, len(each))
        numbers.append(each[code])
    return Cells(tuple(reversed(numbers)), bucket + first, lines)


def cells_together(found: Sequence[Cells], with_streams: bool) -> Cells:
    """In one; without those of streams that are not wanted, which are the first column where there is one."""
    columns = [np.concatenate(each) for each in zip(*(one.numbers for one in found), strict=True)]
    bucket, lines = (np.concatenate([getattr(one, name) for one in found]) for name in ("bucket", "lines"))
    if with_streams and (columns[0] == ABSENT).any():
        wanted = columns[0] != ABSENT
        columns, bucket, lines = [one[wanted] for one in columns], bucket[wanted], lines[wanted]
    return Cells(tuple(columns), bucket, lines)
