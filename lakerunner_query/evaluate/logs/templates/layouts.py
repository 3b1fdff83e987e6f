"""Times written by Go's layouts, which spell the moment 2006-01-02 15:04:05.999999999 -0700 MST.

>>> formatted(Time(1_661_518_453_000_000_000), "Mon, 02 Jan 2006 15:04:05 MST")
'Fri, 26 Aug 2022 12:54:13 UTC'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from lakerunner_query.evaluate.logs.templates.times import DAYS, MONTHS, Clock, Time

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
    """Plain text and the element behind it, in order; the last element is empty."""
    pairs: list[tuple[str, str]] = []
    at = 0
    for found in _ELEMENT.finditer(layout):
        pairs.append((layout[at : found.start()], found[0]))
        at = found.end()
    return (*pairs, (layout[at:], ""))


def formatted(time: Time, layout: str) -> str:
    clock = time.clock()
    return "".join(plain + _element(element, clock, time.nanosecond) for plain, element in elements(layout))


def spelled(time: Time) -> str:
    """As a time prints itself."""
    return formatted(time, _STRING)


def _element(element: str, clock: Clock, nanosecond: int) -> str:
    if element in _WRITERS:
        return _WRITERS[element](clock)
    if not element:
        return ""
    return _fraction(element, nanosecond) if element[0] in ".," else _offset(clock.offset, element)


def _fraction(element: str, nanosecond: int) -> str:
    """`.000` always has its digits, `.999` drops zeros at the end and then itself."""
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
