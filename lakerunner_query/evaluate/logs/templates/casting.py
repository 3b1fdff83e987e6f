"""Anything as a number, the way Loki's arithmetic functions read their arguments: what is none counts as 0.

>>> to_int("0x10"), to_int("1.9"), to_int("010"), to_int("abc"), to_float("1e3")
(16, 1, 8, 0, 1000.0)
"""

from __future__ import annotations

import re
from typing import Any

from lakerunner_query.lang.gotemplate.numbers import INT_MAX, INT_MIN, floating, integer

_WITH_POINT = re.compile(r"([-+]?[0-9]*)\.[0-9]*")
_SPECIAL = re.compile(r"[+-]?(?:inf|infinity)|nan", re.IGNORECASE)


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
    if _SPECIAL.fullmatch(text):
        return float(text)
    value = floating(text)
    # a number that is too large is no number
    return 0.0 if value is None or value in {float("inf"), float("-inf")} else value
