"""A segment is a file that is read by range, wherever its bytes are.

`SegmentsInPlace` opens segments of a lake on this machine's own disk; `BlockCache` (`block_cache.py`) opens
those of an object store.

    meter = FetchMeter(cancellation)
    with segments.open(segment, meter) as file:
        file.fetch([(4, 90_000), (700_000, 800_000)])     both at once, in few requests
        footer = pq.read_metadata(file.source())
        raw = file.read(4, 89_996)
    print(meter.bytes, meter.requests)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.protocol.units import SegmentRef
from resources.duckdb import Cancellation

Range = tuple[int, int]
"""First byte, and the byte behind the last one."""


class SegmentUnreadableError(RuntimeError):
    """The object contradicts the index, or cannot be fetched."""


class FetchMeter:
    """Bytes and requests that one unit costs the object store, up to its budget; 0: no budget."""

    def __init__(
        self, cancellation: Cancellation | None = None, max_bytes: int = 0, max_requests: int = 0
    ) -> None:
        self.cancellation = cancellation or Cancellation()
        self._max_bytes = max_bytes
        self._max_requests = max_requests
        self._lock = threading.Lock()
        self.bytes = 0
        self.requests = 0

    def charge(self, size: int) -> None:
        """Count a request before it is sent; raise if it is beyond the budget."""
        with self._lock:
            self.bytes += size
            self.requests += 1
            if 0 < self._max_bytes < self.bytes:
                raise LimitExceededError(
                    f"this part of the query needs more than {self._max_bytes >> 20} MiB of the object "
                    "store: narrow the time range or the stream matchers"
                )
            if 0 < self._max_requests < self.requests:
                raise LimitExceededError(
                    f"this part of the query needs more than {self._max_requests} requests to the object "
                    "store: narrow the time range or the stream matchers"
                )


class SegmentFile(Protocol):
    """An open segment; any number of threads may read it."""

    segment: SegmentRef

    @property
    def name(self) -> str:
        """Name for DuckDB's `read_parquet`, and in its column `filename`."""

    @property
    def failure(self) -> Exception | None:
        """Error of a read that Arrow or DuckDB asked for: theirs do not name the object store."""

    def source(self) -> Path | pa.NativeFile:
        """Return what Arrow opens; a file of its own for each caller."""

    def read(self, start: int, length: int) -> bytes:
        """Read exactly so many bytes."""

    def fetch(self, ranges: Iterable[Range]) -> None:
        """Have these ranges here, in few requests at a time; return when all are."""

    def fetch_ahead(self, ranges: Iterable[Range]) -> None:
        """Begin to fetch these ranges."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Segments(Protocol):
    """The source of segments: a cache before an object store, or the lake itself."""

    @property
    def is_local(self) -> bool:
        """True where reading never waits for a network."""

    def open(self, segment: SegmentRef, meter: FetchMeter) -> SegmentFile: ...

    def forget(self, segment: SegmentRef) -> None:
        """Drop every copy of a segment that turned out to be damaged."""


class LocalFile:
    """A segment that is a file on this machine."""

    failure: Exception | None = None

    def __init__(self, segment: SegmentRef, path: Path) -> None:
        self.segment = segment
        self._path = path
        self._lock = threading.Lock()
        self._descriptor = -1

    @property
    def name(self) -> str:
        return str(self._path)

    def source(self) -> Path:
        return self._path

    def read(self, start: int, length: int) -> bytes:
        with self._lock:
            if self._descriptor < 0:
                self._descriptor = os.open(self._path, os.O_RDONLY)
        raw = os.pread(self._descriptor, length, start)
        if len(raw) != length:
            raise SegmentUnreadableError(f"the file ends before byte {start + length}")
        return raw

    def fetch(self, ranges: Iterable[Range]) -> None:
        """Do nothing: all ranges are here."""

    def fetch_ahead(self, ranges: Iterable[Range]) -> None:
        """Do nothing: all ranges are here."""

    def close(self) -> None:
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SegmentsInPlace:
    """Segments of a lake on this machine's own disk, read in place and never copied.

    A file that is swept away before a query opens it is missing, as an object of a remote store would be.
    """

    is_local = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    def open(self, segment: SegmentRef, meter: FetchMeter) -> LocalFile:
        del meter
        path = within(self._folder, segment.key)
        try:
            size = path.stat().st_size
        except OSError as error:
            raise SegmentUnreadableError(f"cannot be read: {error.strerror}") from error
        if size != segment.bytes:
            raise SegmentUnreadableError(f"the object has {size} bytes, the index says {segment.bytes}")
        return LocalFile(segment, path)

    def forget(self, segment: SegmentRef) -> None:
        """Do nothing: there is no copy."""


def within(folder: Path, key: str) -> Path:
    """Return the path of a key below this folder; refuse one that would lead out of it."""
    if not key or key.startswith("/") or ".." in key.split("/"):
        raise SegmentUnreadableError(f"{key!r} is not a segment key")
    return folder / key


def folder_of(lake_url: str) -> Path | None:
    """Return the folder of a lake on this machine, None for a remote one.

    >>> folder_of("file:///srv/lake"), folder_of("s3://lake")
    (PosixPath('/srv/lake'), None)
    """
    parts = urlsplit(lake_url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None
