"""Footers and stream tables of log segments, decoded once and cached by the opener.

Both are a few kilobytes and never change, since a key is never reused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.worker.parquet.column_chunks import ColumnLocation
from lakerunner_query.worker.shared.segment_cache import SegmentUnreadableError
from resources.arrays import Flags, Int64s
from resources.lake import streams
from resources.lake.columns import CHQ_STREAM_ID, CHQ_TSNS
from resources.lake.segment_file import MappedColumn, read_label_map


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

    def overlapping(self, start_ns: int, end_ns: int, stream_ids: Int64s) -> Flags:
        """Flag row groups that may have rows of one of these streams in `[start_ns, end_ns)`."""
        ids = np.sort(stream_ids)
        at = np.searchsorted(ids, self.min_stream)
        next_id = np.append(ids, np.iinfo(np.int64).max)[at]
        found: Flags = (
            (self.min_ns < end_ns)
            & (self.max_ns >= start_ns)
            & (at < len(ids))
            & (next_id <= self.max_stream)
        )
        return found


@dataclass(frozen=True, slots=True)
class Footer:
    """Columns of a file, flat columns with their original names, and row group statistics."""

    columns: dict[str, str]
    """Parquet types by name, to see where one name has different types in two files."""
    mapped: tuple[MappedColumn, ...]
    rows: int
    groups: RowGroups
    locations: dict[str, tuple[ColumnLocation, ...]] = field(default_factory=dict, compare=False, repr=False)
    """Column locations by name and row group, filled as columns are asked for (`page_counts.py`)."""


def read_footer(path: Path) -> Footer:
    """Read the footer of a local copy; anything unexpected in it makes the segment unreadable."""
    try:
        metadata = pq.read_metadata(path)
        columns = {field.name: str(field.type) for field in metadata.schema.to_arrow_schema()}
        return Footer(columns, read_label_map(metadata), metadata.num_rows, _row_groups(metadata))
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        raise SegmentUnreadableError(f"damaged footer: {error}") from error


def stream_table(segment: SegmentRef, raw: bytes) -> tuple[streams.Stream, ...]:
    """Decode the stream table from its bytes inside the object."""
    try:
        return streams.decode(raw)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        reason = f"damaged stream table of {segment.series_length} bytes: {error}"
        raise SegmentUnreadableError(reason) from error


def _row_groups(metadata: pq.FileMetaData) -> RowGroups:
    place = {metadata.schema.column(number).path: number for number in range(metadata.num_columns)}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    sizes = np.array([0, *(group.num_rows for group in groups)], np.int64)
    times = np.array([_bounds(group, place[CHQ_TSNS]) for group in groups], np.int64).reshape(-1, 2)
    ids = np.array([_bounds(group, place[CHQ_STREAM_ID]) for group in groups], np.int64).reshape(-1, 2)
    plain = np.array([group.total_byte_size for group in groups], np.int64)
    return RowGroups(np.cumsum(sizes), times[:, 0], times[:, 1], ids[:, 0], ids[:, 1], plain)


def _bounds(group: pq.RowGroupMetaData, column: int) -> tuple[int, int]:
    """Return lowest and highest value; without statistics every value is possible."""
    statistics = group.column(column).statistics
    if statistics is None or not statistics.has_min_max:
        return np.iinfo(np.int64).min, np.iinfo(np.int64).max
    return statistics.min, statistics.max
