"""Segments of a lake that lies on this machine's own disk: read where they are, never copied.

Has the methods of `SegmentCache` that readers use. There is nothing to pin, to evict or to fetch again: a
file that is swept away while a query reads it is missing, as an object of a remote store would be.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.worker.cache import SegmentUnreadableError


class Segments(Protocol):
    """Where readers get local files from: a cache of a remote store, or the lake itself."""

    def holds(self, segment: SegmentRef) -> bool: ...

    def acquire(self, segment: SegmentRef) -> tuple[Path, int]: ...

    def release(self, segment: SegmentRef) -> None: ...

    def forget(self, segment: SegmentRef) -> None: ...


class SegmentsInPlace:
    """`acquire` only looks whether the file is what the index says."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    def holds(self, segment: SegmentRef) -> bool:
        """Nothing is ever fetched."""
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
        """Nothing was pinned."""

    def forget(self, segment: SegmentRef) -> None:
        """There is no copy that could be an old one."""


def folder_of(lake_url: str) -> Path | None:
    """Where the lake lies, if it is on this machine.

    >>> folder_of("file:///srv/lake"), folder_of("s3://lake")
    (PosixPath('/srv/lake'), None)
    """
    parts = urlsplit(lake_url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None
