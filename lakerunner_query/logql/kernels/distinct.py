"""Gives equal slices of bytes the same number, without making Python objects of them.

    spans  "200" "500" "200"  ->  codes 0 1 0, first appearances 0 1

What followed a value last time is tried before anything is hashed: columns repeat themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lakerunner_query.logql.kernels.strings import hash_span, same_span
from resources.arrays import Bytes, Flags, Int32s, Int64s, UInt64s
from resources.kernel import Integer, inlined, kernel, scanner

# << Numbers the combinations of codes that occur: two columns at a time.
# <<
# << 0 0 1  with  5 5 5  ->  0 0 1;   first rows 0 and 2

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@kernel
def combine(left: Int32s, right: Int32s, left_count: Integer) -> tuple[Int32s, Int64s]:
    """Numbers of pairs in order of first appearance, and the row of each first appearance.

    `left` has values below `left_count`, `right` any from -1 on.
    """
    codes = np.empty(len(left), np.int32)
    capacity = np.int64(1024)
    while capacity < 4 * left_count:
        capacity *= 2
    table = np.full(capacity, -1, np.int32)
    first = np.empty(capacity // 2, np.int64)
    known = 0
    for row in range(len(left)):
        if row and left[row] == left[row - 1] and right[row] == right[row - 1]:
            codes[row] = codes[row - 1]
            continue
        mask = np.uint64(capacity - 1)
        slot = _hash(left[row], right[row]) & mask
        code = table[np.int64(slot)]
        while code >= 0 and (left[first[code]] != left[row] or right[first[code]] != right[row]):
            slot = (slot + np.uint64(1)) & mask
            code = table[np.int64(slot)]
        if code < 0:
            if known == len(first):
                capacity *= 4
                table = np.full(capacity, -1, np.int32)
                first = np.concatenate((first, np.empty(capacity // 2 - known, np.int64)))
                mask = np.uint64(capacity - 1)
                for other in range(known):
                    slot = _hash(left[first[other]], right[first[other]]) & mask
                    while table[np.int64(slot)] >= 0:
                        slot = (slot + np.uint64(1)) & mask
                    table[np.int64(slot)] = other
                slot = _hash(left[row], right[row]) & mask
                while table[np.int64(slot)] >= 0:
                    slot = (slot + np.uint64(1)) & mask
            code = np.int32(known)
            table[np.int64(slot)] = code
            first[known] = row
            known += 1
        codes[row] = code
    return codes, first[:known].copy()


@kernel
def _hash(left: Integer, right: Integer) -> np.uint64:
    value = (np.uint64(left) << np.uint64(32) | np.uint64(right + 1)) * _MULTIPLIER
    return value ^ (value >> np.uint64(29))


# << What parsers find in lines, and how the names of it are numbered.
# <<
# << A path is a key and the path it lies in. Paths are numbered as they are met; the one that followed
# << last time
# << is tried before anything is hashed, because lines of one program have their keys in one order.

FULL = -1

TOKENS, PATHS = 0, 1


class Tokens(NamedTuple):
    """Fields found, in the order of lines and within each."""

    row: Int32s
    path: Int32s
    start: Int64s
    length: Int32s
    escaped: Flags


class Paths(NamedTuple):
    """Path p is the key at `start[p]` within `parent[p]` (-1: the line's own object)."""

    parent: Int32s
    start: Int64s
    length: Int32s
    hash: UInt64s
    follower: Int32s
    """Of the path before (0: none), the one that came next last time."""
    unwanted: Flags
    table: Int32s


@inlined
def emit(
    tokens: Tokens, counts: Int64s, row: Integer, path: Integer, start: Integer, end: Integer, escaped: bool
) -> bool:
    """False when there is no room."""
    index = counts[TOKENS]
    if index == len(tokens.row):
        return False
    tokens.row[index] = row
    tokens.path[index] = path
    tokens.start[index] = start
    tokens.length[index] = end - start
    tokens.escaped[index] = escaped
    counts[TOKENS] = index + 1
    return True


@inlined
def next_path(
    data: Bytes, paths: Paths, previous: Integer, parent: Integer, start: Integer, length: Integer
) -> Integer:
    """The path that followed last time, if it is that one, or -1. (A call costs more than the comparison.)"""
    path = np.int64(paths.follower[previous + 1])
    if path < 0 or paths.parent[path] != parent or paths.length[path] != length:
        return np.int64(-1)
    known = paths.start[path]
    for place in range(length):
        if data[np.uint64(known + place)] != data[np.uint64(start + place)]:
            return np.int64(-1)
    return path


@scanner
def find_path(
    data: Bytes,
    paths: Paths,
    counts: Int64s,
    previous: Integer,
    parent: Integer,
    start: Integer,
    length: Integer,
) -> Integer:
    """The number of a path, a new one if need be; `FULL` when there is no room."""
    value = hash_span(data, start, length, np.uint64(parent + 1))
    mask = np.uint64(len(paths.table) - 1)
    slot = value & mask
    while paths.table[slot] >= 0:
        path = np.int64(paths.table[slot])
        if paths.hash[path] == value and _is_path(data, paths, path, parent, start, length):
            paths.follower[previous + 1] = path
            return path
        slot = (slot + np.uint64(1)) & mask
    path = np.int64(counts[PATHS])
    if path == len(paths.parent):
        return np.int64(FULL)
    paths.table[slot] = path
    paths.parent[path] = parent
    paths.start[path] = start
    paths.length[path] = length
    paths.hash[path] = value
    paths.follower[previous + 1] = path
    counts[PATHS] = path + 1
    return path


@inlined
def _is_path(
    data: Bytes, paths: Paths, path: Integer, parent: Integer, start: Integer, length: Integer
) -> bool:
    return bool(
        paths.parent[path] == parent
        and paths.length[path] == length
        and same_span(data, paths.start[path], start, length)
    )


@kernel
def place_paths(table: Int32s, hashes: UInt64s, count: Integer) -> None:
    """Fill an empty table with the first `count` paths."""
    mask = np.uint64(len(table) - 1)
    for path in range(count):
        slot = hashes[path] & mask
        while table[np.int64(slot)] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table[np.int64(slot)] = path


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
