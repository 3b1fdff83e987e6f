"""Parses times by Go's layouts.

>>> parse_time("2006-01-02T15:04:05Z07:00", "2023-03-10T01:32:40.5+02:00", UTC_ZONE).ns
1678404760500000000
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakerunner_query.gotext.strconv import quote_bytes
from lakerunner_query.gotext.time import (
    DAYS,
    MONTHS,
    SECOND,
    UTC_ZONE,
    Time,
    Zone,
    days_in,
    days_of,
    elements,
    moment,
)


class TimeParseError(ValueError):
    """The value does not follow its layout; the message is Go's."""


@dataclass(slots=True)
class Reading:
    """The parts of a time read so far; None stands for a part that is not there."""

    text: str
    at: int = 0
    year: int = 0
    month: int | None = None
    day: int | None = None
    day_of_year: int | None = None
    hour: int = 0
    minute: int = 0
    second: int = 0
    nanosecond: int = 0
    afternoon: bool | None = None
    zone: Zone | None = None
    offset: int | None = None
    zone_name: str = ""
    upcoming: str = ""
    """Element of the layout behind the current one."""

    @property
    def rest(self) -> str:
        return self.text[self.at :]

    def ahead(self, count: int) -> str:
        return self.text[self.at : self.at + count]

    def take(self, pattern: re.Pattern[str]) -> str:
        """Take the match at the current place, empty if there is none."""
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found[0] if found else ""


def failure(value: str, why: str) -> TimeParseError:
    return TimeParseError(f"parsing time {quote_bytes(value)}: {why}")


def complete(value: str, read: Reading, default: Zone) -> Time:
    """Make one time of the parts: halves of the day, days of the year and zones are resolved.

    An abbreviation that the default zone does not know makes a zone of which only the name is known.
    """
    if read.afternoon and read.hour < 12:
        read.hour += 12
    elif read.afternoon is False and read.hour == 12:
        read.hour = 0
    if read.day_of_year is not None:
        _settle_day_of_year(value, read)
    month, day = read.month or 1, 1 if read.day is None else read.day
    if not 1 <= day <= days_in(read.year, month):
        raise failure(value, "day out of range")
    seconds = read.hour * 3600 + read.minute * 60 + read.second
    return _in_zone(read, moment(read.year, month, day, seconds, read.nanosecond, UTC_ZONE), default)


def _in_zone(read: Reading, as_utc: Time, default: Zone) -> Time:
    if read.zone is not None:
        return as_utc
    if read.offset is not None:
        ns = as_utc.ns - read.offset * SECOND
        offset, name = default.at(ns // SECOND)
        if offset == read.offset and read.zone_name in {"", name}:
            return Time(ns, default)
        return Time(ns, Zone(None, read.offset, read.zone_name))
    if read.zone_name:
        return _resolve_zone_name(read.zone_name, as_utc, default)
    offset, _ = default.at(as_utc.seconds)
    if offset:
        offset, _ = default.at(as_utc.seconds - offset)
    return Time(as_utc.ns - offset * SECOND, default)


def _resolve_zone_name(name: str, as_utc: Time, default: Zone) -> Time:
    """Resolve an abbreviation: in the default zone if it has it, else as a zone known by name alone."""
    for guess in (0, -43_200, 43_200, 15_552_000, -15_552_000):
        offset, abbreviation = default.at(as_utc.seconds + guess)
        if abbreviation == name:
            return Time(as_utc.ns - offset * SECOND, default)
    offset = int(name[3:]) * 3600 if name.startswith("GMT") and len(name) > 3 else 0
    return Time(as_utc.ns, Zone(None, offset, name))


def _settle_day_of_year(value: str, read: Reading) -> None:
    number = read.day_of_year or 0
    if not 1 <= number <= days_of(read.year + 1, 1, 1) - days_of(read.year, 1, 1):
        raise failure(value, "day-of-year out of range")
    month = 1
    while number > days_in(read.year, month):
        number -= days_in(read.year, month)
        month += 1
    if read.month not in {None, month}:
        raise failure(value, "day-of-year does not match month")
    if read.day not in {None, number}:
        raise failure(value, "day-of-year does not match day")
    read.month, read.day = month, number


class _BadError(Exception):
    """The value does not have this element."""


class _RangeError(Exception):
    """A number is too large for its element."""


_BLANKS = re.compile(r" *")
_DIGITS = re.compile(r"[0-9]+")
_FRACTION = re.compile(r"[.,][0-9]+")
_ZONE_NAME = re.compile(
    r"ChST|MeST|GMT(?:[+-][0-9]+)?|[+-][0-9]+"
    r"|[A-Z]{4}T(?![A-Z])|[A-Z]{3}T(?![A-Z])|WITA(?![A-Z])|[A-Z]{3}(?![A-Z])"
)
_SHORT_MONTHS, _SHORT_DAYS = tuple(name[:3] for name in MONTHS), tuple(name[:3] for name in DAYS)


def parse_time(layout: str, value: str, default: Zone) -> Time:
    """Parse a time; without a zone in the value it is one of `default`."""
    read = Reading(value)
    pairs = elements(layout)
    for at, (plain, element) in enumerate(pairs):
        read.upcoming = pairs[at + 1][1] if element and not pairs[at + 1][0] else ""
        if not _skip(read, plain):
            raise _mismatch(layout, value, read.rest, plain)
        before = read.at
        try:
            if element:
                _take(element, read)
            elif read.at < len(value):
                raise failure(value, f"extra text: {quote_bytes(read.rest)}")
        except _RangeError as error:
            raise failure(value, f"{error} out of range") from error
        except _BadError as error:
            raise _mismatch(layout, value, value[before:], element) from error
    return complete(value, read, default)


def _mismatch(layout: str, value: str, rest: str, element: str) -> TimeParseError:
    shown = [quote_bytes(text) for text in (value, layout, rest, element)]
    return TimeParseError(f"parsing time {shown[0]} as {shown[1]}: cannot parse {shown[2]} as {shown[3]}")


def _skip(read: Reading, plain: str) -> bool:
    """Skip plain text of the layout; a run of spaces stands for any number of them."""
    place = 0
    while place < len(plain):
        if plain[place] == " ":
            if read.ahead(1) not in {"", " "}:
                return False
            place = _end(_BLANKS, plain, place)
            read.take(_BLANKS)
        elif read.ahead(1) != plain[place]:
            return False
        else:
            place, read.at = place + 1, read.at + 1
    return True


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _take(element: str, read: Reading) -> None:
    if element[0] in "-Z":
        _take_offset(element, read)
    elif element[0] in ".,":
        _take_fraction(element, read)
    elif element in {"PM", "pm"}:
        _take_half(element, read)
    elif element == "MST":
        _take_zone_name(read)
    elif element in {"2006", "06"}:
        _take_year(element, read)
    elif element[0] in "JM":
        _take_name(element, read)
    elif element in {"002", "__2"}:
        read.day_of_year = _number(read, 3, fixed=element == "002", blanks=2 * (element == "__2"))
    else:
        _take_number(element, read)


def _take_number(element: str, read: Reading) -> None:
    value = _number(read, 2, fixed=element[0] == "0", blanks=element == "_2")
    match element.strip("0_"):
        case "1":
            read.month = _within(value, 1, 12, "month")
        case "2":
            read.day = value
        case "15":
            read.hour = _within(value, 0, 23, "hour")
        case "3":
            read.hour = _within(value, 0, 12, "hour")
        case "4":
            read.minute = _within(value, 0, 59, "minute")
        case _:
            read.second = _within(value, 0, 59, "second")
            if _FRACTION.match(read.text, read.at) and read.upcoming[:1] not in {".", ","}:
                _take_fraction(".9", read)


def _number(read: Reading, most: int, *, fixed: bool, blanks: int = 0) -> int:
    for _ in range(blanks):
        read.at += read.ahead(1) == " "
    found = _DIGITS.match(read.text, read.at, read.at + most)
    digits = found[0] if found else ""
    if not digits or (fixed and len(digits) < most):
        raise _BadError
    read.at += len(digits)
    return int(digits)


def _within(value: int, least: int, most: int, what: str) -> int:
    if not least <= value <= most:
        raise _RangeError(what)
    return value


def _take_year(element: str, read: Reading) -> None:
    digits = read.ahead(len(element))
    if element == "06" and digits[:1] in {"+", "-"} and digits[1:].isdigit():
        read.year = int(digits) + 2000
    elif len(digits) < len(element) or not (digits.isascii() and digits.isdigit()):
        raise _BadError
    else:
        read.year = int(digits)
        if element == "06":
            read.year += 1900 if read.year >= 69 else 2000
    read.at += len(element)


def _take_name(element: str, read: Reading) -> None:
    tables = {"Jan": _SHORT_MONTHS, "January": MONTHS, "Mon": _SHORT_DAYS, "Monday": DAYS}
    for at, name in enumerate(tables[element]):
        if read.ahead(len(name)).lower() == name.lower():
            read.at += len(name)
            if element[0] == "J":
                read.month = at + 1
            return
    raise _BadError


def _take_half(element: str, read: Reading) -> None:
    halves = {"PM": True, "AM": False} if element == "PM" else {"pm": True, "am": False}
    if read.ahead(2) not in halves:
        raise _BadError
    read.afternoon = halves[read.ahead(2)]
    read.at += 2


def _take_fraction(element: str, read: Reading) -> None:
    found = _FRACTION.match(read.text, read.at)
    text = found[0] if found else ""
    if element[1] == "0":
        text = text[: len(element)]
        if len(text) < len(element):
            raise _BadError
    if text:
        read.nanosecond = int(text[1:10].ljust(9, "0"))
        read.at += len(text)


def _take_offset(element: str, read: Reading) -> None:
    if element[0] == "Z" and read.ahead(1) == "Z":
        read.zone, read.at = UTC_ZONE, read.at + 1
        return
    text = read.ahead(len(element))
    if len(text) < len(element) or any(
        (mark == ":") != (char == ":")
        for mark, char in zip(element[1:], text[1:], strict=True)
        if mark == ":"
    ):
        raise _BadError
    read.at += len(element)
    digits = text[1:].replace(":", "") if ":" in element else text[1:]
    if not (digits.isascii() and digits.isdigit()):
        raise _BadError
    hours, minutes, seconds = (int(digits[at : at + 2] or 0) for at in (0, 2, 4))
    _within(hours, 0, 24, "time zone offset hour")
    _within(minutes, 0, 60, "time zone offset minute")
    _within(seconds, 0, 60, "time zone offset second")
    if text[0] not in "+-":
        raise _BadError
    read.offset = ((hours * 60 + minutes) * 60 + seconds) * (-1 if text[0] == "-" else 1)


def _take_zone_name(read: Reading) -> None:
    if read.ahead(3) == "UTC":
        read.zone, read.at = UTC_ZONE, read.at + 3
        return
    read.zone_name = read.take(_ZONE_NAME)
    if not read.zone_name:
        raise _BadError
