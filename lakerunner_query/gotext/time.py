"""Points in time with a zone, as Go's `time.Time`, and their form under Go's layouts.

Nanoseconds since 1970 are a whole number of any size here, so that far years, and the year 1 of Go's zero
time, need no special case. Zones come from the IANA database. A layout spells the moment
2006-01-02 15:04:05.999999999 -0700 MST.

>>> format_time(Time(1_661_518_453_000_000_000), "Mon, 02 Jan 2006 15:04:05 MST")
'Fri, 26 Aug 2022 12:54:13 UTC'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

SECOND = 1_000_000_000
DAY_SECONDS = 86_400
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""Seconds that Python's own calendar covers, years 1 to 9999; zones are looked up inside it."""


@dataclass(frozen=True, slots=True)
class Zone:
    """An IANA zone, or a fixed offset as a parsed time carries it."""

    info: ZoneInfo | None = None
    offset: int = 0
    name: str = "UTC"

    def at(self, seconds: int) -> tuple[int, str]:
        """Return seconds east of UTC and the abbreviation at that moment."""
        if self.info is None:
            return self.offset, self.name
        inside = min(max(seconds, _FIRST + DAY_SECONDS), _LAST - DAY_SECONDS)
        local = (datetime.fromtimestamp(0, UTC) + timedelta(seconds=inside)).astimezone(self.info)
        return int((local.utcoffset() or timedelta()).total_seconds()), local.tzname() or ""


UTC_ZONE = Zone()


@lru_cache(maxsize=256)
def zone(name: str) -> Zone | None:
    """Return the zone of that name, None where the database has none; `Local` is UTC here."""
    if name in {"", "UTC", "Local"}:
        return UTC_ZONE
    if ".." in name or name[0] in "/\\" or "\\" in name:
        return None
    try:
        return Zone(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


@dataclass(frozen=True, slots=True)
class Clock:
    """The parts of a time in its zone."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    weekday: int
    """Day of the week; 0 is Sunday."""
    day_of_year: int
    offset: int
    abbreviation: str


@dataclass(frozen=True, slots=True)
class Time:
    """A point in time and the zone that shows it."""

    go_name: ClassVar[str] = "time.Time"
    ns: int
    zone: Zone = UTC_ZONE

    @property
    def seconds(self) -> int:
        return self.ns // SECOND

    @property
    def nanosecond(self) -> int:
        return self.ns % SECOND

    def clock(self) -> Clock:
        offset, abbreviation = self.zone.at(self.seconds)
        days, rest = divmod(self.seconds + offset, DAY_SECONDS)
        year, month, day = civil_date(days)
        return Clock(
            *(year, month, day),
            *(rest // 3600, rest // 60 % 60, rest % 60),
            (days + 4) % 7,
            days - days_of(year, 1, 1) + 1,
            offset,
            abbreviation,
        )


ZERO_TIME = Time(_FIRST * SECOND)


def days_of(year: int, month: int, day: int) -> int:
    """Count days since 1970-01-01 in the proleptic Gregorian calendar."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + day_of_year - 719_468


def civil_date(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a count of days since 1970-01-01."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * of_era + of_era // 4 - of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def days_in(year: int, month: int) -> int:
    following = days_of(year + month // 12, month % 12 + 1, 1)
    return following - days_of(year, month, 1)


def moment(year: int, month: int, day: int, seconds: int, nanosecond: int, where: Zone) -> Time:
    """Return the time that a clock in that zone shows; gaps and overlaps are resolved as in Go."""
    local = days_of(year, month, day) * DAY_SECONDS + seconds
    offset, _ = where.at(local)
    if offset:
        offset, _ = where.at(local - offset)
    return Time((local - offset) * SECOND + nanosecond, where)


_ELEMENT = re.compile(
    r"January|Jan(?![a-z])|Monday|Mon(?![a-z])|MST|0[1-6]|002|15|1|2006|2|_2(?!006)|__2|3|4|5|PM|pm"
    r"|-070000|-07:00:00|-0700|-07:00|-07|Z070000|Z07:00:00|Z0700|Z07:00|Z07|[.,](?:0+|9+)(?![0-9])"
)
_STRING = "2006-01-02 15:04:05.999999999 -0700 MST"

_WRITERS: dict[str, Callable[[Clock], str]] = {
    "January": lambda clock: MONTHS[clock.month - 1],
    "Jan": lambda clock: MONTHS[clock.month - 1][:3],
    "1": lambda clock: str(clock.month),
    "01": lambda clock: f"{clock.month:02d}",
    "Monday": lambda clock: DAYS[clock.weekday],
    "Mon": lambda clock: DAYS[clock.weekday][:3],
    "2": lambda clock: str(clock.day),
    "02": lambda clock: f"{clock.day:02d}",
    "_2": lambda clock: f"{clock.day:2d}",
    "002": lambda clock: f"{clock.day_of_year:03d}",
    "__2": lambda clock: f"{clock.day_of_year:3d}",
    "15": lambda clock: f"{clock.hour:02d}",
    "3": lambda clock: str(clock.hour % 12 or 12),
    "03": lambda clock: f"{clock.hour % 12 or 12:02d}",
    "4": lambda clock: str(clock.minute),
    "04": lambda clock: f"{clock.minute:02d}",
    "5": lambda clock: str(clock.second),
    "05": lambda clock: f"{clock.second:02d}",
    "2006": lambda clock: f"{clock.year:0{5 if clock.year < 0 else 4}d}",
    "06": lambda clock: f"{abs(clock.year) % 100:02d}",
    "PM": lambda clock: "PM" if clock.hour >= 12 else "AM",
    "pm": lambda clock: "pm" if clock.hour >= 12 else "am",
    "MST": lambda clock: clock.abbreviation or _offset(clock.offset, "-0700"),
}


@lru_cache(maxsize=512)
def elements(layout: str) -> tuple[tuple[str, str], ...]:
    """Split a layout into plain texts, each with the element behind it; the last element is empty."""
    pairs: list[tuple[str, str]] = []
    at = 0
    for found in _ELEMENT.finditer(layout):
        pairs.append((layout[at : found.start()], found[0]))
        at = found.end()
    return (*pairs, (layout[at:], ""))


def format_time(time: Time, layout: str) -> str:
    clock = time.clock()
    return "".join(plain + _element(element, clock, time.nanosecond) for plain, element in elements(layout))


def time_text(time: Time) -> str:
    """Write a time as it prints itself."""
    return format_time(time, _STRING)


def _element(element: str, clock: Clock, nanosecond: int) -> str:
    if element in _WRITERS:
        return _WRITERS[element](clock)
    if not element:
        return ""
    return _fraction(element, nanosecond) if element[0] in ".," else _offset(clock.offset, element)


def _fraction(element: str, nanosecond: int) -> str:
    """Write a fraction of a second: `.000` keeps its digits, `.999` drops zeros and then itself."""
    digits = f"{nanosecond:09d}"[: len(element) - 1]
    if element[1] == "0":
        return element[0] + digits
    kept = digits.rstrip("0") if nanosecond else ""
    return element[0] + kept if kept else ""


def _offset(offset: int, element: str) -> str:
    if element[0] == "Z" and offset == 0:
        return "Z"
    minutes = int(offset / 60)
    sign, minutes = ("-", -minutes) if minutes < 0 else ("+", minutes)
    parts = [f"{minutes // 60:02d}", f"{minutes % 60:02d}", f"{abs(offset) % 60:02d}"]
    shape = element[1:].replace(":", "")
    return sign + (":" if ":" in element else "").join(parts[: len(shape) // 2])
