"""Expressions with samples: aggregations over time and over series, functions, operators.

    sum by (app) (rate({app=~".+"} |= "x" [5m])) / 2 > 1

Operators are read by precedence climbing. Nesting costs no Python stack (see `promql/unwinding.py`).
"""

from __future__ import annotations

from lakerunner_query.lang.logql import check
from lakerunner_query.lang.logql.ast import (
    Binary,
    Cardinality,
    Expr,
    Grouping,
    LabelReplace,
    Literal,
    LogQuery,
    LogRange,
    Matching,
    RangeAggregation,
    SampleExpr,
    VectorAggregation,
    VectorOf,
)
from lakerunner_query.lang.logql.cursor import Cursor
from lakerunner_query.lang.logql.folding import folded
from lakerunner_query.lang.logql.parser_numbers import literal, number_of
from lakerunner_query.lang.logql.parser_ranges import log_query, log_range
from lakerunner_query.lang.logql.parser_selector import check_regex
from lakerunner_query.lang.logql.tokens import IDENTIFIER, NUMBER, STRING, Token
from lakerunner_query.lang.logql.vocabulary import GROUPINGS, RANGE_AGGREGATIONS, VECTOR_AGGREGATIONS
from lakerunner_query.lang.promql.unwinding import Task

LEVELS = (
    ("or",),
    ("and", "unless"),
    ("==", ">=", ">", "<", "<=", "!="),
    ("+", "-"),
    ("*", "/", "%"),
    ("^",),
)
"""Weakest first; `^` alone groups from the right."""
LEVEL_OF = {op: level for level, ops in enumerate(LEVELS, start=1) for op in ops}


def expression(cursor: Cursor, floor: int = 1, left: Expr | None = None) -> Task[Expr]:
    """An expression of operators of this level and above; `left` where its beginning was read already."""
    found: Expr = left if left is not None else (yield _operand(cursor))
    while LEVEL_OF.get(cursor.next.kind, 0) >= floor:
        found = yield _binary(cursor, found)
    return found


def _samples(cursor: Cursor, left: Expr | None = None) -> Task[SampleExpr]:
    """An expression as an argument, where lines will not do."""
    found: Expr = yield expression(cursor, left=left)
    if isinstance(found, LogQuery):
        raise cursor.unexpected()
    return found


def _operand(cursor: Cursor) -> Task[Expr]:
    token = cursor.next
    kind = token.kind
    if kind == "{":
        query: LogQuery = yield log_query(cursor)
        return query
    if kind in {NUMBER, "+", "-"}:
        return literal(cursor)
    if cursor.take_if("("):
        inner: Expr = yield expression(cursor)
        cursor.expect(")")
        return inner
    named: SampleExpr = yield _named(cursor)
    return named


def _named(cursor: Cursor) -> Task[SampleExpr]:
    kind = cursor.next.kind
    if kind == "vector":
        return _vector_of(cursor)
    if kind == "variants":
        raise check.unsupported(cursor.next)
    if kind in RANGE_AGGREGATIONS:
        found: SampleExpr = yield _range_aggregation(cursor)
    elif kind in VECTOR_AGGREGATIONS:
        found = yield _vector_aggregation(cursor)
    elif kind == "label_replace":
        found = yield _label_replace(cursor)
    else:
        raise cursor.unexpected()
    return found


def _range_aggregation(cursor: Cursor) -> Task[RangeAggregation]:
    word = cursor.take()
    before = _grouping(cursor)
    parameter: Token | None = None
    cursor.expect("(")
    if cursor.next.kind not in {"{", "("}:
        parameter = cursor.expect(NUMBER, "{", "(")
        cursor.expect(",")
    ranged: LogRange = yield log_range(cursor)
    cursor.expect(")")
    grouping = before or _grouping(cursor)
    check.check_range_parameter(word.text, parameter)
    value = number_of(parameter) if parameter else None
    return check.checked_range(RangeAggregation(word.text, ranged, value, grouping, word.position))


def _vector_aggregation(cursor: Cursor) -> Task[VectorAggregation]:
    word = cursor.take()
    before = _grouping(cursor)
    cursor.expect("(")
    number = cursor.take_if(NUMBER)
    if number and cursor.take_if(","):
        expr: SampleExpr = yield _samples(cursor)
    else:
        start = Literal(number_of(number), number.position) if number else None
        number = None
        expr = yield _samples(cursor, start)
    cursor.expect(")")
    grouping = before or _grouping(cursor)
    parameter = check.vector_parameter(word.text, number)
    return check.checked_vector(VectorAggregation(word.text, expr, parameter, grouping, word.position))


def _grouping(cursor: Cursor) -> Grouping | None:
    word = cursor.take_if(*GROUPINGS)
    return Grouping(_labels(cursor), word.kind == "without") if word else None


def _labels(cursor: Cursor) -> tuple[str, ...]:
    """`(a, b)` or `()`."""
    cursor.expect("(")
    if cursor.take_if(")"):
        return ()
    if cursor.next.kind != IDENTIFIER:
        raise cursor.unexpected(IDENTIFIER, ")")
    found = [cursor.take().text]
    while cursor.expect(",", ")").kind == ",":
        found.append(cursor.expect(IDENTIFIER).text)
    return tuple(found)


def _label_replace(cursor: Cursor) -> Task[LabelReplace]:
    word = cursor.take()
    cursor.expect("(")
    expr: SampleExpr = yield _samples(cursor)
    arguments: list[Token] = []
    while len(arguments) < 4:
        cursor.expect(",")
        arguments.append(cursor.expect(STRING))
    cursor.expect(")")
    check_regex(arguments[3])
    destination, replacement, source, pattern = (argument.text for argument in arguments)
    return LabelReplace(expr, destination, replacement, source, pattern, word.position)


def _vector_of(cursor: Cursor) -> VectorOf:
    word = cursor.take()
    cursor.expect("(")
    number = cursor.expect(NUMBER)
    cursor.expect(")")
    return VectorOf(number_of(number), word.position)


def _binary(cursor: Cursor, left: Expr) -> Task[SampleExpr]:
    op = cursor.take()
    level = LEVEL_OF[op.kind]
    return_bool = cursor.take_if("bool") is not None
    matching = _matching(cursor)
    right: Expr = yield expression(cursor, level if op.kind == "^" else level + 1)
    first, second = check.operands(op, left, right)
    if isinstance(first, Literal) and isinstance(second, Literal):
        return Literal(folded(op.kind, first.value, second.value), first.position)
    return Binary(op.kind, first, second, return_bool, matching, op.position)


def _matching(cursor: Cursor) -> Matching:
    word = cursor.take_if("on", "ignoring")
    if word is None:
        return Matching()
    labels = _labels(cursor)
    group = cursor.take_if("group_left", "group_right")
    if group is None:
        return Matching(word.kind == "on", labels)
    include = _labels(cursor) if cursor.next.kind == "(" else ()
    side = Cardinality.MANY_TO_ONE if group.kind == "group_left" else Cardinality.ONE_TO_MANY
    return Matching(word.kind == "on", labels, side, include)
