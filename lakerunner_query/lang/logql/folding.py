"""Operations of two numbers, computed while parsing: `1 + 1` is a literal.

Comparisons of numbers give 1 or 0, with `bool` or without; division by zero gives NaN, as in Loki.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable


def _quotient(left: float, right: float) -> float:
    return left / right if right else math.nan


def _remainder(left: float, right: float) -> float:
    """With the sign of the left side, as C and Go have it."""
    return math.fmod(left, right) if right and math.isfinite(left) else math.nan


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        is_negative = base < 0 and math.fmod(exponent, 2) != 0
        return -math.inf if is_negative else math.inf
    except ValueError:
        # a pole (0 to a negative power) has its sign, a root of a negative number is none
        if base:
            return math.nan
        is_odd = math.fmod(exponent, 2) != 0 and exponent.is_integer()
        return math.copysign(math.inf, base) if is_odd else math.inf


_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "%": _remainder,
    "^": _power,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def folded(op: str, left: float, right: float) -> float:
    """
    >>> folded("%", -7, 3), folded("^", -2, 2), folded(">", 2, 1), folded("/", 1, 0)
    (-1.0, 4.0, 1.0, nan)
    """
    value = float(_OPERATIONS[op](left, right))
    return math.nan if math.isnan(value) else value  # the one NaN that equals itself in a tree
