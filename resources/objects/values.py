"""Objects are described by plain values, and files are mapped for upload."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """Facts about an object.

    The etag is without its quotes, as notifications spell it, so that the two can be compared.
    """

    key: str
    size: int
    etag: str
    version: str
    last_modified: datetime


@dataclass(frozen=True, slots=True)
class Fetched:
    """Bytes of an object, and their version."""

    data: bytes
    info: ObjectInfo

    @property
    def etag(self) -> str:
        return self.info.etag

    @property
    def version(self) -> str:
        return self.info.version

    @property
    def size(self) -> int:
        return self.info.size

    @property
    def last_modified(self) -> datetime:
        return self.info.last_modified


def info_of(meta: Mapping[str, Any]) -> ObjectInfo:
    """Convert the library's dictionary; a store without etags or versions gives empty text."""
    return ObjectInfo(
        meta["path"], meta["size"], plain_etag(meta["e_tag"]), meta["version"] or "", meta["last_modified"]
    )


def plain_etag(etag: str | None) -> str:
    """Remove the quotes; weak tags keep their form.

    >>> plain_etag('"abc"'), plain_etag(None)
    ('abc', '')
    """
    return etag if etag and etag.startswith("W/") else (etag or "").strip('"')


def quoted_etag(etag: str) -> str:
    """Quote for `If-Match`; weak tags (`W/"…`) keep their form."""
    return etag if etag.startswith("W/") else f'"{etag}"'


@contextmanager
def readable(data: bytes | Path) -> Iterator[bytes | mmap.mmap]:
    """Return the bytes to upload; a file is mapped, so that a large segment is never copied into memory."""
    if isinstance(data, bytes):
        yield data
    elif data.stat().st_size == 0:
        yield b""  # an empty file cannot be mapped
    else:
        with data.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            yield mapped
