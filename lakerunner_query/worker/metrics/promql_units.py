"""`MetricScanner` answers a unit of a PromQL query: it evaluates the expression over the unit's steps.

The unit of a shard evaluates the parts of the expression that work per series; a unit that brings the answers
of all shards evaluates the rest and reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.plan.promql import reads
from lakerunner_query.promql.context import Options
from lakerunner_query.promql.evaluate import QueryResult, evaluate, evaluate_parts
from lakerunner_query.promql.lang.ast import Expr
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.cursor import Features
from lakerunner_query.promql.lang.parser import parse_cached
from lakerunner_query.protocol.answers import (
    Kind,
    MetricAnswer,
    Note,
    RenderedSeries,
    ShardAnswer,
    decode_shard_answer,
    report_together,
)
from lakerunner_query.protocol.units import (
    MetricUnit,
    SegmentRef,
    ShardUnit,
    UnitReport,
    selected_segments,
)
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import Scalar, Steps, String, Vector
from lakerunner_query.worker.metrics.lake_source import LakeSource
from lakerunner_query.worker.metrics.segment_opener import MetricOpener, UnitReader
from lakerunner_query.worker.metrics.selections import SelectorLimits
from lakerunner_query.worker.metrics.shards import NoSource, Shard, encode_parts, merge_parts, parts_of
from lakerunner_query.worker.shared.render_samples import (
    readable,
    samples_series,
    scalar_series,
    vector_series,
)
from resources.duckdb import Cancellation


class MetricScanner:
    """Answers units of PromQL queries."""

    def __init__(self, opener: MetricOpener) -> None:
        self._opener = opener

    def run(self, unit: MetricUnit, cancellation: Cancellation) -> MetricAnswer:
        if unit.given:
            return _merge_shards(unit)
        with self._opener.open_unit(cancellation) as reader, enough_memory():
            source = self._source(unit, reader)
            found = evaluate(_bound(unit), _steps(unit), source, _options(unit))
            return render_answer(found, unit, reader.report())

    def shard(self, unit: ShardUnit, cancellation: Cancellation) -> ShardAnswer:
        with self._opener.open_unit(cancellation) as reader, enough_memory():
            source = self._source(unit.of, reader, Shard(unit.number, unit.count))
            expr = _bound(unit.of)
            found = evaluate_parts(expr, parts_of(expr), _steps(unit.of), source, _options(unit.of))
            return ShardAnswer(
                encode_parts(found),
                int(source.traits),
                source.limits.peak_series,
                source.limits.peak_samples,
                tuple(reader.opened),
                reader.report(),
            )

    def _source(self, unit: MetricUnit, reader: UnitReader, shard: Shard | None = None) -> LakeSource:
        return LakeSource(
            reader,
            unit.segments,
            self._opener.interner.numbers(),
            unit.rollups,
            SelectorLimits(unit.max_series, unit.max_samples),
            by_selector=_by_selector(unit),
            starts=unit.start_timestamps,
            shard=shard,
        )


def _merge_shards(unit: MetricUnit) -> MetricAnswer:
    """Evaluate what stands above the parts that shards have answered."""
    shards = [decode_shard_answer(body) for body in unit.given]
    expr, steps = _bound(unit), _steps(unit)
    with enough_memory():
        found = evaluate(expr, steps, NoSource(), _options(unit), merge_parts(expr, steps, shards))
        return render_answer(found, unit, report_together(shards))


@contextmanager
def enough_memory() -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise LimitExceededError(
            "this part of the query needs more memory than a worker has: narrow the time range, "
            "use a larger step, or select fewer series"
        ) from error


def render_answer(answer: QueryResult, unit: MetricUnit, report: UnitReport) -> MetricAnswer:
    """Render the result of the evaluation as text."""
    times = _steps(unit).times_ms
    value = answer.value
    kind: Kind
    series: tuple[RenderedSeries, ...] = ()
    string = ""
    if isinstance(value, String):
        kind, string = "string", readable(value.value)
    elif isinstance(value, Scalar):
        kind, series = "scalar", scalar_series(value.values, times)
    elif isinstance(value, Vector):
        kind, series = "vector", vector_series(value, times)
    else:
        kind, series = "matrix", samples_series(value)
    notes = tuple(
        Note(
            note.kind,
            readable(note.base),
            readable(note.render(unit.text)),
            None if note.fix is None else (
                note.fix.lowest, note.fix.highest, note.fix.largest_difference,
                note.fix.from_ms, note.fix.to_ms, note.fix.samples,
            ),
            (note.span.start, note.span.end),
            None if note.extreme is None else (
                note.extreme.value, note.extreme.is_largest, note.extreme.behind,
            ),
        )
        for note in answer.annotations
    )  # fmt: skip
    points = sum(each.points for each in series)
    return MetricAnswer(kind, series, string, notes, answer.is_ordered, points, report)


def _by_selector(unit: MetricUnit) -> dict[tuple[Matcher, ...], tuple[SegmentRef, ...]]:
    """Give every selector of the text the segments that the index found for it."""
    if not unit.selected:
        return {}
    options = _options(unit)
    read = reads(_bound(unit), _steps(unit), options.lookback_ms, options.default_subquery_step_ms)
    lists = selected_segments(unit.segments, unit.selected, len(read))
    return {one.matchers: each for one, each in zip(read, lists, strict=True)}


def _bound(unit: MetricUnit) -> Expr:
    return bind(
        parse_cached(unit.text, Features.from_flags(unit.features)), unit.start_ms, unit.end_ms, unit.step_ms
    )


def _steps(unit: MetricUnit) -> Steps:
    return Steps(unit.first_ms, unit.step_ms, unit.steps)


def _options(unit: MetricUnit) -> Options:
    return Options(lookback_ms=unit.lookback_ms, start_timestamps=unit.start_timestamps)
