"""Range aggregations: lines or numbers of a pipeline over windows, one value per series and step.

Three ways, the cheapest that will do: buckets of lines that the source has counted already, counting lines
as they pass, or keeping samples in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import pyarrow.compute as pc

from lakerunner_query.logql.frame import LogFrame, has_text
from lakerunner_query.logql.lang.ast import Grouping, LogRange, RangeAggregation
from lakerunner_query.logql.metrics.context import Context, Grid, Naming, SeriesTable, by_labels
from lakerunner_query.logql.metrics.counts import (
    NO_SIZES,
    Counted,
    LineCounter,
    Sampler,
    from_buckets,
    over_samples,
)
from lakerunner_query.logql.metrics.demand import OF_BYTES, demand_of, naming_of, simplified
from lakerunner_query.logql.metrics.errors import asks_for_errors, failing, marked, raise_oldest
from lakerunner_query.logql.pipeline import Demand, LogSource
from lakerunner_query.logql.stages.formats import unwrapped
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.rows import occupied
from lakerunner_query.vectors.vector import Labels, Vector
from lakerunner_query.windows.grid import absent
from resources.arrays import Doubles, Flags, Int64s

# << `absent_over_time`: 1 wherever there is nothing, with the labels that the selector asks for.
# <<
# << absent_over_time({job="x", env=~".+"} [1m])  ->  {job="x"} 1


def absence(matchers: Sequence[Matcher], vector: Vector, grid: Grid) -> Vector:
    present = absent(vector.present)[None, :]
    return occupied(Vector([labels_of(matchers)], np.ones((1, grid.steps)), present))


def labels_of(matchers: Sequence[Matcher]) -> Labels:
    """Equalities, of labels that only one matcher names.

    >>> labels_of([Matcher("b", MatchOp.EQUAL, "1"), Matcher("a", MatchOp.REGEX, ".+")])
    (('b', '1'),)
    """
    named = Counter(matcher.name for matcher in matchers)
    equal = (one for one in matchers if one.op == MatchOp.EQUAL and one.value and named[one.name] == 1)
    return tuple(sorted((one.name, one.value) for one in equal))


# << The rows a range aggregation sees: in a window, with a number where one was asked for, without errors.


@dataclass(frozen=True, slots=True)
class Numbered:
    """Rows and their numbers; lines that are only counted have none."""

    frame: LogFrame
    numbers: Doubles


@dataclass(frozen=True, slots=True)
class Reading:
    source: LogSource
    wanted: LogRange
    grid: Grid
    keeps_errors: bool
    """The query asks for errors: those of parsers become labels and do not fail it."""

    def frames(self, demand: Demand) -> Iterator[Numbered]:
        """Raises for the first line with an error."""
        for rows in self._rows(demand):
            failed = failing(rows.frame, keeps_errors=self.keeps_errors)
            if failed.any():
                self._fail(rows.frame, failed, demand)
            if rows.frame.count:
                yield Numbered(marked(rows.frame), rows.numbers) if self.keeps_errors else rows

    def _rows(self, demand: Demand) -> Iterator[Numbered]:
        grid, unwrap = self.grid, self.wanted.unwrap
        for whole in self.source.rows(self.wanted.query, grid.from_ns, grid.to_ns, demand):
            frame = in_windows(whole, grid)
            if unwrap is None:
                yield Numbered(frame, np.zeros(0))
            else:
                yield Numbered(*unwrapped(frame.keep(has_text(frame, unwrap.label)), unwrap))

    def _fail(self, frame: LogFrame, failed: Flags, demand: Demand) -> NoReturn:
        """With all labels of the line: where only some were asked for, lines are read once more."""
        if demand.labels is not None:
            for rows in self._rows(Demand(None, demand.line)):
                again = failing(rows.frame, keeps_errors=self.keeps_errors)
                if again.any():
                    raise_oldest(rows.frame, again)
        raise_oldest(frame, failed)


def in_windows(frame: LogFrame, grid: Grid) -> LogFrame:
    """Where windows do not touch, some lines are in none."""
    if grid.steps == 1 or grid.step_ns <= grid.range_ns:
        return frame
    inside: Flags = np.less((frame.tsns - grid.from_ns - 1) % grid.step_ns, grid.range_ns)
    return frame.keep(inside)


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
