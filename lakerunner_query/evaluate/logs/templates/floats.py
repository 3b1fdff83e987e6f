"""Floats as Go's strconv writes them.

>>> spell(3000000.0, "g", None), spell(0.1, "f", None), spell(1.5, "e", 2), spell(1.5, "x", None)
('3e+06', '0.1', '1.50e+00', '0x1.8p+00')
"""

from __future__ import annotations

import math
from decimal import Decimal

_MANTISSA_BITS = 52
_LEAST_POWER = -1074
_PLAIN_BELOW = 6
"""Powers of ten at and above are written with an exponent."""
VERBS = frozenset("beEfFgGxX")


def spell(value: float, verb: str, precision: int | None) -> str:
    """Without precision: as few digits as tell the number from its neighbours."""
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
    plain = verb in "fF" or (verb in "gG" and -4 <= point - 1 < _PLAIN_BELOW)
    mark = "E" if verb in "EG" else "e"
    return sign + (_plain(digits, point) if plain else _scientific(digits, point - 1, mark))


def _shortest(value: float) -> tuple[str, int]:
    """Digits without trailing zeros, and how many of them stand before the point."""
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
        mantissa, bits = _rounded(mantissa, bits - precision * 4), precision * 4
        if mantissa >> bits > 1:
            mantissa, exponent = mantissa >> 1, exponent + 1
    nibbles = (bits + 3) // 4
    digits = f"{(mantissa & ((1 << bits) - 1)) << (nibbles * 4 - bits):0{nibbles}x}" if nibbles else ""
    digits = digits.rstrip("0") if precision is None else digits.ljust(precision, "0")
    mark = "-" if exponent < 0 else "+"
    return f"0x{mantissa >> bits}{'.' if digits else ''}{digits}p{mark}{abs(exponent):02d}"


def _rounded(mantissa: int, dropped: int) -> int:
    """Half to even."""
    kept, rest, half = mantissa >> dropped, mantissa & ((1 << dropped) - 1), 1 << (dropped - 1)
    return kept + (rest > half or (rest == half and kept & 1 == 1))


def _binary(value: float) -> str:
    """Mantissa and power of two; numbers too small to be normal share the least power."""
    fraction, exponent = math.frexp(value)
    mantissa, exponent = int(fraction * (1 << (_MANTISSA_BITS + 1))), exponent - _MANTISSA_BITS - 1
    if value == 0 or exponent < _LEAST_POWER:
        mantissa, exponent = mantissa >> max(0, _LEAST_POWER - exponent), _LEAST_POWER
    return f"{mantissa}p{'-' if exponent < 0 else '+'}{abs(exponent)}"
