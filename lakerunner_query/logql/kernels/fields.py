"""Fields that parsers find in lines: where they lie, and the numbers of their names.

A path is a key and the path it lies in. Paths are numbered as they are met; the one that followed last time
is tried before anything is hashed, because lines of one program have their keys in one order.

`python -m benchmarks.kernels.logql`, ns per value: `by_code` 1.3 against 33 of a stable `numpy.argsort`,
`gather_spans` 16 against 75 of a gather in numpy; the paths are part of `scan_rows` and `scan_pairs`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lakerunner_query.logql.kernels.strings import hash_span, same_span
from resources.arrays import Bytes, Flags, Int32s, Int64s, UInt64s
from resources.kernel import Integer, inlined, kernel, scanner

FULL = -1

TOKENS, PATHS = 0, 1


class Tokens(NamedTuple):
    """Fields in the order of lines, and of their place within each."""

    row: Int32s
    path: Int32s
    start: Int64s
    length: Int32s
    escaped: Flags


class Paths(NamedTuple):
    """Paths: p is the key at `start[p]` within `parent[p]` (-1: the line's own object)."""

    parent: Int32s
    start: Int64s
    length: Int32s
    hash: UInt64s
    follower: Int32s
    """Path that came next last time, by the path before (0: none)."""
    unwanted: Flags
    table: Int32s


@inlined
def emit(
    tokens: Tokens, counts: Int64s, row: Integer, path: Integer, start: Integer, end: Integer, escaped: bool
) -> bool:
    """Write a field down; return False when there is no room."""
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
    """Return the path that followed last time, if it is this one, or -1; inlined, since a call costs more."""
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
    """Return the number of a path, a new one if need be; `FULL` when there is no room."""
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
def gather_spans(data: Bytes, starts: Int64s, lengths: Int32s) -> tuple[Bytes, Int32s]:
    """Copy the slices one behind the other; return the bytes and their offsets."""
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
    """Group positions by code, -1 left out; return them and the begin of each group."""
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
