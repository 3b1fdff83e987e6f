"""`TableReader` opens segments of any signal: footers, label tables, token blooms, trace summaries.

    tail of a segment   |token bloom|stream or series table|footer|      one request, then kept in memory

Streams of logs and spans are held as series of metrics are: a table of ids, times and label sets. A segment
that cannot be read is recorded as missing and the others answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from lakerunner_query.lakeql.tables import LakeTable
from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.worker.metrics.row_groups import UNREADABLE, FileLayout, read_layout
from lakerunner_query.worker.metrics.segment_opener import MetricOpener, UnitReader, tail_of
from lakerunner_query.worker.metrics.series_table import KnownLabelSets, LabelSets, SeriesTable
from lakerunner_query.worker.shared.lru import ByteLru
from lakerunner_query.worker.shared.segment_file import SegmentFile
from resources.arrays import Flags, Int64s
from resources.duckdb import Cancellation
from resources.lake import streams, trace_summaries
from resources.lake.columns import CHQ_STREAM_ID, CHQ_TID
from resources.lake.segment_file import GroupStreams, MappedColumn, read_group_streams, read_label_map
from resources.lake.tokens import TokenBloom, token_hash

FOOTER_BYTES = 64 << 20
LABEL_BYTES = 64 << 20
BLOOM_BYTES = 64 << 20
SUMMARY_BYTES = 128 << 20
"""Bounds of what stays in memory of all segments; a trace takes some 80 bytes of summaries."""
LARGE_BLOOM = 128 << 10
"""Bytes from which on the footer and the bloom filters of row groups are less to fetch than a token bloom."""
PARSED_SIZE = 6
"""A footer in memory takes about so many times its bytes in the file."""
SERIES_SIZE, PAIR_SIZE, BYTES_PER_WORD = 64, 8, 4
"""Bytes of a label set in memory, of each of its labels, and of a word of a bloom."""
MAX_TOKENS = 256
"""More ids than that are looked up in no bloom: one of them is likely to be in every segment."""
NS_PER_MS = 1_000_000
PREFIXES = {"resource": "resource_", "scope": "scope_", "record": "attr_"}
"""Prefixes of attributes by scope; no label is reached by a name that begins so."""
UNSAFE = "[^a-z0-9]"
_UNSAFE = re.compile(UNSAFE)


@dataclass(frozen=True)
class TableFile:
    """The footer of a segment, read once."""

    layout: FileLayout
    attributes: tuple[MappedColumn, ...]
    streams: GroupStreams | None
    """Streams of row groups, where the segment lists them."""

    @property
    def types(self) -> dict[str, pa.DataType]:
        return self.layout.types

    @property
    def rows(self) -> int:
        return int(self.layout.starts[-1])

    @property
    def groups(self) -> int:
        return len(self.layout.starts) - 1

    @cached_property
    def by_name(self) -> dict[str, list[MappedColumn]]:
        """Stored attributes by the flat name of their keys; of several keys plain ones come first."""
        found: dict[str, list[MappedColumn]] = {}
        for one in sorted(self.attributes, key=precedence):
            found.setdefault(flat_name(one.scope, one.key), []).append(one)
        return found

    @property
    def memory_bytes(self) -> int:
        return int(self.layout.metadata.serialized_size) * PARSED_SIZE

    def bounds(self, column: str) -> Int64s:
        """Return least and greatest integer of a column by row group; without statistics all are possible."""
        return self.layout.once(("bounds", column), lambda: self._bounds(column))

    def _bounds(self, column: str) -> Int64s:
        found = np.empty((self.groups, 2), np.int64)
        found[:] = np.iinfo(np.int64).min, np.iinfo(np.int64).max
        places = self.layout.places.get(column, ())
        for number in range(self.groups if len(places) == 1 else 0):
            facts = self.layout.metadata.row_group(number).column(places[0]).statistics
            if facts is not None and facts.has_min_max:
                found[number] = facts.min, facts.max
        return found


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A segment that a scan reads."""

    segment: SegmentRef
    file: SegmentFile
    footer: TableFile

    @property
    def name(self) -> str:
        return self.file.name


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """Bounds of event time, both included, in the unit of the table's time column."""

    column: str
    first: int
    last: int
    is_ms: bool

    @classmethod
    def of(cls, table: LakeTable, start_ns: int, end_ns: int) -> TimeBounds:
        column = table.time_column
        if table.in_milliseconds:
            return cls(column, -(-start_ns // NS_PER_MS), end_ns // NS_PER_MS, True)
        return cls(column, start_ns, end_ns, False)

    def spanned_by(self, segment: SegmentRef) -> tuple[int, int]:
        """Return least and greatest time of the segment, in the unit of the column."""
        width = NS_PER_MS if self.is_ms else 1
        return segment.min_ns // width, segment.max_ns // width

    def overlap(self, segment: SegmentRef) -> bool:
        first, last = self.spanned_by(segment)
        return first <= self.last and last >= self.first

    def cover(self, segment: SegmentRef) -> bool:
        """Tell whether all rows of the segment lie within the bounds."""
        first, last = self.spanned_by(segment)
        return self.first <= first and last <= self.last

    def groups_of(self, footer: TableFile) -> Flags:
        """Flag row groups that may have a row within the bounds."""
        bounds = footer.bounds(self.column)
        found: Flags = (bounds[:, 0] <= self.last) & (bounds[:, 1] >= self.first)
        return found


class TableReader:
    """Reads the segments of one unit."""

    def __init__(self, shared: TableOpener, reader: UnitReader) -> None:
        self._shared = shared
        self.reader = reader

    def footers(self, segments: Sequence[SegmentRef]) -> Iterator[tuple[SegmentRef, TableFile]]:
        """Yield the footers of readable segments."""
        shared = self._shared
        self._expect(one for one in segments if one.key not in shared.footers)
        for segment in segments:
            self.reader.cancellation.check()
            found = shared.footers.get(segment.key)
            if found is None and (file := self.reader.file(segment)) is not None:
                found = self.reader.attempt(segment, partial(_read_footer, file))
                if found is not None:
                    shared.footers.put(segment.key, found)
            if found is not None:
                yield segment, found

    def labels(self, table: LakeTable, segments: Sequence[SegmentRef]) -> dict[str, SeriesTable]:
        """Return the streams or series of readable segments, by segment id."""
        if table.in_milliseconds:
            return {segment.segment_id: found for segment, found in self.reader.tables(segments)}
        shared, known = self._shared, dict[str, SeriesTable]()
        self._expect(one for one in segments if one.key not in shared.streams)
        for segment in segments:
            self.reader.cancellation.check()
            found = shared.streams.get(segment.key)
            if found is None and (file := self.reader.file(segment)) is not None:
                found = self.reader.attempt(segment, partial(_read_streams, file, shared.label_sets))
                if found is not None:
                    shared.streams.put(segment.key, found)
            if found is not None:
                known[segment.segment_id] = found
        return known

    def open(self, segments: Sequence[SegmentRef]) -> list[OpenTable]:
        """Open readable segments."""
        found = ((one, self.reader.file(one), footer) for one, footer in self.footers(segments))
        return [OpenTable(one, file, footer) for one, file, footer in found if file is not None]

    def lose(self, segment: SegmentRef, error: BaseException) -> None:
        """Record a segment that proved unreadable, and drop what is known of it."""
        shared = self._shared
        for cache in (shared.footers, shared.streams, shared.blooms, shared.summaries):
            cache.forget(segment.key)
        self.reader.lose(segment, error)

    def with_words(self, segments: Sequence[SegmentRef], tokens: Sequence[str]) -> list[SegmentRef]:
        """Return segments that may have one of these words; large blooms are not fetched for that."""
        known = self._shared.blooms
        far = (
            () if self.reader.shared.segments.is_local else [one for one in segments if one.key not in known]
        )
        for one in far:
            if 0 < one.bloom_length <= LARGE_BLOOM:
                self.reader.fetch(one, [(one.bloom_offset, one.bytes)])
        unknown = {one.segment_id for one in far if one.bloom_length > LARGE_BLOOM}
        return [one for one in segments if one.segment_id in unknown or self.may_hold(one, tokens)]

    def may_hold(self, segment: SegmentRef, tokens: Sequence[str]) -> bool:
        """Tell whether one of these words may be in the segment; a damaged bloom excludes none."""
        if not segment.bloom_length or len(tokens) > MAX_TOKENS:
            return True
        file = self.reader.file(segment)
        if file is None:
            return True
        try:
            bloom = self._shared.blooms.get_or_make(segment.key, partial(_read_bloom, file))
        except UNREADABLE:
            return True  # reading the rows tells whether the segment is damaged
        return any(bloom.may_contain_hash(token_hash(token)) for token in tokens)

    def summaries(
        self, tables: Sequence[OpenTable], scan: Callable[[OpenTable], pa.Table]
    ) -> list[tuple[OpenTable, pa.Table]]:
        """Return the trace summaries of span segments, without services; `scan` makes those of old ones."""
        known = self._shared.summaries
        for one in tables:
            length = trace_summaries.read_length(one.footer.layout.metadata)
            if length and one.segment.key not in known:
                end = one.segment.bloom_offset
                self.reader.fetch(one.segment, [(end - length, end)])
        found: list[tuple[OpenTable, pa.Table]] = []
        for one in tables:
            self.reader.cancellation.check()
            table = known.get(one.segment.key)
            if table is None:
                table = self.reader.attempt(one.segment, partial(_read_summaries, one, scan))
                if table is not None:
                    known.put(one.segment.key, table)
            if table is not None:
                found.append((one, table))
        return found

    def _expect(self, segments: Iterable[SegmentRef]) -> None:
        """Begin to fetch the tails of segments, all at once."""
        if not self.reader.shared.segments.is_local:
            for segment in segments:
                self.reader.fetch(segment, [tail_of(segment)])


class TableOpener:
    """Caches and opens segments for all SQL of a worker process."""

    def __init__(self, opener: MetricOpener) -> None:
        self._opener = opener
        self.label_sets = KnownLabelSets()
        self.footers: ByteLru[str, TableFile] = ByteLru(FOOTER_BYTES, lambda footer: footer.memory_bytes)
        self.streams: ByteLru[str, SeriesTable] = ByteLru(LABEL_BYTES, _table_bytes)
        self.summaries: ByteLru[str, pa.Table] = ByteLru(SUMMARY_BYTES, lambda table: int(table.nbytes))
        self.blooms: ByteLru[str, TokenBloom] = ByteLru(
            BLOOM_BYTES, lambda bloom: BYTES_PER_WORD * len(bloom.words)
        )

    @contextmanager
    def open_unit(self, cancellation: Cancellation) -> Iterator[TableReader]:
        with self._opener.open_unit(cancellation) as reader:
            yield TableReader(self, reader)


def flat_name(scope: str, key: str) -> str:
    """Return the column of an attribute, whatever else there is: keys may share one.

    >>> flat_name("record", "http.Status-Code")
    'attr_http_status_code'
    """
    return PREFIXES[scope] + _UNSAFE.sub("_", key.lower())


def precedence(one: MappedColumn) -> tuple[bool, str, str]:
    return _UNSAFE.sub(".", one.key) != one.key, one.key, one.column


def id_column(table: LakeTable) -> str:
    """Return the column that names the label set of a row."""
    return CHQ_TID if table.in_milliseconds else CHQ_STREAM_ID


def _read_footer(file: SegmentFile) -> TableFile:
    layout = read_layout(file)
    return TableFile(layout, read_label_map(layout.metadata), read_group_streams(layout.metadata))


def _read_bloom(file: SegmentFile) -> TokenBloom:
    return TokenBloom.from_bytes(file.read(file.segment.bloom_offset, file.segment.bloom_length))


def _read_summaries(one: OpenTable, scan: Callable[[OpenTable], pa.Table]) -> pa.Table:
    length = trace_summaries.read_length(one.footer.layout.metadata)
    if not length:
        return scan(one)
    table = trace_summaries.read_table(one.file.read(one.segment.bloom_offset - length, length))
    return table.drop_columns(["services"]).combine_chunks()


def _read_streams(file: SegmentFile, known: KnownLabelSets) -> SeriesTable:
    segment = file.segment
    table = streams.read_table(file.read(segment.series_offset, segment.series_length)).combine_chunks()
    maps = table.column("labels").combine_chunks()
    maps = maps.chunk(0) if isinstance(maps, pa.ChunkedArray) else maps
    sets = LabelSets.of(
        pa.MapArray.from_arrays(maps.offsets, maps.keys.dictionary_encode(), maps.items.dictionary_encode())
    )
    nothing = np.zeros(table.num_rows, np.int64)
    columns = {name: table.column(name).to_numpy() for name in ("stream_id", "rows", "min_ns", "max_ns")}
    return SeriesTable(
        known.one_of(sets), columns["stream_id"], nothing, columns["rows"],
        columns["min_ns"] // NS_PER_MS, columns["max_ns"] // NS_PER_MS, nothing, nothing.astype(np.int32),
    )  # fmt: skip


def _table_bytes(table: SeriesTable) -> int:
    return SERIES_SIZE * table.count + PAIR_SIZE * len(table.sets.keys)
