"""Readers get segments as local files: from a bounded disk cache, or in place from a lake on this machine.

The cache folder is the truth: a file under a segment's key with the size that the index states is the
segment, so the cache survives restarts. Files in use are pinned. A full disk makes the cache smaller, for
good, and never fails a query that fits into what is left.
"""

from __future__ import annotations

import errno
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from lakerunner_query.protocol.units import SegmentRef

WHOLE_BELOW = 1024 * 1024
"""Smaller objects are fetched at once instead of reading their series table by range first."""


class SegmentUnreadableError(RuntimeError):
    """The object contradicts the index, or cannot be fetched."""


class Fetcher(Protocol):
    """The method of the object store that the cache needs."""

    def fetch_to(self, key: str, path: Path) -> int: ...


class SegmentStore(Fetcher, Protocol):
    """The methods of the object store that a worker needs."""

    def get_range(self, key: str, start: int, length: int) -> bytes: ...


class SegmentCache:
    """Least recently used segments go first; a file stays between its `acquire` and `release`."""

    def __init__(self, folder: Path, max_bytes: int, store: Fetcher) -> None:
        self._folder = folder.absolute()
        self._budget = max_bytes
        self._store = store
        self._lock = threading.Lock()
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._pins: Counter[str] = Counter()
        self._loading: dict[str, Future[Path]] = {}
        self._folder.mkdir(parents=True, exist_ok=True)
        self._list_files()

    @property
    def used_bytes(self) -> int:
        with self._lock:
            return sum(self._sizes.values())

    @property
    def budget_bytes(self) -> int:
        return self._budget

    def holds(self, segment: SegmentRef) -> bool:
        with self._lock:
            return self._sizes.get(segment.key) == segment.bytes

    def acquire(self, segment: SegmentRef) -> tuple[Path, int]:
        """Pin the local file; return it and the bytes that were fetched for it."""
        path = self._path(segment.key)
        with self._lock:
            self._pins[segment.key] += 1
            if self._sizes.get(segment.key) == segment.bytes and path.is_file():
                self._sizes.move_to_end(segment.key)
                return path, 0
            is_mine, loading = self._join(segment.key)
        try:
            if is_mine:
                self._load(segment, path, loading)
            return loading.result(), segment.bytes if is_mine else 0
        except BaseException:
            self.release(segment)
            raise

    def release(self, segment: SegmentRef) -> None:
        with self._lock:
            self._pins[segment.key] -= 1
            if self._pins[segment.key] <= 0:
                del self._pins[segment.key]
        self._shrink_to(self._budget)

    def forget(self, segment: SegmentRef) -> None:
        """Delete a local copy that turned out to be damaged."""
        with self._lock:
            self._sizes.pop(segment.key, None)
            self._path(segment.key).unlink(missing_ok=True)

    def _join(self, key: str) -> tuple[bool, Future[Path]]:
        """Join the download in progress, or begin one: a segment is fetched once however many ask."""
        if key in self._loading:
            return False, self._loading[key]
        self._loading[key] = Future()
        return True, self._loading[key]

    def _load(self, segment: SegmentRef, path: Path, loading: Future[Path]) -> None:
        try:
            self._download(segment, path)
            with self._lock:
                self._sizes[segment.key] = segment.bytes
            self._shrink_to(self._budget)
            loading.set_result(path)
        except BaseException as error:
            loading.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._loading[segment.key]

    def _download(self, segment: SegmentRef, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            size = self._with_room(lambda: self._store.fetch_to(segment.key, path))
        except OSError as error:
            raise SegmentUnreadableError(f"cannot keep a local copy: {error.strerror}") from error
        if size != segment.bytes:
            path.unlink(missing_ok=True)
            raise SegmentUnreadableError(f"the object has {size} bytes, the index says {segment.bytes}")

    def _with_room(self, fetch: Callable[[], int]) -> int:
        """Fetch; on a full disk halve the budget and try once more."""
        try:
            return fetch()
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
        self._budget = min(self._budget, self.used_bytes) // 2
        self._shrink_to(self._budget)
        return fetch()

    def _shrink_to(self, budget: int) -> None:
        with self._lock:
            excess = sum(self._sizes.values()) - budget
            for key in list(self._sizes) if excess > 0 else ():
                if excess <= 0:
                    return
                if key not in self._pins:
                    excess -= self._sizes.pop(key)
                    self._path(key).unlink(missing_ok=True)

    def _list_files(self) -> None:
        """Take over the files of an earlier process, oldest use first; delete half-written ones."""
        found: list[tuple[float, str, int]] = []
        for path in self._folder.rglob("*"):
            if path.is_file() and path.name.startswith("."):
                path.unlink(missing_ok=True)
            elif path.is_file():
                stat = path.stat()
                found.append((stat.st_atime, path.relative_to(self._folder).as_posix(), stat.st_size))
        self._sizes.update((key, size) for _used, key, size in sorted(found))
        self._shrink_to(self._budget)

    def _path(self, key: str) -> Path:
        path = (self._folder / key).absolute()
        if ".." in path.parts or not path.is_relative_to(self._folder):
            raise SegmentUnreadableError(f"{key!r} is not a segment key")
        return path


class Segments(Protocol):
    """The source of local files: a cache of a remote store, or the lake itself."""

    def holds(self, segment: SegmentRef) -> bool: ...

    def acquire(self, segment: SegmentRef) -> tuple[Path, int]: ...

    def release(self, segment: SegmentRef) -> None: ...

    def forget(self, segment: SegmentRef) -> None: ...


class SegmentsInPlace:
    """Segments of a lake on this machine's own disk, read in place and never copied.

    Nothing is pinned, evicted or fetched again. A file that is swept away while a query reads it is missing,
    as an object of a remote store would be.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    def holds(self, segment: SegmentRef) -> bool:
        """Return True: nothing is ever fetched."""
        del segment
        return True

    def acquire(self, segment: SegmentRef) -> tuple[Path, int]:
        path = (self._folder / segment.key).absolute()
        if ".." in path.parts or not path.is_relative_to(self._folder):
            raise SegmentUnreadableError(f"{segment.key!r} is not a segment key")
        try:
            size = path.stat().st_size
        except OSError as error:
            raise SegmentUnreadableError(f"cannot be read: {error.strerror}") from error
        if size != segment.bytes:
            raise SegmentUnreadableError(f"the object has {size} bytes, the index says {segment.bytes}")
        return path, 0

    def release(self, segment: SegmentRef) -> None:
        """Do nothing: `acquire` pins nothing."""

    def forget(self, segment: SegmentRef) -> None:
        """Do nothing: there is no copy."""


def folder_of(lake_url: str) -> Path | None:
    """Return the folder of a lake on this machine, None for a remote one.

    >>> folder_of("file:///srv/lake"), folder_of("s3://lake")
    (PosixPath('/srv/lake'), None)
    """
    parts = urlsplit(lake_url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None
