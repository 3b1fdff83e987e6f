"""The footer of a log segment locates columns, row groups and column chunks.

    |row group 0: times · lines · …|row group 1: …|··|token bloom|stream table|footer|
                                                      └────── one request ──────────┘

Segments of before have the stream table before the bloom, and Parquet's own blooms behind both: readers go by
the offsets in the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.worker.parquet.column_chunks import Bloom, Chunk, ColumnLocation, plain_chunk
from lakerunner_query.worker.shared.segment_file import Range, SegmentFile, SegmentUnreadableError
from resources.arrays import Flags, Int64s
from resources.lake.columns import CHQ_STREAM_ID, CHQ_TSNS
from resources.lake.segment_file import GroupStreams, MappedColumn, read_group_streams, read_label_map

FOOTER_GUESS = 64 * 1024
"""Bytes at the end of an older segment that are read for its footer: Arrow asks for as many at first."""
PARSED_SIZE = 6
"""A footer in memory takes about so many times its bytes in the file."""


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Statistics of all row groups of a file, one entry each."""

    first: Int64s
    """First row numbers within the file, and the row count of the file behind them."""
    min_ns: Int64s
    max_ns: Int64s
    min_stream: Int64s
    max_stream: Int64s
    bytes: Int64s
    """Uncompressed bytes of all columns."""
    streams: GroupStreams | None = None
    """None: the segment does not list them."""

    def rows_in(self, groups: Flags) -> int:
        return int(np.diff(self.first)[groups].sum())

    def overlapping(self, start_ns: int, end_ns: int) -> Flags:
        """Flag row groups that may have rows in `[start_ns, end_ns)`."""
        found: Flags = (self.min_ns < end_ns) & (self.max_ns >= start_ns)
        return found

    def with_any(self, stream_ids: Int64s) -> Flags:
        """Flag row groups that may have rows of one of these streams."""
        ids = np.sort(stream_ids)
        at = np.searchsorted(ids, self.min_stream)
        next_id = np.append(ids, np.iinfo(np.int64).max)[at]
        found: Flags = (at < len(ids)) & (next_id <= self.max_stream)
        return found if self.streams is None else found & self.streams.with_any(ids)


@dataclass(frozen=True)
class Footer:
    """Columns of a file, flat columns with their original names, and row group statistics."""

    columns: dict[str, str]
    """Parquet types by name, to see where one name has different types in two files."""
    mapped: tuple[MappedColumn, ...]
    rows: int
    groups: RowGroups
    metadata: pq.FileMetaData = field(compare=False, repr=False)
    locations: dict[str, tuple[ColumnLocation, ...]] = field(default_factory=dict, compare=False, repr=False)
    """Column locations by name and row group, filled as columns are asked for (`page_counts.py`)."""
    _chunks: dict[str, Int64s] = field(default_factory=dict, compare=False, repr=False)
    blooms: dict[tuple[str, int], Bloom] = field(default_factory=dict, compare=False, repr=False)
    """Bloom filters by column and row group, filled as they are asked."""
    _plain: dict[str, tuple[Chunk | None, ...]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def memory_bytes(self) -> int:
        return int(self.metadata.serialized_size) * PARSED_SIZE

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """Numbers of the stored columns of each column: a map has two."""
        found: dict[str, list[int]] = {}
        for number in range(self.metadata.num_columns):
            path = self.metadata.schema.column(number).path
            name = path if path in self.columns else path.split(".", 1)[0]
            found.setdefault(name, []).append(number)
        return found

    def chunk_ranges(self, columns: Iterable[str], groups: Flags) -> Iterator[Range]:
        """Yield the ranges of the file that hold these columns of these row groups."""
        for name in columns:
            if name in self.columns:
                chunks = self._chunks.get(name)
                if chunks is None:
                    chunks = self._chunks[name] = self._locate(name)
                yield from map(tuple, chunks[groups].reshape(-1, 2).tolist())

    def plain_chunks(self, name: str) -> tuple[Chunk | None, ...]:
        """Locate the plain texts of a flat column by row group; None where they are kept in another way."""
        known = self._plain.get(name)
        if known is None:
            groups = [self.metadata.row_group(number) for number in range(self.metadata.num_row_groups)]
            places = self.places.get(name, ())
            if len(places) == 1:
                schema = self.metadata.schema.column(places[0])
                known = tuple(plain_chunk(group.column(places[0]), schema) for group in groups)
            else:
                known = (None,) * len(groups)
            self._plain[name] = known
        return known

    def bloom_offsets(self, name: str, groups: Flags) -> dict[int, int]:
        """Return where the bloom filters of a flat column begin, by row group; many have none."""
        places = self.places.get(name, ())
        if len(places) != 1:
            return {}
        numbers = np.flatnonzero(groups).tolist()
        found = {n: self.metadata.row_group(n).column(places[0]).bloom_filter_offset for n in numbers}
        return {number: offset for number, offset in found.items() if offset is not None}

    def _locate(self, name: str) -> Int64s:
        """Return first byte and the byte behind the last one, by row group and stored column."""
        places = self.places.get(name, ())
        groups = [self.metadata.row_group(number) for number in range(self.metadata.num_row_groups)]
        found = [_chunk_range(group.column(place)) for group in groups for place in places]
        return np.array(found, np.int64).reshape(len(groups), len(places), 2)


def _chunk_range(chunk: pq.ColumnChunkMetaData) -> Range:
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        start = min(start, chunk.dictionary_page_offset)
    return start, start + chunk.total_compressed_size


def tail_ranges(segment: SegmentRef, *, with_bloom: bool, with_footer: bool = True) -> list[Range]:
    """Return where stream table, footer, and token bloom lie: side by side in a segment of today.

    >>> ref = SegmentRef("s", "k", 1_000_000, 0, 1, 900_000, 40_000, 10, 800_000, 100_000)
    >>> tail_ranges(ref, with_bloom=True), tail_ranges(ref, with_bloom=False)
    ([(800000, 1000000)], [(900000, 1000000)])
    >>> old = SegmentRef("s", "k", 1_000_000, 0, 1, 700_000, 40_000, 10, 740_000, 100_000)
    >>> tail_ranges(old, with_bloom=False)
    [(700000, 740000), (934464, 1000000)]
    """
    table = segment.series_offset, segment.series_offset + segment.series_length
    bloom = segment.bloom_offset, segment.bloom_offset + segment.bloom_length
    has_bloom = with_bloom and segment.bloom_length > 0
    if segment.bloom_length and bloom[1] == table[0]:
        return [(bloom[0] if has_bloom else table[0], segment.bytes if with_footer else table[1])]
    footer = [(max(0, segment.bytes - FOOTER_GUESS), segment.bytes)] if with_footer else []
    return [table, *([bloom] if has_bloom else []), *footer]


def read_footer(file: SegmentFile) -> Footer:
    """Read the footer of a segment; anything unexpected in it makes the segment unreadable."""
    try:
        return footer_of(pq.read_metadata(file.source()))
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        if file.failure is not None:
            raise file.failure from error
        raise SegmentUnreadableError(f"damaged footer: {error}") from error


def footer_of(metadata: pq.FileMetaData) -> Footer:
    columns = {field.name: str(field.type) for field in metadata.schema.to_arrow_schema()}
    return Footer(columns, read_label_map(metadata), metadata.num_rows, _row_groups(metadata), metadata)


def _row_groups(metadata: pq.FileMetaData) -> RowGroups:
    place = {metadata.schema.column(number).path: number for number in range(metadata.num_columns)}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    sizes = np.array([0, *(group.num_rows for group in groups)], np.int64)
    times = _bounds_of(groups, place[CHQ_TSNS])
    ids = _bounds_of(groups, place[CHQ_STREAM_ID])
    plain = np.array([group.total_byte_size for group in groups], np.int64)
    streams = read_group_streams(metadata)
    return RowGroups(np.cumsum(sizes), times[:, 0], times[:, 1], ids[:, 0], ids[:, 1], plain, streams)


def _bounds_of(groups: Sequence[pq.RowGroupMetaData], column: int) -> Int64s:
    return np.array([_bounds(group, column) for group in groups], np.int64).reshape(-1, 2)


def _bounds(group: pq.RowGroupMetaData, column: int) -> tuple[int, int]:
    """Return lowest and highest value; without statistics every value is possible."""
    statistics = group.column(column).statistics
    if statistics is None or not statistics.has_min_max:
        return np.iinfo(np.int64).min, np.iinfo(np.int64).max
    return statistics.min, statistics.max
