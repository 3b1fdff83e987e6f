"""The parser of PromQL, from text to checked tree.

    sum by (job) (rate(errors_total[5m])) / 2

Operators are read by precedence climbing. The parser takes tokens only when it needs them and raises the
first error, so that the error is the one Prometheus would report. Nesting costs no Python stack (see
`lakerunner_query/syntax.py`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from lakerunner_query.gotext.strconv import PROMQL
from lakerunner_query.promql.lang import parser_parts
from lakerunner_query.promql.lang.ast import (
    Aggregate,
    Binary,
    Call,
    Cardinality,
    DurationExpr,
    Edge,
    Expr,
    Matching,
    Number,
    Paren,
    Reach,
    Span,
    Subquery,
    Text,
    Unary,
)
from lakerunner_query.promql.lang.check import check_types
from lakerunner_query.promql.lang.cursor import (
    ALL_FEATURES,
    Cursor,
    Features,
    check_depth,
    check_length,
    check_task_count,
    join_spans,
)
from lakerunner_query.promql.lang.functions import AGGREGATIONS, FUNCTIONS
from lakerunner_query.promql.lang.lexer import (
    DURATION,
    END,
    FILLS,
    IDENTIFIER,
    KEYWORD_CALLS,
    SET_OPERATORS,
    STRING,
    Token,
)
from lakerunner_query.promql.lang.parser_parts import LITERALS, SIGNS, DurationParser, to_milliseconds
from lakerunner_query.syntax import Matcher, Task, unwind

_LEVELS = (
    ("or",),
    ("and", "unless"),
    ("==", ">=", ">", "<", "<=", "!=", "</", ">/"),
    ("+", "-"),
    ("*", "/", "%", "atan2"),
    ("^",),
)
_LEVEL_OF = {op: level for level, ops in enumerate(_LEVELS, start=1) for op in ops}
_SIGN_LEVEL = _LEVEL_OF["*"]
"""`-a ^ b` is `-(a ^ b)`, `-a * b` is `(-a) * b`."""
_STARTS = parser_parts.STARTS | LITERALS | SIGNS | {STRING, "("}
_OFFSET = ("offset", "number, duration, step(), or range()")
_RANGE_START = ("subquery or range selector", "number, duration, step(), or range()")
_RANGE_END = ("subquery or range", '":" or "]"')
_STEP_START = ("subquery selector", 'number, duration, step(), range(), or "]"')
_STEP_END = ("subquery selector", '"]"')


def parse(text: str, features: Features = ALL_FEATURES) -> Expr:
    """Return the checked tree, or raise `PromParseError`, worded and placed as in Prometheus.

    >>> parse("2 + 3 * foo").op
    '+'
    """
    check_length(text)
    cursor = Cursor(text)
    if cursor.next.kind == END:
        raise cursor.failure("no expression found in input")
    expr: Expr = unwind(_Parser(cursor, features).whole(), lambda tasks: check_task_count(cursor, tasks))
    check_depth(cursor, expr)
    return check_types(text, expr)


@lru_cache(maxsize=512)
def parse_cached(text: str, features: Features = ALL_FEATURES) -> Expr:
    """Parse, and keep the trees of recent texts; a tree is never changed."""
    return parse(text, features)


def parse_selector(text: str) -> tuple[Matcher, ...]:
    """Return the matchers of an instant vector selector alone, as `match[]` takes it."""
    check_length(text)
    cursor = Cursor(text)
    selector = parser_parts.selector(cursor, cursor.expect(parser_parts.STARTS))
    cursor.expect({END})
    return selector.matchers


class _Parser:
    def __init__(self, cursor: Cursor, features: Features) -> None:
        self._cursor = cursor
        self._features = features
        self._durations = DurationParser(cursor)

    def whole(self) -> Task[Expr]:
        expr: Expr = yield self._expression()
        self._cursor.expect({END})
        return expr

    def _expression(self, floor: int = 1) -> Task[Expr]:
        left: Expr = yield self._operand()
        while True:
            kind = self._cursor.next.kind
            if kind in {"[", "offset", "@", "anchored", "smoothed"}:
                left = yield self._modifier(left)
            elif _LEVEL_OF.get(kind, 0) >= floor:
                left = yield self._binary(left)
            else:
                return left

    def _operand(self) -> Task[Expr]:
        cursor = self._cursor
        token = cursor.next
        if token.kind in LITERALS:
            value, token = parser_parts.literal(cursor)
            return Number(value, token.kind == DURATION, token.span)
        if token.kind in parser_parts.STARTS:
            named: Expr = yield self._name()
            return named
        cursor.expect(_STARTS)
        if token.kind == STRING:
            return Text(PROMQL.unquote(token.text), token.span)
        if token.kind in SIGNS:
            operand: Expr = yield self._expression(_SIGN_LEVEL + 1)
            return _apply_sign(token, operand)
        inner: Expr = yield self._expression()
        return Paren(inner, join_spans(token.span, cursor.expect({")"}).span))

    def _name(self) -> Task[Expr]:
        """Read a selector, or a call of a function or aggregation."""
        name = self._cursor.take()
        if name.kind in AGGREGATIONS and self._cursor.next.kind in {"(", "by", "without"}:
            aggregate: Expr = yield self._aggregate(name)
            return aggregate
        if name.kind in KEYWORD_CALLS | {IDENTIFIER} and self._cursor.next.kind == "(":
            call: Expr = yield self._call(name)
            return call
        return parser_parts.selector(self._cursor, name)

    def _call(self, name: Token) -> Task[Expr]:
        arguments: list[Expr] = []
        end: int = yield self._arguments(arguments)
        function = FUNCTIONS.get(name.text)
        if function is None:
            raise self._cursor.failure(f"unknown function with name {PROMQL.quote(name.text)}", name.span)
        if function.is_experimental and not self._features.experimental_functions:
            raise self._cursor.failure(f"function {PROMQL.quote(name.text)} is not enabled", name.span)
        return Call(name.text, tuple(arguments), Span(name.span.start, end))

    def _arguments(self, into: list[Expr]) -> Task[int]:
        """Fill the list, and return the place behind the closing parenthesis."""
        cursor = self._cursor
        cursor.expect({"("})
        closing = cursor.take_if(")")
        while closing is None:
            into.append((yield self._expression()))
            after = cursor.expect({",", ")"})
            if after.kind == ")":
                closing = after
            elif cursor.next.kind not in _STARTS:
                raise cursor.failure("trailing commas not allowed in function call args", after.span)
        return closing.span.end

    def _aggregate(self, op: Token) -> Task[Expr]:
        cursor = self._cursor
        arguments: list[Expr] = []
        with cursor.inside("aggregation"):
            modifier = cursor.take_if("by", "without")
            grouping = parser_parts.labels(cursor) if modifier else ()
            end: int = yield self._arguments(arguments)
            if modifier is None and (modifier := cursor.take_if("by", "without")):
                grouping, end = parser_parts.labels(cursor), cursor.end
        span = Span(op.span.start, end)
        self._require_arguments(op.kind, arguments, span)
        parameter = arguments[0] if AGGREGATIONS[op.kind].parameter else None
        is_without = modifier is not None and modifier.kind == "without"
        return Aggregate(op.kind, arguments[-1], parameter, grouping, is_without, span)

    def _require_arguments(self, op: str, arguments: list[Expr], span: Span) -> None:
        if not arguments:
            raise self._cursor.failure("no arguments for aggregate expression provided", span)
        if AGGREGATIONS[op].is_experimental and not self._features.experimental_functions:
            flag = "--enable-feature=promql-experimental-functions"
            raise self._cursor.failure(f"{op}() is experimental and must be enabled with {flag}", span)
        expected = 2 if AGGREGATIONS[op].parameter else 1
        if len(arguments) != expected:
            found = f"expected {expected}, got {len(arguments)}"
            reason = f"wrong number of arguments for aggregate expression provided, {found}"
            raise self._cursor.failure(reason, span)

    def _binary(self, left: Expr) -> Task[Expr]:
        op = self._cursor.take().kind
        level = _LEVEL_OF[op]
        return_bool = self._cursor.take_if("bool") is not None
        matching = self._matching()
        if op in SET_OPERATORS and matching.cardinality == Cardinality.ONE_TO_ONE:
            matching = replace(matching, cardinality=Cardinality.MANY_TO_MANY)
        right: Expr = yield self._expression(level if op == "^" else level + 1)
        span = join_spans(left.span, right.span)
        if not self._features.fill_modifiers and (matching.fill_left, matching.fill_right) != (None, None):
            raise self._cursor.failure("binop fill modifiers are experimental and not enabled", span)
        return Binary(op, left, right, matching, return_bool, span)

    def _matching(self) -> Matching:
        cursor = self._cursor
        matching = Matching()
        if on := cursor.take_if("on", "ignoring"):
            matching = replace(matching, on=on.kind == "on", labels=parser_parts.labels(cursor))
            if group := cursor.take_if("group_left", "group_right"):
                side = Cardinality.MANY_TO_ONE if group.kind == "group_left" else Cardinality.ONE_TO_MANY
                # the labels may be missing if an operand follows
                has_labels = cursor.next.kind == "(" or cursor.next.kind not in _STARTS
                include = parser_parts.labels(cursor) if has_labels else ()
                matching = replace(matching, cardinality=side, include=include)
        fill = cursor.take_if(*FILLS)
        if fill is None:
            return matching
        matching = _set_fill(matching, fill.kind, self._fill_value())
        other = {"fill_left": "fill_right", "fill_right": "fill_left"}.get(fill.kind)
        if other and cursor.take_if(other):
            matching = _set_fill(matching, other, self._fill_value())
        return matching

    def _fill_value(self) -> float:
        self._cursor.expect({"("})
        sign = self._cursor.take_if(*SIGNS)
        value, _ = parser_parts.literal(self._cursor)
        self._cursor.expect({")"})
        return -value if sign and sign.kind == "-" else value

    def _modifier(self, expr: Expr) -> Task[Expr]:
        """Read one of `[...]`, `offset`, `@`, `anchored`, `smoothed` behind an expression."""
        token = self._cursor.take()
        if token.kind == "[":
            ranged: Expr = yield self._range(expr, token)
            return ranged
        if token.kind == "offset":
            with self._cursor.inside(*_OFFSET):
                offset: DurationExpr = yield self._durations.offset()
            return parser_parts.with_offset(self._cursor, expr, to_milliseconds(offset), self._cursor.end)
        if token.kind == "@":
            return self._at(expr)
        is_enabled = self._features.extended_range_selectors
        return parser_parts.with_reach(self._cursor, expr, Reach(token.kind), is_enabled)

    def _at(self, expr: Expr) -> Expr:
        cursor = self._cursor
        with cursor.inside("@", "timestamp"):
            if edge := cursor.take_if(*Edge):
                cursor.expect({"("})
                end = cursor.expect({")"}).span.end
                return parser_parts.with_at(cursor, expr, Edge(edge.kind), end)
            sign = cursor.take_if(*SIGNS)
            seconds, token = parser_parts.literal(cursor)
        seconds = -seconds if sign and sign.kind == "-" else seconds
        return parser_parts.with_time(cursor, expr, seconds, token.span.end)

    def _range(self, expr: Expr, opening: Token) -> Task[Expr]:
        cursor = self._cursor
        with cursor.inside(*_RANGE_START):
            length: DurationExpr = yield self._durations.positive()
        after = cursor.expect({":", "]"}, *_RANGE_END)
        if after.kind == "]":
            brackets = join_spans(opening.span, after.span)
            return parser_parts.matrix(cursor, expr, to_milliseconds(length), brackets)
        closing, step = cursor.take_if("]"), None
        if closing is None:
            with cursor.inside(*_STEP_START):
                step = yield self._durations.positive()
            closing = cursor.expect({"]"}, *_STEP_END)
        span = Span(expr.span.start, closing.span.end)
        return Subquery(
            expr, to_milliseconds(length), None if step is None else to_milliseconds(step), span=span
        )


def _apply_sign(sign: Token, operand: Expr) -> Expr:
    span = join_spans(sign.span, operand.span)
    if isinstance(operand, Number):
        return replace(operand, value=-operand.value if sign.kind == "-" else operand.value, span=span)
    return Unary(sign.kind, operand, span)


def _set_fill(matching: Matching, kind: str, value: float) -> Matching:
    if kind == "fill":
        return replace(matching, fill_left=value, fill_right=value)
    return replace(matching, fill_left=value) if kind == "fill_left" else replace(matching, fill_right=value)
