"""OTLP arrays and maps are written as JSON text straight from wire bytes.

The text is compact, keys in sent order, bytes as base64, an unset value as null. Doubles are left out while
walking and spliced in afterwards, because their shortest form comes from Python. Text is copied as it is:
UTF-8 is checked when it becomes an Arrow array.

`benchmarks.kernels.decode`: 34 times as fast as parsing with protobuf and `json.dumps`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakerunner_assets.decode.field_kernels import (
    ARRAY,
    BOOL,
    BYTES,
    DOUBLE,
    INT,
    KEY_TAG,
    KVLIST,
    STRING,
    VALUE_TAG,
    Matrix,
    Spans,
    read_any_value,
)
from lakerunner_assets.decode.wire_kernels import (
    LENGTH,
    TOO_DEEP,
    fault,
    read_length,
    read_tag,
    skip_field,
    tag_of,
)
from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, kernel, scanner

MAX_DEPTH = 100
_MEMBER_TAG = tag_of(1, LENGTH)
"""Tag of an ArrayValue's values and of a KeyValueList's pairs."""
_GROWTH = 6
"""Bytes of text per byte on the wire at most (a control character becomes \\u001f)."""

_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_SHORT_ESCAPES = np.zeros(128, np.uint8)
for _code, _letter in ((8, "b"), (9, "t"), (10, "n"), (12, "f"), (13, "r"), (34, '"'), (92, "\\")):
    _SHORT_ESCAPES[_code] = ord(_letter)


@kernel
def render(
    data: Bytes, kind: int, spans: Spans, text: Bytes, offsets: Int64s, numbers: Int64s, places: Int64s
) -> tuple[Integer, Integer]:
    """Write the texts end to end; return their length (or a fault) and the number of doubles."""
    frames = np.empty((MAX_DEPTH + 1, 4), np.int64)  # position, end, kind, members so far
    value = np.zeros((1, 3), np.int64)
    used: Integer = 0
    found: Integer = 0
    for index in range(len(spans.start)):
        start = spans.start[index]
        end = start + spans.length[index]
        if kind == BYTES:
            used = put_base64(data, start, end, text, used)
        else:
            used, found = put_container(
                data, start, end, kind, frames, value, text, used, numbers, places, found
            )
            if used < 0:
                return used, found
        offsets[index + 1] = used
    return used, found


@scanner
def put_container(
    data: Bytes,
    start: Integer,
    end: Integer,
    kind: Integer,
    frames: Matrix,
    value: Matrix,
    text: Bytes,
    used: Integer,
    numbers: Int64s,
    places: Int64s,
    found: Integer,
) -> tuple[Integer, Integer]:
    """Write one array or map, using an explicit stack for nested ones."""
    depth = 0
    used = open_container(frames, depth, start, end, kind, text, used)
    while depth >= 0:
        position, stop, inside = frames[depth, 0], frames[depth, 1], frames[depth, 2]
        if position >= stop:
            text[used] = 93 if inside == ARRAY else 125
            used, depth = used + 1, depth - 1
            continue
        tag, position = read_tag(data, position, stop)
        if position < 0:
            return position, found
        if tag != _MEMBER_TAG:
            frames[depth, 0] = skip_field(data, position, stop, tag)
            if frames[depth, 0] < 0:
                return frames[depth, 0], found
            continue
        length, position = read_length(data, position, stop)
        if position < 0:
            return position, found
        frames[depth, 0] = position + length
        if frames[depth, 3] > 0:
            text[used] = 44
            used += 1
        frames[depth, 3] += 1
        value[0, 0] = value[0, 1] = value[0, 2] = 0
        if inside == ARRAY:
            failed = read_any_value(data, position, position + length, value, 0, 0)
            if failed < 0:
                return failed, found
        else:
            used = put_key(data, position, position + length, value, text, used)
            if used < 0:
                return used, found
        member, number, size = value[0, 0], value[0, 1], value[0, 2]
        if member in (ARRAY, KVLIST):
            depth += 1
            if depth >= MAX_DEPTH:
                return fault(number, TOO_DEEP), found
            used = open_container(frames, depth, number, number + size, member, text, used)
        elif member == DOUBLE:
            numbers[found] = number
            places[found] = used
            found += 1
        else:
            used = put_scalar(data, member, number, size, text, used)
    return used, found


@scanner
def open_container(
    frames: Matrix, depth: Integer, start: Integer, end: Integer, kind: Integer, text: Bytes, used: Integer
) -> Integer:
    """Push an array or map on the stack and write its bracket."""
    frames[depth, 0], frames[depth, 1], frames[depth, 2], frames[depth, 3] = start, end, kind, 0
    text[used] = 91 if kind == ARRAY else 123
    return used + 1


@scanner
def put_key(
    data: Bytes, position: Integer, end: Integer, value: Matrix, text: Bytes, used: Integer
) -> Integer:
    """Write the key of a KeyValue and a colon; put its value into `value`."""
    key: Integer = 0
    key_length: Integer = 0
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag in (KEY_TAG, VALUE_TAG):
            length, position = read_length(data, position, end)
            if position < 0:
                return position
            if tag == KEY_TAG:
                key, key_length = position, length
            else:
                failed = read_any_value(data, position, position + length, value, 0, 0)
                if failed < 0:
                    return failed
            position += length
        else:
            position = skip_field(data, position, end, tag)
            if position < 0:
                return position
    used = put_string(data, key, key + key_length, text, used)
    text[used] = 58
    return used + 1


@scanner
def put_scalar(
    data: Bytes, kind: Integer, number: Integer, size: Integer, text: Bytes, used: Integer
) -> Integer:
    if kind == STRING:
        return put_string(data, number, number + size, text, used)
    if kind == INT:
        return put_integer(number, text, used)
    if kind == BYTES:
        text[used] = 34
        used = put_base64(data, number, number + size, text, used + 1)
        text[used] = 34
        return used + 1
    if kind == BOOL and number != 0:
        text[used], text[used + 1], text[used + 2], text[used + 3] = 116, 114, 117, 101
        return used + 4
    if kind == BOOL:
        text[used], text[used + 1], text[used + 2], text[used + 3], text[used + 4] = 102, 97, 108, 115, 101
        return used + 5
    text[used], text[used + 1], text[used + 2], text[used + 3] = 110, 117, 108, 108
    return used + 4


@scanner
def put_string(data: Bytes, start: Integer, end: Integer, text: Bytes, used: Integer) -> Integer:
    """Write a string in quotes, escaping only what JSON requires."""
    text[used] = 34
    used += 1
    for position in range(start, end):
        byte = data[position]
        if byte >= 32 and byte not in (34, 92):
            text[used] = byte
            used += 1
            continue
        text[used] = 92
        short = _SHORT_ESCAPES[byte]
        if short != 0:
            text[used + 1] = short
            used += 2
        else:
            text[used + 1], text[used + 2], text[used + 3] = 117, 48, 48
            text[used + 4], text[used + 5] = _HEX[byte >> 4], _HEX[byte & 15]
            used += 6
    text[used] = 34
    return used + 1


@scanner
def put_integer(number: Integer, text: Bytes, used: Integer) -> Integer:
    left = np.uint64(number)
    if number < 0:
        text[used] = 45
        used += 1
        left = np.uint64(0) - left
    digits = 1
    scale = np.uint64(10)
    while digits < 19 and left >= scale:
        scale *= np.uint64(10)
        digits += 1
    for index in range(digits - 1, -1, -1):
        text[used + index] = np.uint8(48) + np.uint8(left % np.uint64(10))
        left //= np.uint64(10)
    return used + digits


@scanner
def put_base64(data: Bytes, start: Integer, end: Integer, text: Bytes, used: Integer) -> Integer:
    for position in range(start, end, 3):
        left = min(end - position, 3)
        group = np.int64(data[position]) << 16
        if left > 1:
            group |= np.int64(data[position + 1]) << 8
        if left > 2:
            group |= np.int64(data[position + 2])
        text[used] = _BASE64[group >> 18]
        text[used + 1] = _BASE64[(group >> 12) & 63]
        text[used + 2] = _BASE64[(group >> 6) & 63] if left > 1 else 61
        text[used + 3] = _BASE64[group & 63] if left > 2 else 61
        used += 4
    return used


@kernel
def splice(
    text: Bytes, offsets: Int64s, places: Int64s, words: Bytes, lengths: npt.NDArray[np.int64]
) -> tuple[Bytes, Int64s]:
    """Insert word i at `places[i]` (ascending); return the text and its moved offsets."""
    result = np.empty(len(text) + len(words), np.uint8)
    moved = np.empty_like(offsets)
    used = 0
    taken = 0
    word = 0
    row = 0
    for index in range(len(places) + 1):
        border = places[index] if index < len(places) else len(text)
        # a value always closes with a bracket after its last double, so a border never is an offset too
        while (
            row < len(offsets) and offsets[row] <= border and (offsets[row] < border or index == len(places))
        ):
            moved[row] = used + (offsets[row] - taken)
            row += 1
        for position in range(taken, border):
            result[used] = text[position]
            used += 1
        taken = border
        if index < len(places):
            for position in range(word, word + lengths[index]):
                result[used] = words[position]
                used += 1
            word += lengths[index]
    return result, moved
