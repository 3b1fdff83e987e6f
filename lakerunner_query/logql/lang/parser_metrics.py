"""Parser of log queries and of expressions with samples: aggregations, functions, operators.

    sum by (app) (rate({app=~".+"} |= "x" [5m])) / 2 > 1

Operators are read by precedence climbing; tasks (`syntax.py`) keep nesting off Python's stack. The range may
follow the selector or the pipeline, and parentheses may enclose what precedes it: `{…}[5m] | json`,
`{…} | json [5m]`, `({…} | json)[5m]`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from lakerunner_query.errors import Position, UnsupportedError
from lakerunner_query.gotext.durations import nanoseconds, range_nanoseconds
from lakerunner_query.logql.lang import check
from lakerunner_query.logql.lang.aggregations import RANGE_AGGREGATIONS, VECTOR_AGGREGATIONS
from lakerunner_query.logql.lang.ast import (
    Binary,
    Cardinality,
    Conversion,
    Expr,
    Grouping,
    LabelFilter,
    LabelReplace,
    Literal,
    LogQuery,
    LogRange,
    Matching,
    RangeAggregation,
    SampleExpr,
    Stage,
    Unwrap,
    VectorAggregation,
    VectorOf,
    fold,
)
from lakerunner_query.logql.lang.conditions import LINE_OPS, label_filter, line_filter
from lakerunner_query.logql.lang.cursor import Cursor, literal, number_of, selector
from lakerunner_query.logql.lang.lexer import (
    CONVERSIONS,
    DURATION,
    GROUPINGS,
    IDENTIFIER,
    NUMBER,
    RANGE,
    STRING,
    Token,
)
from lakerunner_query.logql.lang.stages import parse_stage
from lakerunner_query.syntax import Matcher, Task

_UNITS = {
    "duration": Conversion.DURATION,
    "duration_seconds": Conversion.DURATION,
    "bytes": Conversion.BYTES,
}


@dataclass(slots=True)
class _Parts:
    """Parts of a log range that have been read so far."""

    position: Position
    matchers: tuple[Matcher, ...] = ()
    stages: tuple[Stage, ...] = ()
    unwrap: Unwrap | None = None
    range_ns: int | None = None
    offset_ns: int = 0


def log_query(cursor: Cursor) -> Task[LogQuery]:
    start = cursor.next.position
    matchers = selector(cursor)
    stages: list[Stage] = []
    while cursor.next.kind == "|" or cursor.next.kind in LINE_OPS:
        if cursor.next.kind in LINE_OPS:
            stages.append(line_filter(cursor))
        else:
            cursor.take()
            stages.append((yield parse_stage(cursor)))
    return LogQuery(matchers, tuple(stages), start)


def log_range(cursor: Cursor) -> Task[LogRange]:
    if cursor.next.kind not in {"{", "("}:
        raise cursor.unexpected("{", "(")
    parts: _Parts = yield _parts(cursor)
    if parts.range_ns is None:
        raise cursor.unexpected(*_open_end(parts))
    query = LogQuery(parts.matchers, parts.stages, parts.position)
    return LogRange(query, parts.range_ns, parts.offset_ns, parts.unwrap, parts.position)


def _open_end(parts: _Parts) -> tuple[str, ...]:
    """Return the tokens that a message names where the range is missing."""
    return (RANGE, "|") if parts.unwrap else ()


def _parts(cursor: Cursor) -> Task[_Parts]:
    if cursor.next.kind == "(":
        enclosed: _Parts = yield _in_parentheses(cursor)
        return enclosed
    if cursor.next.kind != "{":
        raise cursor.unexpected("{", "(")
    parts = _Parts(cursor.next.position, selector(cursor))
    yield _pipeline(cursor, parts)
    is_bare = not parts.stages and parts.unwrap is None
    if cursor.next.kind == RANGE:
        _range(cursor, parts)
        if is_bare:
            yield _pipeline(cursor, parts)
    return parts


def _in_parentheses(cursor: Cursor) -> Task[_Parts]:
    """Parse `(…)` around a whole range, or around its query: then range and maybe `unwrap` follow."""
    cursor.expect("(")
    parts: _Parts = yield _parts(cursor)
    if cursor.next.kind != ")":
        raise cursor.unexpected(*_open_end_in_parentheses(parts))
    cursor.take()
    if parts.range_ns is not None:
        return parts
    if cursor.next.kind != RANGE:
        raise cursor.unexpected(RANGE)
    _range(cursor, parts)
    if not parts.stages and parts.unwrap is None and cursor.take_if("|"):
        if cursor.next.kind != "unwrap":
            raise cursor.unexpected("unwrap")
        parts.unwrap = yield _unwrap(cursor)
    return parts


def _open_end_in_parentheses(parts: _Parts) -> tuple[str, ...]:
    if parts.range_ns is not None:
        return (")",)
    return (RANGE, ")", "|") if parts.unwrap else ()


def _range(cursor: Cursor, parts: _Parts) -> None:
    """Parse the range and its offset; the lexer has checked both durations."""
    parts.range_ns = range_nanoseconds(cursor.take().text)
    if cursor.take_if("offset"):
        parts.offset_ns = nanoseconds(cursor.expect(DURATION).text)


def _pipeline(cursor: Cursor, parts: _Parts) -> Task[None]:
    stages: list[Stage] = []
    while parts.unwrap is None and (cursor.next.kind == "|" or cursor.next.kind in LINE_OPS):
        if cursor.next.kind in LINE_OPS:
            stages.append(line_filter(cursor))
            continue
        cursor.take()
        if cursor.next.kind == "unwrap":
            parts.unwrap = yield _unwrap(cursor)
        else:
            stages.append((yield parse_stage(cursor)))
    parts.stages = tuple(stages)


def _unwrap(cursor: Cursor) -> Task[Unwrap]:
    word = cursor.take()
    label, conversion = _unwrap_label(cursor)
    filters: list[LabelFilter] = []
    while cursor.take_if("|"):
        if cursor.next.kind not in {IDENTIFIER, "("}:
            raise cursor.unexpected(IDENTIFIER, "(")
        filters.append((yield label_filter(cursor)))
    return Unwrap(label, conversion, tuple(filters), word.position)


def _unwrap_label(cursor: Cursor) -> tuple[str, Conversion]:
    unit = cursor.take_if(*CONVERSIONS)
    if unit is None:
        return cursor.expect(IDENTIFIER, "bytes", "duration", "duration_seconds").text, Conversion.NONE
    cursor.expect("(")
    label = cursor.expect(IDENTIFIER)
    cursor.expect(")")
    return label.text, _UNITS[unit.kind]


LEVELS = (
    ("or",),
    ("and", "unless"),
    ("==", ">=", ">", "<", "<=", "!="),
    ("+", "-"),
    ("*", "/", "%"),
    ("^",),
)
"""Operators by precedence, weakest first; `^` alone groups from the right."""
LEVEL_OF = {op: level for level, ops in enumerate(LEVELS, start=1) for op in ops}


def expression(cursor: Cursor, floor: int = 1, left: Expr | None = None) -> Task[Expr]:
    """Parse operators of this level and above; `left` is the beginning, if it was read already."""
    found: Expr = left if left is not None else (yield _operand(cursor))
    while LEVEL_OF.get(cursor.next.kind, 0) >= floor:
        found = yield _binary(cursor, found)
    return found


def _samples(cursor: Cursor, left: Expr | None = None) -> Task[SampleExpr]:
    """Parse an argument that has to give samples, not lines."""
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
    named: SampleExpr = yield _call(cursor)
    return named


def _call(cursor: Cursor) -> Task[SampleExpr]:
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
    cursor.postpone(check.range_aggregation_fault(found, parameter), word.position)
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
    cursor.postpone(check.vector_aggregation_fault(found, number), word.position)
    return found


def _grouping(cursor: Cursor) -> Grouping | None:
    word = cursor.take_if(*GROUPINGS)
    return Grouping(_labels(cursor), word.kind == "without") if word else None


def _labels(cursor: Cursor) -> tuple[str, ...]:
    """Parse `(a, b)` or `()`."""
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
    cursor.postpone(check.replacement_fault(arguments[3]), word.position)
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
    reason = check.operands_fault(op.kind, left, right)
    cursor.postpone(reason, op.position)
    if reason or isinstance(left, LogQuery) or isinstance(right, LogQuery):
        return Literal(math.nan, op.position)
    if isinstance(left, Literal) and isinstance(right, Literal):
        return Literal(fold(op.kind, left.value, right.value), left.position)
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
