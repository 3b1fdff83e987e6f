"""A point in time with a zone, as Go's `time.Time`, and the calendar it is read by.

Nanoseconds since 1970 are a whole number of any size here, so that the year 1, which Go's zero time is in,
and far years need no special case. Zones come from the IANA database.
"""

from __future__ import annotations

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
"""The seconds Python's own calendar covers, years 1 to 9999; zones are looked up inside it."""


@dataclass(frozen=True, slots=True)
class Zone:
    """An IANA zone, or a fixed offset as a parsed time carries it."""

    info: ZoneInfo | None = None
    offset: int = 0
    name: str = "UTC"

    def at(self, seconds: int) -> tuple[int, str]:
        """Seconds east of UTC and the abbreviation at that moment."""
        if self.info is None:
            return self.offset, self.name
        inside = min(max(seconds, _FIRST + DAY_SECONDS), _LAST - DAY_SECONDS)
        local = (datetime.fromtimestamp(0, UTC) + timedelta(seconds=inside)).astimezone(self.info)
        return int((local.utcoffset() or timedelta()).total_seconds()), local.tzname() or ""


UTC_ZONE = Zone()


@lru_cache(maxsize=256)
def zone(name: str) -> Zone | None:
    """The zone of that name, None where the database has none; `Local` is UTC here."""
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
    """A time taken apart in its zone."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    weekday: int
    """0 is Sunday."""
    day_of_year: int
    offset: int
    abbreviation: str


@dataclass(frozen=True, slots=True)
class Time:
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
        year, month, day = civil(days)
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
    """Days since 1970-01-01 in the proleptic Gregorian calendar."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + day_of_year - 719_468


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a count of days since 1970-01-01."""
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
    """The time that a clock in that zone shows; in a gap or overlap of summer time as Go guesses."""
    local = days_of(year, month, day) * DAY_SECONDS + seconds
    offset, _ = where.at(local)
    if offset:
        offset, _ = where.at(local - offset)
    return Time((local - offset) * SECOND + nanosecond, where)
