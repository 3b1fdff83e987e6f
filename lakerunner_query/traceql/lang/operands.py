"""The operands of a pipeline's operators: which may stand together, and what comes of them.

    {…} && {…}        spans            ({…} | by(.a)) && ({…})   pipelines
    count() * 2 > 6   a filter         ({…} | rate()) * 2 > 6    series

Pipelines join pipelines only, so behind one each spanset stands in parentheses, as in Tempo.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

from lakerunner_query.errors import InvalidTraceQueryError, ParseError
from lakerunner_query.gotext.numbers import INT_MAX, INT_MIN
from lakerunner_query.traceql.lang.ast import (
    Combination,
    CompareOp,
    Literal,
    LogicalOp,
    MathOp,
    MetricsExpr,
    MetricsMath,
    Relation,
    ScalarArithmetic,
    ScalarExpr,
    ScalarFilter,
    SpansetExpr,
    Structural,
    Threshold,
    Type,
    Variant,
    walk,
)
from lakerunner_query.traceql.lang.cursor import COMPARING, LEVELS, unexpected
from lakerunner_query.traceql.lang.lexer import Token

STRUCTURAL: dict[str, tuple[Relation, Variant]] = {
    variant.value + relation.value: (relation, variant) for relation in Relation for variant in Variant
}
COMPARISONS = frozenset(op.value for op in CompareOp if not op.is_regex)
"""Comparisons of scalars and series; `!~` is a structural operator here."""
PIPELINE_LEVELS: dict[str, int] = LEVELS | dict.fromkeys(STRUCTURAL, COMPARING)
_JOINS = frozenset({*(op.value for op in LogicalOp), *STRUCTURAL})
_SCALAR_OPS = COMPARISONS | {op.value for op in MathOp}
_SERIES_OPS = COMPARISONS | {"+", "-", "*", "/"}


@dataclass(frozen=True, slots=True)
class Spans:
    node: SpansetExpr
    start: Token
    pipe: Token | None = None
    """First `|` inside of an operand that holds a pipeline."""
    is_wrapped: bool = False
    """Each spanset of it stands in parentheses."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """An aggregate, a number, a pipeline that ends in an aggregate, or arithmetic of them."""

    node: ScalarExpr
    start: Token
    has_aggregate: bool = False
    pipe: Token | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    node: ScalarFilter
    start: Token
    op: Token
    pipe: Token | None = None
    """First `|` inside; such a filter is the whole query."""


@dataclass(frozen=True, slots=True)
class Series:
    node: MetricsExpr
    start: Token
    stage: Token | None = None
    """Operator of the last comparison, behind which no arithmetic stands."""


Operand = Spans | Scalar | Filter | Series


def accepts(left: Operand, op: str) -> bool:
    """Tell if the operator may stand behind the operand."""
    match left:
        case Spans():
            return op in _JOINS
        case Scalar():
            return op in _SCALAR_OPS
        case Series():
            return op in _SERIES_OPS
        case Filter():
            return False


def combine(left: Operand, op: Token, right: Operand) -> Operand:
    match left, right:
        case Spans(), Spans():
            return _join(left, op, right)
        case Scalar(), Scalar():
            return _of_scalars(left, op, right)
        case (Series(), Series() | Scalar()) | (Scalar(), Series()):
            return _of_series(left, op, right)
    raise _misplaced(right)


def _misplaced(operand: Operand) -> ParseError:
    """Return the error for the token at which an operand stopped to be one that fits."""
    inner = operand.op if isinstance(operand, Filter) else None
    pipe = None if isinstance(operand, Series) else operand.pipe
    return unexpected(inner or pipe or operand.start)


def _join(left: Spans, op: Token, right: Spans) -> Spans:
    is_alike = (left.pipe is None) == (right.pipe is None)
    if not is_alike and (left.pipe is None or not right.is_wrapped):
        raise _misplaced(right)
    node: SpansetExpr
    if op.kind in STRUCTURAL:
        relation, variant = STRUCTURAL[op.kind]
        node = Structural(relation, variant, left.node, right.node, op.position)
    else:
        node = Combination(LogicalOp(op.kind), left.node, right.node, op.position)
    return Spans(node, left.start, left.pipe, left.is_wrapped and right.is_wrapped)


def _of_scalars(left: Scalar, op: Token, right: Scalar) -> Scalar | Filter:
    pipe, has_aggregate = left.pipe or right.pipe, left.has_aggregate or right.has_aggregate
    if pipe and has_aggregate:
        raise _misplaced(right)
    if op.kind not in COMPARISONS:
        node = ScalarArithmetic(MathOp(op.kind), left.node, right.node, op.position)
        return Scalar(node, left.start, has_aggregate, pipe)
    if not (left.pipe or has_aggregate):
        raise unexpected(op)
    sides = fold(left.node), fold(right.node)
    return Filter(ScalarFilter(CompareOp(op.kind), *sides, op.position), left.start, op, pipe)


def _of_series(left: Operand, op: Token, right: Operand) -> Series:
    if op.kind in COMPARISONS:
        if not (isinstance(left, Series) and isinstance(right, Scalar)):
            raise _misplaced(right)
        node = Threshold(left.node, CompareOp(op.kind), number(right), op.position)
        return Series(node, left.start, op)
    if op.kind not in _SERIES_OPS:
        raise unexpected(op)
    sides = _side(left), _side(right)
    return Series(MetricsMath(MathOp(op.kind), *sides, op.position), left.start)


def _side(operand: Operand) -> MetricsExpr | Literal:
    if isinstance(operand, Series):
        return operand.node
    found = number(operand)
    if found.type == Type.DURATION:
        raise _misplaced_duration(found)
    return found


def _misplaced_duration(literal: Literal) -> ParseError:
    return ParseError("syntax error: unexpected DURATION", literal.position)


def number(operand: Operand) -> Literal:
    """Return the number beside series; arithmetic of numbers is that of floats there, without durations."""
    if not isinstance(operand, Scalar) or operand.has_aggregate or operand.pipe:
        raise _misplaced(operand)
    if isinstance(operand.node, Literal):
        return operand.node
    for one in walk(operand.node):
        if isinstance(one, Literal) and one.type == Type.DURATION:
            raise _misplaced_duration(one)
    folded = fold(operand.node, Type.FLOAT)
    if not isinstance(folded, Literal):
        raise _misplaced(operand)
    return folded


def fold(expr: ScalarExpr, least: Type = Type.INTEGER) -> ScalarExpr:
    """Compute arithmetic of literals: `7 / 2` of whole numbers is 3, with `least=FLOAT` it is 3.5."""
    if not isinstance(expr, ScalarArithmetic):
        return expr
    left, right = fold(expr.left, least), fold(expr.right, least)
    if not isinstance(left, Literal) or not isinstance(right, Literal):
        return ScalarArithmetic(expr.op, left, right, expr.position)
    types = {left.type, right.type, least}
    kind = next(one for one in (Type.DURATION, Type.FLOAT, Type.INTEGER) if one in types)
    table = _OF_FLOATS if Type.FLOAT in types else _OF_INTEGERS
    try:
        value = table[expr.op](_value(left), _value(right))
    except (ArithmeticError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and (kind == Type.FLOAT or INT_MIN < value <= INT_MAX)):
        raise InvalidTraceQueryError(f"no number: {left.value} {expr.op} {right.value}", expr.position)
    return Literal(kind, float(value) if kind == Type.FLOAT else int(value), left.position)


def _value(literal: Literal) -> float:
    value = literal.value
    return value if isinstance(value, int | float) else math.nan


def _quotient(left: float, right: float) -> int:
    """Divide whole numbers towards zero, as Go does."""
    whole = abs(int(left)) // abs(int(right))
    return whole if (left < 0) == (right < 0) else -whole


def _power(base: float, exponent: float) -> float:
    """Raise a whole number; what does not fit into 64 bits is infinite."""
    return int(base) ** int(exponent) if 0 <= math.pow(abs(base), exponent) < 2.0**64 else math.inf


_OF_FLOATS: dict[MathOp, Callable[[float, float], float]] = {
    MathOp.ADD: operator.add,
    MathOp.SUBTRACT: operator.sub,
    MathOp.MULTIPLY: operator.mul,
    MathOp.DIVIDE: operator.truediv,
    MathOp.MODULO: math.fmod,
    MathOp.POWER: math.pow,
}
_OF_INTEGERS = _OF_FLOATS | {
    MathOp.DIVIDE: _quotient,
    MathOp.MODULO: lambda left, right: left - right * _quotient(left, right),
    MathOp.POWER: _power,
}
