"""Evaluation of metric queries over logs: the walk over the tree of an expression.

    answer = evaluate(parse_expr('sum (rate({job="api"} [5m]))'), LogSteps(start, step, count), source)

Instant queries for a number give a scalar, all else vectors. Series are ordered by their labels, except those
of an instant query with `sort` in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lakerunner_query.errors import EvaluationError, Position
from lakerunner_query.logql.lang.aggregations import VECTOR
from lakerunner_query.logql.lang.ast import (
    Binary,
    Grouping,
    LabelReplace,
    Literal,
    RangeAggregation,
    SampleExpr,
    VectorAggregation,
    VectorOf,
)
from lakerunner_query.logql.metrics.context import Context, LogSteps, Options, by_labels
from lakerunner_query.logql.metrics.demand import pushed_grouping
from lakerunner_query.logql.metrics.ranges import range_aggregation
from lakerunner_query.logql.metrics.vectors import (
    Value,
    aggregate,
    check_times,
    operate,
    replace_label,
)
from lakerunner_query.logql.pipeline import LogSource
from lakerunner_query.vectors.rows import drop_empty_rows, merge_rows
from lakerunner_query.vectors.vector import Scalar, Vector


def walk(context: Context, expr: SampleExpr) -> Value:
    """Evaluate an expression, unless it is known already."""
    known = context.known.get(expr) if context.known else None
    return _walk(context, expr) if known is None else known


def _walk(context: Context, expr: SampleExpr) -> Value:
    match expr:
        case RangeAggregation():
            return _aggregate_range(context, expr, None)
        case VectorAggregation():
            return _aggregate(context, expr)
        case Binary(left=left, right=right):
            return operate(context, expr, walk(context, left), walk(context, right))
        case LabelReplace(expr=inner, position=position):
            return replace_label(expr, _vector(walk(context, inner), position))
        case Literal(value=value):
            return Scalar(np.full(context.steps.count, value))
        case VectorOf(value=value):
            shape = (1, context.steps.count)
            return Vector([()], np.full(shape, value), np.ones(shape, np.bool_))


def _aggregate(context: Context, expr: VectorAggregation) -> Vector:
    check_times(context, expr)
    below = expr.expr
    if isinstance(below, RangeAggregation) and below not in context.known:
        vector = _aggregate_range(context, below, pushed_grouping(expr))
    else:
        vector = _vector(walk(context, below), expr.position)
    return aggregate(context, expr, vector)


def _aggregate_range(context: Context, expr: RangeAggregation, pushed: Grouping | None) -> Vector:
    """Evaluate a range aggregation, or take it from the cache."""
    key = (expr, pushed)
    if key not in context.cache:
        context.cache[key] = range_aggregation(context, expr, pushed)
    return context.cache[key]


def _vector(value: Value, position: Position) -> Vector:
    if isinstance(value, Vector):
        return value
    raise EvaluationError("expected series, found a number", position)


@dataclass(frozen=True, slots=True)
class LogResult:
    """Value of a metric query over logs."""

    value: Scalar | Vector
    is_ordered: bool = False
    """The order of the series is part of the answer."""


def evaluate(
    expr: SampleExpr,
    steps: LogSteps,
    source: LogSource,
    options: Options | None = None,
    known: Mapping[SampleExpr, Vector] | None = None,
) -> LogResult:
    """Evaluate an expression; `known` parts of it are not evaluated again."""
    value = walk(Context(steps, source, options or Options(), known=known or {}), expr)
    if isinstance(value, Scalar):
        return LogResult(value if steps.is_instant else _as_series(value))
    is_ordered = steps.is_instant and has_order(expr)
    vector = merge_rows(drop_empty_rows(value))
    return LogResult(vector if is_ordered else by_labels(vector), is_ordered)


def has_order(expr: SampleExpr) -> bool:
    """Tell whether any part of the expression sorts."""
    match expr:
        case VectorAggregation(op=op, expr=inner):
            return VECTOR[op].orders or has_order(inner)
        case LabelReplace(expr=inner):
            return has_order(inner)
        case Binary(left=left, right=right):
            return has_order(left) or has_order(right)
        case _:
            return False


def _as_series(number: Scalar) -> Vector:
    return Vector([()], number.values[None, :], np.ones((1, len(number.values)), np.bool_))
