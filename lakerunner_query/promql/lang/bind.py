"""Binding replaces what depends on the start, end or step of the query.

rate(up[step() * 2] @ end())      start 0, end 600 s, step 15 s

rate(up[30s] @ 600)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from lakerunner_query.errors import PromDurationError
from lakerunner_query.gotext import durations
from lakerunner_query.promql.lang.ast import (
    Call,
    Duration,
    DurationCall,
    DurationExpr,
    DurationNumber,
    DurationOp,
    Edge,
    Expr,
    Matrix,
    Number,
    Selector,
    Shift,
    Subquery,
    Type,
    children,
    with_children,
)
from lakerunner_query.promql.lang.check import type_of
from lakerunner_query.promql.lang.functions import FUNCTIONS, QueryTimes
from lakerunner_query.syntax import Task, gather, unwind


def find_invariant_parts(expr: Expr) -> frozenset[int]:
    """Return the ids of all expressions that are the same at every step, and evaluated once.

    sum(x @ 100) / x        sum(x @ 100) is, x is not
    timestamp(x @ 100)      is not: some functions look at the evaluation time themselves
    """
    found: set[int] = set()
    _look(expr, found)
    return frozenset(found)


def _look(expr: Expr, found: set[int]) -> None:
    below = children(expr)
    for child in below:
        _look(child, found)
    match expr:
        case Selector(shift=shift) | Subquery(shift=shift):
            is_invariant = shift.at is not None
        case Call(function=function) if FUNCTIONS[function].looks_at_time:
            is_invariant = False
        case Call(function=function) if FUNCTIONS[function].syntax.label_selector is not None:
            argument = expr.arguments[0]
            is_invariant = id(argument) in found and lookup_shift(argument) is not None
        case _:
            is_invariant = all(id(child) in found for child in below)
    if is_invariant:
        found.add(id(expr))


def lookup_shift(expr: Expr) -> Shift | None:
    """Return the shift at which `info` looks up labels for this argument; None: at the evaluation times.

    last_over_time((x offset 1m)[10m:1m] @ 180)     as of 120 s
    x @ 60 or y @ 90, x @ 60 or vector(1)           at the evaluation times, as nothing is common to both

    All parts that give a vector have to have it; scalars and the second argument of `info` do not count.
    """
    shifts: set[Shift] = set()
    if _shifts_of_vectors(expr, (), shifts) and len(shifts) == 1:
        return shifts.pop()
    return None


def _shifts_of_vectors(expr: Expr, outer: tuple[Shift, ...], found: set[Shift]) -> bool:
    """Collect the shifts of the selectors below; return whether every vector has a selector."""
    if isinstance(expr, Selector):
        found.add(_joined((expr.shift, *outer)))
        return True
    below = children(expr)
    if isinstance(expr, Subquery):
        outer = (expr.shift, *outer)
    if isinstance(expr, Call) and FUNCTIONS[expr.function].syntax.label_selector is not None:
        below = below[:1]
    vectors = [child for child in below if type_of(child) in _VECTORS]
    return bool(vectors) and all(_shifts_of_vectors(child, outer, found) for child in vectors)


def _joined(shifts: tuple[Shift, ...]) -> Shift:
    """Add up offsets from the inside outwards, until an `@` makes those further out irrelevant."""
    offset = 0
    for shift in shifts:
        if not isinstance(shift.offset, int) or isinstance(shift.at, Edge):
            raise TypeError(f"{shift}: expected milliseconds, as bound expressions have")
        offset += shift.offset
        if shift.at is not None:
            return Shift(0, shift.at - offset)
    return Shift(offset)


_VECTORS = frozenset({Type.VECTOR, Type.MATRIX})


def bind(expr: Expr, start_ms: int, end_ms: int, step_ms: int) -> Expr:
    """Bind a tree to times, step 0 for an instant query; unusable durations raise `PromDurationError`."""
    return unwind(_Binder(QueryTimes(start_ms, end_ms, step_ms)).bind(expr))


class _Binder:
    def __init__(self, times: QueryTimes) -> None:
        self._times = times

    def bind(self, expr: Expr) -> Task[Expr]:
        if isinstance(expr, Call) and (value := FUNCTIONS[expr.function].syntax.value) is not None:
            return Number(value(self._times), span=expr.span)
        own = self._own(expr)
        below: list[Expr] = yield gather(map(self.bind, children(expr)))
        return with_children(own, below)

    def _own(self, expr: Expr) -> Expr:
        """Bind the times of one expression, not those below it."""
        match expr:
            case Selector():
                return replace(expr, shift=self._shift(expr.shift))
            case Matrix():
                return replace(expr, range=self._positive(expr.range))
            case Subquery():
                shift = self._shift(expr.shift)
                step = None if expr.step is None else self._positive(expr.step)
                return replace(expr, range=self._positive(expr.range), step=step, shift=shift)
        return expr

    def _shift(self, shift: Shift) -> Shift:
        at = shift.at
        if isinstance(at, Edge):
            at = self._times.start_ms if at == Edge.START else self._times.end_ms
        return Shift(self._milliseconds(shift.offset, may_be_negative=True), at)

    def _positive(self, duration: Duration) -> int:
        return self._milliseconds(duration, may_be_negative=False)

    def _milliseconds(self, duration: Duration, may_be_negative: bool) -> int:
        if isinstance(duration, int):
            return duration
        seconds = unwind(self._seconds(duration))
        if not math.isfinite(seconds):
            raise PromDurationError("duration is NaN or infinite", duration.span)
        if seconds <= 0 and not may_be_negative:
            raise PromDurationError("duration must be greater than 0", duration.span)
        if durations.is_out_of_range(seconds):
            raise PromDurationError("duration is out of range", duration.span)
        return int(seconds * 1000)

    def _seconds(self, expr: DurationExpr) -> Task[float]:
        if isinstance(expr, DurationNumber):
            return expr.seconds
        if expr.op == DurationOp.STEP:
            return self._times.step_ms / 1000
        if expr.op == DurationOp.RANGE:
            return (self._times.end_ms - self._times.start_ms) / 1000
        values: list[float] = yield gather(map(self._seconds, expr.arguments))
        if expr.op in {DurationOp.NEGATE, DurationOp.PAREN}:
            return -values[0] if expr.op == DurationOp.NEGATE else values[0]
        return _compute(expr, *values)


def _compute(expr: DurationCall, left: float, right: float) -> float:
    if expr.op in {"/", "%"} and right == 0:
        name = "division" if expr.op == "/" else "modulo"
        raise PromDurationError(f"{name} by zero", expr.span)
    return _ARITHMETIC[expr.op](left, right)


def _modulo(left: float, right: float) -> float:
    return math.nan if math.isinf(left) else math.fmod(left, right)


def _power(left: float, right: float) -> float:
    """Compute a power by IEEE 754: `(-8) ^ 0.5` is NaN, `1e200 ^ 2` infinite; Python would raise."""
    try:
        return math.pow(left, right)
    except ValueError:
        return math.inf if left == 0 else math.nan
    except OverflowError:
        return -math.inf if left < 0 and right % 2 == 1 else math.inf


def _extreme(choose: Callable[[float, float], float], left: float, right: float) -> float:
    return math.nan if math.isnan(left) or math.isnan(right) else choose(left, right)


_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": _modulo,
    "^": _power,
    DurationOp.MIN: partial(_extreme, min),
    DurationOp.MAX: partial(_extreme, max),
}
