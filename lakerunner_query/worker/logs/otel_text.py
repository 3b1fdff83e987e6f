"""Attribute values in OpenTelemetry's string form, which is what LogQL compares and shows.

Doubles follow Go's JSON encoding (`1`, `0.5`, `1e+21`), bytes are base64, structures are JSON.

>>> text(True), text(2.0), text(1e-7), text(b"hi"), text(1e16)
('true', '2', '1e-7', 'aGk=', '10000000000000000')
"""

from __future__ import annotations

import base64
import math
import re
from decimal import Decimal

import msgspec


def text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _double(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, int) else msgspec.json.encode(value).decode()


def _double(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    if abs(value) < 1e-6 or abs(value) >= 1e21:
        return re.sub(r"e([+-])0(\d)", r"e\1\2", repr(value))
    plain = format(Decimal(repr(value)), "f")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain
