"""A segment is registered with what its index row and its footer say; no row of it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from pyiceberg.types import BinaryType, PrimitiveType, StringType
from pyiceberg.utils.truncate import truncate_upper_bound_binary_string, truncate_upper_bound_text_string

from resources.index.open_tables import TableSegment
from resources.lake.timecut import DAY_NS, HOUR_NS
from resources.objects.client import ObjectStore

TAIL_BYTES = 64 * 1024
"""First guess at the length of a footer; a longer one takes a second request."""
READERS = 8
BOUND_LENGTH = 16
"""Characters of a text's bound."""
MOST_BOUNDED = 200
"""Attributes of a file that get bounds; files with more of them would bloat every manifest."""


@dataclass(frozen=True, slots=True)
class Footer:
    """Footer of a segment."""

    segment: TableSegment
    metadata: pq.FileMetaData

    @property
    def schema(self) -> pa.Schema:
        return self.metadata.schema.to_arrow_schema()


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """Id of a column in manifests, and the type of its bounds."""

    field_id: int
    type: PrimitiveType | None
    """Type of its bounds; None: it gets none."""


def read_footers(lake: ObjectStore, segments: Sequence[TableSegment]) -> Iterator[Footer]:
    """Read the footers of segments, in order, a few at a time."""
    with ThreadPoolExecutor(READERS, thread_name_prefix="footers") as pool:
        yield from pool.map(lambda segment: _read_footer(lake, segment), segments)


def _read_footer(lake: ObjectStore, segment: TableSegment) -> Footer:
    length = min(TAIL_BYTES, segment.bytes)
    tail = lake.get_range(segment.key, segment.bytes - length, length)
    if tail[-4:] != b"PAR1":
        raise ValueError(f"{segment.key}: {segment.bytes} bytes that do not end like a Parquet file")
    needed = int.from_bytes(tail[-8:-4], "little") + 8
    if needed > len(tail):
        tail = lake.get_range(segment.key, segment.bytes - needed, needed)
    # readers of Parquet go by the end of the file: the footer alone is one, too
    return Footer(segment, pq.read_metadata(pa.BufferReader(tail)))


def file_uri(lake_url: str, key: str) -> str:
    return f"{lake_url.rstrip('/')}/{key}"


def partition_of(segment: TableSegment) -> Record:
    """Return day and hour of a segment; null where it spans more than that.

    >>> partition_of(TableSegment("", "", 26 * HOUR_NS, HOUR_NS, 1, 1))
    Record[1, 2]
    >>> partition_of(TableSegment("", "", 24 * HOUR_NS, DAY_NS, 1, 1))
    Record[1, None]
    """
    day = segment.hour_ns // DAY_NS if segment.width_ns <= DAY_NS else None
    hour = segment.hour_ns % DAY_NS // HOUR_NS if segment.width_ns <= HOUR_NS else None
    return Record(day, hour)


def data_file(footer: Footer, lake_url: str, plans: Mapping[str, ColumnPlan], spec_id: int) -> DataFile:
    """Build the manifest's entry of a segment; `plans` are those of its columns, by name."""
    metadata = footer.metadata
    sizes: dict[int, int] = {}
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    bounds: dict[int, _Bounds] = {}
    offsets: list[int] = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        first = group.column(0)
        offsets.append(first.dictionary_page_offset or first.data_page_offset)
        for position in range(metadata.num_columns):
            chunk = group.column(position)
            plan = plans.get(chunk.path_in_schema)
            if plan is None:  # columns within lists and structs
                continue
            sizes[plan.field_id] = sizes.get(plan.field_id, 0) + chunk.total_compressed_size
            values[plan.field_id] = values.get(plan.field_id, 0) + chunk.num_values
            _note(chunk, plan, nulls, bounds)
    known = {field_id: one for field_id, one in bounds.items() if one.is_known and one.low is not None}
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file_uri(lake_url, footer.segment.key),
        file_format=FileFormat.PARQUET,
        partition=partition_of(footer.segment),
        record_count=metadata.num_rows,
        file_size_in_bytes=footer.segment.bytes,
        column_sizes=sizes,
        value_counts=values,
        null_value_counts={field_id: count for field_id, count in nulls.items() if count >= 0},
        nan_value_counts={},
        lower_bounds={field_id: _lower(one) for field_id, one in known.items()},
        upper_bounds={f: upper for f, one in known.items() if (upper := _upper(one)) is not None},
        split_offsets=sorted(offsets),
        sort_order_id=None,
        spec_id=spec_id,
        equality_ids=None,
        key_metadata=None,
    )


@dataclass(slots=True)
class _Bounds:
    type: PrimitiveType
    low: Any = None
    high: Any = None
    is_known: bool = True


def _note(
    chunk: pq.ColumnChunkMetaData, plan: ColumnPlan, nulls: dict[int, int], bounds: dict[int, _Bounds]
) -> None:
    """Add the statistics of a chunk; without them the nulls are -1, and bounds are unknown."""
    stats = chunk.statistics if chunk.is_stats_set else None
    before = nulls.get(plan.field_id, 0)
    if stats is None or not stats.has_null_count or before < 0:
        nulls[plan.field_id] = -1
    else:
        nulls[plan.field_id] = before + stats.null_count
    if plan.type is None:
        return
    found = bounds.setdefault(plan.field_id, _Bounds(plan.type))
    if stats is not None and stats.has_min_max:
        found.low = stats.min if found.low is None else min(found.low, stats.min)
        found.high = stats.max if found.high is None else max(found.high, stats.max)
    elif stats is None or not stats.has_null_count or stats.null_count < chunk.num_values:
        found.is_known = False


def _lower(one: _Bounds) -> bytes:
    value = one.low
    if isinstance(one.type, StringType | BinaryType):
        value = value[:BOUND_LENGTH]
    return to_bytes(one.type, value)


def _upper(one: _Bounds) -> bytes | None:
    value = one.high
    if isinstance(one.type, StringType):
        value = truncate_upper_bound_text_string(value, BOUND_LENGTH)
    elif isinstance(one.type, BinaryType):
        value = truncate_upper_bound_binary_string(value, BOUND_LENGTH)
    return None if value is None else to_bytes(one.type, value)
