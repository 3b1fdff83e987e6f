"""Slices of bytes are coded and gathered without making Python objects of them.

Attribute keys, resources and masked templates repeat endlessly; equal slices get the same number, so a Python
string is built once per distinct value. Equality is of bytes, never of hashes, so a collision costs time and
not truth.

`benchmarks.kernels.decode`: `distinct` is 2.5 times as fast as `dictionary_encode` for keys of records and
1.6 times for values that all differ, without the array that Arrow needs first; `gather` 20 times as fast as
`pa.array` of Python slices, `group_by_code` 3 times as fast as `numpy.argsort`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakerunner_assets.decode.eight_bytes_kernels import first_bytes, load_padded, load_word
from lakerunner_assets.decode.field_kernels import Spans
from lakerunner_assets.decode.memory_kernels import copy_bytes, fetch_ahead
from resources.arrays import Bytes, Int32s, Int64s
from resources.kernel import Integer, kernel, scanner

AHEAD = 16
"""Values between the one at hand and the one that is prefetched: enough to outrun memory."""

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@scanner
def hash_slice(data: Bytes, start: int, length: int) -> np.uint64:
    """Hash a slice for tables in memory only; the value is never stored."""
    value = np.uint64(length) * _MULTIPLIER
    offset = 0
    while offset + 8 <= length:
        value = (value ^ load_word(data, start + offset)) * _MULTIPLIER
        value ^= value >> np.uint64(29)
        offset += 8
    if offset < length:
        tail = first_bytes(load_padded(data, start + offset), length - offset)
        value = (value ^ tail) * _MULTIPLIER
    return value ^ (value >> np.uint64(32))


@scanner
def same_slice(data: Bytes, left: int, right: int, length: int) -> bool:
    offset = 0
    while offset + 8 <= length:
        if load_word(data, left + offset) != load_word(data, right + offset):
            return False
        offset += 8
    if offset == length:
        return True
    differs = load_padded(data, left + offset) ^ load_padded(data, right + offset)
    return bool(first_bytes(differs, length - offset) == 0)


@kernel
def grow(table: Int32s, hashes: npt.NDArray[np.uint64], count: Integer) -> Int32s:
    """Double the table, filling it from the hashes of the known values."""
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
    """Code slices in order of first appearance; return the index of each first appearance too.

    Gives up with no codes at all when there are more than `limit` distinct values.
    """
    count = len(spans.start)
    codes = np.empty(count, np.int32)
    capacity = 256
    table = np.full(capacity, -1, np.int32)
    first = np.empty(capacity, np.int64)
    follower = np.zeros(capacity, np.int32)
    hashes = np.empty(capacity, np.uint64)
    index: Integer = np.int64(0)
    known: Integer = np.int64(0)
    while True:
        most = min(limit, capacity // 2)
        index, known = code_run(
            data, spans.start, spans.length, index, codes, table, first, follower, hashes, known, most
        )
        if index == count:
            return codes, first[:known].copy()
        if known == limit:
            return np.empty(0, np.int32), first[:0].copy()
        table = grow(table, hashes, known)
        capacity = len(table)
        first = np.concatenate((first, np.empty(capacity - len(first), np.int64)))
        follower = np.concatenate((follower, np.zeros(capacity - len(follower), np.int32)))
        hashes = np.concatenate((hashes, np.empty(capacity - len(hashes), np.uint64)))


@scanner
def code_run(
    data: Bytes,
    starts: Int64s,
    lengths: Int32s,
    index: Integer,
    codes: Int32s,
    table: Int32s,
    first: Int64s,
    follower: Int32s,
    hashes: npt.NDArray[np.uint64],
    known: Integer,
    most: Integer,
) -> tuple[Integer, Integer]:
    """Code slices from `index` on until the end or until there are more than `most` distinct values.

    What followed a value last time is tried before hashing: records repeat the same keys in the same order,
    columns the same value. Returns where it stopped and how many values are known.
    """
    mask = np.uint64(len(table) - 1)
    previous: Integer = codes[index - 1] if index else 0
    while index < len(starts):
        start = starts[index]
        length = lengths[index]
        if index + AHEAD < len(starts):
            fetch_ahead(data, starts[index + AHEAD])
        found: Integer = follower[previous]
        at: Integer = first[found] if known else -1
        if at < 0 or lengths[at] != length or not same_slice(data, starts[at], start, length):
            value = hash_slice(data, start, length)
            slot = value & mask
            found = -1
            while found < 0 and table[slot] >= 0:
                code = table[slot]
                at = first[code]
                if (
                    hashes[code] == value
                    and lengths[at] == length
                    and same_slice(data, starts[at], start, length)
                ):
                    found = code
                slot = (slot + np.uint64(1)) & mask
            if found < 0:
                if known == most:
                    return index, known
                found = known
                table[slot] = known
                first[known] = index
                hashes[known] = value
                known += 1
            follower[previous] = found
        codes[index] = found
        previous = found
        index += 1
    return index, known


UNLIMITED = 1 << 31


def distinct(data: Bytes, spans: Spans) -> tuple[Int32s, Spans]:
    """Return a code per slice, and the distinct slices in order of first appearance."""
    codes, first = code_slices(data, spans, UNLIMITED)
    return codes, take_spans(spans, first)


def take_spans(spans: Spans, rows: npt.NDArray[np.int64]) -> Spans:
    return Spans(spans.start[rows], spans.length[rows])


@kernel
def group_by_code(codes: Int32s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Order indices by code with a stable counting sort; return where each code's run starts too."""
    bounds = np.zeros(len(counts) + 1, np.int64)
    for code in range(len(counts)):
        bounds[code + 1] = bounds[code] + counts[code]
    following = bounds[:-1].copy()
    order = np.empty(len(codes), np.int64)
    for index in range(len(codes)):
        code = codes[index]
        order[following[code]] = index
        following[code] += 1
    return order, bounds


@kernel
def gather(data: Bytes, spans: Spans, rows: Int64s, row_count: int) -> tuple[Int32s, Bytes, Bytes]:
    """Write the buffers of an Arrow array, `spans` at `rows` and null elsewhere: offsets, bytes, validity."""
    offsets = np.empty(row_count + 1, np.int32)
    text = np.empty(spans.length.sum(), np.uint8)
    valid = np.zeros((row_count + 7) // 8, np.uint8)
    gather_into(data, spans.start, spans.length, rows, offsets, text, valid)
    return offsets, text, valid


@scanner
def gather_into(
    data: Bytes, starts: Int64s, lengths: Int32s, rows: Int64s, offsets: Int32s, text: Bytes, valid: Bytes
) -> None:
    row = np.int64(0)
    used = np.int64(0)
    for index in range(len(rows)):
        target = rows[index]
        while row <= target:
            offsets[row] = used
            row += 1
        valid[target >> 3] |= np.uint8(1 << (target & 7))
        if index + AHEAD < len(rows):
            fetch_ahead(data, starts[index + AHEAD])
            fetch_ahead(data, starts[index + AHEAD] + 64)
        length = np.int64(lengths[index])
        copy_bytes(text, used, data, starts[index], length)
        used += length
    while row < len(offsets):
        offsets[row] = used
        row += 1
