"""Numbers, texts and label sets as Go prints them: they are in messages and in label values.

>>> general(1e21), general(0.5), general(float("inf")), plain(1e21), quoted('a"b')
('1e+21', '0.5', '+Inf', '1000000000000000000000', '"a\\\\"b"')
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

_LONE_BYTES = (0xDC80, 0xDCFF)
"""How Python spells bytes that are no UTF-8, as the parser hands them on."""
_SHORT = {"\a": "a", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v", "\\": "\\", '"': '"'}


def general(value: float) -> str:
    """`%g`: the shortest digits, an exponent below 1e-4 and from 1e6, as Go has it."""
    if not math.isfinite(value):
        return _special(value)
    digits, exponent = _shortest(value)
    if value != 0 and not -4 <= exponent < 6:
        tail = f".{digits[1:]}" if len(digits) > 1 else ""
        sign = "-" if value < 0 else ""
        return f"{sign}{digits[0]}{tail}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return plain(value)


def plain(value: float) -> str:
    """`%f` with the shortest digits: never an exponent."""
    return str(np.format_float_positional(value, trim="-")) if math.isfinite(value) else _special(value)


def quoted(text: str) -> str:
    """`%q`."""
    return '"' + "".join(_character(one) for one in text) + '"'


def label_set(labels: Iterable[tuple[str, str]]) -> str:
    """`{a="b", c="d"}`, as error messages name series; names outside of the old alphabet are quoted."""
    return "{" + ", ".join(f"{_name(name)}={quoted(value)}" for name, value in labels) + "}"


def _name(name: str) -> str:
    is_legacy = name.isascii() and name.replace("_", "a").isalnum() and not name[:1].isdigit()
    return name if is_legacy else quoted(name)


def _special(value: float) -> str:
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _shortest(value: float) -> tuple[str, int]:
    mantissa, exponent = np.format_float_scientific(abs(value), trim="-").split("e")
    return mantissa.replace(".", ""), int(exponent)


def _character(one: str) -> str:
    if one in _SHORT:
        return f"\\{_SHORT[one]}"
    if one.isprintable():
        return one
    code = ord(one)
    if code < 0x80 or _LONE_BYTES[0] <= code <= _LONE_BYTES[1]:
        return f"\\x{code & 0xFF:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
