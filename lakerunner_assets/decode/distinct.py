"""Gives equal slices of bytes the same number, without making Python objects of them.

Attribute keys, resources and masked templates repeat endlessly; coding them here means that a Python
string is built once per distinct value. Equality is of bytes, never of hashes, so a collision costs time
and not truth.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakerunner_assets.decode.kernel import Integer, kernel, scanner
from lakerunner_assets.decode.scan import Int32s, Int64s, Spans
from lakerunner_assets.decode.wire import Bytes

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@scanner
def load_word(data: Bytes, position: Integer) -> np.uint64:
    """Eight bytes, little endian (LLVM makes this one load)."""
    at = np.uint64(position)
    word = np.uint64(0)
    for index in range(8):
        word |= np.uint64(data[at + np.uint64(index)]) << np.uint64(8 * index)
    return word


@scanner
def hash_slice(data: Bytes, start: int, length: int) -> np.uint64:
    """A fast hash for in-memory tables only; nothing of it is ever stored."""
    value = np.uint64(length) * _MULTIPLIER
    position = start
    end = start + length
    while position + 8 <= end:
        value = (value ^ load_word(data, position)) * _MULTIPLIER
        value ^= value >> np.uint64(29)
        position += 8
    tail = np.uint64(0)
    shift = np.uint64(0)
    while position < end:
        tail |= np.uint64(data[np.uint64(position)]) << shift
        shift += np.uint64(8)
        position += 1
    value = (value ^ tail) * _MULTIPLIER
    return value ^ (value >> np.uint64(32))


@scanner
def same_slice(data: Bytes, left: int, right: int, length: int) -> bool:
    offset = 0
    while offset + 8 <= length:
        if load_word(data, left + offset) != load_word(data, right + offset):
            return False
        offset += 8
    while offset < length:
        if data[np.uint64(left + offset)] != data[np.uint64(right + offset)]:
            return False
        offset += 1
    return True


@kernel
def grow(table: Int32s, hashes: npt.NDArray[np.uint64], count: int) -> Int32s:
    """Twice the table, filled from the hashes of the values known so far."""
    larger = np.full(len(table) * 2, -1, np.int32)
    mask = np.uint64(len(larger) - 1)
    for code in range(count):
        slot = hashes[code] & mask
        while larger[np.int64(slot)] >= 0:
            slot = (slot + np.uint64(1)) & mask
        larger[np.int64(slot)] = code
    return larger


@kernel
def code_slices(data: Bytes, spans: Spans, limit: int) -> tuple[Int32s, Int64s]:
    """Codes in order of first appearance, and the index of each first appearance.

    Gives up with no codes at all when there are more than `limit` distinct values. What followed a value last
    time is tried before hashing: records repeat the same keys in the same order, columns the same value.
    """
    count = len(spans.start)
    codes = np.empty(count, np.int32)
    capacity = 256
    table = np.full(capacity, -1, np.int32)
    first = np.empty(capacity, np.int64)
    follower = np.zeros(capacity, np.int32)
    hashes = np.empty(capacity, np.uint64)
    known = 0
    previous = 0
    for index in range(count):
        start = spans.start[index]
        length = spans.length[index]
        if known:
            guess = follower[previous]
            at = first[guess]
            if spans.length[at] == length and same_slice(data, spans.start[at], start, length):
                codes[index] = guess
                previous = guess
                continue
        value = hash_slice(data, start, length)
        mask = np.uint64(capacity - 1)
        slot = value & mask
        found = -1
        while found < 0:
            code = table[np.int64(slot)]
            if code < 0:
                break
            at = first[code]
            if (
                hashes[code] == value
                and spans.length[at] == length
                and same_slice(data, spans.start[at], start, length)
            ):
                found = code
            slot = (slot + np.uint64(1)) & mask
        if found < 0:
            if known == limit:
                return np.empty(0, np.int32), first[:0].copy()
            found = known
            table[np.int64(slot)] = known
            first[known] = index
            hashes[known] = value
            known += 1
            if known * 2 > capacity:
                table = grow(table, hashes, known)
                spare = len(table) - capacity
                capacity = len(table)
                first = np.concatenate((first, np.empty(spare, np.int64)))
                follower = np.concatenate((follower, np.zeros(spare, np.int32)))
                hashes = np.concatenate((hashes, np.empty(spare, np.uint64)))
        follower[previous] = found
        previous = found
        codes[index] = found
    return codes, first[:known].copy()


UNLIMITED = 1 << 31


def distinct(data: Bytes, spans: Spans) -> tuple[Int32s, Spans]:
    """Code per slice, and the distinct slices in order of first appearance."""
    codes, first = code_slices(data, spans, UNLIMITED)
    return codes, take_spans(spans, first)


def take_spans(spans: Spans, rows: npt.NDArray[np.int64]) -> Spans:
    return Spans(spans.start[rows], spans.length[rows])
