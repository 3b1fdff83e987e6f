"""Payloads are raw objects out of their gzip or zstd envelope, readable in windows.

Envelopes are recognised by content, because names lie. Decompression is bounded: a small object that unfolds
into more than `max_bytes` is refused before that much memory or disk is taken. A stream that ends early or is
damaged says where, so that it can be told from a valid short one. A small payload lies in memory, a large one
in a temporary file that is read in windows, so a task's memory depends on the window and not on the object.
"""

from __future__ import annotations

import io
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import zstandard
from isal import igzip
from isal.igzip_lib import IsalError

from lakerunner_assets.decode.errors import EmptyObjectError, MalformedError, TooLargeError

GZIP_MAGIC = b"\x1f\x8b\x08"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_CHUNK = 1 << 20
_ZSTD_INPUT = 4096
"""Compressed bytes opened at a time: four of them may stand for a block of 128 KiB."""
_DAMAGED: tuple[type[Exception], ...] = (
    EOFError,
    OSError,
    zlib.error,
    cast("type[Exception]", IsalError),  # isal's stub calls the class an instance
    zstandard.ZstdError,
)


def sniff(data: bytes) -> str:
    """Return `gzip`, `zstd` or `plain`, from the first bytes.

    >>> sniff(b"\\x1f\\x8b\\x08 and more"), sniff(b"{}")
    ('gzip', 'plain')
    """
    if data.startswith(GZIP_MAGIC):
        return "gzip"
    return "zstd" if data.startswith(ZSTD_MAGIC) else "plain"


def decompress(data: bytes, max_bytes: int) -> bytes:
    """Return the payload of `data`, at most `max_bytes` of it."""
    if not data:
        raise EmptyObjectError(0, "empty object")
    kind = sniff(data)
    if kind != "plain":
        return b"".join(_chunks(io.BytesIO(data), kind, max_bytes))
    if len(data) > max_bytes:
        raise TooLargeError(max_bytes, f"object of {len(data)} bytes is larger than the limit of {max_bytes}")
    return data


def copy_plain(source: IO[bytes], kind: str, target: IO[bytes], max_bytes: int) -> None:
    """Decompress an envelope into a file, a chunk at a time."""
    for chunk in _chunks(source, kind, max_bytes):
        target.write(chunk)
    target.flush()


def _chunks(source: IO[bytes], kind: str, max_bytes: int) -> Iterator[bytes]:
    done = 0
    parts = {"gzip": _gunzip, "zstd": _unzstd, "plain": _plain}[kind](source)
    while True:
        try:
            part = next(parts, b"")
        except _DAMAGED as error:
            raise MalformedError(
                done, f"{kind} stream is damaged or truncated after {done} bytes: {error}"
            ) from error
        if not part:
            return
        done += len(part)
        if done > max_bytes:
            raise TooLargeError(
                max_bytes, f"{kind} object unfolds to more than the limit of {max_bytes} bytes"
            )
        yield part


def _plain(source: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: source.read(_CHUNK), b"")


def _gunzip(source: IO[bytes]) -> Iterator[bytes]:
    stream = igzip.GzipFile(fileobj=source, mode="rb")
    read = cast("Callable[[int], bytes]", stream.read)
    return iter(lambda: read(_CHUNK), b"")


def _unzstd(source: IO[bytes]) -> Iterator[bytes]:
    """Decompress frame by frame: concatenated frames are one payload, as with gzip members.

    The library's stream reader hands out what it has at a premature end; the frame decoder sees the end.
    """
    rest = source.read(_ZSTD_INPUT)
    while rest:
        decoder = zstandard.ZstdDecompressor().decompressobj()
        while not decoder.eof:
            if not rest:
                raise EOFError("truncated: the last frame has no end")
            yield from _nonempty(decoder.decompress(rest))
            rest = b"" if decoder.eof else source.read(_ZSTD_INPUT)
        rest = decoder.unused_data or source.read(_ZSTD_INPUT)


def _nonempty(part: bytes) -> Iterator[bytes]:
    """Yield the bytes in pieces, because a megabyte of zeros compressed is a few bytes."""
    for start in range(0, len(part), _CHUNK):
        yield part[start : start + _CHUNK]


IN_MEMORY_BYTES = 64 << 20
"""Size up to which an envelope is opened in memory, if its content is not larger either."""


class Payload:
    """Seekable bytes; offsets in errors are offsets in here."""

    def __init__(self, data: bytes | None, file: IO[bytes], size: int, max_bytes: int) -> None:
        self._data = data
        self.file = file
        """For readers of whole formats (Parquet, CSV); `read` does not move its position for them."""
        self.size = size
        self.max_bytes = max_bytes
        """Limit of what any envelope unfolds to, for formats that compress inside."""

    def read(self, start: int, length: int) -> bytes:
        """Read bytes from `start`, fewer at the end; the whole of a small payload is not copied."""
        if self._data is not None:
            whole = start == 0 and length >= self.size
            return self._data if whole else self._data[start : start + length]
        return os.pread(self.file.fileno(), length, start)

    def head(self, length: int = 4096) -> bytes:
        return self.read(0, min(length, self.size))


@contextmanager
def open_payload(source: bytes | Path, max_bytes: int, folder: Path | None = None) -> Iterator[Payload]:
    """Open the payload of a raw object; `folder` is for temporary files."""
    if isinstance(source, bytes) and len(source) <= IN_MEMORY_BYTES:
        data = _small(source, max_bytes)
        if data is not None:
            yield payload_of(data, max_bytes)
            return
    with _binary(source) as envelope, tempfile.TemporaryFile(dir=folder) as plain:
        kind = sniff(envelope.read(16))
        envelope.seek(0)
        if kind == "plain" and not isinstance(envelope, io.BytesIO):
            yield _of_file(envelope, max_bytes)
            return
        copy_plain(envelope, kind, plain, max_bytes)
        yield _of_file(plain, max_bytes)


def payload_of(data: bytes, max_bytes: int = 1 << 32) -> Payload:
    """Wrap plain bytes as a payload."""
    return Payload(data, io.BytesIO(data), len(data), max_bytes)


def _small(source: bytes, max_bytes: int) -> bytes | None:
    """Return the content, unless it is more than what is opened in memory."""
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
    return Payload(None, file, size, max_bytes)
