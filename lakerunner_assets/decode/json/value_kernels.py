"""JSON numbers are read exactly; other values are skipped with their grammar checked.

Digits are read eight at a time. A number is read as mantissa and exponent of ten, and a double is made of
that where one multiplication is known to round right (mantissa below 2^53, exponent at most 22). Any other
double is *late*: its text is noted, `text.doubles` reads it after the scan, and `patch` writes it.
`lines_kernels.py` and `transcode_kernels.py` measure the passes that read values.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakerunner_assets.decode.eight_bytes_kernels import digit_mask, load_word
from lakerunner_assets.decode.field_kernels import Matrix
from lakerunner_assets.decode.json.token_kernels import (
    BAD_NUMBER,
    BAD_VALUE,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    DIGIT_0,
    DIGIT_9,
    EXPECTED_COLON,
    EXPECTED_COMMA,
    EXPECTED_NAME,
    FALSE,
    LETTER_F,
    LETTER_N,
    LETTER_T,
    MAX_DEPTH,
    MINUS,
    NULL,
    OPEN_LIST,
    OPEN_OBJECT,
    OUT_OF_RANGE,
    QUOTE,
    TOO_DEEP,
    TRUE,
    TRUNCATED,
    fault,
    skip_space,
    skip_text,
    word_behind,
)
from lakerunner_assets.decode.memory_kernels import trailing_zeros
from resources.arrays import Bytes
from resources.kernel import Integer, inlined, kernel, scanner

TARGET, START, LENGTH = range(3)
"""Columns of a double to be read late: where it belongs, and its text."""
WIDTH = 3
SHORTEST = 4
"""Bytes of the shortest text that is read late, `1e23`: it bounds their number."""


@kernel
def patch(out: Bytes, fixes: Matrix, bits: npt.NDArray[np.int64]) -> None:
    """Write each double as eight bytes at its target; targets below 0 are not in `out`."""
    for row in range(len(fixes)):
        at = fixes[row, 0]
        if at >= 0:
            for index in range(8):
                out[at + index] = np.uint8(np.uint64(bits[row]) >> np.uint64(8 * index) & np.uint64(255))


NEGATIVE, FRACTION, INEXACT = 1, 2, 4
"""Bits of a number's shape: has a minus; has a point or an exponent; has more digits than its mantissa."""

_TOPS = np.uint64(0x8080808080808080)
_MOST = np.uint64(0xFFFFFFFFFFFFFFFF)
_TEN = np.uint64(10)
_TENS = np.array([10**exponent for exponent in range(8)], np.uint64)
_POWERS = np.array([10.0**exponent for exponent in range(23)])
_EXACT = np.uint64(1 << 53)


@inlined
def eight_digits(word: np.uint64) -> np.uint64:
    """Return the number that eight digits stand for, the first in the lowest byte."""
    low = word & np.uint64(0x0F0F0F0F0F0F0F0F)
    pairs = (low * np.uint64(10) + (low >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    fours = (pairs * np.uint64(100) + (pairs >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    return (fours * np.uint64(10000) + (fours >> np.uint64(32))) & np.uint64(0xFFFFFFFF)


@scanner
def read_digits(
    data: Bytes, position: Integer, end: Integer, value: np.uint64, lost: Integer
) -> tuple[Integer, np.uint64, Integer]:
    """Append digits to `value`; count those that no longer fit in `lost`."""
    while position + 8 <= end and value < np.uint64(10**10) and lost == 0:
        word = load_word(data, position)
        others = ~digit_mask(word) & _TOPS
        if others == 0:
            value = value * np.uint64(100_000_000) + eight_digits(word)
            position += 8
            continue
        bits = trailing_zeros(others) & np.uint64(0x38)  # of the digits in front of the first other byte
        if bits != 0:
            count = bits >> np.uint64(3)
            value = value * _TENS[count] + eight_digits(word << (np.uint64(64) - bits))
            position += np.int64(count)
        return position, value, lost
    while position < end:
        digit = np.uint64(data[np.uint64(position)]) - np.uint64(48)
        if digit > np.uint64(9):
            break
        if lost or value > (_MOST - digit) // _TEN:
            lost += 1
        else:
            value = value * _TEN + digit
        position += 1
    return position, value, lost


@scanner
def read_number(data: Bytes, position: Integer, end: Integer) -> tuple[Integer, np.uint64, Integer, Integer]:
    """Read a number: position behind (or a fault), mantissa, exponent of ten, shape."""
    start = position
    shape = np.int64(0)
    exponent = np.int64(0)
    mantissa = np.uint64(0)
    if position < end and data[np.uint64(position)] == 45:
        shape = np.int64(NEGATIVE)
        position += 1
    first = position
    position, mantissa, lost = read_digits(data, position, end, mantissa, np.int64(0))
    if position == first or (position > first + 1 and data[np.uint64(first)] == 48):
        reason = TRUNCATED if position >= end else BAD_NUMBER
        return fault(start, reason), mantissa, exponent, shape
    exponent += lost
    if position < end and data[np.uint64(position)] == 46:
        shape |= np.int64(FRACTION)
        first = position + 1
        before = lost
        position, mantissa, lost = read_digits(data, first, end, mantissa, lost)
        if position == first:
            reason = TRUNCATED if position >= end else BAD_NUMBER
            return fault(start, reason), mantissa, exponent, shape
        exponent -= position - first - (lost - before)
    if position < end and data[np.uint64(position)] | 32 == 101:
        shape |= np.int64(FRACTION)
        first = position + 1
        minus = first < end and data[np.uint64(first)] == 45
        if minus or (first < end and data[np.uint64(first)] == 43):
            first += 1
        position, written, far = read_digits(data, first, end, np.uint64(0), np.int64(0))
        if position == first:
            reason = TRUNCATED if position >= end else BAD_NUMBER
            return fault(start, reason), mantissa, exponent, shape
        power = np.int64(100_000) if far or written > np.uint64(100_000) else np.int64(written)
        exponent += -power if minus else power
    if lost:
        shape |= np.int64(INEXACT)
    return position, mantissa, exponent, shape


@scanner
def exact_double(mantissa: np.uint64, exponent: Integer, shape: Integer) -> tuple[float, bool]:
    """Return the double nearest to the number, and whether that is known."""
    if mantissa > _EXACT or exponent < -22 or exponent > 22 or shape & INEXACT:
        return -0.0 if shape & NEGATIVE else 0.0, mantissa == 0
    value = np.float64(mantissa)
    value = value * _POWERS[exponent] if exponent >= 0 else value / _POWERS[-exponent]
    return -value if shape & NEGATIVE else value, True


@scanner
def whole(
    start: Integer, mantissa: np.uint64, exponent: Integer, shape: Integer
) -> tuple[Integer, np.uint64]:
    """Return the magnitude of an integer, however written; else a fault at `start`."""
    if shape & INEXACT:
        return fault(start, OUT_OF_RANGE), mantissa
    while exponent < 0 and mantissa != 0:
        if mantissa % _TEN != 0:
            return fault(start, OUT_OF_RANGE), mantissa
        mantissa //= _TEN
        exponent += 1
    while exponent > 0 and mantissa != 0:
        if mantissa > _MOST // _TEN:
            return fault(start, OUT_OF_RANGE), mantissa
        mantissa *= _TEN
        exponent -= 1
    return np.int64(0), mantissa


KIND = 3
"""Column of the frames that holds the byte that closes what is open."""


@scanner
def skip_scalar(data: Bytes, position: Integer, end: Integer) -> Integer:
    """Step behind a string, number or word."""
    byte = data[np.uint64(position)]
    if byte == QUOTE:
        return skip_text(data, position + 1, end)
    if byte == MINUS or DIGIT_0 <= byte <= DIGIT_9:
        behind, _, _, _ = read_number(data, position, end)
        return behind
    if byte == LETTER_N:
        return word_behind(data, position, end, NULL)
    if byte == LETTER_T:
        return word_behind(data, position, end, TRUE)
    if byte == LETTER_F:
        return word_behind(data, position, end, FALSE)
    return fault(position, BAD_VALUE)


@scanner
def read_colon(data: Bytes, position: Integer, end: Integer) -> Integer:
    """Step from behind a name to the first byte of its value, which lies before `end`."""
    if position < end and data[np.uint64(position)] != COLON:
        position = skip_space(data, position, end)
    if position >= end:
        return fault(position, TRUNCATED)
    if data[np.uint64(position)] != COLON:
        return fault(position, EXPECTED_COLON)
    position = skip_space(data, position + 1, end)
    return fault(position, TRUNCATED) if position >= end else position


@scanner
def skip_value(data: Bytes, position: Integer, end: Integer, frames: Matrix, outer: Integer) -> Integer:
    """Step behind the value at `position`, which lies `outer` levels deep."""
    depth = outer
    opened = False
    while True:
        position = skip_space(data, position, end)
        if position >= end:
            return fault(position, TRUNCATED)
        byte = data[np.uint64(position)]
        closing = np.int64(0) if depth == outer else frames[depth, KIND]
        if opened and byte == closing:
            position += 1
            depth -= 1
        else:
            if closing == CLOSE_OBJECT:
                if byte != QUOTE:
                    return fault(position, EXPECTED_NAME)
                position = skip_text(data, position + 1, end)
                if position < 0:
                    return position
                position = read_colon(data, position, end)
                if position < 0:
                    return position
                byte = data[np.uint64(position)]
            if byte in (OPEN_LIST, OPEN_OBJECT):
                depth += 1
                if depth >= MAX_DEPTH:
                    return fault(position, TOO_DEEP)
                frames[depth, KIND] = byte + 2
                position += 1
                opened = True
                continue
            position = skip_scalar(data, position, end)
            if position < 0:
                return position
        while depth > outer:  # behind a value: close what ends here
            position = skip_space(data, position, end)
            if position >= end:
                return fault(position, TRUNCATED)
            byte = data[np.uint64(position)]
            position += 1
            if byte == COMMA:
                break
            if byte != frames[depth, KIND]:
                return fault(position - 1, EXPECTED_COMMA)
            depth -= 1
        if depth == outer:
            return position
        opened = False
