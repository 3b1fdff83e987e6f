"""Operations on vectors: `label_replace`, binary operators, and aggregations over series.

Two sides meet by the labels they are matched on, worked out once per series. The "one" side may have several
series of the same labels as long as no step has two of them: every pair that shares a step is a row then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.gotext.regexp import replace_labels
from lakerunner_query.logql.lang.aggregations import VECTOR
from lakerunner_query.logql.lang.ast import Binary, Cardinality, LabelReplace, Matching, VectorAggregation
from lakerunner_query.logql.metrics.context import Context, groups_of, key_of, without_empty
from lakerunner_query.vectors.group_kernels import (
    any_of_code,
    best_of_group,
    count_of_code,
    extreme_of_code,
    mean_of_code,
    sum_of_code,
    variance_of_code,
)
from lakerunner_query.vectors.labels import Groups, drop_labels, keep_labels, number_keys, set_label, value_of
from lakerunner_query.vectors.rows import (
    COMPARISONS,
    SETS,
    apply_operator,
    drop_empty_rows,
    merge_rows,
    stack_rows,
)
from lakerunner_query.vectors.vector import Labels, Scalar, Vector
from resources.arrays import Doubles, Flags, Int64s


def replace_label(expr: LabelReplace, vector: Vector) -> Vector:
    """Make a label of another one; an absent source is empty, and no full match changes nothing.

    label_replace(rate({host="db-7"} [1m]), "n", "node $1", "host", "db-(.*)")
    ->  {host="db-7", n="node 7"}
    """
    sources = [value_of(labels, expr.source) for labels in vector.labels]
    values = replace_labels(expr.pattern, expr.replacement, sources)
    labels = [_with(one, expr.destination, value) for one, value in zip(vector.labels, values, strict=True)]
    return vector.with_labels(labels)


def _with(labels: Labels, name: str, value: str | None) -> Labels:
    return labels if value is None else without_empty(set_label(labels, name, value))


NOT_EXPLICIT = "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
NOT_UNIQUE = "multiple matches for labels: grouping labels must ensure unique matches"
CROWDED = (
    "found duplicate series on the {side} hand-side;many-to-many matching not allowed: "
    "matching labels must be unique on one side"
)


@dataclass(frozen=True, slots=True)
class _Sides:
    """Both sides and the numbers of their matched labels, turned so that the left one is "many"."""

    matching: Matching
    is_swapped: bool
    many: Vector
    one: Vector
    many_codes: Int64s
    one_codes: Int64s
    count: int


@dataclass(frozen=True, slots=True)
class _Pairs:
    many: Int64s
    one: Int64s
    present: Flags
    """Cells (pair, step) that both sides have."""


def match_series(context: Context, expr: Binary, left: Vector, right: Vector) -> Vector:
    """Apply the operator to every pair of series that meet; the result is not merged."""
    sides = _meet(left, right, expr.matching)
    pairs = _pairs(context, sides)
    labels = [
        _result(expr.matching, sides.many.labels[many], sides.one.labels[one])
        for many, one in zip(pairs.many.tolist(), pairs.one.tolist(), strict=True)
    ]
    _check(sides, pairs, labels)
    first, second = sides.many.values[pairs.many], sides.one.values[pairs.one]
    if sides.is_swapped:
        first, second = second, first
    outcome = apply_operator(expr.op, first, second, return_bool=expr.return_bool)
    return Vector(labels, outcome.values, pairs.present & outcome.is_kept)


def _meet(left: Vector, right: Vector, matching: Matching) -> _Sides:
    is_swapped = matching.cardinality == Cardinality.ONE_TO_MANY
    many, one = (right, left) if is_swapped else (left, right)
    key, codes = key_of(matching), dict[Labels, int]()
    many_codes, one_codes = (
        number_keys(map(key, many.labels), codes),
        number_keys(map(key, one.labels), codes),
    )
    return _Sides(matching, is_swapped, many, one, many_codes, one_codes, len(codes))


def _pairs(context: Context, sides: _Sides) -> _Pairs:
    """Pair every "many" series with each series of the other side that shares a step."""
    order = np.argsort(sides.one_codes, kind="stable").astype(np.int64)
    starts = np.searchsorted(sides.one_codes[order], np.arange(sides.count + 1))
    counts = (starts[1:] - starts[:-1])[sides.many_codes]
    many = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    within = np.arange(len(many)) - np.repeat(np.cumsum(counts) - counts, counts)
    one = order[np.repeat(starts[:-1][sides.many_codes], counts) + within]
    context.check_cells(len(many) * context.steps.count)
    present = sides.many.present[many] & sides.one.present[one]
    shared = present.any(axis=1)
    return _Pairs(many[shared], one[shared], present[shared])


def _result(matching: Matching, many: Labels, one: Labels) -> Labels:
    labels = without_empty(many)
    if matching.cardinality == Cardinality.ONE_TO_ONE:
        labels = keep_labels(labels, matching.labels) if matching.on else drop_labels(labels, matching.labels)
    for name in matching.include:
        labels = set_label(labels, name, value_of(one, name))
    return labels


def _check(sides: _Sides, pairs: _Pairs, labels: list[Labels]) -> None:
    """Raise for the first step that is ambiguous; of one step the side that has to be unique comes first."""
    keys, count, message = sides.many_codes[pairs.many], sides.count, NOT_EXPLICIT
    if sides.matching.cardinality != Cardinality.ONE_TO_ONE:
        numbers: dict[tuple[int, Labels], int] = {}
        keys = number_keys(zip(keys.tolist(), labels, strict=True), numbers)
        count, message = len(numbers), NOT_UNIQUE
    crowded = _first_shared(sides.one_codes, sides.one.present, sides.count)
    ambiguous = _first_shared(keys, pairs.present, count)
    if crowded is not None and (ambiguous is None or crowded <= ambiguous):
        raise EvaluationError(CROWDED.format(side="left" if sides.is_swapped else "right"))
    if ambiguous is not None:
        raise EvaluationError(message)


def _first_shared(codes: Int64s, present: Flags, count: int) -> int | None:
    """Return the first step at which two rows of one code are present."""
    if len(np.unique(codes)) == len(codes):
        return None
    shared = (count_of_code(codes, present, count) > 1).any(axis=0)
    return int(shared.argmax()) if shared.any() else None


Value = Scalar | Vector


def operate(context: Context, expr: Binary, left: Value, right: Value) -> Value:
    """Apply a binary operator to numbers and vectors; the parser has refused numbers beside set operators."""
    match left, right:
        case Vector(), Vector():
            if expr.op in SETS:
                return drop_empty_rows(merge_rows(_of_sets(expr.op, left, right, expr.matching)))
            return drop_empty_rows(merge_rows(match_series(context, expr, left, right)))
        case Vector(), Scalar():
            return _with_number(expr, left, right, is_left=False)
        case Scalar(), Vector():
            return _with_number(expr, right, left, is_left=True)
        case _:
            return Scalar(apply_operator(expr.op, left.values, right.values, return_bool=True).values)


def _with_number(expr: Binary, vector: Vector, number: Scalar, *, is_left: bool) -> Vector:
    """Combine; a comparison that filters keeps the series' value, whichever side it stands on."""
    sides = (number.values[None, :], vector.values)
    left, right = sides if is_left else reversed(sides)
    outcome = apply_operator(expr.op, left, right, return_bool=expr.return_bool)
    is_filter = expr.op in COMPARISONS and not expr.return_bool
    values = vector.values if is_filter else outcome.values
    return drop_empty_rows(replace(vector, values=values, present=vector.present & outcome.is_kept))


def _of_sets(op: str, left: Vector, right: Vector, matching: Matching) -> Vector:
    """Keep or drop cells by whether the other side has a match at that step."""
    key, codes = key_of(matching), dict[Labels, int]()
    left_codes, right_codes = (
        number_keys(map(key, left.labels), codes),
        number_keys(map(key, right.labels), codes),
    )
    if op == "or":
        taken = any_of_code(left_codes, left.present, len(codes))[right_codes]
        return stack_rows([left, replace(right, present=right.present & ~taken)])
    found = any_of_code(right_codes, right.present, len(codes))[left_codes]
    present = left.present & (found if op == "and" else np.logical_not(found))
    return replace(left, present=present)


_Fold = Callable[[Groups, Doubles, Flags], Doubles]


def _variances(groups: Groups, values: Doubles, present: Flags) -> Doubles:
    """Return variances; one value alone does not vary, whatever it is."""
    counts = count_of_code(groups.codes, present, groups.count)
    return np.where(counts == 1, 0.0, variance_of_code(groups.codes, values, present, groups.count))


def _minima(groups: Groups, values: Doubles, present: Flags) -> Doubles:
    return extreme_of_code(groups.codes, values, present, groups.count, False)


def _maxima(groups: Groups, values: Doubles, present: Flags) -> Doubles:
    return extreme_of_code(groups.codes, values, present, groups.count, True)


def _counts(groups: Groups, _: Doubles, present: Flags) -> Doubles:
    return count_of_code(groups.codes, present, groups.count).astype(np.float64)


@dataclass(frozen=True, slots=True)
class VectorRun:
    """Computation of one aggregation over series: it folds groups, chooses series, or orders them."""

    fold: _Fold | None
    chooses: bool
    """The best `k` series of each group stay."""
    largest_first: bool
    """Order of what is chosen or ordered."""


APPROXIMATE = "approx_topk"
"""Exact here, and answered where Loki answers its estimate."""
VECTOR_RUNS: Mapping[str, VectorRun] = {
    "sum": VectorRun(lambda by, values, there: sum_of_code(by.codes, values, there, by.count), False, False),
    "avg": VectorRun(lambda by, values, there: mean_of_code(by.codes, values, there, by.count), False, False),
    "min": VectorRun(_minima, False, False),
    "max": VectorRun(_maxima, False, False),
    "count": VectorRun(_counts, False, False),
    "stdvar": VectorRun(_variances, False, False),
    "stddev": VectorRun(lambda *groups: np.sqrt(_variances(*groups)), False, False),
    "topk": VectorRun(None, True, True),
    "bottomk": VectorRun(None, True, False),
    APPROXIMATE: VectorRun(None, True, True),
    "sort": VectorRun(None, False, False),
    "sort_desc": VectorRun(None, False, True),
}


def aggregate(context: Context, expr: VectorAggregation, vector: Vector) -> Vector:
    run = VECTOR_RUNS[expr.op]
    if VECTOR[expr.op].orders:
        return _order(context, vector, is_top=run.largest_first)
    groups = groups_of(vector, expr.grouping)
    if run.fold is None:
        return _best(context, expr, vector, groups)
    values = run.fold(groups, vector.values, vector.present)
    return Vector(groups.labels, values, any_of_code(groups.codes, vector.present, groups.count))


def check_times(context: Context, expr: VectorAggregation) -> None:
    if VECTOR[expr.op].is_instant_only and not context.steps.is_instant:
        raise EvaluationError("approx_topk is only supported on instant queries", expr.position)


def _best(context: Context, expr: VectorAggregation, vector: Vector, groups: Groups) -> Vector:
    if not vector.labels or expr.parameter is None:
        return vector
    order, starts = groups.by_group()
    is_top = VECTOR_RUNS[expr.op].largest_first
    limits = np.full(context.steps.count, min(expr.parameter, len(vector.labels)), np.int64)
    present = best_of_group(order, starts, vector.values, vector.present, limits, is_top)
    chosen = replace(vector, present=present)
    if context.steps.is_instant:
        chosen = chosen.take(_best_first(chosen, groups.codes, is_top=is_top))
    return drop_empty_rows(chosen)


def _order(context: Context, vector: Vector, *, is_top: bool) -> Vector:
    """Order the series of an instant query; several steps have no order in common."""
    if not context.steps.is_instant:
        return vector
    return vector.take(_best_first(vector, np.zeros(len(vector.labels), np.int64), is_top=is_top))


def _best_first(vector: Vector, codes: Int64s, *, is_top: bool) -> Int64s:
    """Order rows of an instant query group by group, NaN last."""
    value = vector.values[:, 0]
    key = np.where(np.isnan(value), np.inf, -value if is_top else value)
    rows: Int64s = np.lexsort((np.isnan(value), key, codes)).astype(np.int64)
    return rows
