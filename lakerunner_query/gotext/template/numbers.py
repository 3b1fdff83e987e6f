"""A number literal is read as every kind of number it can be.

>>> [constant(0, text, "number").integer for text in ("0x10", "1e3", "1.5")]
[16, 1000, None]
"""

from __future__ import annotations

from lakerunner_query.gotext.numbers import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    ConversionError,
    parse_float,
    parse_integer,
    read_float,
)
from lakerunner_query.gotext.strconv import UnquoteError, quote, unescape
from lakerunner_query.gotext.template.ast import CHARACTER, COMPLEX, Number


class NumberError(ValueError):
    """The text has the shape of a number and is none."""


def constant(position: int, text: str, kind: str) -> Number:
    """Return the constant that the token at `position` spells."""
    if kind == CHARACTER:
        return _character(position, text)
    if kind == COMPLEX or text.endswith("i"):
        return _complex(position, text)
    value = parse_integer(text)
    if value is not None and INT_MIN <= value <= UINT_MAX:
        signed = value if value <= INT_MAX else None
        unsigned = value if (value >= 0 and text[0] not in "+-") or value == 0 else None
        return Number(position, text, signed, unsigned, float(value))
    return _floating(position, text)


def _floating(position: int, text: str) -> Number:
    try:
        value = read_float(text)
    except ConversionError as error:
        raise NumberError(f"illegal number syntax: {quote(text)}") from error
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
    real, imaginary = (parse_float(part.replace("_", "")) for part in _parts(text.removesuffix("i")))
    if real is None or imaginary is None:
        raise NumberError(f"illegal number syntax: {quote(text)}")
    whole = complex(real, imaginary)
    if imaginary:
        return Number(position, text, complex=whole)
    return _of_float(position, text, real, whole)


def _parts(text: str) -> tuple[str, str]:
    """Return the real and the imaginary part, split at the last sign that is not an exponent's."""
    for at in range(len(text) - 1, 0, -1):
        if text[at] in "+-" and text[at - 1] not in "eEpP+-":
            return text[:at], text[at:]
    return "0", text
