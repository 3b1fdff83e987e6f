"""A metric query over logs at its evaluation times: the way in, and how answers of cut steps are joined.

    answer = evaluate(parse_expr('sum (rate({job="api"} [5m]))'), LogSteps(start, step, count), source)

Instant queries for a number give a scalar, all else vectors. Series come by their labels, but of an instant
query with `sort` in it in the order in which they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakerunner_query.evaluate.logs.metrics.aggregating import SORTS
from lakerunner_query.evaluate.logs.metrics.context import Context, Options
from lakerunner_query.evaluate.logs.metrics.labels import by_labels
from lakerunner_query.evaluate.logs.metrics.times import LogSteps
from lakerunner_query.evaluate.logs.metrics.walk import walk
from lakerunner_query.evaluate.logs.source import LogSource
from lakerunner_query.lang.logql.ast import Binary, LabelReplace, SampleExpr, VectorAggregation
from lakerunner_query.vectors.rows import beside, merged, occupied, stacked
from lakerunner_query.vectors.vector import Scalar, Vector


@dataclass(frozen=True, slots=True)
class Answer:
    value: Scalar | Vector
    is_ordered: bool = False
    """The order of the series is part of the answer."""


def evaluate(expr: SampleExpr, steps: LogSteps, source: LogSource, options: Options | None = None) -> Answer:
    value = walk(Context(steps, source, options or Options()), expr)
    if isinstance(value, Scalar):
        return Answer(value if steps.is_instant else _as_series(value))
    is_ordered = steps.is_instant and has_order(expr)
    vector = merged(occupied(value))
    return Answer(vector if is_ordered else by_labels(vector), is_ordered)


def joined(answers: Sequence[Answer]) -> Answer:
    """Of runs of steps, one after the other in time."""
    if len(answers) == 1:
        return answers[0]
    vectors = [answer.value for answer in answers if isinstance(answer.value, Vector)]
    widths = [vector.present.shape[1] for vector in vectors]
    parts = []
    for place, vector in enumerate(vectors):
        before, behind = sum(widths[:place]), sum(widths[place + 1 :])
        parts.append(beside([_blank(vector, before), vector, _blank(vector, behind)]))
    return Answer(by_labels(merged(stacked(parts))))


def has_order(expr: SampleExpr) -> bool:
    """Whether anything in it is sorted."""
    match expr:
        case VectorAggregation(op=op, expr=inner):
            return op in SORTS or has_order(inner)
        case LabelReplace(expr=inner):
            return has_order(inner)
        case Binary(left=left, right=right):
            return has_order(left) or has_order(right)
        case _:
            return False


def _as_series(number: Scalar) -> Vector:
    return Vector([()], number.values[None, :], np.ones((1, len(number.values)), np.bool_))


def _blank(vector: Vector, steps: int) -> Vector:
    shape = (len(vector.labels), steps)
    return Vector(vector.labels, np.zeros(shape), np.zeros(shape, np.bool_))
