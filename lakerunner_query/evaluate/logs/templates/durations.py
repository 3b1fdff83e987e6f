"""Go's durations: read from text, written, and their type in a template.

>>> parsed_duration("1h2m3.5s"), spelled_duration(3_723_500_000_000)
(3723500000000, '1h2m3.5s')
"""

from __future__ import annotations

import re

from lakerunner_query.evaluate.logs.templates.quoted import quoted_as_time

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"(?P<whole>[0-9]*)(?P<point>\.?)(?P<fraction>[0-9]*)(?P<unit>[^.0-9]*)")
_LIMIT = 1 << 63


class DurationError(ValueError):
    """The text is no duration, in Go's words."""


class Duration(int):
    """Nanoseconds that print themselves as `1m30s`."""

    go_name = "time.Duration"
    __slots__ = ()


def parsed_duration(text: str) -> int:
    """Nanoseconds."""
    invalid = DurationError(f"time: invalid duration {quoted_as_time(text)}")
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if rest == "0":
        return 0
    if not rest:
        raise invalid
    total = 0
    while rest:
        found = _PART.match(rest)
        if found is None or not (found["whole"] or found["fraction"]):
            raise invalid
        total += _part(text, found)
        rest = rest[found.end() :]
        if total > _LIMIT:
            raise invalid
    if text[0] == "-":
        return -total
    if total == _LIMIT:
        raise invalid
    return total


def _part(text: str, found: re.Match[str]) -> int:
    if not found["unit"]:
        raise DurationError(f"time: missing unit in duration {quoted_as_time(text)}")
    if found["unit"] not in _UNITS:
        unit = quoted_as_time(found["unit"])
        raise DurationError(f"time: unknown unit {unit} in duration {quoted_as_time(text)}")
    scale = _UNITS[found["unit"]]
    whole = int(found["whole"][:40] or 0)
    # eighteen digits are all that Go keeps of a fraction
    fraction = found["fraction"][:18]
    return whole * scale + int(float(int(fraction or 0)) * (scale / float(10 ** len(fraction))))


def spelled_duration(ns: int) -> str:
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    if ns < 10**9:
        return sign + _below_a_second(ns)
    minutes, rest = divmod(ns, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, 9)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return sign + (f"{hours}h{text}" if hours else text)


def _below_a_second(ns: int) -> str:
    if ns == 0:
        return "0s"
    if ns < 10**3:
        return f"{ns}ns"
    return f"{_decimal(ns, 3)}µs" if ns < 10**6 else f"{_decimal(ns, 6)}ms"


def _decimal(value: int, places: int) -> str:
    whole, fraction = divmod(value, 10**places)
    digits = f"{fraction:0{places}d}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
