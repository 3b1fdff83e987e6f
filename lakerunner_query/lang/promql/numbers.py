"""Numbers as Go reads and writes them.

>>> number("0x1F"), number("1_000"), number("010"), number(".5"), text(1e22)
(31.0, 1000.0, 8.0, 0.5, '10000000000000000000000')
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

from lakerunner_query.lang.promql.strings import quote

_HEX = re.compile(r"0[xX]((?:_?[0-9a-fA-F])+)")
_OCTAL = re.compile(r"0((?:_?[0-7])+)")
_DECIMAL = re.compile(r"(0|[1-9](?:_?[0-9])*)")
_DIGITS = r"[0-9](?:_?[0-9])*"
_FLOAT = re.compile(
    rf"(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?|[iI][nN][fF]|[nN][aA][nN]"
)
_INT64 = 2**63


class InvalidNumberError(ValueError):
    """The message is Go's."""


def number(literal: str) -> float:
    """The value of a literal as the lexer found it, without a sign."""
    whole = _integer(literal)
    if whole is not None and whole < _INT64:
        return float(whole)
    if not _FLOAT.fullmatch(literal):
        raise InvalidNumberError(f"strconv.ParseFloat: parsing {quote(literal)}: invalid syntax")
    value = float(literal)
    if math.isinf(value) and literal.lower() != "inf":
        raise InvalidNumberError(f"strconv.ParseFloat: parsing {quote(literal)}: value out of range")
    return value


def _integer(literal: str) -> int | None:
    """None, too, if it is far beyond 64 bits."""
    for pattern, base in ((_HEX, 16), (_OCTAL, 8), (_DECIMAL, 10)):
        if found := pattern.fullmatch(literal):
            digits = found[1].replace("_", "").lstrip("0")
            return int(digits or "0", base) if len(digits) <= 64 else None
    return None


def text(value: float) -> str:
    """As short as exact, never with an exponent."""
    return special(value) or _plain(value)


def general_text(value: float) -> str:
    """As short as exact, with an exponent below 1e-4 and from 1e6."""
    if special(value) or value == 0 or 1e-4 <= abs(value) < 1e6:
        return text(value)
    mantissa, exponent = f"{Decimal(repr(value)).normalize():e}".split("e")
    return f"{mantissa}e{exponent[0]}{exponent[1:]:0>2}"


def special(value: float) -> str | None:
    if math.isnan(value):
        return "NaN"
    return ("+Inf" if value > 0 else "-Inf") if math.isinf(value) else None


def _plain(value: float) -> str:
    shown = f"{Decimal(repr(value)):f}"
    return shown.removesuffix(".0")
