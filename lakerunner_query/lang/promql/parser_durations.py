"""Durations and arithmetic on them: in square brackets and after `offset`.

[5m]   [step() * 2]   [1h:5m]   offset -(1h / 2)
"""

from __future__ import annotations

from dataclasses import replace

from lakerunner_query.gotext import durations, strconv
from lakerunner_query.lang.promql.ast import Duration, DurationCall, DurationExpr, DurationNumber, Span
from lakerunner_query.lang.promql.cursor import Cursor, merged
from lakerunner_query.lang.promql.features import Features
from lakerunner_query.lang.promql.tokens import DURATION, NUMBER, OF_DURATIONS, Token
from lakerunner_query.syntax import Task

LITERALS = frozenset({NUMBER, DURATION})
SIGNS = frozenset("+-")
_ADDITION, _PRODUCT, _POWER = 1, 2, 3
_LEVELS = {"+": _ADDITION, "-": _ADDITION, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT, "^": _POWER}
_NAMES = {"max_of": "max", "min_of": "min"}


def literal(cursor: Cursor) -> tuple[float, Token]:
    """The value of a number or of a duration in seconds."""
    token = cursor.expect(LITERALS)
    try:
        return (strconv.number if token.kind == NUMBER else durations.seconds)(token.text), token
    except strconv.InvalidNumberError as error:
        raise cursor.failure(f"error parsing number: {error}", token.span) from error
    except durations.InvalidDurationError as error:
        raise cursor.failure(str(error), token.span) from error


def settled(expr: DurationExpr) -> Duration:
    """Milliseconds, where no times of the query are needed."""
    return durations.from_seconds(expr.seconds) if isinstance(expr, DurationNumber) else expr


class DurationParser:
    def __init__(self, cursor: Cursor, features: Features) -> None:
        self._cursor = cursor
        self._features = features

    def positive(self) -> Task[DurationExpr]:
        """A whole duration expression; a plain number has to be above zero."""
        expr: DurationExpr = yield self._expression(_ADDITION)
        self._cursor.look_ahead()  # what the lexer says of the next token goes before what is said here
        if isinstance(expr, DurationNumber) and expr.seconds <= 0:
            raise self._cursor.failure("duration must be greater than 0", expr.span)
        return expr

    def offset(self) -> Task[DurationExpr]:
        """What follows `offset`: one signed operand, so that `foo offset 5m - bar` subtracts bar.

        Only what starts with a parenthesis or two signs takes operators, as Prometheus' grammar has it.
        """
        cursor = self._cursor
        sign = cursor.take_if(*SIGNS)
        if cursor.next.kind == "(" and sign:
            cursor.take()
            inner: DurationExpr = yield self._expression(_ADDITION)
            cursor.expect({")"})
            return self._signed(sign, _wrapped(inner))
        if cursor.next.kind in LITERALS:
            return self._number(sign)
        if cursor.next.kind in OF_DURATIONS:
            operand: DurationExpr = yield self._call(sign)
            return self._signed(sign, operand) if sign else operand
        if sign:
            operand = yield self._expression(_PRODUCT + 1)
            signed = self._signed(sign, operand)
            operand = yield self._operators(signed, _ADDITION)
            return operand
        operand = yield self._expression(_ADDITION)
        return operand

    def _expression(self, floor: int) -> Task[DurationExpr]:
        expr: DurationExpr = yield self._operand()
        expr = yield self._operators(expr, floor)
        return expr

    def _operators(self, left: DurationExpr, floor: int) -> Task[DurationExpr]:
        while (level := _LEVELS.get(self._cursor.next.kind, 0)) >= floor:
            op = self._cursor.take()
            right: DurationExpr = yield self._expression(level if level == _POWER else level + 1)
            left = self._operation(op, left, right)
        return left

    def _operand(self) -> Task[DurationExpr]:
        cursor = self._cursor
        token = cursor.next
        if token.kind in LITERALS:
            return self._number()
        if token.kind in OF_DURATIONS:
            call: DurationExpr = yield self._call()
            return call
        cursor.expect({*SIGNS, "("})
        if token.kind in SIGNS:
            operand: DurationExpr = yield self._expression(_PRODUCT + 1)
            return self._signed(token, operand)
        inner: DurationExpr = yield self._expression(_ADDITION)
        cursor.expect({")"})
        self._require_feature(inner.span)
        return _wrapped(inner)

    def _call(self, sign: Token | None = None) -> Task[DurationExpr]:
        """`step()` and its like; a sign in front of it is blamed with it."""
        cursor = self._cursor
        token = cursor.take()
        cursor.expect({"("})
        arguments: list[DurationExpr] = []
        if token.kind in _NAMES:
            arguments.append((yield self._expression(_ADDITION)))
            cursor.expect({","})
            arguments.append((yield self._expression(_ADDITION)))
        closing = cursor.expect({")"})
        # messages place a call with arguments where the first of them is
        first, last = (arguments[0], arguments[-1]) if arguments else (token, closing)
        span = merged(first.span, last.span)
        self._require_feature(merged(sign.span, span) if sign else span)
        return DurationCall(_NAMES.get(token.kind, token.kind), tuple(arguments), span)

    def _number(self, sign: Token | None = None) -> DurationNumber:
        value, token = literal(self._cursor)
        number = DurationNumber(value, token.kind == DURATION, token.span)
        return self._negated(sign, number) if sign else self._in_range(number, token.span)

    def _signed(self, sign: Token, operand: DurationExpr) -> DurationExpr:
        if isinstance(operand, DurationNumber):
            return self._negated(sign, operand)
        span = merged(sign.span, operand.span)
        return DurationCall("neg", (operand,), span) if sign.kind == "-" else operand

    def _negated(self, sign: Token, number: DurationNumber) -> DurationNumber:
        """Where the sign is a minus."""
        value = -number.seconds if sign.kind == "-" else number.seconds
        span = merged(sign.span, number.span)
        return self._in_range(replace(number, seconds=value, span=span), sign.span)

    def _in_range(self, number: DurationNumber, blamed: Span) -> DurationNumber:
        if durations.is_out_of_range(number.seconds):
            raise self._cursor.failure("duration out of range", blamed)
        return number

    def _operation(self, op: Token, left: DurationExpr, right: DurationExpr) -> DurationExpr:
        self._require_feature(left.span)
        if op.kind in {"/", "%"} and isinstance(right, DurationNumber) and right.seconds == 0:
            name = "division" if op.kind == "/" else "modulo"
            raise self._cursor.failure(f"{name} by zero", op.span)
        return DurationCall(op.kind, (left, right), merged(left.span, right.span))

    def _require_feature(self, blamed: Span) -> None:
        if not self._features.duration_expressions:
            raise self._cursor.failure("experimental duration expression is not enabled", blamed)


def _wrapped(inner: DurationExpr) -> DurationExpr:
    """In parentheses, once; no message shows their place."""
    if isinstance(inner, DurationCall) and inner.op == "paren":
        return inner
    return DurationCall("paren", (inner,), inner.span)
