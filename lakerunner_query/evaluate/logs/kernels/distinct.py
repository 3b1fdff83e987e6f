"""Gives equal slices of bytes the same number, without making Python objects of them.

    spans  "200" "500" "200"  ->  codes 0 1 0, first appearances 0 1

What followed a value last time is tried before anything is hashed: columns repeat themselves.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.evaluate.logs.kernels.text import hash_span, same_span
from resources.arrays import Bytes, Flags, Int32s, Int64s, UInt64s
from resources.kernel import Integer, kernel, scanner


@kernel
def code_spans(data: Bytes, starts: Int64s, lengths: Int32s, marks: Flags) -> tuple[Int32s, Int64s]:
    """Codes in order of first appearance, and the index of each first appearance.

    Slices with different marks are different, whatever their bytes.
    """
    count = len(starts)
    codes = np.empty(count, np.int32)
    capacity = 256
    table = np.full(capacity, -1, np.int32)
    first = np.empty(capacity, np.int64)
    follower = np.zeros(capacity, np.int32)
    hashes = np.empty(capacity, np.uint64)
    index: Integer = np.int64(0)
    known: Integer = np.int64(0)
    while True:
        index, known = _code_run(
            data, starts, lengths, marks, index, codes, table, first, follower, hashes, known
        )
        if index == count:
            return codes, first[:known].copy()
        table = _grown(hashes, known, capacity * 4)
        first = np.concatenate((first, np.empty(capacity * 3, np.int64)))
        follower = np.concatenate((follower, np.zeros(capacity * 3, np.int32)))
        hashes = np.concatenate((hashes, np.empty(capacity * 3, np.uint64)))
        capacity *= 4


@kernel
def _grown(hashes: UInt64s, count: Integer, capacity: Integer) -> Int32s:
    table = np.full(capacity, -1, np.int32)
    mask = np.uint64(capacity - 1)
    for code in range(count):
        slot = hashes[code] & mask
        while table[np.int64(slot)] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table[np.int64(slot)] = code
    return table


@scanner
def _code_run(
    data: Bytes,
    starts: Int64s,
    lengths: Int32s,
    marks: Flags,
    index: Integer,
    codes: Int32s,
    table: Int32s,
    first: Int64s,
    follower: Int32s,
    hashes: UInt64s,
    known: Integer,
) -> tuple[Integer, Integer]:
    """Code slices until the end or until the table is half full; where it stopped, how many are known."""
    mask = np.uint64(len(table) - 1)
    most = len(table) // 2
    previous: Integer = np.int64(codes[index - 1]) if index else np.int64(0)
    while index < len(starts):
        start, length = starts[index], lengths[index]
        found: Integer = np.int64(follower[previous])
        at = first[found] if known else np.int64(-1)
        if (
            at < 0
            or lengths[at] != length
            or marks[at] != marks[index]
            or not same_span(data, starts[at], start, length)
        ):
            value = hash_span(data, start, length, np.uint64(marks[index]))
            slot = value & mask
            found = np.int64(-1)
            while found < 0 and table[slot] >= 0:
                code = table[slot]
                at = first[code]
                if (
                    hashes[code] == value
                    and lengths[at] == length
                    and marks[at] == marks[index]
                    and same_span(data, starts[at], start, length)
                ):
                    found = np.int64(code)
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


@kernel
def gather_spans(data: Bytes, starts: Int64s, lengths: Int32s) -> tuple[Bytes, Int32s]:
    """The slices one behind the other, and their offsets."""
    offsets = np.zeros(len(starts) + 1, np.int32)
    for index in range(len(starts)):
        offsets[index + 1] = offsets[index] + lengths[index]
    text = np.empty(offsets[-1], np.uint8)
    for index in range(len(starts)):
        at, start = np.int64(offsets[index]), starts[index]
        for place in range(lengths[index]):
            text[at + place] = data[start + place]
    return text, offsets


@kernel
def by_code(codes: Int32s, count: Integer) -> tuple[Int64s, Int64s]:
    """Positions grouped by code, in their order within each, and where each group begins; -1 is left out."""
    begins = np.zeros(count + 1, np.int64)
    for code in codes:
        if code >= 0:
            begins[code + 1] += 1
    for code in range(count):
        begins[code + 1] += begins[code]
    order = np.empty(begins[count], np.int64)
    to = begins.copy()
    for index in range(len(codes)):
        code = codes[index]
        if code >= 0:
            order[to[code]] = index
            to[code] += 1
    return order, begins
