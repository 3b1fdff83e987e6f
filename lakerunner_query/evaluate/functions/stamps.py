"""`timestamp` and `start_timestamp`: when a sample was taken, and when what it counts began."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.functions.arguments import vector_of
from lakerunner_query.evaluate.functions.results import without_names
from lakerunner_query.evaluate.selecting import bare, is_stale
from lakerunner_query.lang.promql.ast import Call, Selector, Shift
from lakerunner_query.vectors.vector import Series, Value, Vector
from lakerunner_query.windows.extremes_kernels import newest
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.samples import windows_of
from resources.arrays import Doubles


def timestamp(context: Context, call: Call) -> Value:
    """Of a selector's samples; what is computed is of the time of evaluation."""
    argument = bare(call.arguments[0])
    if not isinstance(argument, Selector):
        vector = vector_of(context, call)
        times = np.broadcast_to(context.steps.times_ms / 1000, vector.present.shape)
        return without_names(vector.labels, times, vector.present)
    if argument.shift.at is not None and argument.shift.offset:
        # Prometheus reads what the offset says and then looks at the time of `@`, as if there were none
        moved = replace(argument, shift=Shift(0, argument.shift.at))
        series = context.samples(argument)
        return _newest(context, moved, series, series.time_ms / 1000)
    where = context.window(argument)
    found = context.source.over_windows(Function.TIMESTAMP, argument.matchers, where.grid)
    if found is None:
        series = context.samples(argument)
        return _newest(context, argument, series, series.time_ms / 1000)
    vector = without_names(found.labels, found.found.values, found.found.present)
    return context.spread(vector) if where.is_fixed else vector


def start_timestamp(context: Context, call: Call) -> Value:
    """Nothing unless beginnings are looked at, and of what is computed nothing either; 0 where unknown."""
    argument = bare(call.arguments[0])
    if not context.options.start_timestamps or not isinstance(argument, Selector):
        shape = (0, context.steps.count)
        return Vector([], np.zeros(shape), np.zeros(shape, np.bool_))
    series = context.samples(argument)
    starts = np.zeros(len(series.time_ms)) if series.start_ms is None else series.start_ms / 1000
    return _newest(context, argument, series, starts)


def _newest(context: Context, selector: Selector, series: Series, answers: Doubles) -> Vector:
    where = context.window(selector)
    shape = (series.count, where.grid.steps)
    values, states = np.full(shape, np.nan), np.zeros(shape, np.int8)
    newest(
        series.offsets,
        series.time_ms,
        answers,
        series.time_ms,
        ~is_stale(series),
        windows_of(where.grid),
        values,
        states,
    )
    vector = without_names(series.labels, values, states != 0)
    return context.spread(vector) if where.is_fixed else vector
