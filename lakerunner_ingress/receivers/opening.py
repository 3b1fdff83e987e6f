"""Decompresses bodies; their size is bounded before memory is used.

So is the memory that parsing takes: two bytes of protobuf (`0a 00`) can stand for a message of a hundred, and
two of JSON (`1,`) for a number of thirty. Ordinary bodies cost one to three times their size once parsed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import zstandard

from lakerunner_ingress.receivers.memory import Hold
from lakerunner_ingress.receivers.refusals import BadRequestError, TooLargeError, UnsupportedError

PER_MESSAGE = 48
"""Cost of a protobuf field of less than `SHORT` bytes; longer ones count by their length."""
SHORT = 8
PER_OBJECT, PER_VALUE = 64, 16
"""Costs of a JSON object, and of a member or element."""
FREE_BYTES = 8 << 20
"""Cost that is not counted: only two bodies are parsed at a time."""
_PIECE = 1 << 20


def parse_cost(data: bytes) -> int:
    """Estimate from above the memory that parsing takes, as JSON or protobuf: the wrong estimate is small."""
    return max(0, field_cost(data) - FREE_BYTES)


def field_cost(data: bytes) -> int:
    """Estimate from above the memory of the fields of a body, which is also a measure of the time."""
    return max(json_cost(data), protobuf_cost(data))


def json_cost(data: bytes) -> int:
    return PER_OBJECT * (data.count(b"{") + data.count(b"[")) + PER_VALUE * data.count(b",")


def protobuf_cost(data: bytes) -> int:
    """Count bytes that look like the tag of a text or message with a small length behind it."""
    found = 0
    bytes_ = np.frombuffer(data, np.uint8)
    for start in range(0, max(0, len(bytes_) - 1), _PIECE):
        piece = bytes_[start : start + _PIECE + 1]
        found += int(np.count_nonzero((piece[:-1] & 7 == 2) & (piece[1:] < SHORT)))
    return PER_MESSAGE * found


PIECE = 1 << 20
ZSTD_WINDOW = 32 << 20
"""Largest window: RFC 9659 says 8 MiB over HTTP, but the highest levels of Go's encoder use more."""
ZLIB_STEP = 1 << 16
"""Compressed bytes at a time: those behind the end of a member are copied."""
ZSTD_STEP = 512
"""Compressed bytes at a time: four of them can stand for 128 KiB."""
MAX_MEMBERS = 1024
"""Members of one body: they may stand one after the other, and each start costs."""
SNAPPY_RATIO = 64


def open_body(data: bytes, encoding: str, max_bytes: int, hold: Hold) -> bytes:
    """Decompress `data`; `encoding` is the Content-Encoding, `hold` grows by the opened bytes."""
    name = encoding.strip().lower() or "identity"
    if name == "identity":
        return data
    if name == "snappy":
        return open_snappy(data, max_bytes, hold)
    if name not in _OPENERS:
        raise UnsupportedError(
            f"Content-Encoding {name[:32]!r}: expected identity, {', '.join(_OPENERS)} or snappy"
        )
    pieces: list[bytes] = []
    size = 0
    for piece in _OPENERS[name](data):
        size += len(piece)
        if size > max_bytes:
            raise TooLargeError(f"more than {max_bytes} bytes once opened")
        hold.grow(len(piece))
        pieces.append(piece)
    return b"".join(pieces)


def open_snappy(data: bytes, max_bytes: int, hold: Hold) -> bytes:
    """Decompress a snappy block (not the framed format), which begins with its length."""
    size = 0
    for index in range(5):
        if index >= len(data):
            raise BadRequestError("snappy: cut short in the length at byte 0")
        size |= (data[index] & 127) << (7 * index)
        if data[index] < 128:
            break
    else:
        raise BadRequestError("snappy: the length at byte 0 is no varint of 32 bits")
    if size > max_bytes:
        raise TooLargeError(f"{size} bytes once opened: expected at most {max_bytes}")
    if size > len(data) * SNAPPY_RATIO:
        raise BadRequestError(f"snappy: {len(data)} bytes cannot stand for {size}")
    hold.grow(size)
    try:
        return bytes(pa.Codec("snappy").decompress(data, size, asbytes=True))
    except (OSError, ValueError) as error:
        raise BadRequestError("snappy: not a valid block (the framed format is not meant here)") from error


def _zlib(wbits: int, name: str) -> Callable[[bytes], Iterator[bytes]]:
    def pieces(data: bytes) -> Iterator[bytes]:
        view = memoryview(data)
        position = 0
        for _ in range(MAX_MEMBERS):
            opener = zlib.decompressobj(wbits)
            while not opener.eof:
                fed = opener.unconsumed_tail or view[position : position + ZLIB_STEP]
                position += 0 if opener.unconsumed_tail else len(fed)
                try:
                    piece = opener.decompress(fed, PIECE)
                except zlib.error as error:
                    at = position - len(fed)
                    raise BadRequestError(f"{name}: damaged after byte {at}: {error}") from error
                if not piece and not fed:
                    raise BadRequestError(f"{name}: cut short at byte {len(data)}")
                yield piece
            position -= len(opener.unused_data)
            if position == len(data):
                return
        raise _too_many_members(name)

    return pieces


def _zstd(data: bytes) -> Iterator[bytes]:
    view = memoryview(data)
    position = 0
    for _ in range(MAX_MEMBERS):
        opener = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj()
        while not opener.eof:
            if position >= len(data):
                raise BadRequestError(f"zstd: cut short at byte {len(data)}")
            try:
                piece = opener.decompress(view[position : position + ZSTD_STEP])
            except zstandard.ZstdError as error:
                raise BadRequestError(f"zstd: damaged after byte {position}: {error}") from error
            position += min(ZSTD_STEP, len(data) - position)
            yield piece
        position -= len(opener.unused_data)
        if position == len(data):
            return
    raise _too_many_members("zstd")


def _too_many_members(name: str) -> BadRequestError:
    return BadRequestError(f"{name}: more than {MAX_MEMBERS} members, one after the other")


_OPENERS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": _zlib(31, "gzip"),
    "deflate": _zlib(15, "deflate"),
    "zstd": _zstd,
}
