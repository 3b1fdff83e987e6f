"""`sort` and its kin: rows in an order that an instant query keeps.

Range queries are ordered by labels whatever happens, and are told so.
"""

from __future__ import annotations

from functools import cmp_to_key

import numpy as np

from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.functions.arguments import texts_of, vector_of
from lakerunner_query.evaluate.functions.messages import Notes
from lakerunner_query.evaluate.functions.natural import is_before
from lakerunner_query.evaluate.functions.simple import Implementation
from lakerunner_query.lang.promql.ast import Call
from lakerunner_query.vectors.labels import value_of
from lakerunner_query.vectors.rows import has_float, occupied
from lakerunner_query.vectors.vector import Labels, Value, Vector


def by_value(*, descending: bool) -> Implementation:
    """NaN comes last either way; histograms drop out."""

    def apply(context: Context, call: Call) -> Value:
        vector = vector_of(context, call)
        vector = occupied(Vector(vector.labels, vector.values, has_float(vector), None, vector.drop_name))
        if _is_range(context, call):
            return vector
        values = vector.values[:, 0]
        order = np.lexsort((-values if descending else values, np.isnan(values)))
        return vector.take(order)

    return apply


def by_label(*, descending: bool) -> Implementation:
    """Labels are compared as people number things, `node2` before `node10`; ties by all labels."""

    def apply(context: Context, call: Call) -> Value:
        vector = vector_of(context, call)
        if _is_range(context, call):
            return vector
        names = texts_of(context, call, 1)

        def compare(one: int, other: int) -> int:
            return _compared(vector.labels[one], vector.labels[other], names)

        order = sorted(range(len(vector.labels)), key=cmp_to_key(compare), reverse=descending)
        return vector.take(np.array(order, np.intp))

    return apply


def _compared(one: Labels, other: Labels, names: tuple[str, ...]) -> int:
    for name in names:
        mine, others = value_of(one, name), value_of(other, name)
        if mine != others:
            return -1 if is_before(mine, others) else 1
    return (one > other) - (one < other)


def _is_range(context: Context, call: Call) -> bool:
    if context.steps.count == 1:
        return False
    Notes(context.annotations, call.span).useless_sort()
    return True


ORDERING: dict[str, Implementation] = {
    "sort": by_value(descending=False),
    "sort_desc": by_value(descending=True),
    "sort_by_label": by_label(descending=False),
    "sort_by_label_desc": by_label(descending=True),
}
