"""Scalars and single vectors: `time`, `pi`, `scalar`, `vector`, `min_of`, `max_of`.

`start`, `end`, `step` and `range` are numbers already: binding a query to its times makes them so.
"""

from __future__ import annotations

import math

import numpy as np

from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.functions.arguments import scalar_of, vector_of
from lakerunner_query.evaluate.functions.results import single
from lakerunner_query.evaluate.functions.simple import Implementation
from lakerunner_query.gotext.conversions import larger, smaller
from lakerunner_query.lang.promql.ast import Call
from lakerunner_query.vectors.rows import has_float
from lakerunner_query.vectors.vector import Scalar, Value


def time(context: Context, _: Call) -> Value:
    return Scalar(context.steps.times_ms / 1000)


def pi(context: Context, _: Call) -> Value:
    return Scalar(np.full(context.steps.count, math.pi))


def scalar(context: Context, call: Call) -> Value:
    """The value where exactly one float is, else NaN."""
    vector = vector_of(context, call)
    floats = has_float(vector)
    count = floats.sum(axis=0)
    values = np.full(context.steps.count, np.nan)
    found = np.flatnonzero(count == 1)
    if len(found):
        values[found] = vector.values[floats[:, found].argmax(axis=0), found]
    return Scalar(values)


def vector(context: Context, call: Call) -> Value:
    return single(scalar_of(context, call, 0))


def min_of(context: Context, call: Call) -> Value:
    return Scalar(smaller(scalar_of(context, call, 0), scalar_of(context, call, 1)))


def max_of(context: Context, call: Call) -> Value:
    return Scalar(larger(scalar_of(context, call, 0), scalar_of(context, call, 1)))


SCALARS: dict[str, Implementation] = {
    "time": time,
    "pi": pi,
    "scalar": scalar,
    "vector": vector,
    "min_of": min_of,
    "max_of": max_of,
}
