"""Numbers, durations and sizes out of label values, as Go's standard library and Loki's units read them.

    durations  "1.5s" -> 1500000000 ns, "90" -> missing unit;   sizes  "2KiB" -> 2048, "2,048" -> 2048

Values are distinct ones of a column. Each conversion gives the numbers and, where a value is none, what is
wrong with it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakerunner_query.windows.functions import Doubles

_DIGITS, _HEX_DIGITS = r"\d(?:_?\d)*", r"[0-9a-fA-F](?:_?[0-9a-fA-F])*"
_NUMBER = re.compile(rf"[+-]?(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?", re.ASCII)
_HEXADECIMAL = re.compile(
    rf"[+-]?0[xX]_?(?:{_HEX_DIGITS}\.?(?:{_HEX_DIGITS})?|\.{_HEX_DIGITS})[pP][+-]?{_DIGITS}", re.ASCII
)
_SPECIAL = re.compile(r"(?i)[+-]?inf(?:inity)?|nan")
_LIMIT_NS = 1 << 63
_DURATION_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_DURATION_PART = re.compile(r"(\d*)(?:(\.)(\d*))?([^\d.]*)", re.ASCII)
_SIZE = re.compile(r"([\d.,]*)(.*)", re.DOTALL)
_SIZE_UNITS = {"": 1, "b": 1} | {
    letter + ending: base**power
    for power, letter in enumerate("kmgtpe", 1)
    for ending, base in (("b", 1000), ("", 1000), ("ib", 1024), ("i", 1024))
}


class ConversionError(ValueError):
    """The text is not what it should be."""


@dataclass(frozen=True, slots=True)
class Converted:
    numbers: Doubles
    """By distinct value; 0 where it is none."""
    failures: dict[int, str] = field(default_factory=dict)
    """What is wrong, by number of the value."""


def converted(values: pa.StringArray, convert: Callable[[str], float]) -> Converted:
    numbers = np.zeros(len(values))
    failures: dict[int, str] = {}
    for number, text in enumerate(values.to_pylist()):
        try:
            numbers[number] = convert(text)
        except ConversionError as error:
            failures[number] = str(error)
    return Converted(numbers, failures)


def number(text: str) -> float:
    """A float as Go's `ParseFloat` reads it.

    >>> number("1e3"), number("1_000"), number("0x1p4"), number("Inf")
    (1000.0, 1000.0, 16.0, inf)
    """
    if _NUMBER.fullmatch(text):
        value = float(text)
        if math.isinf(value):
            raise ConversionError(f"strconv.ParseFloat: parsing {quoted(text)}: value out of range")
        return value
    if _SPECIAL.fullmatch(text):
        return float(text)
    if _HEXADECIMAL.fullmatch(text):
        return float.fromhex(text.replace("_", ""))
    raise ConversionError(f"strconv.ParseFloat: parsing {quoted(text)}: invalid syntax")


def duration_ns(text: str) -> int:
    """Nanoseconds, as Go's `ParseDuration` reads them.

    >>> duration_ns("1h30m"), duration_ns("-1.5ms"), duration_ns("0")
    (5400000000000, -1500000, 0)
    """
    rest = text[1:] if text[:1] in {"-", "+"} else text
    if rest == "0":
        return 0
    total = 0
    if not rest:
        raise ConversionError(f"time: invalid duration {_quoted_ascii(text)}")
    while rest:
        part = _DURATION_PART.match(rest)
        if part is None or not (part[1] or part[3]):
            raise ConversionError(f"time: invalid duration {_quoted_ascii(text)}")
        if not part[4]:
            raise ConversionError(f"time: missing unit in duration {_quoted_ascii(text)}")
        unit = _DURATION_UNITS.get(part[4])
        if unit is None:
            raise ConversionError(
                f"time: unknown unit {_quoted_ascii(part[4])} in duration {_quoted_ascii(text)}"
            )
        fraction = part[3] or ""
        total += int(part[1] or 0) * unit + int(int(fraction or 0) * (unit / 10 ** len(fraction)))
        if total >= _LIMIT_NS:
            raise ConversionError(f"time: invalid duration {_quoted_ascii(text)}")
        rest = rest[part.end() :]
    return -total if text[0] == "-" else total


def duration_seconds(text: str) -> float:
    return duration_ns(text) / 1e9


def size(text: str) -> float:
    """Bytes: whole ones, decimal or binary units in any case, commas between digits.

    >>> size("1.5KiB"), size("2 mb"), size("2,048"), size("1.5B")
    (1536.0, 2000000.0, 2048.0, 1.0)
    """
    digits, unit = _SIZE.fullmatch(text).groups()  # type: ignore[union-attr]  # it matches every text
    value = number(digits.replace(",", ""))
    factor = _SIZE_UNITS.get(unit.strip().lower())
    if factor is None:
        raise ConversionError(f"unhandled size name: {unit.strip().lower()}")
    if value * factor >= 1 << 64:
        raise ConversionError(f"too large: {text}")
    return float(int(value * factor))


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _quoted_ascii(text: str) -> str:
    """As Go's `time` quotes: what is not printable ASCII byte by byte."""
    shown = (
        f"\\{byte:c}" if byte in b'"\\' else f"{byte:c}" if 32 <= byte < 128 else f"\\x{byte:02x}"
        for byte in text.encode()
    )
    return f'"{"".join(shown)}"'
