"""JSON lists are written in the wire form of an OTLP array.

    [1, {"a": "x"}]  →  AnyValue{int_value: 1} AnyValue{kvlist_value: {a: "x"}}

So they are rendered and compared like OTLP's. Input and output lie in the same bytes: a window and the room
behind it. Part of the scan that `lines_kernels.py` measures.
"""

from __future__ import annotations

import numpy as np

from lakerunner_assets.decode.field_kernels import (
    ARRAY_TAG,
    BOOL_TAG,
    DOUBLE_TAG,
    INT_TAG,
    KVLIST_TAG,
    STRING_TAG,
    VALUE_TAG,
    Matrix,
)
from lakerunner_assets.decode.json.scalar_kernels import LENGTH_BYTES, put_length, put_varint
from lakerunner_assets.decode.json.token_kernels import (
    BAD_VALUE,
    CLOSE_LIST,
    COMMA,
    DIGIT_0,
    DIGIT_9,
    EXPECTED_COMMA,
    EXPECTED_NAME,
    FALSE,
    FIXES,
    LETTER_F,
    LETTER_N,
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
from lakerunner_assets.decode.json.value_kernels import (
    FRACTION,
    INEXACT,
    KIND,
    NEGATIVE,
    exact_double,
    read_colon,
    read_number,
)
from lakerunner_assets.decode.memory_kernels import copy_bytes, store_word
from lakerunner_assets.decode.wire_kernels import LENGTH, tag_of
from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, scanner

WIDE = 2
"""Place in a tally, behind those of token_kernels.py: integers beyond 64 bits, which became doubles."""
CONTENT, VALUE_AT, PAIR_AT, _ = range(4)
"""Columns of the frames: positions of the list's or map's content, of its AnyValue, of its KeyValue (-1:
none).
"""
_MEMBER_TAG = tag_of(1, LENGTH)
"""Tag of an ArrayValue's values and of a KeyValueList's pairs."""
_ROOM = 64
"""Bytes for tags, lengths and a number."""


@scanner
def number_of(
    data: Bytes, position: Integer, end: Integer, tally: Int64s
) -> tuple[Integer, Integer, bool, bool]:
    """Read a number: (position behind or a fault, its 64 bits, is a double, is to be read late)."""
    behind, magnitude, exponent, shape = read_number(data, position, end)
    if behind < 0:
        return behind, np.int64(0), False, False
    most = np.uint64(1 << 63) if shape & NEGATIVE else np.uint64((1 << 63) - 1)
    if shape & (FRACTION | INEXACT) == 0 and magnitude <= most:
        return behind, np.int64(np.uint64(0) - magnitude if shape & NEGATIVE else magnitude), False, False
    if shape & FRACTION == 0:
        tally[WIDE] += 1
    value, exact = exact_double(magnitude, exponent, shape)
    return behind, np.float64(value).view(np.int64), True, not exact


@scanner
def note_fix(fixes: Matrix, tally: Int64s, target: Integer, position: Integer, behind: Integer) -> bool:
    """Note a double to be read late; return False without room."""
    row = tally[FIXES]
    if row >= len(fixes):
        return False
    fixes[row, 0], fixes[row, 1], fixes[row, 2] = target, position, behind - position
    tally[FIXES] = row + 1
    return True


@scanner
def put_list(
    data: Bytes,
    position: Integer,
    end: Integer,
    used: Integer,
    fixes: Matrix,
    frames: Matrix,
    outer: Integer,
    tally: Int64s,
) -> tuple[Integer, Integer]:
    """Write the list whose bracket is before `position` to `data[used:]`; return both positions behind."""
    depth = outer + 1
    if depth >= MAX_DEPTH:
        return fault(position, TOO_DEEP), used
    frames[depth, KIND] = CLOSE_LIST
    opened = True
    while True:
        position = skip_space(data, position, end)
        if position >= end:
            return fault(position, TRUNCATED), used
        byte = data[np.uint64(position)]
        if byte == COMMA and not opened:
            position = skip_space(data, position + 1, end)
            if position >= end:
                return fault(position, TRUNCATED), used
            byte = data[np.uint64(position)]
        elif byte == frames[depth, KIND]:
            position, opened, depth = position + 1, False, depth - 1
            if depth == outer:
                return position, used
            frame = frames[depth + 1]
            close(data, frame[CONTENT], frame[VALUE_AT], frame[PAIR_AT], used)
            continue
        elif not opened:
            return fault(position, EXPECTED_COMMA), used
        if used + _ROOM > len(data):
            return fault(position, NO_ROOM), used
        opened = False
        data[np.uint64(used)] = _MEMBER_TAG
        used += 1 + LENGTH_BYTES
        pair: Integer = -1
        if frames[depth, KIND] != CLOSE_LIST:
            pair = used
            position, used = put_name(data, position, end, used, tally)
            if position < 0:
                return position, used
            byte = data[np.uint64(position)]
        value = used
        if byte in (OPEN_LIST, OPEN_OBJECT):
            depth += 1
            if depth >= MAX_DEPTH:
                return fault(position, TOO_DEEP), used
            used = open_frame(data, frames, depth, byte, used, value, pair)
            position += 1
            opened = True
            continue
        position, used = put_scalar(data, position, end, byte, used, fixes, tally)
        if position < 0:
            return position, used
        close(data, np.int64(-1), value, pair, used)


@scanner
def put_name(
    data: Bytes, position: Integer, end: Integer, used: Integer, tally: Int64s
) -> tuple[Integer, Integer]:
    """Write the name of a map's member and the tag of its value; return the value's position."""
    if data[np.uint64(position)] != QUOTE:
        return fault(position, EXPECTED_NAME), used
    position, used = put_string(data, position + 1, end, used, tally)
    if position < 0:
        return position, used
    position = read_colon(data, position, end)
    if position < 0:
        return position, used
    if used + _ROOM > len(data):
        return fault(position, NO_ROOM), used
    data[np.uint64(used)] = VALUE_TAG
    return position, used + 1 + LENGTH_BYTES


@scanner
def open_frame(
    data: Bytes, frames: Matrix, depth: Integer, byte: np.uint8, used: Integer, value: Integer, pair: Integer
) -> Integer:
    """Write the tag of a list or map, note where its parts began, and return where it goes on."""
    data[np.uint64(used)] = ARRAY_TAG if byte == OPEN_LIST else KVLIST_TAG
    used += 1 + LENGTH_BYTES
    frames[depth, CONTENT], frames[depth, VALUE_AT], frames[depth, PAIR_AT] = used, value, pair
    frames[depth, KIND] = byte + 2
    return used


@scanner
def close(data: Bytes, content: Integer, value: Integer, pair: Integer, used: Integer) -> None:
    """Write the lengths of the messages that end here."""
    if content >= 0:
        put_length(data, content - LENGTH_BYTES, content, used)
    put_length(data, value - LENGTH_BYTES, value, used)
    if pair >= 0:
        put_length(data, pair - LENGTH_BYTES, pair, used)


@scanner
def put_string(
    data: Bytes, position: Integer, end: Integer, used: Integer, tally: Int64s
) -> tuple[Integer, Integer]:
    """Write a string as field 1, its number in KeyValue and in AnyValue."""
    stop, escaped = text_end(data, position, end)
    if stop < 0:
        return stop, used
    length = stop - position
    if used + length + _ROOM > len(data):
        return fault(position, NO_ROOM), used
    data[np.uint64(used)] = STRING_TAG
    content = put_varint(data, used + 1, np.uint64(length))
    if not escaped:
        copy_bytes(data, content, data, position, length)
        return stop + 1, content + length
    behind = unescape(data, position, stop, data, content, tally)
    if behind < 0:
        return behind, used
    put_length(data, used + 1, content, behind)
    return stop + 1, behind


@scanner
def put_scalar(
    data: Bytes, position: Integer, end: Integer, byte: np.uint8, used: Integer, fixes: Matrix, tally: Int64s
) -> tuple[Integer, Integer]:
    """Write a string, number or word as a member of AnyValue; null writes nothing."""
    if byte == QUOTE:
        return put_string(data, position + 1, end, used, tally)
    if byte == LETTER_N:
        return word_behind(data, position, end, NULL), used
    if byte in (LETTER_T, LETTER_F):
        data[np.uint64(used)] = BOOL_TAG
        data[np.uint64(used + 1)] = 1 if byte == LETTER_T else 0
        return word_behind(data, position, end, TRUE if byte == LETTER_T else FALSE), used + 2
    if byte != MINUS and not DIGIT_0 <= byte <= DIGIT_9:
        return fault(position, BAD_VALUE), used
    behind, number, is_double, late = number_of(data, position, end, tally)
    if behind < 0:
        return behind, used
    if not is_double:
        data[np.uint64(used)] = INT_TAG
        return behind, put_varint(data, used + 1, np.uint64(number))
    data[np.uint64(used)] = DOUBLE_TAG
    if late:
        if not note_fix(fixes, tally, used + 1, position, behind):
            return fault(position, NO_ROOM), used
    else:
        store_word(data, used + 1, np.uint64(number))
    return behind, used + 9
