"""Expressions with samples: aggregations over time and over series, functions, operators.

    sum by (app) (rate({app=~".+"} |= "x" [5m])) / 2 > 1

Operators are read by precedence climbing. Nesting costs no Python stack (see `promql/unwinding.py`).
"""

from __future__ import annotations

import math
from dataclasses import replace

from lakerunner_query.errors import UnsupportedError
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
from lakerunner_query.lang.logql.tokens import IDENTIFIER, NUMBER, STRING, Token
from lakerunner_query.lang.logql.vocabulary import GROUPINGS, RANGE_AGGREGATIONS, VECTOR_AGGREGATIONS
from lakerunner_query.syntax import Task

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
        cursor.close()
        return inner
    named: SampleExpr = yield _named(cursor)
    return named


def _named(cursor: Cursor) -> Task[SampleExpr]:
    kind = cursor.next.kind
    if kind == "vector":
        return _vector_of(cursor)
    if word := cursor.take_if("variants"):
        cursor.expect("(")
        raise UnsupportedError("variants()", word.position)
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
    parameter: Token | None = None
    cursor.expect("(")
    if cursor.next.kind not in {"{", "("}:
        parameter = cursor.expect(NUMBER, "{", "(")
        cursor.expect(",")
    ranged: LogRange = yield log_range(cursor)
    cursor.expect(")")
    grouping = _grouping(cursor)
    found = RangeAggregation(word.kind, ranged, None, grouping, word.position)
    cursor.postpone(check.of_range_aggregation(found, parameter), word.position)
    if parameter is None:
        return found
    quantile = number_of(cursor, parameter, f"invalid parameter for operation {word.kind}")
    return replace(found, parameter=quantile)


def _vector_aggregation(cursor: Cursor) -> Task[VectorAggregation]:
    word = cursor.take()
    before = _grouping(cursor)
    cursor.expect("(")
    number = cursor.take_if(NUMBER)
    if number and cursor.take_if(","):
        expr: SampleExpr = yield _samples(cursor)
    else:
        start = Literal(number_of(cursor, number), number.position) if number else None
        number = None
        expr = yield _samples(cursor, start)
    cursor.close()
    grouping = before or _grouping(cursor)
    found = VectorAggregation(word.kind, expr, check.count_of(number), grouping, word.position)
    cursor.postpone(check.of_vector_aggregation(found, number), word.position)
    return found


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
    if cursor.next.kind != ",":
        raise cursor.unexpected()
    while len(arguments) < 4:
        cursor.expect(",")
        arguments.append(cursor.expect(STRING))
    cursor.expect(")")
    cursor.postpone(check.of_replacement(arguments[3]), word.position)
    destination, replacement, source, pattern = (argument.text for argument in arguments)
    return LabelReplace(expr, destination, replacement, source, pattern, word.position)


def _vector_of(cursor: Cursor) -> VectorOf:
    word = cursor.take()
    cursor.expect("(")
    number = cursor.expect(NUMBER)
    cursor.expect(")")
    value = number_of(cursor, number, "unable to parse vectorExpr as a float")
    return VectorOf(value, word.position)


def _binary(cursor: Cursor, left: Expr) -> Task[SampleExpr]:
    op = cursor.take()
    level = LEVEL_OF[op.kind]
    return_bool = cursor.take_if("bool") is not None
    matching = _matching(cursor)
    right: Expr = yield expression(cursor, level if op.kind == "^" else level + 1)
    reason = check.of_operands(op.kind, left, right)
    cursor.postpone(reason, op.position)
    if reason or isinstance(left, LogQuery) or isinstance(right, LogQuery):
        return Literal(math.nan, op.position)
    if isinstance(left, Literal) and isinstance(right, Literal):
        return Literal(folded(op.kind, left.value, right.value), left.position)
    return Binary(op.kind, left, right, return_bool, matching, op.position)


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
