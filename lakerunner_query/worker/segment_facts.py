"""What a worker knows about a segment apart from its rows, kept in memory between queries.

Stream tables and footers are a few kilobytes and never change (a key is never reused), so a bounded map of
the most recent ones saves opening every file for every query.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.execute.work import SegmentRef
from lakerunner_query.worker.cache import SegmentUnreadableError
from resources.lake import streams
from resources.lake.segment_file import MappedColumn, read_label_map

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Footer:
    """Columns that exist, flat columns with their original names, and the row count."""

    columns: dict[str, str]
    """Parquet type by name, to see where one name means different things in two files."""
    mapped: tuple[MappedColumn, ...]
    rows: int


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
        return Footer(columns, read_label_map(metadata), metadata.num_rows)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise SegmentUnreadableError(f"damaged footer: {error}") from error


def stream_table(segment: SegmentRef, raw: bytes) -> tuple[streams.Stream, ...]:
    """The stream table from its bytes inside the object."""
    try:
        return streams.decode(raw)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        reason = f"damaged stream table of {segment.series_length} bytes: {error}"
        raise SegmentUnreadableError(reason) from error
