"""JSON's tokens (space, strings, words) are read with every bound checked.

As in `wire_kernels.py` a reader returns the position behind what it read, or a negative fault with offset and
reason. Text that ends too early is always `TRUNCATED`, so that a window's end can be told from an error.
`lines_kernels.py` and `transcode_kernels.py` measure the passes that read tokens.
"""

from __future__ import annotations

import numpy as np

from lakerunner_assets.decode.eight_bytes_kernels import load_padded, load_word
from lakerunner_assets.decode.memory_kernels import copy_bytes, store_word, trailing_zeros
from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, inlined, scanner

TRUNCATED, EXPECTED_NAME, EXPECTED_COLON, EXPECTED_COMMA, WRONG_TYPE = range(5)
CONTROL, BAD_ESCAPE, BAD_NUMBER, OUT_OF_RANGE, BAD_HEX, BAD_BASE64 = range(5, 11)
UNKNOWN_NAME, TOO_DEEP, BAD_VALUE, OTHER_SIGNAL, EXPECTED_OBJECT, BEHIND_RECORD = range(11, 17)
TOO_LONG, TOO_LARGE = 17, 18
NO_ROOM = 19
"""Reason that is no error of the text: the output is full."""
MAX_DEPTH = 100

SURROGATES, FIXES = 0, 1
"""Places in a tally: lone surrogates that became U+FFFD, doubles that are read late."""

QUOTE, BACKSLASH, COMMA, COLON = b'"\\,:'
OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT = b"[]{}"
MINUS, DIGIT_0, DIGIT_9 = b"-09"
LETTER_N, LETTER_T, LETTER_F = b"ntf"
"""First letters of the words null, true and false."""

_ONES = np.uint64(0x0101010101010101)
_TOPS = np.uint64(0x8080808080808080)


@scanner
def fault(offset: Integer, reason: Integer) -> Integer:
    return -(offset * 32 + reason) - 1


@inlined
def is_truncated(position: Integer) -> bool:
    return bool(position < 0 and (-position - 1) % 32 == TRUNCATED)


@inlined
def ends_text(word: np.uint64) -> np.uint64:
    """Mask whose lowest bit is in the first byte that is a quote, a backslash or a control character."""
    quotes = word ^ (_ONES * np.uint64(QUOTE))
    slashes = word ^ (_ONES * np.uint64(BACKSLASH))
    found = (quotes - _ONES) & ~quotes
    found |= (slashes - _ONES) & ~slashes
    found |= (word - _ONES * np.uint64(32)) & ~word
    return found & _TOPS


@inlined
def skip_space(data: Bytes, position: Integer, end: Integer) -> Integer:
    while position < end and data[np.uint64(position)] <= 32:
        byte = data[np.uint64(position)]
        if byte not in (32, 10, 13, 9):
            break
        position += 1
    return position


@scanner
def text_end(data: Bytes, position: Integer, end: Integer) -> tuple[Integer, bool]:
    """Find the closing quote of the string that starts here, and whether it has escapes."""
    start = position
    escaped = False
    while position < end:
        if position + 8 <= end:
            mask = ends_text(load_word(data, position))
            if mask == 0:
                position += 8
                continue
            position += np.int64(trailing_zeros(mask) >> np.uint64(3))
        byte = data[np.uint64(position)]
        if byte == QUOTE:
            return position, escaped
        if byte == BACKSLASH:
            escaped = True
            position += 2
        elif byte < 32:
            return fault(position, CONTROL), escaped
        else:
            position += 1
    return fault(start, TRUNCATED), escaped


@scanner
def word_behind(data: Bytes, position: Integer, end: Integer, letters: Integer) -> Integer:
    """Return the position behind `null`, `true` or `fals(e)`, given as four letters in one number."""
    length = 5 if letters == FALSE else 4
    if position + length > end:
        return fault(position, TRUNCATED)
    word = np.int64(0)
    for index in range(4):
        word |= np.int64(data[np.uint64(position + index)]) << (8 * index)
    if word != letters or (length == 5 and data[np.uint64(position + 4)] != 101):
        return fault(position, BAD_VALUE)
    return position + length


NULL, TRUE, FALSE = (int.from_bytes(word, "little") for word in (b"null", b"true", b"fals"))


@inlined
def copy_text(out: Bytes, used: Integer, data: Bytes, start: Integer, length: Integer) -> None:
    """Copy short texts word by word, up to seven bytes too many. A call costs more."""
    if length > 32 or used + 40 > len(out):
        copy_bytes(out, used, data, start, length)
    else:
        for offset in range(0, length, 8):
            store_word(out, used + offset, load_padded(data, start + offset))


@scanner
def hex_digit(byte: np.uint8) -> Integer:
    """Return the value of a hexadecimal digit, or -1."""
    if 48 <= byte <= 57:
        return np.int64(byte) - 48
    lower = byte | 32
    return np.int64(lower) - 87 if 97 <= lower <= 102 else np.int64(-1)


@scanner
def code_unit(data: Bytes, position: Integer, end: Integer) -> Integer:
    """Read the four hexadecimal digits at `position`; -1: they are none."""
    if position + 4 > end:
        return np.int64(-1)
    unit = np.int64(0)
    for index in range(4):
        digit = hex_digit(data[np.uint64(position + index)])
        if digit < 0:
            return np.int64(-1)
        unit = unit << 4 | digit
    return unit


@scanner
def put_code_point(out: Bytes, used: Integer, point: Integer) -> Integer:
    """Write a code point as UTF-8."""
    if point < 0x80:
        out[np.uint64(used)] = point
        return used + 1
    if point < 0x800:
        out[np.uint64(used)] = 0xC0 | point >> 6
        out[np.uint64(used + 1)] = 0x80 | point & 63
        return used + 2
    if point < 0x10000:
        out[np.uint64(used)] = 0xE0 | point >> 12
        out[np.uint64(used + 1)] = 0x80 | point >> 6 & 63
        out[np.uint64(used + 2)] = 0x80 | point & 63
        return used + 3
    out[np.uint64(used)] = 0xF0 | point >> 18
    out[np.uint64(used + 1)] = 0x80 | point >> 12 & 63
    out[np.uint64(used + 2)] = 0x80 | point >> 6 & 63
    out[np.uint64(used + 3)] = 0x80 | point & 63
    return used + 4


_ESCAPES = np.zeros(128, np.uint8)
for _letter, _meaning in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    _ESCAPES[_letter] = _meaning


@scanner
def unescape(
    data: Bytes, position: Integer, stop: Integer, out: Bytes, used: Integer, tally: Int64s
) -> Integer:
    """Write the text between the quotes to `out[used:]`, never longer; return its end, or a fault.

    Half a surrogate pair is no character: it becomes U+FFFD and is counted.
    """
    if used + stop - position > len(out):
        raise IndexError("text that does not fit")
    while position < stop:
        start = position
        while position < stop and data[np.uint64(position)] != BACKSLASH:
            position += 1
        copy_bytes(out, used, data, start, position - start)
        used += position - start
        if position >= stop:
            return used
        letter = data[np.uint64(position + 1)]  # the closing quote at the latest
        if letter != 117:
            if letter >= 128 or _ESCAPES[letter] == 0:
                return fault(position, BAD_ESCAPE)
            out[np.uint64(used)] = _ESCAPES[letter]
            used += 1
            position += 2
            continue
        point: Integer = code_unit(data, position + 2, stop)
        if point < 0:
            return fault(position, BAD_ESCAPE)
        position += 6
        if 0xD800 <= point < 0xE000:
            low: Integer = -1
            if (
                point < 0xDC00
                and position + 2 <= stop
                and data[np.uint64(position)] == BACKSLASH
                and data[np.uint64(position + 1)] == 117
            ):
                low = code_unit(data, position + 2, stop)
            if 0xDC00 <= low < 0xE000:
                point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00)
                position += 6
            else:
                point = 0xFFFD
                tally[SURROGATES] += 1
        used = put_code_point(out, used, point)
    return used


@scanner
def skip_text(data: Bytes, position: Integer, end: Integer) -> Integer:
    """Step behind a string whose opening quote is before `position`, ignoring its escapes."""
    stop, _ = text_end(data, position, end)
    return stop if stop < 0 else stop + 1
