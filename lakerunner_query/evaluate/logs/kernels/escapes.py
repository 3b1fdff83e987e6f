"""Resolves the escapes of values that have some; the others are copied as they stand.

    ["a\\\\nb", "c"], the first marked  ->  a newline between a and b, and c

An escape is never shorter than what it stands for, so the room of the raw bytes is enough.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.evaluate.logs.kernels.json_tokens import BACKSLASH, hex_number, is_escaped_well
from resources.arrays import Bytes, Flags, Int32s, Int64s
from resources.kernel import Integer, kernel, scanner

REPLACEMENT = 0xFFFD


@kernel
def unescaped_spans(
    data: Bytes, starts: Int64s, lengths: Int32s, escaped: Flags, all_or_nothing: bool
) -> tuple[Bytes, Int32s]:
    """The values one behind the other; with `all_or_nothing` one with a broken escape is empty."""
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
    """Write the value and say where it ends; half a surrogate pair becomes U+FFFD."""
    while at < end:
        if data[at] != BACKSLASH or at + 1 == end:
            text[used] = data[at]
            used += 1
            at += 1
            continue
        kind = data[at + 1]
        if kind != 117:
            text[used] = _meant(kind)
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
def _meant(kind: Integer) -> Integer:
    """The byte that `\\b \\f \\n \\r \\t` stand for; every other escaped byte is itself."""
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
    """UTF-8."""
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
