"""`topk`, `bottomk`, `limitk`, `limit_ratio`: rows of the input, fewer of them at each step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.ratios import places, within
from lakerunner_query.evaluate.selecting import bare
from lakerunner_query.gotext.strconv import general
from lakerunner_query.lang.promql.ast import Aggregate
from lakerunner_query.vectors.group_kernels import best_of_group, first_of_group
from lakerunner_query.vectors.labels import Groups
from lakerunner_query.vectors.rows import has_float, is_histogram, nothing, occupied
from lakerunner_query.vectors.vector import Vector
from resources.arrays import Doubles, Int64s

RANKING = frozenset({"topk", "bottomk"})
CHOOSING = RANKING | {"limitk", "limit_ratio"}
_TOO_LARGE, _TOO_SMALL = float(2**63 - 1024), float(-(2**63))
"""From here on a float is no 64 bit integer, as Prometheus draws the lines."""


def choose(context: Context, expr: Aggregate, vector: Vector, groups: Groups, wanted: Doubles) -> Vector:
    if expr.op == "limit_ratio":
        return _by_ratio(context, expr, vector, wanted)
    if wanted.max() < 1:
        return nothing(context.steps.count)
    if np.isnan(wanted).any():
        raise EvaluationError("Parameter value is NaN")
    if wanted.min() <= _TOO_SMALL:
        raise EvaluationError(f"Scalar value {general(float(wanted.min()))} underflows int64")
    if wanted.max() >= _TOO_LARGE:
        raise EvaluationError(f"Scalar value {general(float(wanted.max()))} overflows int64")
    if not vector.labels:
        return vector
    limits = np.minimum(wanted, len(vector.labels)).astype(np.int64)
    if expr.op == "limitk":
        order, starts = groups.by_group()
        return occupied(replace(vector, present=first_of_group(order, starts, vector.present, limits)))
    return _ranked(context, expr, vector, groups, limits)


def _ranked(context: Context, expr: Aggregate, vector: Vector, groups: Groups, limits: Int64s) -> Vector:
    order, starts = groups.by_group()
    ignored = is_histogram(vector) & vector.present & (limits > 0)
    if ignored.any():
        context.annotations.inform(f"ignored histogram in {expr.op} aggregation", expr.span)
    is_top = expr.op == "topk"
    present = best_of_group(order, starts, vector.values, has_float(vector), limits, is_top)
    chosen = replace(vector, present=present, histograms=None)
    if context.steps.count == 1:
        chosen = chosen.take(_best_first(chosen, groups, is_top=is_top))
    return occupied(chosen)


def _best_first(vector: Vector, groups: Groups, *, is_top: bool) -> Int64s:
    """Rows of an instant query, group by group, the best first and NaN last."""
    value = vector.values[:, 0]
    key = np.where(np.isnan(value), np.inf, -value if is_top else value)
    rows = np.lexsort((np.isnan(value), key, groups.codes)).astype(np.int64)
    best: Int64s = rows[vector.present[rows, 0]]
    return best


def _by_ratio(context: Context, expr: Aggregate, vector: Vector, ratios: Doubles) -> Vector:
    if (ratios == 0).all():
        return nothing(context.steps.count)
    if np.isnan(ratios).any():
        raise EvaluationError("Ratio value is NaN")
    span = expr.span if expr.parameter is None else bare(expr.parameter).span
    for ratio, bound in ((float(ratios.max()), 1.0), (float(ratios.min()), -1.0)):
        if ratio * bound > 1:
            message = (
                f"ratio value should be between -1 and 1, got {general(ratio)}, capping to {general(bound)}"
            )
            context.annotations.warn(message, span)
    if not vector.labels:
        return vector
    return occupied(replace(vector, present=vector.present & within(places(vector.labels), ratios)))
