"""Arithmetic and comparison between two vectors: which series meet, and what comes of it.

Series meet by the labels they are matched on, worked out once per series. The "one" side may have several
series of the same labels as long as no step has two of them: every pair that shares a step is a row then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.evaluate.logs.metrics.context import Context
from lakerunner_query.evaluate.logs.metrics.labels import filled, key_of
from lakerunner_query.lang.logql.ast import Binary, Cardinality, Matching
from lakerunner_query.vectors.group_kernels import count_of_code
from lakerunner_query.vectors.labels import coded, kept, replaced, value_of, without
from lakerunner_query.vectors.rows import combined
from lakerunner_query.vectors.vector import Labels, Vector
from resources.arrays import Flags, Int64s

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
