"""One unit of a metric query on one worker: the expression over its steps, as finished text.

A shard's unit is the parts of the expression that are of single series; a unit that is given the answers of
all shards reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.promql.context import Options
from lakerunner_query.promql.evaluate import Answer, evaluate, evaluate_parts
from lakerunner_query.promql.lang.ast import Expr
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.cursor import Features
from lakerunner_query.promql.lang.parser import parsed
from lakerunner_query.protocol.answers import (
    Kind,
    MetricAnswer,
    Note,
    RenderedSeries,
    ShardAnswer,
    decode_shard_answer,
    report_together,
)
from lakerunner_query.protocol.units import LogMetricUnit, MetricUnit, ShardUnit, UnitReport
from lakerunner_query.vectors.vector import Scalar, Steps, String, Vector
from lakerunner_query.worker.metrics.lake_source import LakeSource
from lakerunner_query.worker.metrics.row_groups import RowGroupCache
from lakerunner_query.worker.metrics.segment_opener import MetricOpener, Most, Reading
from lakerunner_query.worker.metrics.shards import NothingToRead, Shard, given, parts_of, shard_parts
from lakerunner_query.worker.shared.render_samples import (
    readable,
    samples_series,
    scalar_series,
    vector_series,
)
from resources.duckdb import Cancellation

# << Finished answers to parts of queries: who asks again while no segment has changed gets the same bytes.
# <<
# << A unit of work names everything that its answer depends on, the segments among it, and segments
# << never change.
# << So nothing has to be thrown away when something is published: it is another unit.

Remembered = MetricUnit | ShardUnit | LogMetricUnit
ANSWER = "answer"


class Answers:
    """The most recently used ones, up to so many bytes; none at all with room for none."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: RowGroupCache[memoryview] = RowGroupCache(max_bytes)

    def of(self, unit: Remembered) -> bytes | None:
        found = self._kept.get(ANSWER, _key(unit)) if self._max_bytes and not _is_given(unit) else None
        return None if found is None else bytes(found)

    def keep(self, unit: Remembered, body: bytes) -> None:
        if _is_given(unit):
            return
        if len(body) <= self._max_bytes // 4:  # a single one must not push out all the others
            self._kept.put(ANSWER, _key(unit), memoryview(body))


def _is_given(unit: Remembered) -> bool:
    """Such a unit is as large as what it is given, and quickly answered: it is not worth keeping."""
    return isinstance(unit, MetricUnit) and bool(unit.given)


def _key(unit: Remembered) -> Remembered:
    """The same for all workers."""
    if isinstance(unit, ShardUnit):
        return ShardUnit(msgspec.structs.replace(unit.of, turn=0, affinity=""), unit.number, unit.count)
    return msgspec.structs.replace(unit, turn=0, affinity="")


class MetricScanner:
    """Everything a worker process shares between metric queries."""

    def __init__(self, opener: MetricOpener) -> None:
        self._opener = opener

    def run(self, unit: MetricUnit, cancellation: Cancellation) -> MetricAnswer:
        if unit.given:
            return _rest(unit)
        with self._opener.reading(cancellation) as reading, _enough_memory():
            source = self._source(unit, reading)
            found = evaluate(_bound(unit), _steps(unit), source, _options(unit))
            return rendered(found, unit, _report(reading, source))

    def shard(self, unit: ShardUnit, cancellation: Cancellation) -> ShardAnswer:
        with self._opener.reading(cancellation) as reading, _enough_memory():
            source = self._source(unit.of, reading, Shard(unit.number, unit.count))
            expr = _bound(unit.of)
            found = evaluate_parts(expr, parts_of(expr), _steps(unit.of), source, _options(unit.of))
            return ShardAnswer(
                shard_parts(found),
                int(source.traits),
                source.most.seen_series,
                source.most.seen_samples,
                tuple(reading.opened),
                _report(reading, source),
            )

    def _source(self, unit: MetricUnit, reading: Reading, shard: Shard | None = None) -> LakeSource:
        return LakeSource(
            reading,
            unit.segments,
            self._opener.interner.numbering(),
            unit.rollups,
            Most(unit.max_series, unit.max_samples),
            starts=unit.start_timestamps,
            shard=shard,
        )


def _rest(unit: MetricUnit) -> MetricAnswer:
    """What stands above the parts that shards have answered."""
    shards = [decode_shard_answer(body) for body in unit.given]
    expr, steps = _bound(unit), _steps(unit)
    with _enough_memory():
        found = evaluate(expr, steps, NothingToRead(), _options(unit), given(expr, steps, shards))
        return rendered(found, unit, report_together(shards))


@contextmanager
def _enough_memory() -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise LimitExceededError(
            "this part of the query needs more memory than a worker has: narrow the time range, "
            "use a larger step, or select fewer series"
        ) from error


def rendered(found: Answer, unit: MetricUnit, report: UnitReport) -> MetricAnswer:
    """An answer as text."""
    times = _steps(unit).times_ms
    value = found.value
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
            None if note.forced is None else (
                note.forced.lowest, note.forced.highest, note.forced.largest_difference,
                note.forced.from_ms, note.forced.to_ms, note.forced.samples,
            ),
            (note.span.start, note.span.end),
        )
        for note in found.annotations
    )  # fmt: skip
    points = sum(each.points for each in series)
    return MetricAnswer(kind, series, string, notes, found.is_ordered, points, report)


def _bound(unit: MetricUnit) -> Expr:
    return bind(parsed(unit.text, Features.named(unit.features)), unit.start_ms, unit.end_ms, unit.step_ms)


def _steps(unit: MetricUnit) -> Steps:
    return Steps(unit.first_ms, unit.step_ms, unit.steps)


def _options(unit: MetricUnit) -> Options:
    return Options(lookback_ms=unit.lookback_ms, start_timestamps=unit.start_timestamps)


def _report(reading: Reading, source: LakeSource) -> UnitReport:
    return UnitReport(
        missing=tuple(reading.missing.values()),
        segments_opened=len(reading.opened),
        rows_considered=reading.rows_considered,
        bytes_fetched=reading.bytes_fetched,
        rollup_rows=dict(source.rollups.rows_read),
    )
