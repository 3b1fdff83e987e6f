"""The walk over the tree of a metric query: each kind of expression to what evaluates it."""

from __future__ import annotations

import numpy as np

from lakerunner_query.errors import EvaluationError, Position
from lakerunner_query.evaluate.logs.metrics.aggregating import aggregate, check_times
from lakerunner_query.evaluate.logs.metrics.binary import Value, operate
from lakerunner_query.evaluate.logs.metrics.context import Context
from lakerunner_query.evaluate.logs.metrics.demand import pushed_grouping
from lakerunner_query.evaluate.logs.metrics.ranges import range_aggregation
from lakerunner_query.evaluate.logs.metrics.replacing import replace_label
from lakerunner_query.lang.logql.ast import (
    Binary,
    Grouping,
    LabelReplace,
    Literal,
    RangeAggregation,
    SampleExpr,
    VectorAggregation,
    VectorOf,
)
from lakerunner_query.vectors.vector import Scalar, Vector


def walk(context: Context, expr: SampleExpr) -> Value:
    match expr:
        case RangeAggregation():
            return _ranged(context, expr, None)
        case VectorAggregation():
            return _aggregated(context, expr)
        case Binary(left=left, right=right):
            return operate(context, expr, walk(context, left), walk(context, right))
        case LabelReplace(expr=inner, position=position):
            return replace_label(expr, _vector(walk(context, inner), position))
        case Literal(value=value):
            return Scalar(np.full(context.steps.count, value))
        case VectorOf(value=value):
            shape = (1, context.steps.count)
            return Vector([()], np.full(shape, value), np.ones(shape, np.bool_))


def _aggregated(context: Context, expr: VectorAggregation) -> Vector:
    check_times(context, expr)
    below = expr.expr
    if isinstance(below, RangeAggregation):
        vector = _ranged(context, below, pushed_grouping(expr))
    else:
        vector = _vector(walk(context, below), expr.position)
    return aggregate(context, expr, vector)


def _ranged(context: Context, expr: RangeAggregation, pushed: Grouping | None) -> Vector:
    """The same range aggregation often stands on both sides of an operator."""
    asked = (expr, pushed)
    if asked not in context.answered:
        context.answered[asked] = range_aggregation(context, expr, pushed)
    return context.answered[asked]


def _vector(value: Value, position: Position) -> Vector:
    if isinstance(value, Vector):
        return value
    raise EvaluationError("expected series, found a number", position)
