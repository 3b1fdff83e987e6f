"""Range aggregations: lines or numbers of a pipeline over windows, one value per series and step.

The cheapest of three ways that will do: buckets of lines that the source has counted, lines counted as they
pass, or samples kept in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import pyarrow.compute as pc

from lakerunner_query.logql.frame import LogFrame, has_text
from lakerunner_query.logql.lang.aggregations import RANGE
from lakerunner_query.logql.lang.ast import Grouping, LogRange, RangeAggregation
from lakerunner_query.logql.metrics.context import Context, LogGrid, Naming, SeriesTable, by_labels
from lakerunner_query.logql.metrics.counts import (
    NO_SIZES,
    LineCounter,
    Sampler,
    WindowCounts,
    from_buckets,
    over_samples,
)
from lakerunner_query.logql.metrics.demand import demand_of, naming_of, simplify
from lakerunner_query.logql.metrics.errors import asks_for_errors, flag_failing, mark_errors, raise_oldest
from lakerunner_query.logql.pipeline import Demand, LogSource
from lakerunner_query.logql.stages.formats import unwrap_numbers
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.rows import drop_empty_rows
from lakerunner_query.vectors.vector import Labels, Vector
from lakerunner_query.windows.grid import absent
from resources.arrays import Doubles, Flags, Int64s


def absence(matchers: Sequence[Matcher], vector: Vector, grid: LogGrid) -> Vector:
    """Return 1 wherever there is nothing: `absent_over_time({job="x", env=~".+"} [1m])` -> `{job="x"} 1`."""
    present = absent(vector.present)[None, :]
    return drop_empty_rows(Vector([labels_of(matchers)], np.ones((1, grid.steps)), present))


def labels_of(matchers: Sequence[Matcher]) -> Labels:
    """Return the equalities of labels that only one matcher names.

    >>> labels_of([Matcher("b", MatchOp.EQUAL, "1"), Matcher("a", MatchOp.REGEX, ".+")])
    (('b', '1'),)
    """
    named = Counter(matcher.name for matcher in matchers)
    equal = (one for one in matchers if one.op == MatchOp.EQUAL and one.value and named[one.name] == 1)
    return tuple(sorted((one.name, one.value) for one in equal))


@dataclass(frozen=True, slots=True)
class NumberedRows:
    """Rows and their numbers; lines that are only counted have none."""

    frame: LogFrame
    numbers: Doubles


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Reader of the rows that a range aggregation sees: in a window, with a number, without errors."""

    source: LogSource
    ranged: LogRange
    grid: LogGrid
    keeps_errors: bool
    """Errors of parsers become labels, because the query asks for errors."""

    def frames(self, demand: Demand) -> Iterator[NumberedRows]:
        """Yield rows; raise for the oldest line with an error."""
        for rows in self._rows(demand):
            failed = flag_failing(rows.frame, keeps_errors=self.keeps_errors)
            if failed.any():
                self._fail(rows.frame, failed, demand)
            if rows.frame.count:
                yield NumberedRows(mark_errors(rows.frame), rows.numbers) if self.keeps_errors else rows

    def _rows(self, demand: Demand) -> Iterator[NumberedRows]:
        grid, unwrap = self.grid, self.ranged.unwrap
        for whole in self.source.rows(self.ranged.query, grid.from_ns, grid.to_ns, demand):
            frame = in_windows(whole, grid)
            if unwrap is None:
                yield NumberedRows(frame, np.zeros(0))
            else:
                yield NumberedRows(*unwrap_numbers(frame.keep(has_text(frame, unwrap.label)), unwrap))

    def _fail(self, frame: LogFrame, failed: Flags, demand: Demand) -> NoReturn:
        """Raise with all labels of the line; lines are read once more if only some were read."""
        if demand.labels is not None:
            for rows in self._rows(Demand(None, demand.line)):
                again = flag_failing(rows.frame, keeps_errors=self.keeps_errors)
                if again.any():
                    raise_oldest(rows.frame, again)
        raise_oldest(frame, failed)


def in_windows(frame: LogFrame, grid: LogGrid) -> LogFrame:
    """Drop lines between windows that do not touch."""
    if grid.steps == 1 or grid.step_ns <= grid.range_ns:
        return frame
    inside: Flags = np.less((frame.tsns - grid.from_ns - 1) % grid.step_ns, grid.range_ns)
    return frame.keep(inside)


def range_aggregation(context: Context, expr: RangeAggregation, pushed: Grouping | None) -> Vector:
    """Evaluate by series, or by groups of the expression or of the aggregation above it."""
    grid, naming = LogGrid.of(context.steps, expr.range), naming_of(expr, pushed)
    ranged = simplify(expr.range, naming, of_bytes=RANGE[expr.op].counts_bytes)
    reading = RangeReader(context.source, ranged, grid, asks_for_errors(expr, naming))
    if expr.op == "absent_over_time":
        return absence(expr.range.query.matchers, _of_lines(context, expr, reading, naming), grid)
    if expr.range.unwrap is None:
        return by_labels(drop_empty_rows(_of_lines(context, expr, reading, naming)))
    return by_labels(drop_empty_rows(_of_samples(context, expr, reading, naming)))


def _of_lines(context: Context, expr: RangeAggregation, reading: RangeReader, naming: Naming) -> Vector:
    grid, with_bytes = reading.grid, RANGE[expr.op].counts_bytes
    found = from_buckets(context, reading.ranged, grid, naming, with_bytes=with_bytes) or _count_lines(
        context, expr, reading, naming
    )
    labels, counted = found
    sums = counted.bytes if with_bytes else counted.lines
    values = sums / (grid.range_ns / 1e9) if RANGE[expr.op].is_per_second else sums.astype(np.float64)
    return Vector(labels, values, counted.lines > 0)


def _count_lines(
    context: Context, expr: RangeAggregation, reading: RangeReader, naming: Naming
) -> tuple[list[Labels], WindowCounts]:
    series, with_bytes = SeriesTable(naming), RANGE[expr.op].counts_bytes
    counter = LineCounter(reading.grid, with_bytes=with_bytes)
    for rows in reading.frames(demand_of(expr, naming)):
        frame, codes = rows.frame, series.numbers(rows.frame)
        context.check_series(series.count)
        counter.add(codes, series.count, frame.tsns, _sizes(frame) if with_bytes else NO_SIZES)
    return series.labels, counter.counts()


def _of_samples(context: Context, expr: RangeAggregation, reading: RangeReader, naming: Naming) -> Vector:
    series, sampler = SeriesTable(naming), Sampler()
    for rows in reading.frames(demand_of(expr, naming)):
        sampler.add(series.numbers(rows.frame), rows.frame, rows.numbers)
        context.check_series(series.count)
        context.check_cells(sampler.count)
    parameter = np.nan if expr.parameter is None else expr.parameter
    found = over_samples(expr.op, parameter, sampler.samples(series.count), reading.grid)
    return Vector(series.labels, found.values, found.present)


def _sizes(frame: LogFrame) -> Int64s:
    sizes: Int64s = pc.binary_length(frame.line).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes
