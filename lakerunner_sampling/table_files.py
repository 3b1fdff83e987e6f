"""Data files of an Iceberg table are opened through its own FileIO.

    s3://bucket/data/1.parquet  →  table:///s3%3A%2F%2Fbucket%2Fdata%2F1.parquet, which DuckDB reads

pyiceberg knows the credentials; DuckDB, without network, reads byte ranges through it. Files on disk are read
by DuckDB itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pyarrow as pa
from fsspec.spec import AbstractFileSystem

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

SCHEME = "table"
_ON_DISK = "file:"
_EPOCH = datetime.fromtimestamp(0, UTC)


class TableFiles(AbstractFileSystem):  # type: ignore[misc]  # comes without types
    """Files of a table, by their path in it."""

    protocol = SCHEME
    cachable = False

    def __init__(self, io: FileIO) -> None:
        super().__init__()
        self._io = io

    @staticmethod
    def named(path: str) -> str:
        """Return the name under which DuckDB reads a file: a plain path for one on disk."""
        if path.startswith(_ON_DISK):
            return unquote("/" + path.removeprefix(_ON_DISK).lstrip("/"))
        return path if path.startswith("/") else f"{SCHEME}:///{quote(path, safe='')}"

    def open(self, path: str, mode: str = "rb", **_options: Any) -> IO[bytes]:
        if mode != "rb":
            raise PermissionError(f"{path}: files of a table are read only")
        return self._io.new_input(_path(path)).open()  # type: ignore[return-value]

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        return {"name": path, "size": len(self._io.new_input(_path(path))), "type": "file"}

    def glob(self, path: str, **_options: Any) -> list[str]:
        """Return the name itself: it has no wildcards."""
        return [path]

    def exists(self, path: str, **_options: Any) -> bool:
        return self._io.new_input(_path(path)).exists()

    def isfile(self, path: str) -> bool:
        return self.exists(path)

    def created(self, path: str) -> datetime:
        """Return the same time for all: files of a table never change."""
        del path
        return _EPOCH

    modified = created


def _path(name: str) -> str:
    return name if name.startswith("/") else unquote(name.rsplit(":///", maxsplit=1)[-1].lstrip("/"))


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Files of a table in a window, named for DuckDB."""

    files: tuple[str, ...]
    schema: pa.Schema
    source: TableFiles


_TIMES = {"start_ns": 1, "span_start_ns": 1, "timestamp_ms": 10**6, "timestamp": 0}
"""Columns whose statistics bound the time of files, with their unit in ns; 0 is a timestamp."""


def files_between(table: Table, from_ns: int, to_ns: int) -> FoundFiles:
    """Return the files of a table that may have spans of a window."""
    names = [field.name for field in table.schema().fields]
    column = next((each for each in _TIMES if each in names), None)
    scan = table.scan(row_filter=_between(column, from_ns, to_ns)) if column else table.scan()
    found = sorted(TableFiles.named(task.file.file_path) for task in scan.plan_files())
    return FoundFiles(tuple(found), table.schema().as_arrow(), TableFiles(table.io))


def _between(column: str, from_ns: int, to_ns: int) -> str:
    if unit := _TIMES[column]:
        return f"{column} >= {from_ns // unit} and {column} < {-(-to_ns // unit)}"
    first, last = (datetime.fromtimestamp(each / 10**9, UTC).isoformat() for each in (from_ns, to_ns))
    return f"{column} >= '{first}' and {column} < '{last}'"


def folders_of(files: Sequence[str]) -> frozenset[str]:
    """Return the directories of files on disk, which DuckDB must be allowed to read."""
    return frozenset(each.rpartition("/")[0] for each in files if each.startswith("/"))
