"""DuckDB counts lines where every stage is a condition and every label a column: no row leaves it.

    sum by (service_name, detected_level) (count_over_time({…} |= "took" [1m]))

reads times, streams, levels and lines. Files without conditions, or with line filters that can be searched in
pages, are tried by `page_counts.py` first.
"""

from __future__ import annotations

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
from lakerunner_query.worker.logs.line_search import LineSearch, search_groups
from lakerunner_query.worker.logs.page_counts import (
    BucketGrid,
    Cells,
    PageCounter,
    StreamVocabulary,
    TextVocabulary,
    Vocabulary,
    merge_cells,
)
from lakerunner_query.worker.logs.row_fetch import MESSAGE, integers, one_chunk
from lakerunner_query.worker.logs.scan_intervals import chunks_to_read, fetch
from lakerunner_query.worker.logs.segment_opener import OpenSegment
from lakerunner_query.worker.logs.sql import (
    Key,
    RowQuery,
    columns_read,
    count_statement,
    key_of,
    label_conditions,
    selects_all_streams,
    split_line_filters,
    streams_table,
)
from lakerunner_query.worker.parquet.run_kernels import add_up
from resources.arrays import Int32s, Int64s
from resources.duckdb import Cancellation, DuckSession
from resources.lake.columns import CHQ_STREAM_ID
from resources.lake.streams import Labels as StreamLabels

BATCH_CELLS, MOST_PARTS = 1_000_000, 4_000_000
"""Cells that are labelled together, and those kept before equal ones are added up."""
MAX_ROWS = 20_000_000
"""Groups times buckets: more than an answer may have points."""


@dataclass(frozen=True, slots=True)
class GroupingLabels:
    """Labels that lines are counted by, by where their values are stored."""

    of_streams: tuple[str, ...]
    of_columns: Mapping[str, Key]


def grouping_labels(by: Sequence[str], group: Sequence[OpenSegment]) -> GroupingLabels | None:
    """Locate the labels; None where one has its values in more than one place."""
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
    return GroupingLabels(tuple(of_streams), of_columns)


@dataclass(frozen=True, slots=True)
class Part:
    """Counts by number of a label set and by bucket; several rows may have the same key."""

    codes: Int64s
    bucket: Int64s
    lines: Int64s
    bytes: Int64s | None


@dataclass(frozen=True, slots=True)
class PageKeys:
    """Columns that pages are counted by, and the vocabularies that turn their numbers into labels."""

    keys: GroupingLabels
    streams: StreamVocabulary | None
    """None: all streams are selected, and no label comes from them."""
    texts: tuple[TextVocabulary, ...]
    label_sets: list[StreamLabels]

    @classmethod
    def of(cls, group: Sequence[OpenSegment], keys: GroupingLabels) -> PageKeys:
        known = {stream.stream_id: stream.labels for one in group for stream in one.streams}
        streams = StreamVocabulary({identity: number for number, identity in enumerate(known)})
        is_needed = bool(keys.of_streams) or not selects_all_streams(group)
        texts = tuple(TextVocabulary(key.source.render) for key in keys.of_columns.values())
        return cls(keys, streams if is_needed else None, texts, list(known.values()))

    @property
    def columns(self) -> list[tuple[str, Vocabulary]]:
        names = [key.source.column for key in self.keys.of_columns.values()]
        first: list[tuple[str, Vocabulary]] = [(CHQ_STREAM_ID, self.streams)] if self.streams else []
        return [*first, *zip(names, self.texts, strict=True)]

    def labels(self, cells: Cells) -> dict[str, Column]:
        numbers = cells.numbers[1:] if self.streams else cells.numbers
        found = {
            name: Column(each, text.values, Category.METADATA)
            for name, each, text in zip(self.keys.of_columns, numbers, self.texts, strict=True)
        }
        for name in self.keys.of_streams:
            found[name] = _stream_labels(name, self.label_sets, cells.numbers[0])
        return found


class LineCounter:
    """Adds up the counts of groups of files."""

    def __init__(self, grid: BucketGrid, session: DuckSession, cancellation: Cancellation) -> None:
        self._grid = grid
        self._session = session
        self._cancellation = cancellation
        self._codes: dict[Labels, int] = {}
        self._parts: list[Part] = []
        self._most = MOST_PARTS

    def add(
        self, group: Sequence[OpenSegment], stages: Sequence[Stage], by: Sequence[str], *, with_bytes: bool
    ) -> bool:
        """Count these files; False where rows have to go through the stages."""
        lines, rest = split_line_filters(stages)
        labels, rest = label_conditions(rest, group)
        keys = grouping_labels(by, group)
        if rest or keys is None:
            return False
        search = LineSearch.of(stages[: len(lines)], keeps_lines=False) if lines else None
        may_need_pages = not (labels or with_bytes) and (search is not None or not lines)
        left = self._add_pages(group, keys, search) if may_need_pages else group
        keys = grouping_labels(by, left)  # they may lack columns of the others
        if keys is None:
            return False
        if left:
            query = RowQuery(left, self._grid.first_ns, self._grid.end_ns, lines, labels)
            found = self._run_count(query, keys, with_bytes=with_bytes)
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

    def _add_pages(
        self, group: Sequence[OpenSegment], keys: GroupingLabels, search: LineSearch | None
    ) -> list[OpenSegment]:
        """Count files by their pages; return those that need DuckDB."""
        page_keys = PageKeys.of(group, keys)
        counter = PageCounter(self._grid, page_keys.columns)
        left: list[OpenSegment] = []
        cells: list[Cells] = []
        columns = [*counter.columns, *([MESSAGE] if search else [])]
        fetch(chunks_to_read(group, columns, self._grid.first_ns, self._grid.end_ns))
        for one, rows in self._search(group, counter, search):
            self._cancellation.check()
            found = None if search and rows is None else counter.count(one, rows)
            left += [one] if found is None else []
            cells += found or []
            if sum(len(each.lines) for each in cells) > BATCH_CELLS:
                self._add_cells(cells, page_keys)
                cells = []
        self._add_cells(cells, page_keys)
        return left

    def _search(
        self, group: Sequence[OpenSegment], counter: PageCounter, search: LineSearch | None
    ) -> Iterator[tuple[OpenSegment, dict[int, Int64s] | None]]:
        """Yield each file with its rows that pass, by row group; None where they are not searched here."""
        groups = [(one, counter.groups(one)) for one in group] if search else [(one, []) for one in group]
        wanted = [(one, number) for one, numbers in groups for number in numbers]
        found = search_groups(search, wanted, self._cancellation) if search else iter(())
        for one, numbers in groups:
            parts = [next(found) for _ in numbers]
            if search is None or None in parts:
                yield one, None
            else:
                yield one, {part.number: part.rows for part in parts if part is not None}

    def _add_cells(self, cells: Sequence[Cells], page_keys: PageKeys) -> None:
        if cells:
            merged = merge_cells(cells, with_streams=page_keys.streams is not None)
            self._add(page_keys.labels(merged), merged.bucket, merged.lines, None)

    def _add(self, labels: dict[str, Column], bucket: Int64s, lines: Int64s, sizes: Int64s | None) -> None:
        if len(bucket):
            texts = pa.repeat(pa.scalar("", pa.string()), len(bucket))
            codes, sets = grouped_rows(LogFrame(bucket, texts, labels))
            numbers = np.array([self._codes.setdefault(one, len(self._codes)) for one in sets], np.int64)
            self._parts.append(Part(numbers[codes], bucket, lines, sizes))
            if sum(len(part.lines) for part in self._parts) > self._most:
                self._fold()

    def _fold(self) -> None:
        """Add up parts with equal keys: files may be many."""
        whole = self.buckets()
        codes, bucket = np.nonzero(whole.counts)
        self._parts = [Part(codes, bucket, whole.counts[codes, bucket], whole.bytes[codes, bucket])]
        self._most = MOST_PARTS + 2 * len(codes)

    def _run_count(self, query: RowQuery, keys: GroupingLabels, *, with_bytes: bool) -> pa.Table:
        statement = count_statement(
            query,
            tuple(keys.of_columns.values()),
            self._grid.width_ns,
            with_bytes=with_bytes,
            of_streams=bool(keys.of_streams),
            limit=MAX_ROWS + 1,
        )
        columns = columns_read(query, keys.of_columns.values()) | ({MESSAGE} if with_bytes else set())
        fetch(chunks_to_read(query.group, columns, query.start_ns, query.end_ns))
        with self._session.cursor() as cursor:
            cursor.register("streams", streams_table(query.group))
            relation = cursor.sql(statement.sql, params=statement.parameters)
            found = self._cancellation.run(cursor, relation.to_arrow_table)
        if found.num_rows > MAX_ROWS:
            raise _too_many()
        return found


def _labels_of(found: pa.Table, keys: GroupingLabels, group: Sequence[OpenSegment]) -> dict[str, Column]:
    """Return the labels of the statement's rows."""
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
            columns[name] = _stream_labels(name, distinct, codes)
    return columns


def _stream_labels(name: str, label_sets: Sequence[StreamLabels], codes: Int32s) -> Column:
    values = [dict(labels).get(name) for labels in label_sets]
    coded = pa.array(values, pa.string()).dictionary_encode()
    by_stream = coded.indices.fill_null(ABSENT).to_numpy(zero_copy_only=False).astype(np.int32)
    return Column(by_stream[codes], coded.dictionary, Category.STREAM)


def _too_many() -> LimitExceededError:
    return LimitExceededError(
        f"the query counts lines in more than {MAX_ROWS} groups at once: narrow the time range, "
        "use a larger step, or aggregate by fewer labels"
    )
