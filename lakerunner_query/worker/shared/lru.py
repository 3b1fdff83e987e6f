"""What a worker knows about a segment apart from its rows, kept in memory between queries.

Stream tables and footers are a few kilobytes and never change (a key is never reused), so a bounded map of
the most recent ones saves opening every file for every query.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.worker.shared.segment_cache import SegmentUnreadableError
from resources.arrays import Flags, Int64s
from resources.lake import streams
from resources.lake.columns import CHQ_STREAM_ID, CHQ_TSNS
from resources.lake.segment_file import MappedColumn, read_label_map

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class RowGroups:
    """What statistics say of each: where its rows begin, and between which times and stream ids they lie."""

    first: Int64s
    """Row numbers within the file, one more than there are row groups."""
    min_ns: Int64s
    max_ns: Int64s
    min_stream: Int64s
    max_stream: Int64s
    bytes: Int64s
    """Of all columns, before compression."""

    def overlapping(self, start_ns: int, end_ns: int, stream_ids: Int64s) -> Flags:
        """Those that may have rows of one of these streams in `[start_ns, end_ns)`."""
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
    """Columns that exist, flat columns with their original names, and the row count."""

    columns: dict[str, str]
    """Parquet type by name, to see where one name means different things in two files."""
    mapped: tuple[MappedColumn, ...]
    rows: int
    groups: RowGroups
    places: dict[str, tuple[Any, ...]] = field(default_factory=dict, compare=False, repr=False)
    """Where columns lie, by row group: those that were asked for (`logs/places.py`)."""


class Recent(Generic[Value]):
    """A thread-safe map of the `size` most recently used values."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._values: OrderedDict[str, Value] = OrderedDict()

    def get(self, key: str, make: Callable[[], Value]) -> Value:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._size:
                self._values.popitem(last=False)
        return value

    def peek(self, key: str) -> Value | None:
        """What is known, without making it."""
        with self._lock:
            return self._values.get(key)

    def forget(self, key: str) -> None:
        with self._lock:
            self._values.pop(key, None)


def read_footer(path: Path) -> Footer:
    """Footer of a local copy; anything unexpected in it makes the segment unreadable."""
    try:
        metadata = pq.read_metadata(path)
        columns = {field.name: str(field.type) for field in metadata.schema.to_arrow_schema()}
        return Footer(columns, read_label_map(metadata), metadata.num_rows, _row_groups(metadata))
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        raise SegmentUnreadableError(f"damaged footer: {error}") from error


def _row_groups(metadata: pq.FileMetaData) -> RowGroups:
    """Without statistics, as if everything were possible."""
    place = {metadata.schema.column(number).path: number for number in range(metadata.num_columns)}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    sizes = np.array([0, *(group.num_rows for group in groups)], np.int64)
    times = np.array([_bounds(group, place[CHQ_TSNS]) for group in groups], np.int64).reshape(-1, 2)
    ids = np.array([_bounds(group, place[CHQ_STREAM_ID]) for group in groups], np.int64).reshape(-1, 2)
    plain = np.array([group.total_byte_size for group in groups], np.int64)
    return RowGroups(np.cumsum(sizes), times[:, 0], times[:, 1], ids[:, 0], ids[:, 1], plain)


def _bounds(group: pq.RowGroupMetaData, column: int) -> tuple[int, int]:
    statistics = group.column(column).statistics
    if statistics is None or not statistics.has_min_max:
        return np.iinfo(np.int64).min, np.iinfo(np.int64).max
    return statistics.min, statistics.max


def stream_table(segment: SegmentRef, raw: bytes) -> tuple[streams.Stream, ...]:
    """The stream table from its bytes inside the object."""
    try:
        return streams.decode(raw)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        reason = f"damaged stream table of {segment.series_length} bytes: {error}"
        raise SegmentUnreadableError(reason) from error
