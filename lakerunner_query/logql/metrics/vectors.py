"""Arithmetic and comparison between two vectors: which series meet, and what comes of it.

Series meet by the labels they are matched on, worked out once per series. The "one" side may have several
series of the same labels as long as no step has two of them: every pair that shares a step is a row then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.gotext.regexp import Template, captured
from lakerunner_query.logql.lang.ast import Binary, Cardinality, LabelReplace, Matching, VectorAggregation
from lakerunner_query.logql.metrics.context import Context, filled, groups_of, key_of
from lakerunner_query.vectors.group_kernels import (
    any_of_code,
    best_of_group,
    count_of_code,
    extreme_of_code,
    mean_of_code,
    sum_of_code,
    variance_of_code,
)
from lakerunner_query.vectors.labels import Groups, coded, kept, replaced, value_of, without
from lakerunner_query.vectors.rows import COMPARISONS, SETS, combined, merged, occupied, stacked
from lakerunner_query.vectors.vector import Labels, Scalar, Vector
from resources.arrays import Doubles, Flags, Int64s

# << `label_replace`: a label out of another one, values are not looked at.
# <<
# << label_replace(rate({host="db-7"} [1m]), "n", "node $1", "host", "db-(.*)")  ->  {host="db-7", n="node 7"}


def replace_label(expr: LabelReplace, vector: Vector) -> Vector:
    """Series whose source does not match as a whole stay as they are; an absent source is empty."""
    sources = [value_of(labels, expr.source) for labels in vector.labels]
    distinct = list(dict.fromkeys(sources))
    template = Template(expr.replacement)
    values = {
        value: None if groups is None else template.filled(groups)
        for value, groups in zip(distinct, captured(expr.pattern, distinct), strict=True)
    }
    labels = [
        _with(one, expr.destination, values[source])
        for one, source in zip(vector.labels, sources, strict=True)
    ]
    return vector.with_labels(labels)


def _with(labels: Labels, name: str, value: str | None) -> Labels:
    return labels if value is None else filled(replaced(labels, name, value))


NOT_EXPLICIT = "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
NOT_UNIQUE = "multiple matches for labels: grouping labels must ensure unique matches"
CROWDED = (
    "found duplicate series on the {side} hand-side;many-to-many matching not allowed: "
    "matching labels must be unique on one side"
)


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Both sides with the numbers of what they are matched on, turned so that the left one is "many"."""

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
    """(pairs, steps): where the two meet."""


def matched(context: Context, expr: Binary, left: Vector, right: Vector) -> Vector:
    """What the operator gives for every pair; not merged."""
    meeting = _meet(left, right, expr.matching)
    pairs = _pairs(context, meeting)
    labels = [
        _result(expr.matching, meeting.many.labels[many], meeting.one.labels[one])
        for many, one in zip(pairs.many.tolist(), pairs.one.tolist(), strict=True)
    ]
    _check(meeting, pairs, labels)
    sides = (meeting.many.values[pairs.many], meeting.one.values[pairs.one])
    first, second = reversed(sides) if meeting.is_swapped else sides
    outcome = combined(expr.op, first, second, return_bool=expr.return_bool)
    return Vector(labels, outcome.values, pairs.present & outcome.kept)


def _meet(left: Vector, right: Vector, matching: Matching) -> _Meeting:
    is_swapped = matching.cardinality == Cardinality.ONE_TO_MANY
    many, one = (right, left) if is_swapped else (left, right)
    key, codes = key_of(matching), dict[Labels, int]()
    many_codes, one_codes = coded(map(key, many.labels), codes), coded(map(key, one.labels), codes)
    return _Meeting(matching, is_swapped, many, one, many_codes, one_codes, len(codes))


def _pairs(context: Context, meeting: _Meeting) -> _Pairs:
    """Every series of the "many" side with each of the other that shares a step with it."""
    order = np.argsort(meeting.one_codes, kind="stable").astype(np.int64)
    starts = np.searchsorted(meeting.one_codes[order], np.arange(meeting.count + 1))
    counts = (starts[1:] - starts[:-1])[meeting.many_codes]
    many = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    within = np.arange(len(many)) - np.repeat(np.cumsum(counts) - counts, counts)
    one = order[np.repeat(starts[:-1][meeting.many_codes], counts) + within]
    context.check_cells(len(many) * context.steps.count)
    present = meeting.many.present[many] & meeting.one.present[one]
    shared = present.any(axis=1)
    return _Pairs(many[shared], one[shared], present[shared])


def _result(matching: Matching, many: Labels, one: Labels) -> Labels:
    labels = filled(many)
    if matching.cardinality == Cardinality.ONE_TO_ONE:
        labels = kept(labels, matching.labels) if matching.on else without(labels, matching.labels)
    for name in matching.include:
        labels = replaced(labels, name, value_of(one, name))
    return labels


def _check(meeting: _Meeting, pairs: _Pairs, labels: list[Labels]) -> None:
    """Raise for the first step that is ambiguous; of one step the side that has to be unique comes first."""
    keys, count, message = meeting.many_codes[pairs.many], meeting.count, NOT_EXPLICIT
    if meeting.matching.cardinality != Cardinality.ONE_TO_ONE:
        numbers: dict[tuple[int, Labels], int] = {}
        keys = coded(zip(keys.tolist(), labels, strict=True), numbers)
        count, message = len(numbers), NOT_UNIQUE
    crowded = _first_shared(meeting.one_codes, meeting.one.present, meeting.count)
    ambiguous = _first_shared(keys, pairs.present, count)
    if crowded is not None and (ambiguous is None or crowded <= ambiguous):
        raise EvaluationError(CROWDED.format(side="left" if meeting.is_swapped else "right"))
    if ambiguous is not None:
        raise EvaluationError(message)


def _first_shared(codes: Int64s, present: Flags, count: int) -> int | None:
    """The first step at which two rows of one code are present."""
    if len(np.unique(codes)) == len(codes):
        return None
    shared = (count_of_code(codes, present, count) > 1).any(axis=0)
    return int(shared.argmax()) if shared.any() else None


# << Binary operators: between numbers, a number and every series, or the series of two vectors.

Value = Scalar | Vector


def operate(context: Context, expr: Binary, left: Value, right: Value) -> Value:
    """The parser has refused numbers as sides of set operations."""
    match left, right:
        case Vector(), Vector():
            if expr.op in SETS:
                return occupied(merged(_of_sets(expr.op, left, right, expr.matching)))
            return occupied(merged(matched(context, expr, left, right)))
        case Vector(), Scalar():
            return _with_number(expr, left, right, is_left=False)
        case Scalar(), Vector():
            return _with_number(expr, right, left, is_left=True)
        case _:
            return Scalar(combined(expr.op, left.values, right.values, return_bool=True).values)


def _with_number(expr: Binary, vector: Vector, number: Scalar, *, is_left: bool) -> Vector:
    """A comparison that filters keeps the series' value, whichever side it stands on."""
    sides = (number.values[None, :], vector.values)
    left, right = sides if is_left else reversed(sides)
    outcome = combined(expr.op, left, right, return_bool=expr.return_bool)
    is_filter = expr.op in COMPARISONS and not expr.return_bool
    values = vector.values if is_filter else outcome.values
    return occupied(replace(vector, values=values, present=vector.present & outcome.kept))


def _of_sets(op: str, left: Vector, right: Vector, matching: Matching) -> Vector:
    """Series stay as they are; each step asks whether the other side has a match."""
    key, codes = key_of(matching), dict[Labels, int]()
    left_codes, right_codes = coded(map(key, left.labels), codes), coded(map(key, right.labels), codes)
    if op == "or":
        taken = any_of_code(left_codes, left.present, len(codes))[right_codes]
        return stacked([left, replace(right, present=right.present & ~taken)])
    found = any_of_code(right_codes, right.present, len(codes))[left_codes]
    present = left.present & (found if op == "and" else np.logical_not(found))
    return replace(left, present=present)


# << Aggregations of vectors: groups of series become series, or series are chosen or put in order.

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
