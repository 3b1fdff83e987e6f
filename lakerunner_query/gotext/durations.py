"""Durations, byte sizes and numbers as LogQL writes them.

>>> nanoseconds("1h30m"), nanoseconds("1d"), nanoseconds("1.5s"), byte_count("1.5KiB")
(5400000000000, 86400000000000, 1500000000, 1536)
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from lakerunner_query.gotext import strconv
from lakerunner_query.gotext.strconv import quote, quote_promql
from lakerunner_query.gotext.template.numbers import floating
from lakerunner_query.gotext.values import TemplateError, quoted_as_time

# << Sizes as people write them: `3 kB`, `1.5MiB`, `1,024`.
# <<
# << >>> parsed_bytes("3 kB"), parsed_bytes("1.5MiB"), parsed_bytes("1,024")
# << (3000.0, 1572864.0, 1024.0)

_NUMBER = re.compile(r"[0-9.,]*")
_SIZES = {"": 1, "b": 1} | {
    name: base**power
    for base, middle in ((1000, ""), (1024, "i"))
    for power, letter in enumerate("kmgtpe", start=1)
    for name in ((f"{letter}{middle}b", f"{letter}{middle}"))
}


def parsed_bytes(text: str) -> float:
    found = _NUMBER.match(text)
    digits = (found[0] if found else "").replace(",", "")
    number = floating(digits)
    if number is None:
        raise TemplateError(f"strconv.ParseFloat: parsing {quote(digits)}: invalid syntax")
    unit = text[found.end() if found else 0 :].strip().lower()
    if unit not in _SIZES:
        raise TemplateError(f"unhandled size name: {unit}")
    size = number * _SIZES[unit]
    if size >= 2.0**64:
        raise TemplateError(f"too large: {text}")
    return float(int(size))


# << Duration literals, in milliseconds.
# <<
# << >>> milliseconds("1h30m"), text(5_400_000), text(-1_500)
# << (5400000, '1h30m', '-1s500ms')

_SECOND = 1_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
UNITS = {"y": 365 * _DAY, "w": 7 * _DAY, "d": _DAY, "h": _HOUR, "m": _MINUTE, "s": _SECOND, "ms": 1}
"""Largest first: the order in which they must stand."""
_ORDER = list(UNITS)
_PROMQL_PART = re.compile(r"([0-9]+)([^0-9]+)")
_PARTS = re.compile(r"(?:[0-9]+[^0-9]+)+")
_LIMIT_NS = 2**63
_NS = 1_000_000


class InvalidDurationError(ValueError):
    """The message is Prometheus'."""


def milliseconds(literal: str) -> int:
    """The value of a literal such as `1h30m`; only 0 needs no unit."""
    if literal == "0":
        return 0
    total, last = 0, -1
    if not _PARTS.fullmatch(literal):
        raise InvalidDurationError(f"not a valid duration string: {quote_promql(literal)}")
    for part in _PROMQL_PART.finditer(literal):
        digits, unit = part[1].lstrip("0"), part[2]
        count = int(digits[:21] or "0")
        if count >= 2**64:
            raise InvalidDurationError(f"not a valid duration string: {quote_promql(literal)}")
        if unit not in UNITS:
            raise InvalidDurationError(
                f"unknown unit {quote_promql(unit)} in duration {quote_promql(literal)}"
            )
        if _ORDER.index(unit) <= last:
            raise InvalidDurationError(f"not a valid duration string: {quote_promql(literal)}")
        last = _ORDER.index(unit)
        total += count * UNITS[unit]
        if count > _LIMIT_NS // (UNITS[unit] * _NS) or total * _NS >= _LIMIT_NS:
            raise InvalidDurationError("duration out of range")
    return total


def seconds(literal: str) -> float:
    whole, rest = divmod(milliseconds(literal), _SECOND)
    return whole + rest / _SECOND


def from_seconds(value: float) -> int:
    """Rounded to whole nanoseconds first, as Prometheus holds them, then cut to milliseconds."""
    nanoseconds = math.floor(abs(value) * 1e9 + 0.5)
    return int(math.copysign(nanoseconds // _NS, value))


def is_out_of_range(value: float) -> bool:
    """Whether so many seconds are no duration; NaN is none."""
    return not abs(value) <= _LIMIT_NS / 1e9


def text(value_ms: int) -> str:
    """Years and weeks only where nothing remains: `90d` reads better than `12w6d`."""
    if value_ms == 0:
        return "0s"
    shown, rest = "-" if value_ms < 0 else "", abs(value_ms)
    for unit, size in UNITS.items():
        if rest >= size and (unit not in {"y", "w"} or rest % size == 0):
            shown += f"{rest // size}{unit}"
            rest %= size
    return shown


# << Go's durations: read from text, written, and their type in a template.
# <<
# << >>> parsed_duration("1h2m3.5s"), spelled_duration(3_723_500_000_000)
# << (3723500000000, '1h2m3.5s')

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
_TEMPLATE_PART = re.compile(r"(?P<whole>[0-9]*)(?P<point>\.?)(?P<fraction>[0-9]*)(?P<unit>[^.0-9]*)")
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
        found = _TEMPLATE_PART.match(rest)
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
    text = f"{_go_decimal(rest, 9)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return sign + (f"{hours}h{text}" if hours else text)


def _below_a_second(ns: int) -> str:
    if ns == 0:
        return "0s"
    if ns < 10**3:
        return f"{ns}ns"
    return f"{_go_decimal(ns, 3)}µs" if ns < 10**6 else f"{_go_decimal(ns, 6)}ms"


def _go_decimal(value: int, places: int) -> str:
    whole, fraction = divmod(value, 10**places)
    digits = f"{fraction:0{places}d}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


_GO_UNITS = {
    "ns": 1,
    **dict.fromkeys(("us", "µs", "μs"), 1_000),
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_GO_PART = re.compile(r"(\d+\.?\d*|\.\d+)([^\d.]+)")
_GO = re.compile(r"([-+]?)((?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+|0)")
_LARGEST = 2**63
_PART = re.compile(r"[0-9]+([^0-9]+)")
_MOST_DIGITS = 100
"""Of one part of a duration; what is longer is too large or too exact to mean anything."""
_BYTES = re.compile(r"([0-9.]+) *([a-zA-Z]*)")
_BYTE_UNITS = {
    "": 1,
    "b": 1,
    **{f"{letter}{end}": 1000**power for power, letter in enumerate("kmgtpe", 1) for end in ("", "b")},
    **{f"{letter}{end}": 1024**power for power, letter in enumerate("kmgtpe", 1) for end in ("i", "ib")},
}
_SHOWN_SIZES = [
    (f"{letter}{end}", base**power)
    for end, base, letters in (("B", 1000, "kMGT"), ("iB", 1024, "KMGT"))
    for power, letter in reversed(list(enumerate(letters, 1)))
]
"""No more than that: `1PB` and `1EB` would be the beginning of a number with an exponent."""
_DIGITS = r"[0-9](?:_?[0-9])*"
_DECIMAL = re.compile(rf"(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_HEX = re.compile(
    r"0[xX]_?(?:[0-9a-fA-F](?:_?[0-9a-fA-F])*)?\.?(?:[0-9a-fA-F](?:_?[0-9a-fA-F])*)?[pP][+-]?[0-9_]+"
)


class InvalidLiteralError(ValueError):
    """The message says what is wrong, as Go or Prometheus say it."""


def nanoseconds(text: str) -> int:
    """A duration of Go (`1.5h`, `-5m`), else one of Prometheus (`1d`, `1w2d`)."""
    found = go_nanoseconds(text)
    return found if found is not None else range_nanoseconds(text)


def range_nanoseconds(text: str) -> int:
    """A duration of Prometheus."""
    if not text:
        raise InvalidLiteralError("empty duration string")
    unit = next((part[1] for part in _PART.finditer(text) if part[1] not in UNITS), None)
    if unit is not None and text[0].isdigit():
        raise InvalidLiteralError(f"unknown unit {quote_promql(unit)} in duration {quote_promql(text)}")
    try:
        return milliseconds(text) * 1_000_000
    except InvalidDurationError as error:
        raise InvalidLiteralError(str(error)) from error


def go_nanoseconds(text: str) -> int | None:
    """A duration of Go, with its sign."""
    found = _GO.fullmatch(text)
    if found is None:
        return None
    parts = list(_GO_PART.finditer(found[2]))
    if any(len(part[1]) > _MOST_DIGITS for part in parts):
        return None
    total = sum(int(Fraction(part[1]) * _GO_UNITS[part[2]]) for part in parts)
    if total >= _LARGEST:
        return None
    return -total if found[1] == "-" else total


def byte_count(text: str) -> int:
    """A size such as `42MB` (thousands) or `42MiB` (1024s)."""
    found = _BYTES.fullmatch(text)
    if found is None or found[1].count(".") > 1 or found[1] == "." or found[2].lower() not in _BYTE_UNITS:
        raise InvalidLiteralError(f"not a size: {quote_promql(text)}")
    size = float(found[1]) * _BYTE_UNITS[found[2].lower()]
    if size >= 2**64:
        raise InvalidLiteralError(f"too large: {text}")
    return int(size)


def number(text: str) -> float:
    """A literal without sign, decimal or hexadecimal with an exponent of two; infinite if it is too large."""
    if _HEX.fullmatch(text):
        value = _hexadecimal(text)
    elif _DECIMAL.fullmatch(text):
        value = float(text)
    else:
        raise InvalidLiteralError(f"strconv.ParseFloat: parsing {quote_promql(text)}: invalid syntax")
    return value


def finite_number(text: str) -> float:
    value = number(text)
    if math.isinf(value):
        raise InvalidLiteralError(f"strconv.ParseFloat: parsing {quote_promql(text)}: value out of range")
    return value


def _hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text.replace("_", ""))
    except OverflowError:
        return math.inf


def duration_text(nanos: int) -> str:
    """As Go writes it: `1h30m0s`, `-1.5ms`."""
    if nanos < 0:
        return "-" + duration_text(-nanos)
    if nanos < _GO_UNITS["s"]:
        unit = next((unit for unit in ("ms", "µs", "ns") if nanos >= _GO_UNITS[unit]), "s")
        return _decimal(nanos, _GO_UNITS[unit]) + unit
    hours, rest = divmod(nanos, _GO_UNITS["h"])
    minutes, rest = divmod(rest, _GO_UNITS["m"])
    longer = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{longer}{_decimal(rest, _GO_UNITS['s'])}s"


def _decimal(nanos: int, unit: int) -> str:
    whole, rest = divmod(nanos, unit)
    places = len(str(unit)) - 1
    return f"{whole}.{rest:0{places}}".rstrip("0") if rest else str(whole)


def size_text(size: int) -> str:
    """In the largest unit of which it is a whole number.

    >>> size_text(42_000_000), size_text(1536), size_text(2048)
    ('42MB', '1536B', '2KiB')
    """
    for unit, factor in _SHOWN_SIZES:
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return f"{size}B" if size else "0kB"  # `0b` begins a binary number


def number_text(value: float) -> str:
    """A literal that reads back as this number; what has none is the operation that gives it."""
    if math.isnan(value):
        return "(0 / 0)"
    if value == 0 and math.copysign(1, value) < 0:
        return "(0 * -1)"
    if math.isinf(value):
        return "(10 ^ 400)" if value > 0 else "(-10 ^ 401)"
    return strconv.general_text(value)
