"""Loki's functions on times and durations, and the methods of Go's times."""

from __future__ import annotations

import re
from typing import Any

from lakerunner_query.gotext.durations import GO, Duration, duration_text
from lakerunner_query.gotext.fmt import Flags, Month, Weekday, format_value
from lakerunner_query.gotext.numbers import INT_MAX, INT_MIN, ConversionError
from lakerunner_query.gotext.strconv import quote
from lakerunner_query.gotext.time import (
    SECOND,
    UTC_ZONE,
    ZERO_TIME,
    Time,
    format_time,
    moment,
    time_text,
    zone,
)
from lakerunner_query.gotext.time_parse import TimeParseError, parse_time
from lakerunner_query.gotext.values import (
    ANY,
    DURATION,
    INT,
    STRING,
    Function,
    Int64,
    Row,
    TemplateError,
    function,
    wrap_int64,
)
from lakerunner_query.gotext.values import TIME as A_TIME

_LONGEST = 40
_EPOCH = re.compile(r"[+-]?[0-9]+")


def date(row: Row, layout: str, value: Any) -> str:
    """Format a time or seconds; anything else is the present."""
    if isinstance(value, Time):
        time = Time(value.ns)
    elif isinstance(value, int) and not isinstance(value, bool | Duration | Month | Weekday):
        time = Time(int(value) * SECOND)
    else:
        time = Time(row.now_ns)
    return format_time(time, layout)


def to_date(layout: str, text: str) -> Time:
    """Parse a time; the zero time where the text does not follow the layout."""
    return to_date_in_zone(layout, "UTC", text)


def to_date_in_zone(layout: str, where: str, text: str) -> Time:
    try:
        return parse_time(layout, text, zone(where) or UTC_ZONE)
    except TimeParseError:
        return ZERO_TIME


def seconds(text: str) -> float:
    try:
        ns = GO.parse(text)
    except ConversionError as error:
        raise TemplateError(str(error)) from error
    return _in_units(ns, SECOND)


def _in_units(ns: int, unit: int) -> float:
    """Divide whole units and the rest of one apart, which keeps more digits."""
    whole, rest = divmod(abs(ns), unit)
    return (whole + rest / unit) * (-1.0 if ns < 0 else 1.0)


_UNITS = {5: 86_400 * SECOND, 10: SECOND, 13: 10**6, 16: 10**3, 19: 1}
"""Units by digits of a count since 1970: days, seconds, milli-, micro- and nanoseconds."""


def unix_to_time(text: str) -> Time:
    return Time(_epoch(text) * _UNITS[len(text)])


def _epoch(text: str) -> int:
    why = ""
    if not _EPOCH.fullmatch(text):
        why = f"strconv.ParseInt: parsing {quote(text)}: invalid syntax"
    elif len(text) > _LONGEST or not INT_MIN <= int(text) <= INT_MAX:
        why = f"strconv.ParseInt: parsing {quote(text)}: value out of range"
    elif len(text) not in _UNITS:
        why = "%!w(<nil>)"
    if why:
        raise TemplateError(f"unable to parse time '{text}': {why}")
    return int(text)


TIME: tuple[Function, ...] = (
    Function("now", lambda row: Time(row.now_ns), takes_row=True),
    Function("__timestamp__", lambda row: Time(row.ns), takes_row=True),
    Function("date", date, (STRING, ANY), takes_row=True),
    function("toDate", to_date, STRING, STRING),
    function("toDateInZone", to_date_in_zone, STRING, STRING, STRING),
    function("duration", seconds, STRING),
    function("duration_seconds", seconds, STRING),
    function("unixEpoch", lambda time: str(time.seconds), A_TIME),
    function("unixEpochMillis", lambda time: str(time.ns // 10**6), A_TIME),
    function("unixEpochNanos", lambda time: str(wrap_int64(time.ns)), A_TIME),
    function("unixToTime", unix_to_time, STRING),
)


def _add_date(time: Time, years: int, months: int, days: int) -> Time:
    clock = time.clock()
    more, month = divmod(clock.month - 1 + months, 12)
    since_midnight = clock.hour * 3600 + clock.minute * 60 + clock.second
    start = moment(clock.year + years + more, month + 1, 1, 0, 0, UTC_ZONE).seconds
    at = start + (clock.day - 1 + days) * 86_400 + since_midnight
    return Time((at - clock.offset) * SECOND + time.nanosecond, time.zone)


def _multiple(time: Time, step: int, up: int) -> Time:
    """Round down (`up` of 0) or to the nearest multiple since Go's zero time."""
    if step <= 0:
        return time
    since = time.ns - ZERO_TIME.ns
    return Time(ZERO_TIME.ns + (since + up) // step * step, time.zone)


def _never(*_: Any) -> None:
    raise AssertionError("a method that templates cannot call")


_SECOND_RESULT = "invalid function signature for {name}: second return value should be error; is {kind}"
_SEVERAL_RESULTS = {
    "Zone": _SECOND_RESULT.format(name="Zone", kind="int"),
    "ISOWeek": _SECOND_RESULT.format(name="ISOWeek", kind="int"),
    "Date": "function Date has 3 return values; should be 1 or 2",
    "Clock": "function Clock has 3 return values; should be 1 or 2",
}
_TIME_METHODS = (
    function("Year", lambda t: t.clock().year),
    function("Month", lambda t: Month(t.clock().month)),
    function("Day", lambda t: t.clock().day),
    function("Hour", lambda t: t.clock().hour),
    function("Minute", lambda t: t.clock().minute),
    function("Second", lambda t: t.clock().second),
    function("Nanosecond", lambda t: t.nanosecond),
    function("Weekday", lambda t: Weekday(t.clock().weekday)),
    function("YearDay", lambda t: t.clock().day_of_year),
    function("Unix", lambda t: Int64(t.seconds)),
    function("UnixMilli", lambda t: Int64(t.ns // 10**6)),
    function("UnixMicro", lambda t: Int64(t.ns // 10**3)),
    function("UnixNano", lambda t: Int64(wrap_int64(t.ns))),
    function("UTC", lambda t: Time(t.ns)),
    function("Local", lambda t: Time(t.ns)),
    function("IsZero", lambda t: t.ns == ZERO_TIME.ns),
    function("String", time_text),
    function("Format", format_time, STRING),
    function("Add", lambda t, d: Time(t.ns + d, t.zone), DURATION),
    function("AddDate", _add_date, INT, INT, INT),
    function("Sub", lambda t, other: Duration(t.ns - other.ns), A_TIME),
    function("After", lambda t, other: t.ns > other.ns, A_TIME),
    function("Before", lambda t, other: t.ns < other.ns, A_TIME),
    function("Equal", lambda t, other: t.ns == other.ns, A_TIME),
    function("Compare", lambda t, other: (t.ns > other.ns) - (t.ns < other.ns), A_TIME),
    function("Truncate", lambda t, d: _multiple(t, d, 0), DURATION),
    *(Function(name, _never, unusable=why) for name, why in _SEVERAL_RESULTS.items()),
    function("Round", lambda t, d: _multiple(t, d, (d + 1) // 2), DURATION),
)
_DURATION_METHODS = (
    function("Hours", lambda d: _in_units(d, 3600 * SECOND)),
    function("Minutes", lambda d: _in_units(d, 60 * SECOND)),
    function("Seconds", lambda d: _in_units(d, SECOND)),
    function("Milliseconds", lambda d: Int64(int(d / 10**6))),
    function("Microseconds", lambda d: Int64(int(d / 10**3))),
    function("Nanoseconds", Int64),
    function("Abs", lambda d: Duration(abs(d))),
    function("String", duration_text),
)
_NAME_METHODS = (function("String", lambda name: format_value(name, "v", Flags())),)

METHODS: dict[type, dict[str, Function]] = {
    kind: {method.name: method for method in methods}
    for kind, methods in (
        (Time, _TIME_METHODS),
        (Duration, _DURATION_METHODS),
        (Month, _NAME_METHODS),
        (Weekday, _NAME_METHODS),
    )
}
