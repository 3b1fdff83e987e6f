"""Written times become nanoseconds since 1970: epoch numbers by magnitude, dates like RFC 3339.

    1767323045            seconds           2026-01-02T03:04:05.123456789Z
    1767323045123         milliseconds      2026-01-02 03:04:05,123
    1767323045.123456     seconds           2026-01-02 05:04:05 +0200

Integers throughout: a double cannot hold a nanosecond of this century. Without a zone a time is UTC.

`benchmarks.kernels.decode`: Arrow's cast takes 0.7 of the time and cannot replace this: it fails a whole
column for one text that is no time, and knows no decimal comma, no zone behind a space, no epoch number.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from resources.arrays import Bytes, Int32s, Int64s
from resources.kernel import Integer, inlined, kernel, scanner

States = npt.NDArray[np.uint8]

ABSENT, EXACT, ROUNDED, UNREADABLE = range(4)
"""States of a text: no value; read; read, but finer than nanoseconds; not a time."""

_NANOS = 1_000_000_000
_LAST = 2**63 - 1
_LAST_SECOND = 9_223_372_035


@kernel
def parse_times(offsets: Int32s, text: Bytes) -> tuple[Int64s, States]:
    """Read every string, null ones included (whose state the caller knows)."""
    count = len(offsets) - 1
    times = np.zeros(count, np.int64)
    states = np.empty(count, np.uint8)
    for row in range(count):
        times[row], states[row] = parse_time(text, np.int64(offsets[row]), np.int64(offsets[row + 1]))
    return times, states


@scanner
def parse_time(text: Bytes, position: Integer, end: Integer) -> tuple[Integer, Integer]:
    while position < end and text[np.uint64(position)] == 32:
        position += 1
    while end > position and text[np.uint64(end - 1)] == 32:
        end -= 1
    if end - position >= 10 and text[np.uint64(position + 4)] in (45, 47):
        return parse_date(text, position, end)
    return parse_number(text, position, end)


@scanner
def parse_number(text: Bytes, position: Integer, end: Integer) -> tuple[Integer, Integer]:
    """Read digits with an optional sign and fraction; the size of the whole part tells its unit."""
    negative = position < end and text[np.uint64(position)] == 45
    if position < end and text[np.uint64(position)] in (43, 45):
        position += 1
    start = position
    whole: Integer = np.int64(0)
    while position < end and is_digit(text, position):
        if position - start >= 19:
            return np.int64(0), np.int64(UNREADABLE)
        digit = np.int64(text[np.uint64(position)]) - 48
        if whole > (_LAST - digit) // 10:
            return np.int64(0), np.int64(UNREADABLE)
        whole = whole * 10 + digit
        position += 1
    if position == start:
        return np.int64(0), np.int64(UNREADABLE)
    unit = np.int64(1)
    digits = np.int64(0)
    if whole < 100_000_000_000:
        unit, digits = np.int64(_NANOS), np.int64(9)
    elif whole < 100_000_000_000_000:
        unit, digits = np.int64(1_000_000), np.int64(6)
    elif whole < 100_000_000_000_000_000:
        unit, digits = np.int64(1000), np.int64(3)
    if whole > (_LAST - unit) // unit:
        return np.int64(0), np.int64(UNREADABLE)
    state: Integer = np.int64(EXACT)
    fraction: Integer = np.int64(0)
    if position < end and text[np.uint64(position)] == 46:
        fraction, position, state = parse_fraction(text, position + 1, end, digits)
    if position != end:
        return np.int64(0), np.int64(UNREADABLE)
    time = whole * unit + fraction
    return -time if negative else time, state


@scanner
def parse_fraction(
    text: Bytes, position: Integer, end: Integer, digits: Integer
) -> tuple[Integer, Integer, Integer]:
    """Read decimals as an integer of so many digits; return the position behind and whether more were cut
    off.
    """
    fraction = np.int64(0)
    used = np.int64(0)
    state = np.int64(EXACT)
    while position < end and is_digit(text, position):
        digit = np.int64(text[np.uint64(position)]) - 48
        if used < digits:
            fraction = fraction * 10 + digit
            used += 1
        elif digit != 0:
            state = np.int64(ROUNDED)
        position += 1
    while used < digits:
        fraction *= 10
        used += 1
    return fraction, position, state


@scanner
def parse_date(text: Bytes, position: Integer, end: Integer) -> tuple[Integer, Integer]:
    """Read a date, and behind it a time of day, fraction and zone."""
    failed = (np.int64(0), np.int64(UNREADABLE))
    separator = text[np.uint64(position + 4)]
    century = two_digits(text, position, end)
    year = century * 100 + two_digits(text, position + 2, end)
    month = two_digits(text, position + 5, end)
    day = two_digits(text, position + 8, end)
    if century < 0 or year < century * 100 or text[np.uint64(position + 7)] != separator:
        return failed
    if month < 1 or month > 12 or day < 1 or day > days_in_month(year, month):
        return failed
    seconds = days_since_epoch(year, month, day) * 86_400
    position += 10
    fraction: Integer = np.int64(0)
    state: Integer = np.int64(EXACT)
    if position < end:
        if text[np.uint64(position)] not in (84, 116, 32, 95):  # T t space _
            return failed
        hour = two_digits(text, position + 1, end)
        minute = colon_and_two_digits(text, position + 3, end)
        if hour < 0 or hour > 23 or minute < 0 or minute > 59:
            return failed
        position += 6
        second = colon_and_two_digits(text, position, end)
        if second > 60:  # a leap second is the first of the next minute
            return failed
        if second >= 0:
            position += 3
            if position + 1 < end and text[np.uint64(position)] in (44, 46) and is_digit(text, position + 1):
                fraction, position, state = parse_fraction(text, position + 1, end, np.int64(9))
        else:
            second = np.int64(0)
        offset, position = parse_zone(text, position, end)
        if position < 0:
            return failed
        seconds += hour * 3600 + minute * 60 + second - offset
    if seconds > _LAST_SECOND or seconds < -_LAST_SECOND:
        return failed
    return seconds * _NANOS + fraction, state


@scanner
def parse_zone(text: Bytes, position: Integer, end: Integer) -> tuple[Integer, Integer]:
    """Read seconds east of UTC: nothing, Z, UTC, ±hh, ±hhmm, ±hh:mm; a negative position fails."""
    while position < end and text[np.uint64(position)] == 32:
        position += 1
    if position == end:
        return np.int64(0), position
    sign = text[np.uint64(position)]
    if sign not in (43, 45):
        return np.int64(0), zone_name(text, position, end)
    hours = two_digits(text, position + 1, end)
    position += 3
    minutes: Integer = np.int64(0)
    colon = position < end and text[np.uint64(position)] == 58
    if colon:
        position += 1
    if colon or (position < end and is_digit(text, position)):
        minutes = two_digits(text, position, end)
        position += 2
    if hours < 0 or hours > 23 or minutes < 0 or minutes > 59 or position > end:
        return np.int64(0), np.int64(-1)
    if position < end:  # Go writes `+0200 CEST`
        if text[np.uint64(position)] != 32:
            return np.int64(0), np.int64(-1)
        for index in range(position + 1, end):
            if (text[np.uint64(index)] | 32) < 97 or (text[np.uint64(index)] | 32) > 122:
                return np.int64(0), np.int64(-1)
        position = end
    offset = hours * 3600 + minutes * 60
    return -offset if sign == 45 else offset, position


@scanner
def zone_name(text: Bytes, position: Integer, end: Integer) -> Integer:
    """Return the end if Z, UTC or GMT is left, else -1."""
    first = text[np.uint64(position)] | 32
    if end - position == 1 and first == 122:
        return end
    if end - position == 3:
        second, third = text[np.uint64(position + 1)] | 32, text[np.uint64(position + 2)] | 32
        if (first == 117 and second == 116 and third == 99) or (
            first == 103 and second == 109 and third == 116
        ):
            return end
    return np.int64(-1)


@inlined
def is_digit(text: Bytes, position: Integer) -> bool:
    return bool(48 <= text[np.uint64(position)] <= 57)


@scanner
def two_digits(text: Bytes, position: Integer, end: Integer) -> Integer:
    """Return the value of two digits, or a number far below zero."""
    if position + 2 > end or not is_digit(text, position) or not is_digit(text, position + 1):
        return np.int64(-1000)
    return np.int64(text[np.uint64(position)]) * 10 + np.int64(text[np.uint64(position + 1)]) - 528


@scanner
def colon_and_two_digits(text: Bytes, position: Integer, end: Integer) -> Integer:
    if position >= end or text[np.uint64(position)] != 58:
        return np.int64(-1000)
    return two_digits(text, position + 1, end)


@scanner
def days_in_month(year: Integer, month: Integer) -> Integer:
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return np.int64(29) if leap else np.int64(28)
    return np.int64(30) if month in (4, 6, 9, 11) else np.int64(31)


@scanner
def days_since_epoch(year: Integer, month: Integer, day: Integer) -> Integer:
    """Count Gregorian days, with years that begin in March so that leap days come last."""
    if month <= 2:
        year -= 1
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
