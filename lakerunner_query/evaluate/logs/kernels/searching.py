"""Looks for a text in lines, eight places at a time.

A place is worth a comparison only if the first byte of the text stands there and the last one where it would
end; both are asked of eight neighbouring places by two words. What lies behind the line is not heeded.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.evaluate.logs.kernels.text import word
from resources.arrays import Bytes, Flags, Int32s
from resources.kernel import Integer, inlined, kernel, scanner

_ONES = np.uint64(0x0101010101010101)
_LOW = np.uint64(0x7F7F7F7F7F7F7F7F)


@kernel
def containing_rows(data: Bytes, offsets: Int32s, needle: Bytes) -> Flags:
    """Which lines hold the text."""
    flags = np.empty(len(offsets) - 1, np.bool_)
    for row in range(len(flags)):
        begin, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        flags[row] = find(data, begin, end, needle, np.int64(0), np.int64(len(needle))) >= 0
    return flags


@scanner
def find(data: Bytes, at: Integer, end: Integer, needle: Bytes, start: Integer, length: Integer) -> Integer:
    """Where the text `needle[start:start + length]` begins from `at` on, or -1."""
    if length == 0:
        return np.int64(at)
    first, last = np.uint64(needle[start]) * _ONES, np.uint64(needle[start + length - 1]) * _ONES
    limit = end - length
    while at <= limit:
        if at + length + 7 > len(data):
            if _stands(data, at, needle, start, length):
                return np.int64(at)
            at += 1
            continue
        differs = (word(data, at) ^ first) | (word(data, at + length - 1) ^ last)
        found = ~(((differs & _LOW) + _LOW) | differs | _LOW)
        place = at
        while found != 0:
            if found & np.uint64(0x80) and place <= limit and _stands(data, place, needle, start, length):
                return np.int64(place)
            found >>= np.uint64(8)
            place += 1
        at += 8
    return np.int64(-1)


@inlined
def _stands(data: Bytes, at: Integer, needle: Bytes, start: Integer, length: Integer) -> bool:
    for place in range(length):
        if data[np.uint64(at + place)] != needle[np.uint64(start + place)]:
            return False
    return True
