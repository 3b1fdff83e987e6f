"""Opens gzip and zstd envelopes, recognised by content because names lie.

Decompression is bounded: a small object that unfolds into more than `max_bytes` is refused before that
much memory is taken. A stream that ends early or is damaged says where, so that it can be told from a
valid short one.
"""

from __future__ import annotations

import io
import zlib
from typing import cast

import zstandard
from isal import igzip
from isal.igzip_lib import IsalError

from lakerunner_assets.decode.errors import EmptyObjectError, MalformedError, TooLargeError

GZIP_MAGIC = b"\x1f\x8b\x08"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_CHUNK = 1 << 20
_DAMAGED: tuple[type[Exception], ...] = (
    EOFError,
    OSError,
    zlib.error,
    cast("type[Exception]", IsalError),  # isal's stub calls the class an instance
    zstandard.ZstdError,
)


def sniff(data: bytes) -> str:
    """`gzip`, `zstd` or `plain`, from the first bytes.

    >>> sniff(b"\\x1f\\x8b\\x08 and more"), sniff(b"{}")
    ('gzip', 'plain')
    """
    if data.startswith(GZIP_MAGIC):
        return "gzip"
    return "zstd" if data.startswith(ZSTD_MAGIC) else "plain"


def decompress(data: bytes, max_bytes: int) -> bytes:
    """The payload of `data`, at most `max_bytes` of it."""
    if not data:
        raise EmptyObjectError(0, "empty object")
    kind = sniff(data)
    if kind == "gzip":
        return _gunzip(data, max_bytes)
    if kind == "zstd":
        return _unzstd(data, max_bytes)
    if len(data) > max_bytes:
        raise TooLargeError(max_bytes, f"object of {len(data)} bytes is larger than the limit of {max_bytes}")
    return data


def _gunzip(data: bytes, max_bytes: int) -> bytes:
    stream = igzip.GzipFile(fileobj=io.BytesIO(data), mode="rb")
    return _read_bounded(stream, max_bytes, "gzip")


def _unzstd(data: bytes, max_bytes: int) -> bytes:
    # read_across_frames: concatenated frames are one payload, as with gzip members
    stream = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True)
    plain = _read_bounded(stream, max_bytes, "zstd")
    _require_complete_zstd(data, len(plain))
    return plain


def _read_bounded(
    stream: io.BufferedIOBase | zstandard.ZstdDecompressionReader, max_bytes: int, kind: str
) -> bytes:
    parts: list[bytes] = []
    done = 0
    while True:
        try:
            part = stream.read(min(_CHUNK, max_bytes + 1 - done))
        except _DAMAGED as error:
            raise MalformedError(
                done, f"{kind} stream is damaged or truncated after {done} bytes: {error}"
            ) from error
        if not part:
            return b"".join(parts)
        done += len(part)
        if done > max_bytes:
            raise TooLargeError(
                max_bytes, f"{kind} object unfolds to more than the limit of {max_bytes} bytes"
            )
        parts.append(part)


def _require_complete_zstd(data: bytes, plain_bytes: int) -> None:
    """The zstd reader returns what it has at a premature end; only the frame decoder sees the end."""
    rest = data
    while rest:
        decoder = zstandard.ZstdDecompressor().decompressobj()
        for start in range(0, len(rest), _CHUNK):
            decoder.decompress(rest[start : start + _CHUNK])
            if decoder.eof:
                rest = decoder.unused_data + rest[start + _CHUNK :]
                break
        else:
            raise MalformedError(plain_bytes, f"zstd stream is truncated after {plain_bytes} bytes")
