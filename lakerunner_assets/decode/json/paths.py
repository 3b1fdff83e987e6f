"""Dotted keys of what is in nested objects, joined once and remembered.

Records repeat the same few: `http` in a record and `status` in it become `http.status`, which lies once in
the room behind the window. A nested object goes by where its own key lies first.
"""

from __future__ import annotations

import numpy as np

from lakerunner_assets.decode.distinct import hash_slice, same_slice
from lakerunner_assets.decode.fields import Matrix
from resources.arrays import Bytes
from resources.kernel import Integer, inlined, scanner

PARENT, NAME, NAME_LENGTH, JOINED = range(4)
"""Columns of the table: the path and the name that were joined, and where the result lies."""
_BITS = 9
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def no_paths() -> Matrix:
    """An empty table; a place in it holds the last key that came there."""
    return np.full((1 << _BITS, 4), -1, np.int64)


@inlined
def find_path(
    data: Bytes, path: Integer, start: Integer, length: Integer, paths: Matrix
) -> tuple[np.uint64, bool]:
    """The place of a name in the object that lies at `path` (-1: in the record), and whether it is known."""
    mixed = (hash_slice(data, int(start), int(length)) ^ np.uint64(path)) * _MULTIPLIER
    slot = mixed >> np.uint64(64 - _BITS)
    known = (
        paths[slot, NAME_LENGTH] == length
        and paths[slot, PARENT] == path
        and same_slice(data, paths[slot, NAME], int(start), int(length))
    )
    return slot, bool(known)


@scanner
def remember_path(
    paths: Matrix, slot: np.uint64, path: Integer, start: Integer, length: Integer, joined: Integer
) -> None:
    paths[slot, NAME_LENGTH], paths[slot, PARENT] = length, path
    paths[slot, NAME], paths[slot, JOINED] = start, joined


@scanner
def same_path(data: Bytes, start: Integer, length: Integer, paths: Matrix) -> Integer:
    """Where the name of an object in the record lay when it was seen first: its fields are found by that."""
    slot, known = find_path(data, np.int64(-1), start, length, paths)
    if known:
        return np.int64(paths[slot, JOINED])
    remember_path(paths, slot, np.int64(-1), start, length, start)
    return start
