"""Subqueries: an expression evaluated at times of its own becomes samples.

    x[5m:1m] at 10:00:30   x at 9:56, 9:57, 9:58, 9:59, 10:00

The times are multiples of the subquery's step, whatever the query's own times are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lakerunner_query.evaluate.context import Context, Hints
from lakerunner_query.evaluate.selecting import check_size, milliseconds, window
from lakerunner_query.histogram.model import Hint, Histogram
from lakerunner_query.lang.promql.ast import Subquery
from lakerunner_query.vectors.rows import is_histogram, merged, nothing
from lakerunner_query.vectors.vector import Objects, Series, Steps, Vector, some

_OF_A_COUNTER = frozenset({Hint.RESET, Hint.NO_RESET})


def steps_of(context: Context, subquery: Subquery) -> Steps:
    """The times inside of all windows; there may be none."""
    grid = window(context, subquery).grid
    step = context.options.default_subquery_step_ms
    if subquery.step is not None:
        step = milliseconds(subquery.step)
    start = (grid.from_ms // step + 1) * step
    return Steps(start, step, max((grid.to_ms - start) // step + 1, 0))


def subquery_samples(context: Context, subquery: Subquery) -> Series:
    steps = steps_of(context, subquery)
    vector = nothing(0)
    if steps.count:
        inner = replace(context, steps=steps, hints=Hints.KEPT)
        vector = merged(inner.vector(subquery.expr))
    check_size(context, vector.present.size)
    return samples_of(vector, steps)


def samples_of(vector: Vector, steps: Steps) -> Series:
    """Every cell a sample, series in the order of their labels."""
    order = sorted(range(len(vector.labels)), key=vector.labels.__getitem__)
    if order != list(range(len(order))):
        vector = vector.take(np.array(order, np.int64))
    columns = np.nonzero(vector.present)[1]
    offsets = np.concatenate(([0], np.cumsum(vector.present.sum(axis=1)))).astype(np.int64)
    return Series(
        vector.labels,
        offsets,
        steps.times_ms[columns],
        vector.values[vector.present],
        _hintless(vector),
        drop_name=vector.drop_name,
    )


def _hintless(vector: Vector) -> Objects | None:
    """What is known of resets is known between neighbouring samples, and these are not neighbours."""
    if vector.histograms is None or not is_histogram(vector).any():
        return None
    found = vector.histograms[vector.present]
    for at in np.flatnonzero(some(found)).tolist():
        histogram: Histogram = found[at]
        if histogram.hint in _OF_A_COUNTER:
            found[at] = histogram.with_hint(Hint.UNKNOWN)
    return found
