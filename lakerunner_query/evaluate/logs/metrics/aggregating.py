"""Aggregations of vectors: groups of series become series, or series are chosen or put in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.evaluate.logs.metrics.context import Context
from lakerunner_query.evaluate.logs.metrics.labels import groups_of
from lakerunner_query.lang.logql.ast import VectorAggregation
from lakerunner_query.vectors.group_kernels import (
    any_of_code,
    best_of_group,
    count_of_code,
    extreme_of_code,
    mean_of_code,
    sum_of_code,
    variance_of_code,
)
from lakerunner_query.vectors.labels import Groups
from lakerunner_query.vectors.rows import occupied
from lakerunner_query.vectors.vector import Vector
from resources.arrays import Doubles, Flags, Int64s

_Fold = Callable[[Groups, Doubles, Flags], Doubles]


def _variances(groups: Groups, values: Doubles, present: Flags) -> Doubles:
    """One value alone does not vary, whatever it is."""
    counts = count_of_code(groups.codes, present, groups.count)
    return np.where(counts == 1, 0.0, variance_of_code(groups.codes, values, present, groups.count))


_FOLDS: Mapping[str, _Fold] = {
    "sum": lambda by, values, present: sum_of_code(by.codes, values, present, by.count),
    "avg": lambda by, values, present: mean_of_code(by.codes, values, present, by.count),
    "min": lambda by, values, present: extreme_of_code(by.codes, values, present, by.count, False),
    "max": lambda by, values, present: extreme_of_code(by.codes, values, present, by.count, True),
    "count": lambda by, _, present: count_of_code(by.codes, present, by.count).astype(np.float64),
    "stdvar": _variances,
    "stddev": lambda by, values, present: np.sqrt(_variances(by, values, present)),
}
SORTS: Mapping[str, bool] = {"sort": False, "sort_desc": True}
"""And whether the largest comes first."""
APPROXIMATE = "approx_topk"
"""Loki estimates it with a sketch; here it is exact, and answered where Loki answers it."""
_IS_TOP: Mapping[str, bool] = {"topk": True, APPROXIMATE: True, "bottomk": False}


def aggregate(context: Context, expr: VectorAggregation, vector: Vector) -> Vector:
    if expr.op in SORTS:
        return _sorted(context, vector, is_top=SORTS[expr.op])
    groups = groups_of(vector, expr.grouping)
    if expr.op in _IS_TOP:
        return _chosen(context, expr, vector, groups)
    values = _FOLDS[expr.op](groups, vector.values, vector.present)
    return Vector(groups.labels, values, any_of_code(groups.codes, vector.present, groups.count))


def check_times(context: Context, expr: VectorAggregation) -> None:
    if expr.op == APPROXIMATE and not context.steps.is_instant:
        raise EvaluationError("approx_topk is only supported on instant queries", expr.position)


def _chosen(context: Context, expr: VectorAggregation, vector: Vector, groups: Groups) -> Vector:
    if not vector.labels or expr.parameter is None:
        return vector
    order, starts = groups.by_group()
    is_top = _IS_TOP[expr.op]
    limits = np.full(context.steps.count, min(expr.parameter, len(vector.labels)), np.int64)
    present = best_of_group(order, starts, vector.values, vector.present, limits, is_top)
    chosen = replace(vector, present=present)
    if context.steps.is_instant:
        chosen = chosen.take(_best_first(chosen, groups.codes, is_top=is_top))
    return occupied(chosen)


def _sorted(context: Context, vector: Vector, *, is_top: bool) -> Vector:
    """Over several steps there is no order that is right at all of them."""
    if not context.steps.is_instant:
        return vector
    return vector.take(_best_first(vector, np.zeros(len(vector.labels), np.int64), is_top=is_top))


def _best_first(vector: Vector, codes: Int64s, *, is_top: bool) -> Int64s:
    """Rows of an instant query, group by group, NaN last."""
    value = vector.values[:, 0]
    key = np.where(np.isnan(value), np.inf, -value if is_top else value)
    rows: Int64s = np.lexsort((np.isnan(value), key, codes)).astype(np.int64)
    return rows
