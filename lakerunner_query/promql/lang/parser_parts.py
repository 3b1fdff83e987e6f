"""Parts of the parser: selectors, label lists, modifiers and duration expressions.

{job="api", "http.path"=~"/v1/.*"}      by (job, "http.path")
[5m]   [step() * 2]   [1h:5m]   offset -(1h / 2)
"""

from __future__ import annotations

import math
from dataclasses import replace

from lakerunner_query.gotext import durations, numbers, regexp
from lakerunner_query.gotext.strconv import PROMQL, is_utf8
from lakerunner_query.promql.lang.ast import (
    NO_SHIFT,
    Duration,
    DurationCall,
    DurationExpr,
    DurationNumber,
    DurationOp,
    Edge,
    Expr,
    Matrix,
    Reach,
    Selector,
    Shift,
    Span,
    Subquery,
)
from lakerunner_query.promql.lang.cursor import Cursor, join_spans
from lakerunner_query.promql.lang.functions import FUNCTIONS
from lakerunner_query.promql.lang.lexer import (
    DURATION,
    DURATION_CALLS,
    IDENTIFIER,
    LABEL_NAMES,
    METRIC_NAMES,
    NUMBER,
    STRING,
    Token,
)
from lakerunner_query.syntax import Matcher, MatchOp, Task

NAME = "__name__"
STARTS = METRIC_NAMES | {"{"}
_MATCH_OPS = frozenset(MatchOp)
_LIST = "label matching"
_GROUPING = "grouping opts"


def selector(cursor: Cursor, name: Token) -> Selector:
    """Read a metric name, matchers in braces, or both; `name` is the first token, one of `STARTS`."""
    if name.kind == "{":
        return _in_braces(cursor, name)
    opening = cursor.take_if("{")
    braces = _in_braces(cursor, opening) if opening else Selector("", (), NO_SHIFT, span=name.span)
    # the name outside comes last: checks that look for a second one rely on it
    named = Matcher(NAME, MatchOp.EQUAL, name.text)
    return Selector(name.text, (*braces.matchers, named), span=join_spans(name.span, braces.span))


def _in_braces(cursor: Cursor, opening: Token) -> Selector:
    matchers: list[Matcher] = []
    closing = cursor.take_if("}")
    while closing is None:
        matchers.append(_matcher(cursor))
        after = cursor.expect({",", "}"}, _LIST, '"," or "}"')
        closing = after if after.kind == "}" else cursor.take_if("}")
    return Selector("", tuple(matchers), span=join_spans(opening.span, closing.span))


def _matcher(cursor: Cursor) -> Matcher:
    token = cursor.expect({IDENTIFIER, STRING}, _LIST, 'identifier or "}"')
    name = PROMQL.unquote(token.text) if token.kind == STRING else token.text
    if token.kind == STRING and cursor.next.kind not in _MATCH_OPS:
        return Matcher(NAME, MatchOp.EQUAL, name)
    op = MatchOp(cursor.expect(_MATCH_OPS, _LIST, "label matching operator").kind)
    literal = cursor.expect({STRING}, _LIST, "string")
    value = PROMQL.unquote(literal.text)
    if op.is_regex and (reason := regexp.complaint(value)):
        raise cursor.failure(reason, join_spans(token.span, literal.span))
    return Matcher(name, op, value)


def labels(cursor: Cursor) -> tuple[str, ...]:
    """Read a list `(a, b)` as after `by`; a comma may end it."""
    cursor.expect({"("}, _GROUPING, '"("')
    names: list[str] = []
    closing = cursor.take_if(")")
    while closing is None:
        names.append(_label(cursor))
        after = cursor.expect({",", ")"}, _GROUPING, '"," or ")"')
        closing = after if after.kind == ")" else cursor.take_if(")")
    return tuple(names)


def _label(cursor: Cursor) -> str:
    token = cursor.expect(LABEL_NAMES | {STRING}, _GROUPING, "label")
    name = PROMQL.unquote(token.text) if token.kind == STRING else token.text
    if not name or not is_utf8(name):
        raise cursor.failure(f"invalid label name for grouping: {PROMQL.quote(name)}", token.span)
    return name


Shiftable = Selector | Matrix | Subquery
_SHIFTABLE = "an instant vector selector or range vector selector or a subquery"


def with_offset(cursor: Cursor, expr: Expr, offset: Duration, end: int) -> Expr:
    if not isinstance(expr, Shiftable):
        raise cursor.failure(f"offset modifier must be preceded by {_SHIFTABLE}", expr.span)
    shift = _shift_of(expr)
    if shift.offset != 0:
        raise cursor.failure("offset may not be set multiple times", expr.span)
    return _with_shift(expr, replace(shift, offset=offset), end)


def with_time(cursor: Cursor, expr: Expr, seconds: float, end: int) -> Expr:
    if not abs(seconds) < 2.0**63:
        shown = "NaN" if math.isnan(seconds) else f"{seconds:+f}" if math.isinf(seconds) else f"{seconds:f}"
        reason = f"timestamp out of bounds for @ modifier: {shown.replace('inf', 'Inf')}"
        raise cursor.failure(reason, expr.span)
    milliseconds = int(math.copysign(math.floor(abs(seconds) * 1000 + 0.5), seconds))
    return with_at(cursor, expr, milliseconds, end)


def with_at(cursor: Cursor, expr: Expr, at: int | Edge, end: int) -> Expr:
    if not isinstance(expr, Shiftable):
        raise cursor.failure(f"@ modifier must be preceded by {_SHIFTABLE}", expr.span)
    shift = _shift_of(expr)
    if shift.at is not None:
        raise cursor.failure("@ <timestamp> may not be set multiple times", expr.span)
    return _with_shift(expr, replace(shift, at=at), end)


def with_reach(cursor: Cursor, expr: Expr, reach: Reach, is_enabled: bool) -> Expr:
    if not is_enabled:
        raise cursor.failure(f"{reach} modifier is experimental and not enabled", expr.span)
    selector = expr.selector if isinstance(expr, Matrix) else expr
    if not isinstance(selector, Selector):
        problem = "is not supported for subqueries" if isinstance(expr, Subquery) else "not implemented"
        raise cursor.failure(f"{reach} modifier {problem}", expr.span)
    if selector.reach not in {Reach.PLAIN, reach}:
        raise cursor.failure("anchored and smoothed modifiers cannot be used together", expr.span)
    reaching = replace(selector, reach=reach)
    return replace(expr, selector=reaching) if isinstance(expr, Matrix) else reaching


def matrix(cursor: Cursor, expr: Expr, length: Duration, brackets: Span) -> Matrix:
    if not isinstance(expr, Selector):
        raise cursor.failure("ranges only allowed for vector selectors", brackets)
    if expr.shift.offset != 0:
        raise cursor.failure("no offset modifiers allowed before range", brackets)
    if expr.shift.at is not None:
        raise cursor.failure("no @ modifiers allowed before range", brackets)
    return Matrix(expr, length, Span(expr.span.start, brackets.end))


def _shift_of(expr: Shiftable) -> Shift:
    return expr.selector.shift if isinstance(expr, Matrix) else expr.shift


def _with_shift(expr: Shiftable, shift: Shift, end: int) -> Expr:
    span = Span(expr.span.start, end)
    if isinstance(expr, Matrix):
        return replace(expr, selector=replace(expr.selector, shift=shift), span=span)
    return replace(expr, shift=shift, span=span)


LITERALS = frozenset({NUMBER, DURATION})
SIGNS = frozenset("+-")
_ADDITION, _PRODUCT, _POWER = 1, 2, 3
_LEVELS = {"+": _ADDITION, "-": _ADDITION, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT, "^": _POWER}


def literal(cursor: Cursor) -> tuple[float, Token]:
    """Read a number, or a duration in seconds."""
    token = cursor.expect(LITERALS)
    try:
        return (numbers.read_number if token.kind == NUMBER else durations.seconds)(token.text), token
    except numbers.ConversionError as error:
        reason = f"error parsing number: {error}" if token.kind == NUMBER else str(error)
        raise cursor.failure(reason, token.span) from error


def to_milliseconds(expr: DurationExpr) -> Duration:
    """Convert to milliseconds, unless the times of the query are needed."""
    return durations.from_seconds(expr.seconds) if isinstance(expr, DurationNumber) else expr


class DurationParser:
    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    def positive(self) -> Task[DurationExpr]:
        """Read a whole duration expression; a plain number has to be above zero."""
        expr: DurationExpr = yield self._expression(_ADDITION)
        self._cursor.look_ahead()  # what the lexer says of the next token goes before what is said here
        if isinstance(expr, DurationNumber) and expr.seconds <= 0:
            raise self._cursor.failure("duration must be greater than 0", expr.span)
        return expr

    def offset(self) -> Task[DurationExpr]:
        """Read one signed operand after `offset`, so that `foo offset 5m - bar` subtracts bar.

        Only what starts with a parenthesis or two signs takes operators, as Prometheus' grammar has it.
        """
        cursor = self._cursor
        sign = cursor.take_if(*SIGNS)
        if cursor.next.kind == "(" and sign:
            cursor.take()
            inner: DurationExpr = yield self._expression(_ADDITION)
            cursor.expect({")"})
            return self._apply_sign(sign, _wrap(inner))
        if cursor.next.kind in LITERALS:
            return self._number(sign)
        if cursor.next.kind in DURATION_CALLS:
            operand: DurationExpr = yield self._call()
            return self._apply_sign(sign, operand) if sign else operand
        if sign:
            operand = yield self._expression(_PRODUCT + 1)
            signed = self._apply_sign(sign, operand)
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
        if token.kind in DURATION_CALLS:
            call: DurationExpr = yield self._call()
            return call
        cursor.expect({*SIGNS, "("})
        if token.kind in SIGNS:
            operand: DurationExpr = yield self._expression(_PRODUCT + 1)
            return self._apply_sign(token, operand)
        inner: DurationExpr = yield self._expression(_ADDITION)
        cursor.expect({")"})
        return _wrap(inner)

    def _call(self) -> Task[DurationExpr]:
        """Read a call such as `step()`."""
        cursor = self._cursor
        token = cursor.take()
        cursor.expect({"("})
        arguments: list[DurationExpr] = []
        function = FUNCTIONS[token.kind]
        if function.signature.arguments:
            arguments.append((yield self._expression(_ADDITION)))
            cursor.expect({","})
            arguments.append((yield self._expression(_ADDITION)))
        closing = cursor.expect({")"})
        # messages place a call with arguments where the first of them is
        first, last = (arguments[0], arguments[-1]) if arguments else (token, closing)
        span = join_spans(first.span, last.span)
        return DurationCall(function.syntax.duration_op or token.kind, tuple(arguments), span)

    def _number(self, sign: Token | None = None) -> DurationNumber:
        value, token = literal(self._cursor)
        number = DurationNumber(value, token.kind == DURATION, token.span)
        return self._negate(sign, number) if sign else self._in_range(number, token.span)

    def _apply_sign(self, sign: Token, operand: DurationExpr) -> DurationExpr:
        if isinstance(operand, DurationNumber):
            return self._negate(sign, operand)
        span = join_spans(sign.span, operand.span)
        return DurationCall(DurationOp.NEGATE, (operand,), span) if sign.kind == "-" else operand

    def _negate(self, sign: Token, number: DurationNumber) -> DurationNumber:
        """Apply a sign to a number."""
        value = -number.seconds if sign.kind == "-" else number.seconds
        span = join_spans(sign.span, number.span)
        return self._in_range(replace(number, seconds=value, span=span), sign.span)

    def _in_range(self, number: DurationNumber, blamed: Span) -> DurationNumber:
        if durations.is_out_of_range(number.seconds):
            raise self._cursor.failure("duration out of range", blamed)
        return number

    def _operation(self, op: Token, left: DurationExpr, right: DurationExpr) -> DurationExpr:
        if op.kind in {"/", "%"} and isinstance(right, DurationNumber) and right.seconds == 0:
            name = "division" if op.kind == "/" else "modulo"
            raise self._cursor.failure(f"{name} by zero", op.span)
        return DurationCall(op.kind, (left, right), join_spans(left.span, right.span))


def _wrap(inner: DurationExpr) -> DurationExpr:
    """Put into parentheses, once; no message shows their place."""
    if isinstance(inner, DurationCall) and inner.op == DurationOp.PAREN:
        return inner
    return DurationCall(DurationOp.PAREN, (inner,), inner.span)
