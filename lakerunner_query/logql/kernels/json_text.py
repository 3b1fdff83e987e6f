"""Tokens of JSON in bytes: ends of strings, blocks and literals, errors, and escapes.

The rules are as lenient as those of Loki's parser: an array or object is passed over by counting its own kind
of bracket, a number is whatever begins like one.

`python -m benchmarks.kernels.logql`: `unescaped_spans` takes 31 ns per value against 196 of msgspec's
decoder; the other functions are part of `scan_rows`.
"""

from __future__ import annotations

import numpy as np

from resources.arrays import Bytes, Flags, Int32s, Int64s
from resources.kernel import Integer, inlined, kernel, scanner

FINE = 0
OBJECT_ERROR, JSON_ERROR, STRING_ERROR, ARRAY_ERROR, UNKNOWN_ERROR, ESCAPE_ERROR, DEPTH_ERROR = range(1, 8)
START_ERROR = 8
"""Code of a line that does not begin like JSON; it gets no label of an error."""
LAST_ERROR = START_ERROR

QUOTE, BACKSLASH, COMMA, COLON = 34, 92, 44, 58
OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT = 91, 93, 123, 125
UNKNOWN, NULL, PLAIN = 0, 1, 2


@inlined
def _is_space(byte: Integer) -> bool:
    return bool(byte == 32 or byte == 10 or byte == 13 or byte == 9)


@scanner
def is_escapable(kind: Integer) -> bool:
    """Tell whether a backslash may precede it: a quote, a backslash, a slash, or one of `bfnrt`."""
    if kind == QUOTE or kind == BACKSLASH or kind == 47:
        return True
    return bool(kind == 98 or kind == 102 or kind == 110 or kind == 114 or kind == 116)


@inlined
def next_token(data: Bytes, at: Integer, end: Integer) -> Integer:
    """Return the first position without white space, or `end`."""
    while at < end:
        if not _is_space(data[np.uint64(at)]):
            return np.int64(at)
        at += 1
    return np.int64(end)


@inlined
def string_end(data: Bytes, at: Integer, end: Integer) -> tuple[Integer, bool]:
    """Return the closing quote, -1 if there is none, and whether the string has escapes."""
    escaped = False
    while at < end:
        byte = data[np.uint64(at)]
        if byte == QUOTE:
            return np.int64(at), escaped
        if byte == BACKSLASH:
            escaped = True
            at += 1
        at += 1
    return np.int64(-1), escaped


@scanner
def block_end(data: Bytes, at: Integer, end: Integer, opening: int, closing: int) -> Integer:
    """Return the place behind the bracket that closes the one at `at`; -1 if none does."""
    level = 0
    while at < end:
        byte = data[np.uint64(at)]
        if byte == QUOTE:
            at, _ = string_end(data, at + 1, end)
            if at < 0:
                return np.int64(-1)
        elif byte == opening:
            level += 1
        elif byte == closing:
            level -= 1
            if level == 0:
                return np.int64(at + 1)
        at += 1
    return np.int64(-1)


@inlined
def token_end(data: Bytes, at: Integer, end: Integer) -> Integer:
    while at < end:
        byte = data[at]
        if byte == COMMA or byte == CLOSE_OBJECT or byte == CLOSE_ARRAY or _is_space(byte):
            return np.int64(at)
        at += 1
    return np.int64(end)


@scanner
def literal_kind(data: Bytes, at: Integer, end: Integer) -> int:
    """Tell a number or boolean, null, and anything else apart."""
    if at == end:
        return UNKNOWN
    byte = data[at]
    if byte == 45 or 48 <= byte <= 57:
        return PLAIN
    if end - at == 4 and byte == 116 and data[at + 1] == 114 and data[at + 2] == 117 and data[at + 3] == 101:
        return PLAIN
    if end - at == 4 and byte == 110 and data[at + 1] == 117 and data[at + 2] == 108 and data[at + 3] == 108:
        return NULL
    if (
        end - at == 5
        and byte == 102
        and data[at + 1] == 97
        and data[at + 2] == 108
        and data[at + 3] == 115
        and data[at + 4] == 101
    ):
        return PLAIN
    return UNKNOWN


@scanner
def hex_number(data: Bytes, at: Integer, end: Integer) -> Integer:
    """Read four hexadecimal digits, or return -1."""
    if at + 4 > end:
        return np.int64(-1)
    number = np.int64(0)
    for place in range(at, at + 4):
        byte = np.int64(data[place])
        lower = byte | 32
        if 48 <= byte <= 57:
            number = number * 16 + byte - 48
        elif 97 <= lower <= 102:
            number = number * 16 + lower - 87
        else:
            return np.int64(-1)
    return number


@scanner
def is_escaped_well(data: Bytes, at: Integer, end: Integer) -> bool:
    """Tell whether every backslash begins an escape of JSON; half a surrogate pair is none."""
    while at < end:
        if data[at] != BACKSLASH:
            at += 1
            continue
        if at + 1 >= end:
            return False
        kind = data[at + 1]
        if kind == 117:
            length = unicode_length(data, at, end)
            if length < 0:
                return False
            at += length
        elif is_escapable(kind):
            at += 2
        else:
            return False
    return True


@scanner
def unicode_length(data: Bytes, at: Integer, end: Integer) -> Integer:
    """Return the length of the `\\u` escape at `at`: 6, 12 for a surrogate pair, -1 if it is broken."""
    first = hex_number(data, at + 2, end)
    if first < 0:
        return np.int64(-1)
    if first < 0xD800 or first > 0xDFFF:
        return np.int64(6)
    if at + 8 > end or data[at + 6] != BACKSLASH or data[at + 7] != 117:
        return np.int64(-1)
    second = hex_number(data, at + 8, end)
    return np.int64(-1 if second < 0xDC00 else 12)


REPLACEMENT = 0xFFFD


@kernel
def unescaped_spans(
    data: Bytes, starts: Int64s, lengths: Int32s, escaped: Flags, all_or_nothing: bool
) -> tuple[Bytes, Int32s]:
    """Copy values one behind the other, and resolve the escapes of those that are marked.

        ["a\\nb", "c"], the first marked  ->  a newline between a and b, and c

    An escape is never shorter than its character, so the room of the raw bytes is enough. With
    `all_or_nothing` a value with a broken escape is empty.
    """
    text = np.empty(lengths.sum(), np.uint8)
    offsets = np.zeros(len(starts) + 1, np.int32)
    used: Integer = np.int64(0)
    for index in range(len(starts)):
        start, end = starts[index], starts[index] + lengths[index]
        if not escaped[index]:
            for place in range(start, end):
                text[used] = data[place]
                used += 1
        elif not all_or_nothing or is_escaped_well(data, start, end):
            used = unescape(data, start, end, text, used)
        offsets[index + 1] = used
    return text[:used].copy(), offsets


@scanner
def unescape(data: Bytes, at: Integer, end: Integer, text: Bytes, used: Integer) -> Integer:
    """Write a value and return its end; half a surrogate pair becomes U+FFFD."""
    while at < end:
        if data[at] != BACKSLASH or at + 1 == end:
            text[used] = data[at]
            used += 1
            at += 1
            continue
        kind = data[at + 1]
        if kind != 117:
            text[used] = _escaped_byte(kind)
            used += 1
            at += 2
            continue
        rune: Integer = hex_number(data, at + 2, end)
        at += 6
        if 0xD800 <= rune <= 0xDFFF:
            low: Integer = np.int64(-1)
            if at + 6 <= end and data[at] == BACKSLASH and data[at + 1] == 117:
                low = hex_number(data, at + 2, end)
            if rune < 0xDC00 and 0xDC00 <= low <= 0xDFFF:
                rune = 0x10000 + ((rune - 0xD800) << 10) + (low - 0xDC00)
                at += 6
            else:
                rune = np.int64(REPLACEMENT)
        used = write_rune(text, used, rune)
    return np.int64(used)


@scanner
def _escaped_byte(kind: Integer) -> Integer:
    """Return the byte for `\\b \\f \\n \\r \\t`; every other escaped byte is itself."""
    if kind == 98:
        return np.int64(8)
    if kind == 102:
        return np.int64(12)
    if kind == 110:
        return np.int64(10)
    if kind == 114:
        return np.int64(13)
    if kind == 116:
        return np.int64(9)
    return np.int64(kind)


@scanner
def write_rune(text: Bytes, used: Integer, rune: Integer) -> Integer:
    """Write a character as UTF-8."""
    if rune < 0x80:
        text[used] = rune
        return np.int64(used + 1)
    if rune < 0x800:
        text[used] = 0xC0 | (rune >> 6)
        text[used + 1] = 0x80 | (rune & 0x3F)
        return np.int64(used + 2)
    if rune < 0x10000:
        text[used] = 0xE0 | (rune >> 12)
        text[used + 1] = 0x80 | ((rune >> 6) & 0x3F)
        text[used + 2] = 0x80 | (rune & 0x3F)
        return np.int64(used + 3)
    text[used] = 0xF0 | (rune >> 18)
    text[used + 1] = 0x80 | ((rune >> 12) & 0x3F)
    text[used + 2] = 0x80 | ((rune >> 6) & 0x3F)
    text[used + 3] = 0x80 | (rune & 0x3F)
    return np.int64(used + 4)
