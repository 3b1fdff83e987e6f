"""Log lines are masked for fingerprints and searched for level words.

What varies (numbers, ids, addresses, quoted strings) is masked into a scratch buffer; see `fingerprint.py`
before changing a rule. `benchmarks.kernels.decode`: masking 100,000 lines takes an 8th of the time of one
`pc.replace_substring_regex` of digits, level words an 8th of nine `pc.match_substring_regex`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakerunner_assets.decode.eight_bytes_kernels import (
    digit_mask,
    first_bytes,
    hex_letter_mask,
    load_padded,
    run_length,
    same_as,
    token_mask,
)
from lakerunner_assets.decode.field_kernels import Spans
from lakerunner_assets.decode.memory_kernels import copy_bytes, store_word
from resources.arrays import Bytes, Int32s, Int64s
from resources.kernel import Integer, inlined, kernel, scanner

MAX_BYTES = 4096
"""Bytes of a line that make its template: later differences are payload."""

SLACK = 8
"""Bytes behind the last mask that may be written too, since words are stored whole."""

_OTHER, _WORD, _HEX, _DIGIT = range(4)
_STAR = np.uint8(42)
CLASSES = np.zeros(256, np.uint8)
CLASSES[[*range(48, 58)]] = _DIGIT
CLASSES[[*range(65, 71), *range(97, 103)]] = _HEX
CLASSES[[*range(71, 91), *range(103, 123), 95, *range(128, 256)]] = _WORD
CLASSES.flags.writeable = False


@kernel
def mask_lines(offsets: Int32s, text: Bytes, classes: Bytes) -> tuple[Bytes, Spans]:
    """Mask all lines into one buffer and note the slice of each.

    A mask is never longer than what it replaces.
    """
    count = len(offsets) - 1
    lines = Spans(np.empty(count, np.int64), np.empty(count, np.int32))
    masked = np.empty(np.int64(offsets[count] - offsets[0]) + SLACK, np.uint8)
    used: Integer = np.int64(0)
    for row in range(count):
        start = np.int64(offsets[row])
        end = min(np.int64(offsets[row + 1]), start + MAX_BYTES)
        lines.start[row] = used
        used = mask_line(text, start, end, classes, masked, used)
        lines.length[row] = np.int32(used - lines.start[row])
    return masked, lines


@scanner
def mask_line(
    text: Bytes, position: Integer, end: Integer, classes: Bytes, masked: Bytes, used: Integer
) -> Integer:
    """Mask one line, skipping from one digit, quote or dash to the next: only these begin a mask."""
    begin = position
    kept = position  # what lies between here and `position` is copied as it is
    open_double = True  # cleared once no closing quote is left, so that a line is searched only once
    open_single = True
    while position < end:
        step = run_length(~telling_mask(load_padded(text, position)))
        position += step
        if step == 8:
            continue
        if position >= end:
            break
        byte = text[np.uint64(position)]
        if byte == 45:
            first = position - 8
            if is_letters_uuid(text, first, kept, end, classes):
                used = copy_and_mask(text, kept, first, masked, used)
                kept = first + 36
                position = kept
            else:
                position += 1
            continue
        if byte in (34, 39):
            after_word = position > begin and classes[text[np.uint64(position - 1)]] != _OTHER
            if (byte == 34 and open_double) or (byte == 39 and open_single and not after_word):
                close = closing_quote(text, position + 1, end, byte)
                if close < 0:
                    open_double = open_double and byte != 34
                    open_single = open_single and byte != 39
                elif close + 1 < end and text[close + 1] == 58 and byte == 34:
                    position = close + 1  # a JSON key tells the shape: keep it
                    continue
                elif close > position + 1:
                    used = copy_and_mask(text, kept, position + 1, masked, used)
                    masked[np.uint64(used)] = byte
                    used += 1
                    kept = close + 1
                    position = kept
                    continue
            position += 1
            continue
        first = position
        while first > kept and classes[text[np.uint64(first - 1)]] != _OTHER:
            first -= 1
        plain = first
        if first == position and first > kept and is_sign(text, first - 1, begin, classes):
            plain -= 1
        copy_bytes(masked, used, text, kept, plain - kept)
        used += plain - kept
        word = load_padded(text, first)
        length = min(run_length(token_mask(word)), end - first)
        position, used = mask_word(text, first, end, word, length, classes, masked, used)
        kept = position
    copy_bytes(masked, used, text, kept, end - kept)
    return used + end - kept


@scanner
def copy_and_mask(text: Bytes, start: Integer, end: Integer, masked: Bytes, used: Integer) -> Integer:
    """Copy `text[start:end]` and append a mask."""
    copy_bytes(masked, used, text, start, end - start)
    used += end - start
    masked[np.uint64(used)] = _STAR
    return used + 1


@inlined
def telling_mask(word: np.uint64) -> np.uint64:
    """Mask digits, both quotes and the dash: the bytes that a mask may begin at or belong to."""
    return digit_mask(word) | same_as(word, 34) | same_as(word, 39) | same_as(word, 45)


@scanner
def is_sign(text: Bytes, position: Integer, begin: Integer, classes: Bytes) -> bool:
    """Tell the sign of a number from a dash between words."""
    byte = text[np.uint64(position)]
    if byte not in (43, 45):
        return False
    return position == begin or classes[text[np.uint64(position - 1)]] == _OTHER


@scanner
def closing_quote(text: Bytes, position: Integer, end: Integer, quote: Integer) -> Integer:
    while position < end:
        if text[position] == 92:
            position += 1
        elif text[position] == quote:
            return position
        position += 1
    return -1


@scanner
def mask_word(
    text: Bytes,
    position: Integer,
    end: Integer,
    word: np.uint64,
    length: Integer,
    classes: Bytes,
    masked: Bytes,
    used: Integer,
) -> tuple[Integer, Integer]:
    """Mask one run of word characters: an id or number becomes `*`, digits inside other words too.

    `word` holds its first bytes, of which `length` belong to it.
    """
    if length == 8 and is_uuid(text, position, end, classes):
        masked[used] = _STAR
        return position + 36, used + 1
    stop = position
    copied = used
    digits = np.uint64(0)
    not_hex = np.uint64(0)
    while True:
        word_digits = first_bytes(digit_mask(word), length)
        word_not_hex = first_bytes(token_mask(word) & ~hex_letter_mask(word), length) & ~word_digits
        if stop == position and word & np.uint64(0xDFFF) == 0x5830 and position + 2 < end:  # 0x…
            word_not_hex &= ~np.uint64(0xFFFF)
        digits |= word_digits
        not_hex |= word_not_hex
        store_word(masked, copied, word)
        stop += length
        copied += length
        if length < 8 or stop >= end:
            break
        word = load_padded(text, stop)
        length = min(run_length(token_mask(word)), end - stop)
        if length == 0:
            break
    if digits == 0:
        return stop, copied
    if not_hex == 0:
        masked[used] = _STAR
        return skip_joined_numbers(text, stop, end, classes), used + 1
    in_number = False
    for index in range(position, stop):
        byte = text[np.uint64(index)]
        is_digit = classes[byte] == _DIGIT
        masked[np.uint64(used)] = _STAR if is_digit else byte
        used += not (is_digit and in_number)
        in_number = is_digit
    if in_number:  # 2026-01-02T03:04:05: the word ends in a number that goes on
        return skip_joined_numbers(text, stop, end, classes), used
    return stop, used


@scanner
def skip_joined_numbers(text: Bytes, position: Integer, end: Integer, classes: Bytes) -> Integer:
    """Step past the continuation of a number: 10.0.0.1:80, 12:30:01.5, 2026-01-02, 1,234, fe80::1."""
    while position + 1 < end:
        byte = text[np.uint64(position)]
        if byte not in (44, 45, 46, 47, 58):
            return position
        following = position + 1
        if byte == 58 and text[np.uint64(following)] == 58 and following + 1 < end:
            following += 1
        stop = following
        digits = stop
        while stop < end and classes[text[np.uint64(stop)]] >= _HEX:
            if digits == stop and classes[text[np.uint64(stop)]] == _DIGIT:
                digits += 1
            stop += 1
        whole = stop == end or classes[text[np.uint64(stop)]] == _OTHER
        if stop > following and whole and (digits > following or byte == 58):
            position = stop
        elif digits > following:
            return digits  # 1.5ms: the unit stays
        else:
            return position
    return position


@scanner
def is_letters_uuid(text: Bytes, first: Integer, kept: Integer, end: Integer, classes: Bytes) -> bool:
    """Recognise a UUID whose first eight have no digit, so that its dash is what is seen first."""
    if first < kept or (first > kept and classes[text[np.uint64(first - 1)]] != _OTHER):
        return False
    return is_uuid(text, first, end, classes)


@scanner
def is_uuid(text: Bytes, position: Integer, end: Integer, classes: Bytes) -> bool:
    if position + 36 > end or text[np.uint64(position + 8)] != 45:
        return False
    for index in range(36):
        byte = text[np.uint64(position + index)]
        if index in (8, 13, 18, 23):
            if byte != 45:
                return False
        elif classes[byte] < _HEX:
            return False
    return position + 36 == end or classes[text[np.uint64(position + 36)]] == _OTHER


_TRACE, _DEBUG, _INFO, _WARN, _ERROR, _FATAL, _CRITICAL, _UNKNOWN = range(8)


LEVEL_WORDS = ("trace", "debug", "fatal", "critical", "error", "err", "warning", "warn", "info")
"""Loki's order of precedence: of several words in a line the first of these wins."""


_LEVEL_OF_WORD = (_TRACE, _DEBUG, _FATAL, _CRITICAL, _ERROR, _ERROR, _WARN, _WARN, _INFO)


PACKED_LEVEL_WORDS = np.array([int.from_bytes(word.encode(), "big") for word in LEVEL_WORDS], np.uint64)


@kernel
def levels_of_lines(
    offsets: Int32s, text: Bytes, rows: Int64s, words: npt.NDArray[np.uint64], codes: Int32s
) -> None:
    """Find the most telling level word of each line, alone (`error`, not `errors`), in any case."""
    for row in rows:
        best = len(words)
        packed = np.uint64(0)
        size = 0
        end = offsets[row + 1]
        for position in range(offsets[row], end + 1):
            byte = np.uint8(32) if position == end else text[position]
            if (byte | 32) - 97 < 26 and byte >= 65:
                packed = (packed << np.uint64(8)) | np.uint64(byte | 32)
                size += 1
                continue
            if 48 <= byte <= 57 or byte == 95:
                size += 100  # a digit or underscore makes it another word
                continue
            if 3 <= size <= 8:
                for rank in range(best):
                    if words[rank] == packed:
                        best = rank
                        break
            packed = np.uint64(0)
            size = 0
        codes[row] = _LEVEL_OF_WORD[best] if best < len(words) else _UNKNOWN
