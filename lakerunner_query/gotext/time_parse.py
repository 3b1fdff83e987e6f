"""Times read by Go's layouts.

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

# << What was read of a time, made one: halves of the day, days of the year, zones.
# <<
# << A time without a zone is one of the zone it is asked for in; an abbreviation that zone does not know
# << makes a
# << zone of which only the name is known.


class TimeParseError(ValueError):
    """Go's words for a value that does not follow its layout."""


@dataclass(slots=True)
class Read:
    """What was read so far; None is not given."""

    rest: str
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
    """The element of the layout behind the one being read."""


def refusal(value: str, why: str) -> TimeParseError:
    return TimeParseError(f"parsing time {quote_bytes(value)}: {why}")


def settled(value: str, read: Read, default: Zone) -> Time:
    if read.afternoon and read.hour < 12:
        read.hour += 12
    elif read.afternoon is False and read.hour == 12:
        read.hour = 0
    if read.day_of_year is not None:
        _settle_day_of_year(value, read)
    month, day = read.month or 1, 1 if read.day is None else read.day
    if not 1 <= day <= days_in(read.year, month):
        raise refusal(value, "day out of range")
    seconds = read.hour * 3600 + read.minute * 60 + read.second
    return _in_zone(read, moment(read.year, month, day, seconds, read.nanosecond, UTC_ZONE), default)


def _in_zone(read: Read, as_utc: Time, default: Zone) -> Time:
    if read.zone is not None:
        return as_utc
    if read.offset is not None:
        ns = as_utc.ns - read.offset * SECOND
        offset, name = default.at(ns // SECOND)
        if offset == read.offset and read.zone_name in {"", name}:
            return Time(ns, default)
        return Time(ns, Zone(None, read.offset, read.zone_name))
    if read.zone_name:
        return _named(read.zone_name, as_utc, default)
    offset, _ = default.at(as_utc.seconds)
    if offset:
        offset, _ = default.at(as_utc.seconds - offset)
    return Time(as_utc.ns - offset * SECOND, default)


def _named(name: str, as_utc: Time, default: Zone) -> Time:
    """An abbreviation: of the default zone if it has that one, else of a zone known by name alone."""
    for guess in (0, -43_200, 43_200, 15_552_000, -15_552_000):
        offset, abbreviation = default.at(as_utc.seconds + guess)
        if abbreviation == name:
            return Time(as_utc.ns - offset * SECOND, default)
    offset = int(name[3:]) * 3600 if name.startswith("GMT") and len(name) > 3 else 0
    return Time(as_utc.ns, Zone(None, offset, name))


def _settle_day_of_year(value: str, read: Read) -> None:
    number = read.day_of_year or 0
    if not 1 <= number <= days_of(read.year + 1, 1, 1) - days_of(read.year, 1, 1):
        raise refusal(value, "day-of-year out of range")
    month = 1
    while number > days_in(read.year, month):
        number -= days_in(read.year, month)
        month += 1
    if read.month not in {None, month}:
        raise refusal(value, "day-of-year does not match month")
    if read.day not in {None, number}:
        raise refusal(value, "day-of-year does not match day")
    read.month, read.day = month, number


class _BadError(Exception):
    """The value has something else at this element."""


class _RangeError(Exception):
    """A number is too large for what it stands for."""


_BLANKS = re.compile(r" *")
_DIGITS = re.compile(r"[0-9]+")
_FRACTION = re.compile(r"[.,][0-9]+")
_ZONE_NAME = re.compile(
    r"ChST|MeST|GMT(?:[+-][0-9]+)?|[+-][0-9]+"
    r"|[A-Z]{4}T(?![A-Z])|[A-Z]{3}T(?![A-Z])|WITA(?![A-Z])|[A-Z]{3}(?![A-Z])"
)
_SHORT_MONTHS, _SHORT_DAYS = tuple(name[:3] for name in MONTHS), tuple(name[:3] for name in DAYS)


def parse_time(layout: str, value: str, default: Zone) -> Time:
    """The time; without a zone in the value it is one of `default`."""
    read = Read(value)
    pairs = elements(layout)
    for at, (plain, element) in enumerate(pairs):
        read.upcoming = pairs[at + 1][1] if element and not pairs[at + 1][0] else ""
        if not _skip(read, plain):
            raise _mismatch(layout, value, read.rest, plain)
        held = read.rest
        try:
            if element:
                _take(element, read)
            elif read.rest:
                raise refusal(value, f"extra text: {quote_bytes(read.rest)}")
        except _RangeError as error:
            raise refusal(value, f"{error} out of range") from error
        except _BadError as error:
            raise _mismatch(layout, value, held, element) from error
    return settled(value, read, default)


def _mismatch(layout: str, value: str, rest: str, element: str) -> TimeParseError:
    shown = [quote_bytes(text) for text in (value, layout, rest, element)]
    return TimeParseError(f"parsing time {shown[0]} as {shown[1]}: cannot parse {shown[2]} as {shown[3]}")


def _skip(read: Read, plain: str) -> bool:
    """Skip plain text of the layout; a run of spaces stands for any number of them."""
    rest, at, place = read.rest, 0, 0
    is_same = True
    while is_same and place < len(plain):
        if plain[place] == " ":
            is_same = rest[at : at + 1] in {"", " "}
            place, at = (_BLANKS.match(*one).end() for one in ((plain, place), (rest, at)))  # type: ignore[union-attr]
        else:
            is_same = rest[at : at + 1] == plain[place]
            place, at = place + is_same, at + is_same
    read.rest = rest[at:]
    return is_same


def _take(element: str, read: Read) -> None:
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


def _take_number(element: str, read: Read) -> None:
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
            if _FRACTION.match(read.rest) and read.upcoming[:1] not in {".", ","}:
                _take_fraction(".9", read)


def _number(read: Read, most: int, *, fixed: bool, blanks: int = 0) -> int:
    for _ in range(blanks):
        read.rest = read.rest.removeprefix(" ")
    found = _DIGITS.match(read.rest)
    digits = found[0][:most] if found else ""
    if not digits or (fixed and len(digits) < most):
        raise _BadError
    read.rest = read.rest[len(digits) :]
    return int(digits)


def _within(value: int, least: int, most: int, what: str) -> int:
    if not least <= value <= most:
        raise _RangeError(what)
    return value


def _take_year(element: str, read: Read) -> None:
    digits = read.rest[: len(element)]
    if element == "06" and digits[:1] in {"+", "-"} and digits[1:].isdigit():
        read.year = int(digits) + 2000
    elif len(digits) < len(element) or not (digits.isascii() and digits.isdigit()):
        raise _BadError
    else:
        read.year = int(digits)
        if element == "06":
            read.year += 1900 if read.year >= 69 else 2000
    read.rest = read.rest[len(element) :]


def _take_name(element: str, read: Read) -> None:
    tables = {"Jan": _SHORT_MONTHS, "January": MONTHS, "Mon": _SHORT_DAYS, "Monday": DAYS}
    for at, name in enumerate(tables[element]):
        if read.rest[: len(name)].lower() == name.lower():
            read.rest = read.rest[len(name) :]
            if element[0] == "J":
                read.month = at + 1
            return
    raise _BadError


def _take_half(element: str, read: Read) -> None:
    halves = {"PM": True, "AM": False} if element == "PM" else {"pm": True, "am": False}
    if read.rest[:2] not in halves:
        raise _BadError
    read.afternoon = halves[read.rest[:2]]
    read.rest = read.rest[2:]


def _take_fraction(element: str, read: Read) -> None:
    found = _FRACTION.match(read.rest)
    text = found[0] if found else ""
    if element[1] == "0":
        text = text[: len(element)]
        if len(text) < len(element):
            raise _BadError
    if text:
        read.nanosecond = int(text[1:10].ljust(9, "0"))
        read.rest = read.rest[len(text) :]


def _take_offset(element: str, read: Read) -> None:
    if element[0] == "Z" and read.rest.startswith("Z"):
        read.zone, read.rest = UTC_ZONE, read.rest[1:]
        return
    text = read.rest[: len(element)]
    if len(text) < len(element) or any(
        (mark == ":") != (char == ":")
        for mark, char in zip(element[1:], text[1:], strict=True)
        if mark == ":"
    ):
        raise _BadError
    read.rest = read.rest[len(element) :]
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


def _take_zone_name(read: Read) -> None:
    if read.rest.startswith("UTC"):
        read.zone, read.rest = UTC_ZONE, read.rest[3:]
        return
    found = _ZONE_NAME.match(read.rest)
    if found is None:
        raise _BadError
    read.zone_name, read.rest = found[0], read.rest[found.end() :]
