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
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.gotext.template.numbers import INT_MAX, INT_MIN, floating, integer
from resources.arrays import Doubles, Flags, Int64s

# << The larger and the smaller of two as Go's `math.Max` and `math.Min` have them.
# <<
# << An infinity that decides wins over NaN, any other NaN gives NaN, and -0 is below 0.
# <<
# << >>> larger(np.array([np.inf, 1.0, -0.0]), np.array([np.nan, np.nan, 0.0])).tolist()
# << [inf, nan, 0.0]


def larger(one: Doubles, other: Doubles) -> Doubles:
    with np.errstate(invalid="ignore"):  # of sums that are not taken
        found: Doubles = np.where((one == 0) & (other == 0), one + other, np.maximum(one, other))
    return np.where((one == np.inf) | (other == np.inf), np.inf, found)


def smaller(one: Doubles, other: Doubles) -> Doubles:
    return -larger(-one, -other)


# << Anything as a number, the way Loki's arithmetic functions read their arguments: what is none counts as 0.
# <<
# << >>> to_int("0x10"), to_int("1.9"), to_int("010"), to_int("abc"), to_float("1e3")
# << (16, 1, 8, 0, 1000.0)

_WITH_POINT = re.compile(r"([-+]?[0-9]*)\.[0-9]*")
_CAST_SPECIAL = re.compile(r"[+-]?(?:inf|infinity)|nan", re.IGNORECASE)


def to_int(value: Any) -> int:
    if isinstance(value, str):
        return _text_to_int(value)
    if isinstance(value, float):
        return truncated(value)
    return int(value) if isinstance(value, int) else 0


def to_float(value: Any) -> float:
    if isinstance(value, str):
        return _text_to_float(value)
    return float(value) if isinstance(value, int | float) else 0.0


def truncated(value: float) -> int:
    """Toward zero; what does not fit into 64 bits is the smallest number, as on Go's usual processors."""
    if not -(2.0**63) <= value < 2.0**63:
        return INT_MIN
    return int(value)


def _text_to_int(text: str) -> int:
    if found := _WITH_POINT.fullmatch(text):
        text = found[1] if found[1] not in {"", "+", "-"} else "0"
    value = integer(text)
    return value if value is not None and INT_MIN <= value <= INT_MAX else 0


def _text_to_float(text: str) -> float:
    if _CAST_SPECIAL.fullmatch(text):
        return float(text)
    value = floating(text)
    # a number that is too large is no number
    return 0.0 if value is None or value in {float("inf"), float("-inf")} else value


_DIGITS, _HEX_DIGITS = r"\d(?:_?\d)*", r"[0-9a-fA-F](?:_?[0-9a-fA-F])*"
_NUMBER = re.compile(rf"[+-]?(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?", re.ASCII)
_HEXADECIMAL = re.compile(
    rf"[+-]?0[xX]_?(?:{_HEX_DIGITS}\.?(?:{_HEX_DIGITS})?|\.{_HEX_DIGITS})[pP][+-]?{_DIGITS}", re.ASCII
)
_PLAIN_NUMBER = r"^-?[0-9]{1,17}(\.[0-9]{1,17})?$"
_PLAIN_DURATION = r"^(?P<whole>[0-9]{1,6})(?:\.(?P<fraction>[0-9]{1,9}))?(?P<unit>ns|us|µs|ms|s|m|h)$"
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
    """Plain decimals and durations of one unit all at once, the others one by one."""
    numbers, is_done = _plain(values, convert)
    failures: dict[int, str] = {}
    rest = np.flatnonzero(~is_done)
    for place, text in zip(rest.tolist(), values.take(pa.array(rest)).to_pylist(), strict=True):
        try:
            numbers[place] = convert(text)
        except ConversionError as error:
            failures[place] = str(error)
    return Converted(numbers, failures)


def _plain(values: pa.StringArray, convert: Callable[[str], float]) -> tuple[Doubles, Flags]:
    """The numbers of what is written the usual way, and which values are."""
    if convert is number:
        is_done = pc.match_substring_regex(values, _PLAIN_NUMBER)
        return pc.if_else(is_done, values, "0").cast(pa.float64()).to_numpy(False).copy(), is_done.to_numpy(
            False
        )
    if convert not in {duration_ns, duration_seconds}:
        return np.zeros(len(values)), np.zeros(len(values), np.bool_)
    parts = pc.extract_regex(values, _PLAIN_DURATION)
    is_done = parts.is_valid().to_numpy(False)
    whole, fraction, unit = (parts.field(name).fill_null("") for name in range(3))
    factor = np.array([_DURATION_UNITS.get(one, 0) for one in pc.unique(unit).to_pylist()], np.int64)
    factor = factor[unit.dictionary_encode().indices.to_numpy(False)]
    scale = 10.0 ** pc.binary_length(fraction).to_numpy(False)
    behind = np.floor(_integers(fraction) * (factor / scale)).astype(np.int64)
    total = _integers(whole) * factor + behind
    return (total / 1e9 if convert is duration_seconds else total.astype(np.float64)), is_done


def _integers(digits: pa.StringArray) -> Int64s:
    found: Int64s = pc.if_else(pc.equal(digits, ""), "0", digits).cast(pa.int64()).to_numpy(False)
    return found


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
