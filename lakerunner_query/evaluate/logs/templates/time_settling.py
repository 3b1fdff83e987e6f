"""What was read of a time, made one: halves of the day, days of the year, zones.

A time without a zone is one of the zone it is asked for in; an abbreviation that zone does not know makes a
zone of which only the name is known.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakerunner_query.evaluate.logs.templates.quoted import quoted_as_time
from lakerunner_query.evaluate.logs.templates.times import (
    SECOND,
    UTC_ZONE,
    Time,
    Zone,
    days_in,
    days_of,
    moment,
)


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
    return TimeParseError(f"parsing time {quoted_as_time(value)}: {why}")


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
