"""OpenTelemetry's string form of attribute values, for ingest and queries alike.

Strings are themselves, numbers decimal, bytes base64, arrays and maps JSON. Doubles have two forms: segments
hold one that any JSON reader reads back as the same number, LogQL shows the one of Go's JSON encoding, as
Loki does.

>>> [value_text(value) for value in (True, 2.0, 1e16, b"hi", ["a", 1])]
['true', '2.0', '1e+16', 'aGk=', '["a",1]']
>>> [value_text(value, go_double) for value in (2.0, 1e-7, 1e16, float("inf"))]
['2', '1e-7', '10000000000000000', '+Inf']
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from decimal import Decimal

import msgspec


def double_text(number: float) -> str:
    """Return the shortest decimal form that reads back as the same double."""
    return repr(number) if math.isfinite(number) else _special(number, "Infinity", "-Infinity")


def json_double(number: float) -> str:
    """Return the form of a double inside JSON.

    JSON has no word for not-a-number and infinities: they are strings, as in protobuf's JSON.

    >>> json_double(1.0), json_double(float("nan")), json_double(float("-inf"))
    ('1.0', '"NaN"', '"-Infinity"')
    """
    return double_text(number) if math.isfinite(number) else f'"{double_text(number)}"'


def go_double(number: float) -> str:
    """Return the form of Go's JSON encoding: an exponent below 1e-6 and from 1e21, no trailing zeros."""
    if not math.isfinite(number):
        return _special(number, "+Inf", "-Inf")
    if number == 0:
        return "-0" if math.copysign(1, number) < 0 else "0"
    if abs(number) < 1e-6 or abs(number) >= 1e21:
        return re.sub(r"e([+-])0(\d)", r"e\1\2", repr(number))
    plain = format(Decimal(repr(number)), "f")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def value_text(value: object, double: Callable[[float], str] = double_text) -> str:
    """Return the string form of a value; `double` is the form of a number that is a double by itself."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, int) else msgspec.json.encode(value).decode()


def _special(number: float, infinite: str, negative: str) -> str:
    return "NaN" if math.isnan(number) else infinite if number > 0 else negative
