"""Aggregations: groups of rows become rows, or rows are chosen out of groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from lakerunner_query.evaluate.choosing import CHOOSING, choose
from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.counted import count_values
from lakerunner_query.evaluate.histogram_sums import with_histograms
from lakerunner_query.evaluate.notes import Annotations
from lakerunner_query.evaluate.selecting import bare
from lakerunner_query.gotext.strconv import general
from lakerunner_query.lang.promql.ast import Aggregate, Expr, Span
from lakerunner_query.vectors.group_kernels import (
    any_of_code,
    count_of_code,
    extreme_of_code,
    mean_of_code,
    quantile_of_group,
    sum_of_code,
    variance_of_code,
)
from lakerunner_query.vectors.labels import Groups, grouped
from lakerunner_query.vectors.rows import has_float, is_histogram, nothing, occupied
from lakerunner_query.vectors.vector import Vector
from resources.arrays import Doubles, Flags

_Fold = Callable[[Groups, Doubles, Flags], Doubles]

_FOLDS: Mapping[str, _Fold] = {
    "sum": lambda by, values, members: sum_of_code(by.codes, values, members, by.count),
    "avg": lambda by, values, members: mean_of_code(by.codes, values, members, by.count),
    "min": lambda by, values, members: extreme_of_code(by.codes, values, members, by.count, False),
    "max": lambda by, values, members: extreme_of_code(by.codes, values, members, by.count, True),
    "count": lambda by, _, members: count_of_code(by.codes, members, by.count).astype(np.float64),
    "group": lambda by, _, members: np.ones((by.count, members.shape[1])),
    "stdvar": lambda by, values, members: variance_of_code(by.codes, values, members, by.count),
    "stddev": lambda by, values, members: np.sqrt(variance_of_code(by.codes, values, members, by.count)),
}
_OF_BOTH = frozenset({"count", "group"})
"""Histograms are as good as floats to them."""
_ADDING = frozenset({"sum", "avg"})


def aggregate(context: Context, expr: Aggregate) -> Vector:
    """Parameter first, so that annotations come in the order of the text."""
    if expr.op == "count_values":
        name = context.text(_parameter(expr))
        return count_values(context, context.vector(expr.expr), name, expr)
    wanted = None if expr.parameter is None else context.scalar(expr.parameter).values
    vector = context.vector(expr.expr)
    groups = grouped(vector.labels, expr.grouping, is_without=expr.without)
    if expr.op in CHOOSING or expr.op == "quantile":
        if wanted is None:
            raise TypeError(f"{expr.op}: expected a parameter")
        if expr.op in CHOOSING:
            return choose(context, expr, vector, groups, wanted)
        _warn_of_quantiles(wanted, bare(_parameter(expr)).span, context.annotations)
    if not vector.labels:
        return nothing(context.steps.count)
    fold = _FOLDS[expr.op] if wanted is None else _quantile_fold(wanted)
    return occupied(_reduce(context, expr, vector, groups, fold))


def _parameter(expr: Aggregate) -> Expr:
    if expr.parameter is None:
        raise TypeError(f"{expr.op}: expected a parameter")
    return expr.parameter


def _quantile_fold(wanted: Doubles) -> _Fold:
    def fold(groups: Groups, values: Doubles, members: Flags) -> Doubles:
        order, starts = groups.by_group()
        return quantile_of_group(order, starts, values, members, wanted)

    return fold


def _reduce(context: Context, expr: Aggregate, vector: Vector, groups: Groups, fold: _Fold) -> Vector:
    span, notes = bare(expr.expr).span, context.annotations
    members = vector.present if expr.op in _OF_BOTH else has_float(vector)
    if expr.op not in _OF_BOTH | _ADDING and (is_histogram(vector) & vector.present).any():
        notes.inform(f"ignored histogram in {expr.op} aggregation", span)
    values = fold(groups, vector.values, members)
    present = any_of_code(groups.codes, members, groups.count)
    drop_name = None
    if vector.drop_name is not None:
        drop_name = np.bincount(groups.codes, vector.drop_name, minlength=groups.count) > 0
    reduced = Vector(groups.labels, values, present, None, drop_name)
    if expr.op in _ADDING:
        return with_histograms(reduced, vector, groups, expr.op, span, notes)
    return reduced


def _warn_of_quantiles(quantiles: Doubles, span: Span, notes: Annotations) -> None:
    """NaN is larger than 1 and hides whatever else is wrong."""
    largest, smallest = float(quantiles.max()), float(quantiles.min())
    for one, is_wrong in ((largest, not largest <= 1), (smallest, smallest < 0)):
        if is_wrong:
            notes.warn(f"quantile value should be between 0 and 1, got {general(one)}", span)
