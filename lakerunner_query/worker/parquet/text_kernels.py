"""Kernels search the texts of a page where they lie, each behind its length.

`python -m benchmarks.kernels.worker`: finding a text in the 11,000 lines of a page takes 0.13 ms; Arrow's
`match_substring` takes 1.0 ms once the lines are read.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.logql.kernels.strings import word
from lakerunner_query.worker.parquet.page_kernels import UNKNOWN
from resources.arrays import Bytes, Flags, Int32s, Int64s
from resources.kernel import Integer, inlined, kernel, scanner

LENGTH_BYTES = 4
"""Bytes of the length before each text."""
_ONES, _LOW = np.uint64(0x0101010101010101), np.uint64(0x7F7F7F7F7F7F7F7F)
BLOCK = 64
"""Neighbouring places that are tested at once."""
_COMMON = b' e0ta1on2i3=rsl5d46789:c/.,-"umpfghbvwkyx_'
RARITY = np.full(256, len(_COMMON), np.uint8)
"""Rank of each byte in log lines, common ones first."""
RARITY[np.frombuffer(_COMMON, np.uint8)] = np.arange(len(_COMMON), dtype=np.uint8)


@kernel
def text_places(data: Bytes, at: Integer, begin: Int64s) -> Integer:
    """Fill in where each text begins, and where another would; `UNKNOWN` where they do not fill the page."""
    size = len(data)
    for row in range(len(begin) - 1):
        if at < 0 or at + LENGTH_BYTES > size:
            return UNKNOWN
        length = (
            np.int64(data[at])
            | np.int64(data[at + 1]) << 8
            | np.int64(data[at + 2]) << 16
            | np.int64(data[at + 3]) << 24
        )
        at += LENGTH_BYTES
        if length > size - at:
            return UNKNOWN
        begin[row] = at
        at += length
    begin[len(begin) - 1] = at + LENGTH_BYTES
    return at if at == size else UNKNOWN


@kernel
def mark_texts(data: Bytes, begin: Int64s, needle: Bytes, found: Flags) -> None:
    """Flag the texts that hold the needle; flags of others stay.

    The page is searched as a whole: what is found across two texts, or in the length between them, is none.
    """
    size: Integer = len(needle)
    if size == 0 or len(found) == 0:
        found[:] = True
        return
    one, other = _rarest_two(needle)
    row: Integer = 0
    at: Integer = begin[0]
    while True:
        at = _next_place(data, at, needle, one, other)
        if at < 0:
            return
        while begin[row + 1] <= at:
            row += 1
        if at + size + LENGTH_BYTES <= begin[row + 1] and at >= begin[row]:
            found[row] = True
            row += 1
            if row == len(found):
                return
            at = begin[row]
        else:
            at += 1


@scanner
def _rarest_two(needle: Bytes) -> tuple[Integer, Integer]:
    """Return the places of two bytes that are rare in log lines, unlike each other where that is possible."""
    one: Integer = 0
    for place in range(1, len(needle)):
        if RARITY[needle[place]] > RARITY[needle[one]]:
            one = place
    other: Integer = -1
    for place in range(len(needle)):
        if needle[place] != needle[one] and (other < 0 or RARITY[needle[place]] > RARITY[needle[other]]):
            other = place
    return one, len(needle) - 1 if other < 0 else other


@scanner
def _next_place(data: Bytes, at: Integer, needle: Bytes, one: Integer, other: Integer) -> Integer:
    """Return where the needle stands next, or -1: blocks without its two rarest bytes are passed over."""
    last = len(data) - len(needle)
    byte, second_byte = needle[one], needle[other]
    bytes_, second_bytes = np.uint64(byte) * _ONES, np.uint64(second_byte) * _ONES
    while at + BLOCK <= last:
        first, second = np.uint64(at + one), np.uint64(at + other)
        least = np.uint8(255)
        for step in range(BLOCK):  # LLVM makes a few wide instructions of this
            far = np.uint64(step)
            least = min(least, (data[first + far] ^ byte) | (data[second + far] ^ second_byte))
        if least == 0:
            for step in range(0, BLOCK, 8):
                here = at + step
                differs = (word(data, here + one) ^ bytes_) | (word(data, here + other) ^ second_bytes)
                marks = ~(((differs & _LOW) + _LOW) | differs | _LOW)
                place = here
                while marks != 0:
                    if marks & np.uint64(0x80) and _stands(data, place, needle):
                        return np.int64(place)
                    marks >>= np.uint64(8)
                    place += 1
        at += BLOCK
    while at <= last:
        if data[np.uint64(at + one)] == byte and _stands(data, at, needle):
            return np.int64(at)
        at += 1
    return np.int64(-1)


@inlined
def _stands(data: Bytes, at: Integer, needle: Bytes) -> bool:
    for place in range(len(needle)):  # noqa: SIM110 - a kernel
        if data[np.uint64(at + place)] != needle[np.uint64(place)]:
            return False
    return True


@kernel
def copy_texts(data: Bytes, begin: Int64s, rows: Int64s, offsets: Int32s) -> Bytes:
    """Copy the texts of these rows one behind the other, and fill in where each begins."""
    size = np.int64(0)
    for number in range(len(rows)):
        offsets[number] = size
        size += begin[rows[number] + 1] - LENGTH_BYTES - begin[rows[number]]
    offsets[len(rows)] = size
    copied = np.empty(size, np.uint8)
    for number in range(len(rows)):
        first = begin[rows[number]]
        for place in range(offsets[number + 1] - offsets[number]):
            copied[offsets[number] + place] = data[first + place]
    return copied
