"""What parsers find in lines, and how the names of it are numbered.

A path is a key and the path it lies in. Paths are numbered as they are met; the one that followed last time
is tried before anything is hashed, because lines of one program have their keys in one order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lakerunner_query.evaluate.logs.kernels.text import hash_span, same_span
from resources.arrays import Bytes, Flags, Int32s, Int64s, UInt64s
from resources.kernel import Integer, inlined, kernel, scanner

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
