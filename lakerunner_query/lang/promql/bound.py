"""The tree for one query's times: nothing in it depends on start, end or step any more.

rate(up[step() * 2] @ end())      start 0, end 600 s, step 15 s

rate(up[30s] @ 600)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from lakerunner_query.errors import PromDurationError
from lakerunner_query.lang.promql import durations
from lakerunner_query.lang.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Duration,
    DurationCall,
    DurationExpr,
    DurationNumber,
    Edge,
    Expr,
    Matrix,
    Number,
    Paren,
    Selector,
    Shift,
    Subquery,
    Unary,
)
from lakerunner_query.lang.promql.unwinding import Task, unwind


def bind(expr: Expr, start_ms: int, end_ms: int, step_ms: int) -> Expr:
    """Raises `PromDurationError` where a duration comes out as none; an instant query has a step of 0."""
    return unwind(_Times(start_ms, end_ms, step_ms).bound(expr))


@dataclass(frozen=True, slots=True)
class _Times:
    start_ms: int
    end_ms: int
    step_ms: int

    def bound(self, expr: Expr) -> Task[Expr]:
        match expr:
            case Selector():
                return self._selector(expr)
            case Matrix():
                return replace(expr, range=self._positive(expr.range), selector=self._selector(expr.selector))
            case Paren() | Unary():
                inner: Expr = yield self.bound(expr.expr)
                return replace(expr, expr=inner)
            case Subquery():
                inner = yield self.bound(expr.expr)
                step = None if expr.step is None else self._positive(expr.step)
                reach = self._positive(expr.range)
                return replace(expr, expr=inner, range=reach, step=step, shift=self._shift(expr.shift))
            case Binary():
                left: Expr = yield self.bound(expr.left)
                right: Expr = yield self.bound(expr.right)
                return replace(expr, left=left, right=right)
            case Aggregate():
                inner = yield self.bound(expr.expr)
                parameter = expr.parameter
                if parameter is not None:
                    parameter = yield self.bound(parameter)
                return replace(expr, expr=inner, parameter=parameter)
            case Call():
                if (value := self._of_query(expr.function)) is not None:
                    return Number(value, span=expr.span)
                arguments: list[Expr] = []
                for argument in expr.arguments:
                    arguments.append((yield self.bound(argument)))
                return replace(expr, arguments=tuple(arguments))
        return expr

    def _of_query(self, function: str) -> float | None:
        match function:
            case "start":
                return self.start_ms / 1000
            case "end":
                return self.end_ms / 1000
            case "range":
                return (self.end_ms - self.start_ms) / 1000
            case "step":
                return self.step_ms / 1000
        return None

    def _selector(self, expr: Selector) -> Selector:
        return replace(expr, shift=self._shift(expr.shift))

    def _shift(self, shift: Shift) -> Shift:
        at = shift.at
        if isinstance(at, Edge):
            at = self.start_ms if at == Edge.START else self.end_ms
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
        if expr.op in {"step", "range"}:
            return self._of_query(expr.op) or 0.0
        values: list[float] = []
        for argument in expr.arguments:
            values.append((yield self._seconds(argument)))
        if expr.op in {"neg", "paren"}:
            return -values[0] if expr.op == "neg" else values[0]
        return _computed(expr, *values)


def _computed(expr: DurationCall, left: float, right: float) -> float:
    match expr.op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/" | "%":
            if right == 0:
                name = "division" if expr.op == "/" else "modulo"
                raise PromDurationError(f"{name} by zero", expr.span)
            return left / right if expr.op == "/" else math.fmod(left, right)
        case "^":
            return _power(left, right)
        case "min" | "max":
            return _extreme(expr.op == "max", left, right)
    raise TypeError(f"unknown operator {expr.op!r} of a duration expression")


def _power(left: float, right: float) -> float:
    """As IEEE has it, where Python raises: `(-8) ^ 0.5` is NaN, `1e200 ^ 2` is infinite."""
    try:
        return math.pow(left, right)
    except ValueError:
        return math.inf if left == 0 else math.nan
    except OverflowError:
        return math.inf


def _extreme(is_largest: bool, left: float, right: float) -> float:
    if math.isnan(left) or math.isnan(right):
        return math.nan
    return max(left, right) if is_largest else min(left, right)
