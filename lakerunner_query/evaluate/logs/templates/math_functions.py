"""Loki's arithmetic: whole numbers wrap in 64 bits, floats are added and multiplied as decimals.

>>> div(-7, 2), mod(-7, 2), decimal_of([0.1, 0.2], operator.add), rounded(123.555555, 3)
(-3, -1, 0.3, 123.556)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from functools import reduce
from typing import Any

from lakerunner_query.gotext.conversions import to_float, to_int
from lakerunner_query.gotext.durations import parsed_bytes
from lakerunner_query.gotext.values import (
    ANY,
    FLOAT,
    INT,
    STRING,
    Function,
    Int64,
    TemplateError,
    function,
    wrapped,
)

Operation = Callable[[Decimal, Decimal], Decimal]
_EXACT = Context(prec=2000)
"""Doubles have at most 767 digits; the arguments of one call stay few."""
_QUOTIENT = Decimal(1).scaleb(-16)
"""Quotients have sixteen places behind the point."""


def whole(values: Sequence[Any], operation: Callable[[int, int], int]) -> Int64:
    return Int64(wrapped(reduce(lambda left, right: wrapped(operation(left, right)), map(to_int, values))))


def div(left: Any, right: Any) -> Int64:
    """Toward zero."""
    dividend, divisor = to_int(left), to_int(right)
    if divisor == 0:
        raise TemplateError("runtime error: integer divide by zero")
    quotient = abs(dividend) // abs(divisor)
    return Int64(wrapped(quotient if (dividend < 0) == (divisor < 0) else -quotient))


def mod(left: Any, right: Any) -> Int64:
    """With the sign of the dividend."""
    dividend, divisor = to_int(left), to_int(right)
    if divisor == 0:
        raise TemplateError("runtime error: integer divide by zero")
    rest = abs(dividend) % abs(divisor)
    return Int64(-rest if dividend < 0 else rest)


def decimal_of(values: Sequence[Any], operation: Operation) -> float:
    with localcontext(_EXACT):
        # a decimal zero has no sign
        return float(reduce(operation, map(_decimal, values))) + 0.0


def _decimal(value: Any) -> Decimal:
    number = to_float(value)
    if not math.isfinite(number):
        shown = "NaN" if math.isnan(number) else "+Inf" if number > 0 else "-Inf"
        raise TemplateError(f"Cannot create a Decimal from {shown}")
    return Decimal(repr(number))


def _divided(left: Decimal, right: Decimal) -> Decimal:
    if right == 0:
        raise TemplateError("decimal division by 0")
    return (left / right).quantize(_QUOTIENT, ROUND_HALF_UP)


def rounded(value: Any, places: int, *threshold: float) -> float:
    power = math.pow(10.0, min(max(places, -400), 308)) if places <= 308 else math.inf
    digit = power * to_float(value)
    if not math.isfinite(digit) or power == 0:
        return digit / power if power else math.nan
    above = math.modf(digit)[0] >= (threshold[0] if threshold else 0.5)
    return (math.ceil(digit) if above else math.floor(digit)) / power


def _stepped(step: Callable[[float], int]) -> Callable[[Any], float]:
    def stepped(value: Any) -> float:
        number = to_float(value)
        return math.copysign(float(step(number)), number) if math.isfinite(number) else number

    return stepped


def _extreme(values: Sequence[Any], choose: Callable[[float, float], float]) -> float:
    numbers = [to_float(value) for value in values]
    return math.nan if any(map(math.isnan, numbers)) else reduce(choose, numbers)


MATH: tuple[Function, ...] = (
    function("add", lambda *values: whole((0, *values), operator.add), rest=ANY),
    function("sub", lambda left, right: whole((left, right), operator.sub), ANY, ANY),
    function("mul", lambda *values: whole(values, operator.mul), ANY, rest=ANY),
    function("div", div, ANY, ANY),
    function("mod", mod, ANY, ANY),
    function("addf", lambda *values: decimal_of((0.0, *values), operator.add), rest=ANY),
    function("subf", lambda *values: decimal_of(values, operator.sub), ANY, rest=ANY),
    function("mulf", lambda *values: decimal_of(values, operator.mul), ANY, rest=ANY),
    function("divf", lambda *values: decimal_of(values, _divided), ANY, rest=ANY),
    function("max", lambda *values: Int64(max(map(to_int, values))), ANY, rest=ANY),
    function("min", lambda *values: Int64(min(map(to_int, values))), ANY, rest=ANY),
    function("maxf", lambda *values: _extreme(values, max), ANY, rest=ANY),
    function("minf", lambda *values: _extreme(values, min), ANY, rest=ANY),
    function("ceil", _stepped(math.ceil), ANY),
    function("floor", _stepped(math.floor), ANY),
    function("round", rounded, ANY, INT, rest=FLOAT),
    function("int", to_int, ANY),
    function("float64", to_float, ANY),
    function("bytes", parsed_bytes, STRING),
)
