"""The bytes of a raw object, out of their envelope, without ever holding all of a large one in memory.

A small payload lies in memory and is handed out as it is. A large one lies in a temporary file and is read
in windows, so a task's memory depends on the window and not on the object.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from lakerunner_assets.decode.compression import copy_plain, decompress, sniff
from lakerunner_assets.decode.errors import EmptyObjectError, TooLargeError

IN_MEMORY_BYTES = 64 << 20
"""An envelope smaller than this is opened in memory, if its content is not larger than that either."""


class Payload:
    """Seekable bytes; offsets in errors are offsets in here."""

    def __init__(self, data: bytes | None, file: IO[bytes], size: int) -> None:
        self._data = data
        self.file = file
        """For readers of whole formats (Parquet, CSV); `read` does not move its position for them."""
        self.size = size

    def read(self, start: int, length: int) -> bytes:
        """Bytes from `start`, fewer at the end; the whole of a small payload is not copied."""
        if self._data is not None:
            whole = start == 0 and length >= self.size
            return self._data if whole else self._data[start : start + length]
        return os.pread(self.file.fileno(), length, start)

    def head(self, length: int = 4096) -> bytes:
        return self.read(0, min(length, self.size))


@contextmanager
def open_payload(source: bytes | Path, max_bytes: int, folder: Path | None = None) -> Iterator[Payload]:
    """The payload of a raw object that was downloaded to `source`; `folder` is for temporary files."""
    if isinstance(source, bytes) and len(source) <= IN_MEMORY_BYTES:
        data = _small(source, max_bytes)
        if data is not None:
            yield payload_of(data)
            return
    with _binary(source) as envelope, tempfile.TemporaryFile(dir=folder) as plain:
        kind = sniff(envelope.read(16))
        envelope.seek(0)
        if kind == "plain" and not isinstance(envelope, io.BytesIO):
            yield _of_file(envelope, max_bytes)
            return
        copy_plain(envelope, kind, plain, max_bytes)
        yield _of_file(plain, max_bytes)


def payload_of(data: bytes) -> Payload:
    """Plain bytes as a payload."""
    return Payload(data, io.BytesIO(data), len(data))


def _small(source: bytes, max_bytes: int) -> bytes | None:
    """The content, unless it is more than what is opened in memory."""
    try:
        data = decompress(source, min(max_bytes, IN_MEMORY_BYTES))
    except TooLargeError:
        if max_bytes <= IN_MEMORY_BYTES:
            raise
        return None
    if not data:
        raise EmptyObjectError(0, "empty object inside its compression")
    return data


def _binary(source: bytes | Path) -> IO[bytes]:
    return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")


def _of_file(file: IO[bytes], max_bytes: int) -> Payload:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size == 0:
        raise EmptyObjectError(0, "empty object")
    if size > max_bytes:
        raise TooLargeError(max_bytes, f"object of {size} bytes is larger than the limit of {max_bytes}")
    return Payload(None, file, size)
