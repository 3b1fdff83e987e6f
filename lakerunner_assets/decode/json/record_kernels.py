"""A JSON object becomes a row of positions and numbers per leaf.

The window lies at the front of `data`; behind it is room for bytes that it does not hold as they are: dotted
keys, opened escapes, lists on the wire. Dotted keys are joined once and remembered: `http` in a record and
`status` in it become `http.status`. Part of the scan that `lines_kernels.py` measures.
"""

from __future__ import annotations

import numpy as np

from lakerunner_assets.decode.field_kernels import (
    ARRAY,
    BOOL,
    DOUBLE,
    EMPTY,
    INT,
    KEY,
    KEY_LENGTH,
    KIND,
    OWNER,
    STRING,
    VALUE,
    VALUE_LENGTH,
    Matrix,
)
from lakerunner_assets.decode.json.list_kernels import note_fix, number_of, put_list
from lakerunner_assets.decode.json.token_kernels import (
    BEHIND_RECORD,
    CLOSE_OBJECT,
    COMMA,
    DIGIT_0,
    DIGIT_9,
    EXPECTED_COMMA,
    EXPECTED_NAME,
    EXPECTED_OBJECT,
    FALSE,
    LETTER_F,
    LETTER_T,
    MAX_DEPTH,
    MINUS,
    NO_ROOM,
    NULL,
    OPEN_LIST,
    OPEN_OBJECT,
    QUOTE,
    TOO_DEEP,
    TRUE,
    TRUNCATED,
    fault,
    skip_space,
    text_end,
    unescape,
    word_behind,
)
from lakerunner_assets.decode.json.value_kernels import read_colon
from lakerunner_assets.decode.memory_kernels import copy_bytes
from lakerunner_assets.decode.slice_kernels import hash_slice, same_slice
from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, inlined, scanner

ROOM_USED, LEAVES, ROWS = range(3, 6)
"""Places in the tally, behind those of list_kernels.py: what was written so far."""
PATH, PATH_LENGTH = 0, 1
"""Columns of the frames: the dotted key of an open object (length -1: the record itself)."""
FRAME_WIDTH = 4


@scanner
def read_record(
    data: Bytes,
    position: Integer,
    end: Integer,
    leaves: Matrix,
    fixes: Matrix,
    frames: Matrix,
    paths: Matrix,
    tally: Int64s,
) -> Integer:
    """Write a row per leaf of the object at `position`, which must end the record at `end`."""
    if data[np.uint64(position)] != OPEN_OBJECT:
        return fault(position, EXPECTED_OBJECT)
    position += 1
    depth = 0
    frames[0, PATH_LENGTH] = -1
    opened = True
    while True:
        position = skip_space(data, position, end)
        if position >= end:
            return fault(position, TRUNCATED)
        byte = data[np.uint64(position)]
        if byte == COMMA and not opened:
            position = skip_space(data, position + 1, end)
            if position >= end:
                return fault(position, TRUNCATED)
            byte = data[np.uint64(position)]
        elif byte == CLOSE_OBJECT:
            position, opened, depth = position + 1, False, depth - 1
            if depth < 0:
                position = skip_space(data, position, end)
                return position if position >= end else fault(position, BEHIND_RECORD)
            continue
        elif not opened:
            return fault(position, EXPECTED_COMMA)
        opened = False
        if byte != QUOTE:
            return fault(position, EXPECTED_NAME)
        position, key, length = read_key(
            data, position + 1, end, frames[depth, PATH], frames[depth, PATH_LENGTH], paths, tally
        )
        if position < 0:
            return position
        position = read_colon(data, position, end)
        if position < 0:
            return position
        byte = data[np.uint64(position)]
        if byte == OPEN_OBJECT:
            depth += 1
            if depth >= MAX_DEPTH:
                return fault(position, TOO_DEEP)
            frames[depth, PATH] = same_path(data, key, length, paths) if depth == 1 else key
            frames[depth, PATH_LENGTH] = length
            position += 1
            opened = True
            continue
        position = add_leaf(data, position, end, key, length, leaves, fixes, frames, depth, tally)
        if position < 0:
            return position


@inlined
def add_leaf(
    data: Bytes,
    position: Integer,
    end: Integer,
    key: Integer,
    length: Integer,
    leaves: Matrix,
    fixes: Matrix,
    frames: Matrix,
    depth: Integer,
    tally: Int64s,
) -> Integer:
    """Add a row for the value at `position`; return the position behind it, or a fault."""
    leaf = tally[LEAVES]
    if leaf >= len(leaves):
        return fault(position, NO_ROOM)
    leaves[leaf, OWNER] = tally[ROWS]
    leaves[leaf, KEY], leaves[leaf, KEY_LENGTH] = key, length
    byte = data[np.uint64(position)]
    position = read_leaf(data, position, end, byte, leaves, leaf, fixes, frames, depth, tally)
    if position >= 0:
        tally[LEAVES] = leaf + 1
    return position


@inlined
def read_key(
    data: Bytes,
    position: Integer,
    end: Integer,
    path: Integer,
    path_length: Integer,
    paths: Matrix,
    tally: Int64s,
) -> tuple[Integer, Integer, Integer]:
    """Return the position behind a name (or a fault), and the slice of its dotted key."""
    stop, escaped = text_end(data, position, end)
    if stop < 0:
        return stop, np.int64(0), np.int64(0)
    start, length = position, stop - position
    if escaped:
        start, length = open_text(data, position, stop, tally)
        if start < 0:
            return start, start, length
    if path_length < 0:
        return stop + 1, start, length
    slot, known = find_path(data, path, start, length, paths)
    total = path_length + 1 + length
    if known:
        return stop + 1, paths[slot, JOINED], total
    at = tally[ROOM_USED]
    if at + total > len(data):
        return fault(position, NO_ROOM), start, length
    copy_bytes(data, at, data, path, path_length)
    data[np.uint64(at + path_length)] = 46
    copy_bytes(data, at + path_length + 1, data, start, length)
    tally[ROOM_USED] = at + total
    remember_path(paths, slot, path, start, length, at)
    return stop + 1, at, total


@scanner
def open_text(data: Bytes, position: Integer, stop: Integer, tally: Int64s) -> tuple[Integer, Integer]:
    """Return the slice of a text without its escapes, or a fault."""
    used = tally[ROOM_USED]
    if used + stop - position > len(data):
        return fault(position, NO_ROOM), np.int64(0)
    behind = unescape(data, position, stop, data, used, tally)
    if behind < 0:
        return behind, np.int64(0)
    tally[ROOM_USED] = behind
    return used, behind - used


@inlined
def read_leaf(
    data: Bytes,
    position: Integer,
    end: Integer,
    byte: np.uint8,
    leaves: Matrix,
    leaf: Integer,
    fixes: Matrix,
    frames: Matrix,
    depth: Integer,
    tally: Int64s,
) -> Integer:
    """Write kind and value of a value that is no object; return the position behind, or a fault."""
    if byte == QUOTE:
        stop, escaped = text_end(data, position + 1, end)
        if stop < 0:
            return stop
        start, length = position + 1, stop - position - 1
        if escaped:
            start, length = open_text(data, position + 1, stop, tally)
            if start < 0:
                return start
        leaves[leaf, KIND], leaves[leaf, VALUE], leaves[leaf, VALUE_LENGTH] = STRING, start, length
        return stop + 1
    leaves[leaf, VALUE_LENGTH] = 0
    if byte == MINUS or DIGIT_0 <= byte <= DIGIT_9:
        behind, number, is_double, late = number_of(data, position, end, tally)
        leaves[leaf, KIND], leaves[leaf, VALUE] = DOUBLE if is_double else INT, number
        if late and behind >= 0 and not note_fix(fixes, tally, -1 - leaf, position, behind):
            return fault(position, NO_ROOM)
        return behind
    if byte in (LETTER_T, LETTER_F):
        leaves[leaf, KIND], leaves[leaf, VALUE] = BOOL, 1 if byte == LETTER_T else 0
        return word_behind(data, position, end, TRUE if byte == LETTER_T else FALSE)
    if byte == OPEN_LIST:
        start = tally[ROOM_USED]
        behind, used = put_list(data, position + 1, end, start, fixes, frames, depth, tally)
        if behind >= 0:
            tally[ROOM_USED] = used
        leaves[leaf, KIND], leaves[leaf, VALUE], leaves[leaf, VALUE_LENGTH] = ARRAY, start, used - start
        return behind
    leaves[leaf, KIND], leaves[leaf, VALUE] = EMPTY, 0
    return word_behind(data, position, end, NULL)


PARENT, NAME, NAME_LENGTH, JOINED = range(4)
"""Columns of the table: path and name that were joined, and the position of the result."""


_BITS = 9


_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def no_paths() -> Matrix:
    """Return an empty table, whose places hold the last key that came there."""
    return np.full((1 << _BITS, 4), -1, np.int64)


@inlined
def find_path(
    data: Bytes, path: Integer, start: Integer, length: Integer, paths: Matrix
) -> tuple[np.uint64, bool]:
    """Return the place of a name in the object at `path`, and whether it is known.

    In the record the path is -1.
    """
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
    """Return the first position of a nested object's name, by which its fields are found."""
    slot, known = find_path(data, np.int64(-1), start, length, paths)
    if known:
        return np.int64(paths[slot, JOINED])
    remember_path(paths, slot, np.int64(-1), start, length, start)
    return start
