"""Lines counted by DuckDB: where every stage is a condition and every label a column, no row is handed out.

sum by (service_name, detected_level) (count_over_time({…} |= "took" [1m]))

reads times, streams, levels and lines; without the filter, no line either.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.logql.frame import ABSENT, Category, Column, LogFrame, grouped_rows
from lakerunner_query.logql.lang.ast import Stage
from lakerunner_query.logql.pipeline import Buckets
from lakerunner_query.vectors.vector import Labels
from lakerunner_query.worker.logs.labels import EXTRACTED, OVERFLOWS, sources_of
from lakerunner_query.worker.logs.page_counts import (
    TIMES,
    Codes,
    Constant,
    Place,
    Streams,
    Texts,
    Vocabulary,
    places,
    times_of,
)
from lakerunner_query.worker.logs.row_fetch import integers, one_chunk
from lakerunner_query.worker.logs.scan_intervals import wanted_groups
from lakerunner_query.worker.logs.segment_opener import Opened
from lakerunner_query.worker.logs.sql import (
    Key,
    Question,
    are_all_wanted,
    counts,
    key_of,
    label_conditions,
    split,
    streams_table,
)
from lakerunner_query.worker.parquet.column_chunks import Chunk
from lakerunner_query.worker.parquet.dictionary_kernels import count_keys, count_rows
from lakerunner_query.worker.parquet.page_kernels import UNKNOWN
from resources.arrays import Int32s, Int64s
from resources.duckdb import Cancellation, DuckSession
from resources.kernel import kernel
from resources.lake.columns import CHQ_STREAM_ID
from resources.lake.streams import Labels as StreamLabels

# << Lines counted without DuckDB: times and dictionary codes, decoded and counted at once.
# <<
# <<     row group     streams  a b      levels  info warn      minutes 12:05 … 12:09
# <<     counts        (a, info) (a, warn) (b, info) (b, warn)  by minute
# <<
# << Only for lines that nothing is asked of, by labels that are kept as dictionaries. That a row group
# << has one
# << stream, or one minute, is said by its footer, and the column is not read. Files of another kind are left
# << to DuckDB, and so are those that contradict their footers: it says what is wrong with them.

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

    def _keys(self, one: Opened, places: Sequence[Place], rows: int) -> tuple[list[Int32s], Int32s]:
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

    def _count_rows(self, one: Opened, times: Place, keys: Int32s, first: int, counts: Int64s) -> None:
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


STREAM_ID = CHQ_STREAM_ID
AT_ONCE, MOST_PARTS = 1_000_000, 4_000_000
"""Counts of row groups that are labelled together, and those kept before they are added up."""
MAX_ROWS = 20_000_000
"""Groups times buckets: more than an answer may have points."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Where the labels come from that lines are counted by."""

    of_streams: tuple[str, ...]
    of_columns: Mapping[str, Key]


def keys_of(by: Sequence[str], group: Sequence[Opened]) -> Keys | None:
    """None where a label is told by more than one thing."""
    of_streams: list[str] = []
    of_columns: dict[str, Key] = {}
    for name in by:
        with_it = [any(label == name for label, _ in s.labels) for one in group for s in one.streams]
        has_sources = any(sources_of(one.footer, {name, name.removesuffix(EXTRACTED)}) for one in group)
        if all(with_it) or (any(with_it) and not has_sources):
            of_streams.append(name)
        elif has_sources or any(OVERFLOWS & one.footer.columns.keys() for one in group):
            expression = key_of(name, group)
            if expression is None:
                return None
            of_columns[name] = expression
    return Keys(tuple(of_streams), of_columns)


@dataclass(frozen=True, slots=True)
class Part:
    """Lines and their bytes by number of a label set and by bucket; some may be equal."""

    codes: Int64s
    bucket: Int64s
    lines: Int64s
    bytes: Int64s | None


@dataclass(frozen=True, slots=True)
class PlainKeys:
    """The columns that cells are counted by, and their numbers as labels."""

    keys: Keys
    streams: Streams | None
    """None: all are wanted, and no label comes from them."""
    texts: tuple[Texts, ...]
    label_sets: list[StreamLabels]

    @classmethod
    def of(cls, group: Sequence[Opened], keys: Keys) -> PlainKeys:
        known = {stream.stream_id: stream.labels for one in group for stream in one.streams}
        streams = Streams({identity: number for number, identity in enumerate(known)})
        is_asked = bool(keys.of_streams) or not are_all_wanted(group)
        texts = tuple(Texts(key.source.show) for key in keys.of_columns.values())
        return cls(keys, streams if is_asked else None, texts, list(known.values()))

    @property
    def columns(self) -> list[tuple[str, Vocabulary]]:
        names = [key.source.column for key in self.keys.of_columns.values()]
        first: list[tuple[str, Vocabulary]] = [(STREAM_ID, self.streams)] if self.streams else []
        return [*first, *zip(names, self.texts, strict=True)]

    def labels(self, cells: Cells) -> dict[str, Column]:
        numbers = cells.numbers[1:] if self.streams else cells.numbers
        found = {
            name: Column(each, text.values, Category.METADATA)
            for name, each, text in zip(self.keys.of_columns, numbers, self.texts, strict=True)
        }
        for name in self.keys.of_streams:
            found[name] = _of_streams(name, self.label_sets, cells.numbers[0])
        return found


class Counter:
    """Adds up the counts of groups of files."""

    def __init__(self, grid: Grid, session: DuckSession, cancellation: Cancellation) -> None:
        self._grid = grid
        self._session = session
        self._cancellation = cancellation
        self._codes: dict[Labels, int] = {}
        self._parts: list[Part] = []
        self._most = MOST_PARTS

    def add(
        self, group: Sequence[Opened], stages: Sequence[Stage], by: Sequence[str], *, with_bytes: bool
    ) -> bool:
        """Whether these files can be counted so."""
        lines, rest = split(stages)
        labels, rest = label_conditions(rest, group)
        keys = keys_of(by, group)
        if rest or keys is None:
            return False
        is_plain = not (lines or labels or with_bytes)
        left = self._add_plain(group, keys) if is_plain else group
        keys = keys_of(by, left)  # they may lack columns of the others
        if keys is None:
            return False
        if left:
            question = Question(left, self._grid.first_ns, self._grid.end_ns, lines, labels)
            found = self._counted(question, keys, with_bytes=with_bytes)
            bucket, counted, sizes = (integers(found, name) for name in ("bucket", "lines", "bytes"))
            self._add(_labels_of(found, keys, left), bucket, counted, sizes)
        return True

    def buckets(self) -> Buckets:
        shape = (len(self._codes), self._grid.count)
        if shape[0] * shape[1] > MAX_ROWS * 2:
            raise _too_many()
        lines, sizes = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for part in self._parts:
            places = part.codes * self._grid.count + part.bucket
            add_up(places, part.lines, lines.reshape(-1))
            if part.bytes is not None:
                add_up(places, part.bytes, sizes.reshape(-1))
        return Buckets(list(self._codes), lines, sizes)

    def _add_plain(self, group: Sequence[Opened], keys: Keys) -> list[Opened]:
        """Count the files for which that takes no DuckDB; the others."""
        plain = PlainKeys.of(group, keys)
        counter = PlainCounter(self._grid, plain.columns)
        left: list[Opened] = []
        cells: list[Cells] = []
        for one in group:
            self._cancellation.check()
            found = counter.count(one)
            left += [one] if found is None else []
            cells += found or []
            if sum(len(each.lines) for each in cells) > AT_ONCE:
                self._add_cells(cells, plain)
                cells = []
        self._add_cells(cells, plain)
        return left

    def _add_cells(self, cells: Sequence[Cells], plain: PlainKeys) -> None:
        if cells:
            together = cells_together(cells, with_streams=plain.streams is not None)
            self._add(plain.labels(together), together.bucket, together.lines, None)

    def _add(self, labels: dict[str, Column], bucket: Int64s, lines: Int64s, sizes: Int64s | None) -> None:
        if len(bucket):
            texts = pa.repeat(pa.scalar("", pa.string()), len(bucket))
            codes, sets = grouped_rows(LogFrame(bucket, texts, labels))
            numbers = np.array([self._codes.setdefault(one, len(self._codes)) for one in sets], np.int64)
            self._parts.append(Part(numbers[codes], bucket, lines, sizes))
            if sum(len(part.lines) for part in self._parts) > self._most:
                self._fold()

    def _fold(self) -> None:
        """Equal groups and buckets become one: files may be many."""
        whole = self.buckets()
        codes, bucket = np.nonzero(whole.counts)
        self._parts = [Part(codes, bucket, whole.counts[codes, bucket], whole.bytes[codes, bucket])]
        self._most = MOST_PARTS + 2 * len(codes)

    def _counted(self, question: Question, keys: Keys, *, with_bytes: bool) -> pa.Table:
        statement = counts(
            question,
            tuple(keys.of_columns.values()),
            self._grid.width_ns,
            with_bytes=with_bytes,
            of_streams=bool(keys.of_streams),
            limit=MAX_ROWS + 1,
        )
        with self._session.cursor() as cursor:
            cursor.register("streams", streams_table(question.group))
            relation = cursor.sql(statement.sql, params=statement.parameters)
            found = self._cancellation.run(cursor, relation.to_arrow_table)
        if found.num_rows > MAX_ROWS:
            raise _too_many()
        return found


@kernel
def add_up(places: Int64s, numbers: Int64s, sums: Int64s) -> None:
    for row in range(len(places)):
        sums[places[row]] += numbers[row]


def _labels_of(found: pa.Table, keys: Keys, group: Sequence[Opened]) -> dict[str, Column]:
    """Of groups and buckets that a statement found."""
    columns: dict[str, Column] = {}
    for number, name in enumerate(keys.of_columns):
        coded = one_chunk(found[f"k{number}"]).dictionary_encode()
        codes = coded.indices.fill_null(ABSENT).to_numpy(zero_copy_only=False).astype(np.int32)
        columns[name] = Column(codes, coded.dictionary.cast(pa.string()), Category.METADATA)
    if keys.of_streams:
        coded = one_chunk(found["stream"]).dictionary_encode()
        codes = coded.indices.to_numpy(zero_copy_only=False)
        label_sets = {stream.stream_id: stream.labels for one in group for stream in one.streams}
        distinct = [label_sets[identity] for identity in coded.dictionary.to_pylist()]
        for name in keys.of_streams:
            columns[name] = _of_streams(name, distinct, codes)
    return columns


def _of_streams(name: str, label_sets: Sequence[StreamLabels], codes: np.ndarray) -> Column:
    values = [dict(labels).get(name) for labels in label_sets]
    coded = pa.array(values, pa.string()).dictionary_encode()
    by_stream = coded.indices.fill_null(ABSENT).to_numpy(zero_copy_only=False).astype(np.int32)
    return Column(by_stream[codes], coded.dictionary, Category.STREAM)


def _too_many() -> LimitExceededError:
    return LimitExceededError(
        f"the query counts lines in more than {MAX_ROWS} groups at once: narrow the time range, "
        "use a larger step, or aggregate by fewer labels"
    )
