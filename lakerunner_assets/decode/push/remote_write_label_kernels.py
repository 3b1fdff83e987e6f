"""Plain label runs become text and hash input without Python objects.

Plain: in ascending order, with printable ASCII that needs no escapes, as senders should write them.
`benchmarks.kernels.decode`: 6 times as fast as `canonical`, `labels_to_text` and `stream_id` per series.
"""

from __future__ import annotations

import numpy as np

from lakerunner_assets.decode.field_kernels import KEY, KEY_LENGTH, OWNER, VALUE, VALUE_LENGTH, Matrix
from lakerunner_assets.decode.memory_kernels import copy_bytes
from resources.arrays import Bytes, Flags, Int64s
from resources.kernel import Integer, scanner

NAME = np.frombuffer(b"__name__", np.uint8)

_OPEN, _CLOSE, _QUOTE, _COMMA, _BACKSLASH = 91, 93, 34, 44, 92


@scanner
def is_less(data: Bytes, left: Integer, left_length: Integer, right: Integer, right_length: Integer) -> bool:
    """Compare bytes: true if those on the left come first."""
    for index in range(min(left_length, right_length)):
        one, other = data[np.uint64(left + index)], data[np.uint64(right + index)]
        if one != other:
            return bool(one < other)
    return bool(left_length < right_length)


@scanner
def is_plain(data: Bytes, start: Integer, length: Integer) -> bool:
    """Accept printable ASCII that JSON does not escape, and is not empty."""
    for index in range(length):
        byte = data[np.uint64(start + index)]
        if byte < 32 or byte > 126 or byte in (_QUOTE, _BACKSLASH):
            return False
    return bool(length > 0)


@scanner
def is_name(data: Bytes, start: Integer, length: Integer, name: Bytes) -> bool:
    if length != len(name):
        return False
    same = True
    for index in range(length):
        same &= data[np.uint64(start + index)] == name[np.uint64(index)]
    return bool(same)


@scanner
def plain_runs(
    data: Bytes, labels: Matrix, name: Bytes, names: Int64s, sizes: Matrix, is_label: Flags
) -> None:
    """Find the row of each run's `__name__`, and the sizes of text and hash input. -1: none, -2: not plain.

    Plain: names strictly ascending, no empty value, nothing to escape. `is_label`: what becomes a column.
    """
    for row in range(len(labels)):
        run = np.uint64(labels[row, OWNER])
        key, key_length = labels[row, KEY], labels[row, KEY_LENGTH]
        value, value_length = labels[row, VALUE], labels[row, VALUE_LENGTH]
        named = is_name(data, key, key_length, name)
        is_label[row] = value_length > 0 and not named
        sizes[run, 0] += key_length + value_length + 8
        sizes[run, 1] += key_length + value_length + 8
        ascending = (
            row == 0
            or labels[row - 1, OWNER] != labels[row, OWNER]
            or is_less(data, labels[row - 1, KEY], labels[row - 1, KEY_LENGTH], key, key_length)
        )
        if not ascending or not is_plain(data, key, key_length) or not is_plain(data, value, value_length):
            names[run] = -2
        elif named and names[run] == -1:
            names[run] = row


@scanner
def store_length(target: Bytes, at: Integer, length: Integer) -> None:
    """Store four bytes, little endian."""
    for index in range(4):
        target[np.uint64(at + index)] = np.uint8((length >> (8 * index)) & 255)


@scanner
def write_plain(
    data: Bytes, labels: Matrix, wanted: Flags, text_at: Int64s, text: Bytes, hash_at: Int64s, hashed: Bytes
) -> None:
    """Write `[["name","value"],…]` and `length name length value …` of each chosen run at its place."""
    run: Integer = np.int64(-1)
    used: Integer = np.int64(0)
    mixed: Integer = np.int64(0)
    for row in range(len(labels)):
        if not wanted[np.uint64(labels[row, OWNER])]:
            continue
        if labels[row, OWNER] != run:
            run = labels[row, OWNER]
            used, mixed = text_at[np.uint64(run)], hash_at[np.uint64(run)]
            text[np.uint64(used)] = _OPEN
            used += 1
        else:
            text[np.uint64(used - 1)] = _COMMA  # where the array ended until now
        text[np.uint64(used)] = _OPEN
        used += 1
        for side in range(2):
            start, length = labels[row, KEY + 3 * side], labels[row, KEY_LENGTH + 3 * side]
            text[np.uint64(used)] = _QUOTE
            copy_bytes(text, used + 1, data, start, length)
            used += length + 1
            text[np.uint64(used)] = _QUOTE
            text[np.uint64(used + 1)] = _COMMA if side == 0 else _CLOSE
            used += 2
            store_length(hashed, mixed, length)
            copy_bytes(hashed, mixed + 4, data, start, length)
            mixed += 4 + length
        text[np.uint64(used)] = _CLOSE
        used += 1


@scanner
def take_ids(
    data: Bytes, labels: Matrix, name: Bytes, width: Integer, found: Bytes, missing: Flags, rest: Flags
) -> None:
    """Take per owner the first label `name` that is lower-case hexadecimal of `width` bytes and not zero."""
    for row in range(len(labels)):
        owner, value = np.uint64(labels[row, OWNER]), labels[row, VALUE]
        if (
            not missing[owner]
            or labels[row, VALUE_LENGTH] != 2 * width
            or not is_name(data, labels[row, KEY], labels[row, KEY_LENGTH], name)
        ):
            continue
        seen: Integer = np.int64(0)
        hexadecimal = True
        for index in range(width):
            high = hex_digit(data[np.uint64(value + 2 * index)])
            low = hex_digit(data[np.uint64(value + 2 * index + 1)])
            if high < 0 or low < 0:
                hexadecimal = False
                break
            found[owner * np.uint64(width) + np.uint64(index)] = np.uint8(16 * high + low)
            seen |= high | low
        if hexadecimal and seen:
            missing[owner] = False
            rest[row] = False


@scanner
def hex_digit(byte: Integer) -> Integer:
    if 48 <= byte <= 57:
        return np.int64(byte) - 48
    return np.int64(byte) - 87 if 97 <= byte <= 102 else np.int64(-1)
