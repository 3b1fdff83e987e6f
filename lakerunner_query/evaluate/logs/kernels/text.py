"""The bytes of an Arrow string array, and how slices of them are hashed and compared.

Eight bytes are looked at as one number wherever eight remain. Hashes serve tables in memory only; equality
is always of bytes, so a collision costs time and never truth.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from resources.arrays import Bytes, Int32s
from resources.kernel import Integer, inlined, scanner

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_NOTHING, _NO_OFFSETS = np.zeros(0, np.uint8), np.zeros(1, np.int32)
for _array in (_NOTHING, _NO_OFFSETS):
    _array.flags.writeable = False


class Text(NamedTuple):
    """Text i is `data[offsets[i]:offsets[i + 1]]`."""

    data: Bytes
    offsets: Int32s


def text_of(array: pa.StringArray) -> Text:
    """The buffers of an array without nulls, not copied; it may be a slice of a longer one.

    Arrays that may not be written to, all of them: kernels are compiled for either kind.
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
    """Eight bytes, little endian (LLVM makes this one load)."""
    at = np.uint64(position)
    value = np.uint64(0)
    for index in range(8):
        value |= np.uint64(data[at + np.uint64(index)]) << np.uint64(8 * index)
    return value


@scanner
def _padded(data: Bytes, position: Integer) -> np.uint64:
    """Eight bytes, zeros where the data is over."""
    if position + 8 <= len(data):
        return word(data, position)
    value = np.uint64(0)
    for index in range(len(data) - position):
        value |= np.uint64(data[np.uint64(position + index)]) << np.uint64(8 * index)
    return value


@inlined
def _first(word: np.uint64, count: Integer) -> np.uint64:
    """The low `count` bytes (1 to 8) of a word."""
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
        value = (value ^ _first(_padded(data, start + offset), length - offset)) * _MULTIPLIER
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
    differs = _padded(data, left + offset) ^ _padded(data, right + offset)
    return bool(_first(differs, length - offset) == 0)
