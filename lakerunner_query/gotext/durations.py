"""Durations and byte sizes: one table of units each, read and written in Go's and Prometheus' notation.

>>> GO.parse("1h2m3.5s"), PROMETHEUS.parse("1d12h"), duration_text(3_723_500_000_000), text(5_400_000)
(3723500000000, 129600000000000, '1h2m3.5s', '1h30m')
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from lakerunner_query.gotext.numbers import ConversionError, read_float
from lakerunner_query.gotext.strconv import PROMQL, quote_bytes

MICROSECOND, MILLISECOND, SECOND = 10**3, 10**6, 10**9
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
_LARGE = {"y": 365 * DAY, "w": 7 * DAY, "d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": MILLISECOND}
NANOSECONDS = _LARGE | {"us": MICROSECOND, "µs": MICROSECOND, "μs": MICROSECOND, "ns": 1}
"""Units of all notations in nanoseconds; micro is written with either of Unicode's two signs, or `u`."""
UNITS = {unit: size // MILLISECOND for unit, size in _LARGE.items()}
"""Prometheus' units in milliseconds, largest first: the order in which they must stand."""
_ORDER = {unit: place for place, unit in enumerate(UNITS)}
_LIMIT = 1 << 63
_MOST_DIGITS = 21
"""Digits of a count without leading zeros; one of more is out of range anyway."""


class Duration(int):
    """Nanoseconds that print themselves as `1m30s`."""

    go_name = "time.Duration"
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Notation:
    """A way to write durations."""

    units: frozenset[str]
    shape: re.Pattern[str] | None
    """Texts that are worth a look at their units; None: all are."""
    piece: re.Pattern[str]
    """Count, its fraction and unit, each possibly empty."""
    quoted: Callable[[str], str]
    invalid: str
    unknown: str
    missing: str
    too_long: str
    """Messages, with the quoted text and the quoted unit."""
    is_signed: bool
    is_ordered: bool
    """Units stand largest first, each once, and a count has at most 64 bits."""

    def parse(self, text: str) -> int:
        """Return nanoseconds, or raise `ConversionError`; only 0 needs no unit."""
        sign = text[:1] if self.is_signed and text[:1] in {"+", "-"} else ""
        rest = text[len(sign) :]
        if rest == "0":
            return 0
        if not rest or (self.shape and not self.shape.fullmatch(rest)):
            raise self._fault(self.invalid, text)
        total, last, at = 0, -1, 0
        while at < len(rest):
            found = self.piece.match(rest, at)
            whole, fraction, unit = found.groups() if found else ("", "", "")
            total += self._nanoseconds(text, whole, fraction, unit)
            if self.is_ordered and _ORDER[unit] <= last:
                raise self._fault(self.invalid, text)
            if total > _LIMIT:
                raise self._fault(self.too_long, text)
            last = _ORDER.get(unit, last)
            at = found.end() if found else len(rest)
        if total == _LIMIT and sign != "-":
            raise self._fault(self.too_long, text)
        return -total if sign == "-" else total

    def _nanoseconds(self, text: str, whole: str, fraction: str | None, unit: str) -> int:
        if not (whole or fraction):
            raise self._fault(self.invalid, text)
        if not unit:
            raise self._fault(self.missing, text)
        count = int(whole.lstrip("0")[:_MOST_DIGITS] or 0)
        if count >> 64 and self.is_ordered:
            raise self._fault(self.invalid, text)
        if unit not in self.units:
            raise self._fault(self.unknown, text, unit)
        return count * NANOSECONDS[unit] + _part_of(NANOSECONDS[unit], fraction or "")

    def _fault(self, message: str, text: str, unit: str = "") -> ConversionError:
        return ConversionError(message.format(text=self.quoted(text), unit=self.quoted(unit)))


def _part_of(unit: int, fraction: str) -> int:
    """Return a decimal fraction of the unit, of which Go reads only the digits that fit into 63 bits."""
    significant = fraction.lstrip("0")
    digits = significant[:19] if int(significant[:19] or 0) <= _LIMIT else significant[:18]
    places = len(fraction) - len(significant) + len(digits)
    return int(float(int(digits or 0)) * (unit / 10.0**places)) if places < 300 else 0


GO = Notation(
    units=frozenset(NANOSECONDS) - {"y", "w", "d"},
    shape=None,
    piece=re.compile(r"([0-9]*+)(?:\.([0-9]*+))?+([^.0-9]*+)"),
    quoted=quote_bytes,
    invalid="time: invalid duration {text}",
    unknown="time: unknown unit {unit} in duration {text}",
    missing="time: missing unit in duration {text}",
    too_long="time: invalid duration {text}",
    is_signed=True,
    is_ordered=False,
)
PROMETHEUS = Notation(
    units=frozenset(UNITS),
    shape=re.compile(r"(?:[0-9]++[^0-9]++)++"),
    piece=re.compile(r"([0-9]*+)()([^0-9]*+)"),
    quoted=PROMQL.quote,
    invalid="not a valid duration string: {text}",
    unknown="unknown unit {unit} in duration {text}",
    missing="not a valid duration string: {text}",
    too_long="duration out of range",
    is_signed=False,
    is_ordered=True,
)


def milliseconds(literal: str) -> int:
    """Read a duration of Prometheus such as `1h30m`."""
    return PROMETHEUS.parse(literal) // MILLISECOND


def seconds(literal: str) -> float:
    whole, rest = divmod(milliseconds(literal), UNITS["s"])
    return whole + rest / UNITS["s"]


def from_seconds(value: float) -> int:
    """Round to whole nanoseconds first, as Prometheus holds them, then cut to milliseconds."""
    rounded = math.floor(abs(value) * 1e9 + 0.5)
    return int(math.copysign(rounded // MILLISECOND, value))


def is_out_of_range(value: float) -> bool:
    """Tell if so many seconds are no duration; NaN is none."""
    return not abs(value) <= _LIMIT / 1e9


def nanoseconds(text: str) -> int:
    """Read a duration of Go (`1.5h`, `-5m`), else one of Prometheus (`1d`, `1w2d`)."""
    found = go_nanoseconds(text)
    return found if found is not None else range_nanoseconds(text)


def go_nanoseconds(text: str) -> int | None:
    try:
        return GO.parse(text)
    except ConversionError:
        return None


def range_nanoseconds(text: str) -> int:
    """Read a duration of Prometheus; an unknown unit is reported before any other fault."""
    if not text:
        raise ConversionError("empty duration string")
    pieces = PROMETHEUS.piece.findall(text) if text[0].isdigit() else []
    unit = next((unit for count, _, unit in pieces if count and unit and unit not in UNITS), None)
    if unit is not None:
        raise ConversionError(PROMETHEUS.unknown.format(unit=PROMQL.quote(unit), text=PROMQL.quote(text)))
    return PROMETHEUS.parse(text)


def text(value_ms: int) -> str:
    """Write milliseconds in Prometheus' notation.

    Years and weeks appear only where nothing remains: `90d` reads better than `12w6d`.
    """
    if value_ms == 0:
        return "0s"
    shown, rest = "-" if value_ms < 0 else "", abs(value_ms)
    for unit, size in UNITS.items():
        if rest >= size and (unit not in {"y", "w"} or rest % size == 0):
            shown += f"{rest // size}{unit}"
            rest %= size
    return shown


def duration_text(nanos: int) -> str:
    """Write nanoseconds as Go does: `1h30m0s`, `-1.5ms`."""
    if nanos < 0:
        return "-" + duration_text(-nanos)
    if nanos < SECOND:
        unit = next((unit for unit in ("ms", "µs", "ns") if nanos >= NANOSECONDS[unit]), "s")
        return _decimal(nanos, NANOSECONDS[unit]) + unit
    hours, rest = divmod(nanos, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    longer = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{longer}{_decimal(rest, SECOND)}s"


def _decimal(nanos: int, unit: int) -> str:
    whole, rest = divmod(nanos, unit)
    places = len(str(unit)) - 1
    return f"{whole}.{rest:0{places}}".rstrip("0") if rest else str(whole)


_SIZE_UNITS = {"": 1, "b": 1} | {
    f"{letter}{middle}{end}": base**power
    for base, middle in ((1000, ""), (1024, "i"))
    for power, letter in enumerate("kmgtpe", 1)
    for end in ("", "b")
}
_SIZE = re.compile(r"([\d.,]*+)(.*+)", re.DOTALL)
_SIZE_LITERAL = re.compile(r"([0-9.]++) *+([a-zA-Z]*+)")
_SHOWN_SIZES = [
    (f"{letter}{end}", base**power)
    for end, base, letters in (("B", 1000, "kMGT"), ("iB", 1024, "KMGT"))
    for power, letter in reversed(list(enumerate(letters, 1)))
]
"""No more than that: `1PB` and `1EB` would be the beginning of a number with an exponent."""


def parse_size(text: str, quoted: Callable[[str], str]) -> float:
    """Read a byte size as people write it: units of any case, commas between digits."""
    digits, unit = _SIZE.fullmatch(text).groups()  # type: ignore[union-attr]  # it matches every text
    value = read_float(digits.replace(",", ""), quoted)
    factor = _SIZE_UNITS.get(unit.strip().lower())
    if factor is None:
        raise ConversionError(f"unhandled size name: {unit.strip().lower()}")
    if value * factor >= 1 << 64:
        raise ConversionError(f"too large: {text}")
    return float(int(value * factor))


def byte_count(text: str) -> int:
    """Read a size literal such as `42MB` (thousands) or `42MiB` (1024s).

    >>> byte_count("1.5KiB"), byte_count("42MB")
    (1536, 42000000)
    """
    found = _SIZE_LITERAL.fullmatch(text)
    if found is None or found[1].count(".") > 1 or found[1] == "." or found[2].lower() not in _SIZE_UNITS:
        raise ConversionError(f"not a size: {PROMQL.quote(text)}")
    size = float(found[1]) * _SIZE_UNITS[found[2].lower()]
    if size >= 1 << 64:
        raise ConversionError(f"too large: {text}")
    return int(size)


def size_text(size: int) -> str:
    """Write a size in the largest unit of which it is a whole number.

    >>> size_text(42_000_000), size_text(1536), size_text(2048)
    ('42MB', '1536B', '2KiB')
    """
    for unit, factor in _SHOWN_SIZES:
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return f"{size}B" if size else "0kB"  # `0b` begins a binary number
