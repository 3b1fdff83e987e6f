"""Range aggregations: lines or numbers of a pipeline over windows, one value per series and step.

Three ways, the cheapest that will do: buckets of lines that the source has counted already, counting lines
as they pass, or keeping samples in order.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from lakerunner_query.evaluate.logs.frame import LogFrame
from lakerunner_query.evaluate.logs.metrics.bucketed import from_buckets
from lakerunner_query.evaluate.logs.metrics.context import Context
from lakerunner_query.evaluate.logs.metrics.counting import NO_SIZES, Counted, LineCounter
from lakerunner_query.evaluate.logs.metrics.demand import OF_BYTES, demand_of, naming_of
from lakerunner_query.evaluate.logs.metrics.failures import asks_for_errors
from lakerunner_query.evaluate.logs.metrics.labels import by_labels
from lakerunner_query.evaluate.logs.metrics.presence import absence
from lakerunner_query.evaluate.logs.metrics.reading import Reading
from lakerunner_query.evaluate.logs.metrics.sampled import Sampler, over_samples
from lakerunner_query.evaluate.logs.metrics.series import Naming, SeriesTable
from lakerunner_query.evaluate.logs.metrics.simplifying import simplified
from lakerunner_query.evaluate.logs.metrics.times import Grid
from lakerunner_query.lang.logql.ast import Grouping, RangeAggregation
from lakerunner_query.vectors.rows import occupied
from lakerunner_query.vectors.vector import Labels, Vector
from resources.arrays import Int64s


def range_aggregation(context: Context, expr: RangeAggregation, pushed: Grouping | None) -> Vector:
    """By the series of the pipeline, or by the groups of the expression or of the aggregation above it."""
    grid, naming = Grid.of(context.steps, expr.range), naming_of(expr, pushed)
    wanted = simplified(expr.range, naming, of_bytes=expr.op in OF_BYTES)
    reading = Reading(context.source, wanted, grid, asks_for_errors(expr, naming))
    if expr.op == "absent_over_time":
        return absence(expr.range.query.matchers, _of_lines(context, expr, reading, naming), grid)
    if expr.range.unwrap is None:
        return by_labels(occupied(_of_lines(context, expr, reading, naming)))
    return by_labels(occupied(_of_samples(context, expr, reading, naming)))


def _of_lines(context: Context, expr: RangeAggregation, reading: Reading, naming: Naming) -> Vector:
    grid, with_bytes = reading.grid, expr.op in OF_BYTES
    found = from_buckets(context, reading.wanted, grid, naming, with_bytes=with_bytes) or _counted(
        context, expr, reading, naming
    )
    labels, counted = found
    sums = counted.bytes if with_bytes else counted.lines
    by_second = expr.op in {"rate", "bytes_rate"}
    values = sums / (grid.range_ns / 1e9) if by_second else sums.astype(np.float64)
    return Vector(labels, values, counted.lines > 0)


def _counted(
    context: Context, expr: RangeAggregation, reading: Reading, naming: Naming
) -> tuple[list[Labels], Counted]:
    series, with_bytes = SeriesTable(naming), expr.op in OF_BYTES
    counter = LineCounter(reading.grid, with_bytes=with_bytes)
    for rows in reading.frames(demand_of(expr, naming)):
        frame, codes = rows.frame, series.numbered(rows.frame)
        context.check_series(series.count)
        counter.add(codes, series.count, frame.tsns, _sizes(frame) if with_bytes else NO_SIZES)
    return series.labels, counter.counted()


def _of_samples(context: Context, expr: RangeAggregation, reading: Reading, naming: Naming) -> Vector:
    series, sampler = SeriesTable(naming), Sampler()
    for rows in reading.frames(demand_of(expr, naming)):
        sampler.add(series.numbered(rows.frame), rows.frame, rows.numbers)
        context.check_series(series.count)
        context.check_cells(sampler.count)
    parameter = np.nan if expr.parameter is None else expr.parameter
    found = over_samples(expr.op, parameter, sampler.samples(series.count), reading.grid)
    return Vector(series.labels, found.values, found.present)


def _sizes(frame: LogFrame) -> Int64s:
    sizes: Int64s = pc.binary_length(frame.line).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes
