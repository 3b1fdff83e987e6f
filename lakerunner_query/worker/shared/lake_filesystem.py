"""DuckDB and Arrow read open segments of an object store as files.

Each asks from several threads at once, and moves to a place before it reads: places are per thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

from fsspec.spec import AbstractFileSystem

SCHEME = "lake"
"""Scheme of the names under which DuckDB knows open segments."""
_EPOCH = datetime.fromtimestamp(0, UTC)


class Readable(Protocol):
    """An open segment; `failure` tells afterwards why a read failed."""

    failure: Exception | None

    @property
    def size(self) -> int: ...

    def read(self, start: int, length: int) -> bytes: ...


class Cursor:
    """A file object, as Python knows them, over an open segment."""

    closed = False

    def __init__(self, file: Readable) -> None:
        self._file = file
        self._place = threading.local()

    @property
    def size(self) -> int:
        return self._file.size

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: self.size}[whence]
        self._place.at = base + offset
        return base + offset

    def tell(self) -> int:
        at: int = getattr(self._place, "at", 0)
        return at

    def read(self, length: int = -1) -> bytes:
        at = self.tell()
        end = self.size if length < 0 else min(self.size, at + length)
        try:
            found = self._file.read(at, max(0, end - at))
        except Exception as error:
            self._file.failure = error
            raise
        self._place.at = at + len(found)
        return found

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        """Leave the segment open: its owner closes it."""

    def flush(self) -> None:
        """Do nothing: nothing is written."""


class LakeFileSystem(AbstractFileSystem):  # type: ignore[misc]  # comes without types
    """The open segments of a reader process, by name."""

    protocol = SCHEME
    cachable = False

    def __init__(self, find: Callable[[str], Readable]) -> None:
        super().__init__()
        self._find = find

    def open(self, path: str, mode: str = "rb", **_options: Any) -> Cursor:
        if mode != "rb":
            raise PermissionError(f"{path}: segments are read only")
        return Cursor(self._find(path))

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        return {"name": path, "size": self._find(path).size, "type": "file"}

    def glob(self, path: str, **_options: Any) -> list[str]:
        """Return the name itself: it has no wildcards."""
        return [path]

    def exists(self, path: str, **_options: Any) -> bool:
        return bool(self._find(path))

    def isfile(self, path: str) -> bool:
        return self.exists(path)

    def created(self, path: str) -> datetime:
        """Return the same time for all: DuckDB asks whether a file changed, and segments never do."""
        del path
        return _EPOCH

    modified = created
