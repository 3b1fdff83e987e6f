"""Numbers as Go's package `strconv` reads and writes them.

>>> parse_float("0x1p4"), parse_float("1_000"), parse_float("5s"), parse_integer("0x10"), parse_integer("010")
(16.0, 1000.0, None, 16, 8)
>>> format_float(3000000.0), format_float(1e21, "f"), format_float(1.5, "e", 2), format_float(1.5, "x")
('3e+06', '1000000000000000000000', '1.50e+00', '0x1.8p+00')
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal

from lakerunner_query.gotext.strconv import quote

INT_MIN, INT_MAX, UINT_MAX = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
VERBS = frozenset("beEfFgGxX")
_INTEGER = re.compile(
    r"(?P<sign>[+-]?)(?:0[xX](?P<hex>(?:_?[0-9a-fA-F])++)|0[bB](?P<binary>(?:_?[01])++)"
    r"|0[oO]?(?P<octal>(?:_?[0-7])++)|(?P<decimal>0|[1-9](?:_?[0-9])*+))"
)
_BASES = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
_DIGITS, _HEX_DIGITS = r"[0-9](?:_?[0-9])*+", r"[0-9a-fA-F](?:_?[0-9a-fA-F])*+"
_DECIMAL = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_HEXADECIMAL = re.compile(
    rf"[+-]?0[xX]_?(?:{_HEX_DIGITS}(?:\.(?:{_HEX_DIGITS})?)?|\.{_HEX_DIGITS})[pP][+-]?{_DIGITS}"
)
_SPECIAL = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)
_LONGEST = 64
"""Digits without leading zeros; 64 bits need no more in any base."""
_MANTISSA_BITS = 52
_LEAST_POWER = -1074
_PLAIN_BELOW = 6
"""Powers of ten at and above are written with an exponent."""

_LITERAL = re.compile(
    r"0(?P<base>[xX])(?P<whole>[0-9a-fA-F_]*)(?P<point>\.[0-9a-fA-F_]*)?(?P<power>[pP][+-]?(?P<digits>[0-9_]*))?"
    r"|(?:0(?P<base_>[bBoO]))?(?P<whole_>[0-9_]*)(?P<point_>\.[0-9_]*)?(?P<power_>[eEpP][+-]?(?P<digits_>[0-9_]*))?"
)
_NAMES = {"x": "hexadecimal literal", "o": "octal literal", "b": "binary literal", "": "decimal literal"}
_LOOSE = re.compile(r"(?:^|[^0-9a-fA-FxXoObB_])_|__|_(?:$|[^0-9a-fA-F_])")


class ConversionError(ValueError):
    """The text is no number, duration or size; the message is Go's."""


class MalformedNumberError(ValueError):
    """Number that Go does not know, with the message of Go's scanner."""


def parse_integer(text: str) -> int | None:
    """Read an integer literal with its prefix, beyond 64 bits too; None if it is none or far too large."""
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    kind = str(found.lastgroup)
    digits = found[kind].replace("_", "").lstrip("0")
    return int(f"{found['sign']}{digits or 0}", _BASES[kind]) if len(digits) <= _LONGEST else None


def parse_float(text: str) -> float | None:
    """Read a float as `ParseFloat` does; infinite if it is too large, None if it is none."""
    if _DECIMAL.fullmatch(text) or _SPECIAL.fullmatch(text):
        return float(text)
    if not _HEXADECIMAL.fullmatch(text):
        return None
    try:
        return float.fromhex(text.replace("_", ""))
    except OverflowError:
        return -math.inf if text[0] == "-" else math.inf


def read_float(text: str, quoted: Callable[[str], str] = quote) -> float:
    """Read a float, or raise with Go's message, in which `quoted` shows the text."""
    value = parse_float(text)
    if value is None:
        raise ConversionError(f"strconv.ParseFloat: parsing {quoted(text)}: invalid syntax")
    if math.isinf(value) and "n" not in text.lower():
        raise ConversionError(f"strconv.ParseFloat: parsing {quoted(text)}: value out of range")
    return value


def read_number(text: str, quoted: Callable[[str], str] = quote) -> float:
    """Read an integer literal of up to 63 bits in its base, anything else as a float.

    >>> read_number("0x1F"), read_number("010"), read_number("089"), read_number(".5")
    (31.0, 8.0, 89.0, 0.5)
    """
    whole = parse_integer(text)
    return float(whole) if whole is not None and INT_MIN <= whole <= INT_MAX else read_float(text, quoted)


def scan_number(text: str, at: int) -> int:
    """Return the end of the number literal at `at`, as Go's package `text/scanner` finds it.

    >>> scan_number("1.5e3s", 0), scan_number("0x1F)", 0)
    (5, 4)
    """
    found = _LITERAL.match(text, at)
    if found is None:
        raise MalformedNumberError("decimal literal has no digits")
    _check_literal(found)
    return found.end()


def _check_literal(found: re.Match[str]) -> None:
    part = {name.rstrip("_"): value for name, value in found.groupdict().items() if value is not None}
    base, point, power = part.get("base", "").lower(), part.get("point"), part.get("power", "")
    whole = part["whole"]
    if base in {"o", "b"} and point is not None:
        raise MalformedNumberError(f"invalid radix point in {_NAMES[base]}")
    if not (whole + (point or "")).strip("._"):
        raise MalformedNumberError(f"{_NAMES[base]} has no digits")
    if power and (power[0] in "pP") != (base == "x"):
        kind = "hexadecimal" if power[0] in "pP" else "decimal"
        raise MalformedNumberError(f"{power[0]!r} exponent requires {kind} mantissa")
    if power and power[0] in "eE" and base:
        raise MalformedNumberError(f"{power[0]!r} exponent requires decimal mantissa")
    if power and not part["digits"].strip("_"):
        raise MalformedNumberError("exponent has no digits")
    if base == "x" and point is not None and not power:
        raise MalformedNumberError("hexadecimal mantissa requires a 'p' exponent")
    if point is None and not power:
        _check_digits(base, whole)
    if _LOOSE.search(found[0]):
        raise MalformedNumberError("'_' must separate successive digits")


def _check_digits(base: str, whole: str) -> None:
    """Refuse wrong digits; an integer that begins with 0 is octal."""
    allowed = {"b": "01", "o": "01234567", "x": ""}.get(base, "01234567" if whole[0] == "0" else "")
    wrong = next((digit for digit in whole if allowed and digit not in allowed + "_"), None)
    if wrong is not None:
        raise MalformedNumberError(f"invalid digit {wrong!r} in {_NAMES[base or 'o']}")


def format_float(value: float, verb: str = "g", precision: int | None = None) -> str:
    """Write a float; without precision, with as few digits as tell it from its neighbours."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if verb in "xX":
        text = sign + _hexadecimal(abs(value), precision)
        return text.upper() if verb == "X" else text
    if verb == "b":
        return sign + _binary(abs(value))
    if precision is not None:
        return format(value, f".{precision}{verb}")
    digits, point = _shortest(abs(value))
    is_plain = verb in "fF" or (verb in "gG" and -4 <= point - 1 < _PLAIN_BELOW)
    mark = "E" if verb in "EG" else "e"
    return sign + (_plain(digits, point) if is_plain else _scientific(digits, point - 1, mark))


def _shortest(value: float) -> tuple[str, int]:
    """Return the digits without trailing zeros, and how many of them stand before the point."""
    if value == 0:
        return "0", 1
    _, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits))
    return text.rstrip("0"), len(text) + int(exponent)


def _plain(digits: str, point: int) -> str:
    if point <= 0:
        return "0." + "0" * -point + digits if digits != "0" else "0"
    if len(digits) <= point:
        return digits + "0" * (point - len(digits))
    return f"{digits[:point]}.{digits[point:]}"


def _scientific(digits: str, exponent: int, mark: str) -> str:
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{mantissa}{mark}{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _hexadecimal(value: float, precision: int | None) -> str:
    fraction, exponent = math.frexp(value)
    mantissa = int(fraction * (1 << (_MANTISSA_BITS + 1)))
    exponent -= 1 if value else 0
    bits = _MANTISSA_BITS
    if precision is not None and precision * 4 < bits:
        mantissa, bits = _round(mantissa, bits - precision * 4), precision * 4
        if mantissa >> bits > 1:
            mantissa, exponent = mantissa >> 1, exponent + 1
    nibbles = (bits + 3) // 4
    digits = f"{(mantissa & ((1 << bits) - 1)) << (nibbles * 4 - bits):0{nibbles}x}" if nibbles else ""
    digits = digits.rstrip("0") if precision is None else digits.ljust(precision, "0")
    mark = "-" if exponent < 0 else "+"
    return f"0x{mantissa >> bits}{'.' if digits else ''}{digits}p{mark}{abs(exponent):02d}"


def _round(mantissa: int, dropped: int) -> int:
    """Drop bits, rounding half to even."""
    kept, rest, half = mantissa >> dropped, mantissa & ((1 << dropped) - 1), 1 << (dropped - 1)
    return kept + (rest > half or (rest == half and kept & 1 == 1))


def _binary(value: float) -> str:
    """Write mantissa and power of two; numbers too small to be normal share the least power."""
    fraction, exponent = math.frexp(value)
    mantissa, exponent = int(fraction * (1 << (_MANTISSA_BITS + 1))), exponent - _MANTISSA_BITS - 1
    if value == 0 or exponent < _LEAST_POWER:
        mantissa, exponent = mantissa >> max(0, _LEAST_POWER - exponent), _LEAST_POWER
    return f"{mantissa}p{'-' if exponent < 0 else '+'}{abs(exponent)}"
