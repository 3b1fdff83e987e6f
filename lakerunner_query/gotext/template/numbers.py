"""Number literals: one text, read as every kind of number that it can be.

>>> [constant(0, text, "number").integer for text in ("0x10", "1e3", "1.5")]
[16, 1000, None]
"""

from __future__ import annotations

import re

from lakerunner_query.gotext.strconv import UnquoteError, quote, unescape
from lakerunner_query.gotext.template.ast import CHARACTER, COMPLEX, Number

_INTEGER = re.compile(
    r"(?P<sign>[+-]?)(?:0[xX](?P<hex>(?:_?[0-9a-fA-F])+)|0[bB](?P<binary>(?:_?[01])+)"
    r"|0[oO]?(?P<octal>(?:_?[0-7])+)|(?P<decimal>0|[1-9](?:_?[0-9])*))"
)
_DIGITS = r"[0-9](?:_?[0-9])*"
_DECIMAL = re.compile(rf"[+-]?(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_HEX_FLOAT = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_BASES = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
_COMPLEX = re.compile(r"(?P<real>.*?[^eEpP+-])(?P<imaginary>[+-][^+-]*(?:[eEpP][+-]?[0-9_]+)?)i")
_LONGEST = 200
"""Characters of an integer; 64 bits need fewer than half as many in any base."""
INT_MIN, INT_MAX, UINT_MAX = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1


class NumberError(ValueError):
    """The text has the shape of a number and is none."""


def constant(position: int, text: str, kind: str) -> Number:
    if kind == CHARACTER:
        return _character(position, text)
    if kind == COMPLEX or text.endswith("i"):
        return _complex(position, text)
    value = integer(text)
    if value is not None and INT_MIN <= value <= UINT_MAX:
        signed = value if value <= INT_MAX else None
        unsigned = value if (value >= 0 and text[0] not in "+-") or value == 0 else None
        return Number(position, text, signed, unsigned, float(value))
    return _floating(position, text)


def integer(text: str) -> int | None:
    """A Go integer literal with its prefix, or None; not yet checked for its size, but never huge."""
    found = _INTEGER.fullmatch(text)
    if found is None or len(text) > _LONGEST:
        return None
    kind = str(found.lastgroup)
    return int(found["sign"] + found[kind].replace("_", ""), _BASES[kind])


def floating(text: str) -> float | None:
    """A decimal or hexadecimal literal, or None; `inf` where it is too large."""
    if _DECIMAL.fullmatch(text):
        return float(text)
    if not _HEX_FLOAT.fullmatch(text):
        return None
    try:
        return float.fromhex(text)
    except OverflowError:
        return float("-inf" if text[0] == "-" else "inf")


def _floating(position: int, text: str) -> Number:
    value = floating(text)
    if value is None or value in {float("inf"), float("-inf")}:
        raise NumberError(f"illegal number syntax: {quote(text)}")
    if not set(text) & set(".eEpP"):
        raise NumberError(f"integer overflow: {quote(text)}")
    return _of_float(position, text, value, None)


def _of_float(position: int, text: str, value: float, whole: complex | None) -> Number:
    exact = int(value) if value.is_integer() else None
    signed = exact if exact is not None and INT_MIN <= exact <= INT_MAX else None
    unsigned = exact if exact is not None and 0 <= exact <= UINT_MAX else None
    return Number(position, text, signed, unsigned, value, whole)


def _character(position: int, text: str) -> Number:
    malformed = NumberError(f"malformed character constant: {text}")
    if len(text) < 3:
        raise NumberError("invalid syntax")
    try:
        raw, end = unescape(text[:-1], 1, "'")
    except UnquoteError as error:
        raise NumberError("invalid syntax") from error
    if end != len(text) - 1:
        raise malformed
    code = ord(raw.decode()) if len(raw) > 1 or raw[0] < 0x80 else raw[0]
    return Number(position, text, code, code, float(code))


def _complex(position: int, text: str) -> Number:
    found = _COMPLEX.fullmatch(text)
    parts = ("0", text[:-1]) if found is None else (found["real"], found["imaginary"])
    real, imaginary = (floating(part.replace("_", "")) for part in parts)
    if real is None or imaginary is None:
        raise NumberError(f"illegal number syntax: {quote(text)}")
    whole = complex(real, imaginary)
    if imaginary:
        return Number(position, text, complex=whole)
    return _of_float(position, text, real, whole)
