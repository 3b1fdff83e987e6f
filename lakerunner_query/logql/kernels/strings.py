"""Bytes of Arrow string arrays: slices are hashed, compared and searched, eight bytes at a time.

Hashes serve tables in memory only; equality is always of bytes, so a collision costs time and never truth.

`python -m benchmarks.kernels.logql`: `containing_rows` takes 8 to 10 ns per line against 55 to 79 of
`pyarrow.compute.match_substring`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from resources.arrays import Bytes, Flags, Int32s
from resources.kernel import Integer, inlined, kernel, scanner

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_NOTHING, _NO_OFFSETS = np.zeros(0, np.uint8), np.zeros(1, np.int32)
for _array in (_NOTHING, _NO_OFFSETS):
    _array.flags.writeable = False


class Text(NamedTuple):
    """Texts one behind the other: text i is `data[offsets[i]:offsets[i + 1]]`."""

    data: Bytes
    offsets: Int32s


def text_of(array: pa.StringArray) -> Text:
    """Return the buffers of an array without nulls, not copied; it may be a slice of a longer one.

    The results are never writeable: kernels are compiled for one kind of arrays only.
    """
    _, offsets, data = array.buffers()
    if len(array) == 0:
        return Text(_NOTHING, _NO_OFFSETS)
    starts = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    return Text(_NOTHING if data is None or not data.size else np.frombuffer(data, np.uint8), starts)


def strings(data: Bytes, offsets: Int32s) -> pa.StringArray:
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))


@scanner
def word(data: Bytes, position: Integer) -> np.uint64:
    """Read eight bytes, little endian (LLVM makes this one load)."""
    at = np.uint64(position)
    value = np.uint64(0)
    for index in range(8):
        value |= np.uint64(data[at + np.uint64(index)]) << np.uint64(8 * index)
    return value


@scanner
def _padded_word(data: Bytes, position: Integer) -> np.uint64:
    """Read eight bytes, zeros where the data is over."""
    if position + 8 <= len(data):
        return word(data, position)
    value = np.uint64(0)
    for index in range(len(data) - position):
        value |= np.uint64(data[np.uint64(position + index)]) << np.uint64(8 * index)
    return value


@inlined
def _first(word: np.uint64, count: Integer) -> np.uint64:
    """Return the low `count` bytes (1 to 8) of a word."""
    return word & (_ALL >> np.uint64(64 - 8 * count))


@scanner
def hash_span(data: Bytes, start: Integer, length: Integer, seed: np.uint64) -> np.uint64:
    value = (np.uint64(length) ^ seed) * _MULTIPLIER
    offset = 0
    while offset + 8 <= length:
        value = (value ^ word(data, start + offset)) * _MULTIPLIER
        value ^= value >> np.uint64(29)
        offset += 8
    if offset < length:
        value = (value ^ _first(_padded_word(data, start + offset), length - offset)) * _MULTIPLIER
    return value ^ (value >> np.uint64(32))


@scanner
def same_span(data: Bytes, left: Integer, right: Integer, length: Integer) -> bool:
    offset = 0
    while offset + 8 <= length:
        if word(data, left + offset) != word(data, right + offset):
            return False
        offset += 8
    if offset == length:
        return True
    differs = _padded_word(data, left + offset) ^ _padded_word(data, right + offset)
    return bool(_first(differs, length - offset) == 0)


_ONES = np.uint64(0x0101010101010101)
_LOW = np.uint64(0x7F7F7F7F7F7F7F7F)


@kernel
def containing_rows(data: Bytes, offsets: Int32s, needle: Bytes) -> Flags:
    """Flag lines that hold the text."""
    flags = np.empty(len(offsets) - 1, np.bool_)
    for row in range(len(flags)):
        begin, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        flags[row] = find(data, begin, end, needle, np.int64(0), np.int64(len(needle))) >= 0
    return flags


@scanner
def find(data: Bytes, at: Integer, end: Integer, needle: Bytes, start: Integer, length: Integer) -> Integer:
    """Return where the text `needle[start:start + length]` begins from `at` on, or -1.

    A place is worth a comparison only if the first byte of the text stands there and the last one where it
    would end; two words test this for eight neighbouring places.
    """
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
