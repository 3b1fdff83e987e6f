"""`LogSampleScanner` answers a unit of a metric query over logs, from counts or rows.

Filters are pushed down as in log queries, and labels that the query does not use are not read. A file that
proves damaged in the middle ends the evaluation, which begins anew without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa

from lakerunner_query.errors import LimitExceededError, WorkFailedError
from lakerunner_query.logql import pipeline
from lakerunner_query.logql.frame import LogFrame
from lakerunner_query.logql.lang.ast import LogQuery, SampleExpr, Stage
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.lang.stages import condition_of, row_of
from lakerunner_query.logql.metrics.context import LogSteps, Options
from lakerunner_query.logql.metrics.evaluate import LogResult, evaluate
from lakerunner_query.logql.pipeline import Buckets, Demand, labels_before
from lakerunner_query.plan.logql import Nothing, RunStages
from lakerunner_query.plan.logql_samples import LogReads, log_reads
from lakerunner_query.plan.optimise import improve_cached
from lakerunner_query.protocol.answers import MetricAnswer, RenderedSeries, decode_metric_answer
from lakerunner_query.protocol.units import (
    GivenPart,
    LogMetricUnit,
    Missing,
    SegmentRef,
    UnitReport,
    selected_segments,
)
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import Scalar
from lakerunner_query.worker.logs.labels import columns_for
from lakerunner_query.worker.logs.line_counts import LineCounter
from lakerunner_query.worker.logs.page_counts import BucketGrid
from lakerunner_query.worker.logs.row_fetch import MESSAGE, StreamRanks, frame_of, scanned_rows
from lakerunner_query.worker.logs.scan_intervals import (
    IntervalSizes,
    Pace,
    ScanInterval,
    ScannedIntervals,
    Wanted,
    chunks_to_read,
    fetch,
    fetch_ahead,
    merge_reports,
    rows_in_bytes,
    scan_intervals,
    unit_report,
    with_next,
)
from lakerunner_query.worker.logs.segment_opener import (
    DAMAGE,
    NO_DAMAGE,
    OpenSegment,
    OpenSegments,
    ScanResources,
    SegmentOpener,
    find_damage,
)
from lakerunner_query.worker.logs.sql import (
    RowQuery,
    columns_read,
    files_by_schema,
    label_conditions,
    row_statement,
    split_line_filters,
)
from lakerunner_query.worker.logs.stream_filter import StreamFilter
from lakerunner_query.worker.shared.render_samples import log_scalar_series, log_vector_series, parse_vector
from resources.duckdb import Cancellation, DuckSession
from resources.lake.columns import CHQ_OBJECT, CHQ_POSITION

FRAME_ROWS, FRAME_BYTES = 131_072, 64 * 1024 * 1024
INTERVALS = IntervalSizes(rows=1_000_000, first=1.0)
COUNTED, ROWS = "counted in SQL", "rows"
"""Names of access paths in EXPLAIN."""


class DamagedError(Exception):
    """A file could not be read to its end; it is left out from now on, or fetched again."""


@dataclass(slots=True)
class UnreadableSegments:
    """Segments that are left out of further attempts at the same unit."""

    missing: dict[str, Missing] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)
    """Segments that were fetched again because a copy was damaged."""


@dataclass(frozen=True, slots=True)
class FramesRead:
    """A statement for the rows of an interval, and the stages that are left for them."""

    query: RowQuery
    columns: list[str]
    stages: tuple[Stage, ...]
    names: frozenset[str] | None
    """Labels that the stages need; None: all."""

    @classmethod
    def of(
        cls, stages: Sequence[Stage], group: Sequence[OpenSegment], interval: ScanInterval, demand: Demand
    ) -> FramesRead:
        lines, rest = split_line_filters(stages)
        labels, rest = label_conditions(rest, group)
        names = labels_before(rest, demand)[0]
        needs_line = demand.line or any(row_of(stage).needs_line for stage in rest)
        columns = [c for c in columns_for([one.footer for one in group], names) if c != MESSAGE]
        query = RowQuery(group, interval.start_ns, interval.end_ns, lines, labels)
        return cls(query, [MESSAGE, *columns] if needs_line else columns, rest, names)

    def chunks(self) -> Wanted:
        query = self.query
        names = {*columns_read(query), CHQ_OBJECT, CHQ_POSITION, *self.columns}
        return chunks_to_read(query.group, names, query.start_ns, query.end_ns)


@dataclass(slots=True)
class LakeLogSource:
    """Log rows of the segments of one unit, as a source that evaluation reads."""

    segments: Mapping[tuple[Matcher, ...], Sequence[SegmentRef]]
    """Segments that the index found for each selector."""
    resources: ScanResources
    unreadable: UnreadableSegments
    now_ns: int
    reports: list[UnitReport] = field(default_factory=list)
    served_by: dict[str, None] = field(default_factory=dict)
    """Access paths that were used, in order, for EXPLAIN."""

    def rows(self, query: LogQuery, from_ns: int, to_ns: int, demand: Demand) -> Iterator[LogFrame]:
        plan = improve_cached(query).pipeline
        if isinstance(plan, Nothing):
            return
        self.served_by[ROWS] = None
        with self._open(query, plan, from_ns, to_ns) as (files, scanned):
            ranks = StreamRanks.of(stream for one in files.opened for stream in one.streams)
            intervals = scan_intervals(files.opened, from_ns + 1, to_ns + 1, Pace(INTERVALS), reverse=False)
            for interval, following in with_next(intervals):
                scanned.add(interval)
                for each in self._reads(plan.stages, following, demand):
                    fetch_ahead(each.chunks())
                for each in self._reads(plan.stages, interval, demand):
                    yield from self._frames(each, ranks, demand)

    def buckets(
        self,
        query: LogQuery,
        by: tuple[str, ...],
        start_ns: int,
        width_ns: int,
        count: int,
        *,
        with_bytes: bool,
    ) -> Buckets | None:
        plan = improve_cached(query).pipeline
        counter = LineCounter(
            BucketGrid(start_ns, width_ns, count), self.resources.session, self.resources.cancellation
        )
        if isinstance(plan, Nothing):
            return counter.buckets()
        end_ns = start_ns + width_ns * count
        if any(condition_of(stage) is None for stage in split_line_filters(plan.stages)[1]):
            return None
        with self._open(query, plan, start_ns, end_ns) as (files, scanned):
            scanned.add(ScanInterval(start_ns + 1, end_ns + 1, tuple(files.opened)))
            for group in files_by_schema(files.opened):
                if not counter.add(group, plan.stages, by, with_bytes=with_bytes):
                    return None
        self.served_by[COUNTED] = None
        return counter.buckets()

    def report(self) -> UnitReport:
        return merge_reports(self.reports, tuple(self.unreadable.missing.values()))

    def _reads(
        self, stages: Sequence[Stage], interval: ScanInterval | None, demand: Demand
    ) -> Iterator[FramesRead]:
        if interval is not None:
            for group in files_by_schema(interval.files):
                yield FramesRead.of(stages, group, interval, demand)

    def _frames(self, each: FramesRead, ranks: StreamRanks, demand: Demand) -> Iterator[LogFrame]:
        fetch(each.chunks())
        for table in self._tables(each.query, each.columns, ranks):
            frame = frame_of(scanned_rows(table, each.query.group, ranks), each.names)
            yield pipeline.apply(frame, each.stages, demand, self.now_ns, self.resources.cancellation.check)

    def _tables(self, query: RowQuery, columns: Sequence[str], ranks: StreamRanks) -> Iterator[pa.Table]:
        """Yield batches of rows as DuckDB produces them: never a whole interval at once."""
        statement = row_statement(query, columns)
        streams = ranks.table(stream for one in query.group for stream in one.streams)
        run = self.resources.cancellation.run
        size = rows_in_bytes(query.group, FRAME_BYTES, FRAME_ROWS)
        with self.resources.session.cursor() as cursor:
            cursor.register("streams", streams)
            relation = cursor.sql(statement.sql, params=statement.parameters)
            reader = run(cursor, lambda: relation.to_arrow_reader(size))
            while (batch := run(cursor, lambda: next(reader, None))) is not None:
                yield pa.Table.from_batches([batch])

    @contextmanager
    def _open(
        self, query: LogQuery, plan: RunStages, from_ns: int, to_ns: int
    ) -> Iterator[tuple[OpenSegments, ScannedIntervals]]:
        stream_filter = StreamFilter.of(plan.source, from_ns + 1, to_ns + 1)
        segments = [
            one
            for one in self.segments[query.matchers]
            if one.segment_id not in self.unreadable.missing and one.min_ns <= to_ns and one.max_ns > from_ns
        ]
        scanned = ScannedIntervals()
        with self.resources.opener.open(segments, stream_filter, self.resources.cancellation) as files:
            try:
                yield files, scanned
            except NO_DAMAGE:
                raise
            except DAMAGE as error:
                if not self._leave_out(stream_filter, files):
                    raise
                raise DamagedError from error
            finally:
                self.reports.append(unit_report(files, scanned, from_ns + 1, to_ns + 1))

    def _leave_out(self, stream_filter: StreamFilter, files: OpenSegments) -> bool:
        """Drop damaged copies: a segment is fetched again once, then it is missing."""
        cancellation = self.resources.cancellation
        found = [
            (one, reason) for one in files.opened if (reason := find_damage(one, stream_filter, cancellation))
        ]
        for one, reason in found:
            identity = one.segment.segment_id
            self.resources.opener.forget(one.segment)
            if one.is_local or identity in self.unreadable.replaced:
                self.unreadable.missing[identity] = Missing(identity, f"unreadable: {reason}")
            self.unreadable.replaced.add(identity)
        return bool(found)


class LogSampleScanner:
    """Answers units of metric queries over logs."""

    def __init__(self, opener: SegmentOpener, session: DuckSession) -> None:
        self._opener = opener
        self._session = session

    def run(self, unit: LogMetricUnit, cancellation: Cancellation) -> MetricAnswer:
        expr = parse_samples(unit.text)
        steps = LogSteps(unit.start_ns, unit.step_ns, unit.steps)
        options = Options(max_series=unit.max_series) if unit.max_series else Options()
        resources = ScanResources(self._opener, self._session, cancellation)
        unreadable = UnreadableSegments()
        if unit.given:
            nothing = LakeLogSource({}, resources, unreadable, unit.now_ns)
            return _join_parts(expr, steps, nothing, options, unit.given)
        segments = segments_by_selector(unit, log_reads(expr, steps))
        while True:
            source = LakeLogSource(segments, resources, unreadable, unit.now_ns)
            try:
                with _enough_memory():
                    found = evaluate(expr, steps, source, options)
                    return render_answer(found, steps, source.report())
            except DamagedError:
                continue


def _join_parts(
    expr: SampleExpr, steps: LogSteps, source: LakeLogSource, options: Options, given: Sequence[GivenPart]
) -> MetricAnswer:
    """Evaluate what stands above the parts that other units have answered."""
    answers = [decode_metric_answer(part.answer) for part in given]
    known: dict[SampleExpr, list[RenderedSeries]] = {}
    for part, answer in zip(given, answers, strict=True):
        known.setdefault(parse_samples(part.text), []).extend(answer.series)
    report, times_ms = merge_reports([one.report for one in answers]), steps.times_ns // 1_000_000
    with _enough_memory():
        vectors = {part: parse_vector(series, times_ms) for part, series in known.items()}
        return render_answer(evaluate(expr, steps, source, options, vectors), steps, report)


def render_answer(answer: LogResult, steps: LogSteps, report: UnitReport) -> MetricAnswer:
    times_ms = steps.times_ns // 1_000_000
    if isinstance(answer.value, Scalar):
        series = log_scalar_series(answer.value.values, times_ms)
    else:
        series = log_vector_series(answer.value, times_ms)
    return MetricAnswer(
        "scalar" if isinstance(answer.value, Scalar) else "vector",
        series,
        is_ordered=answer.is_ordered,
        samples=sum(one.points for one in series),
        report=report,
    )


def segments_by_selector(
    unit: LogMetricUnit, reads: Sequence[LogReads]
) -> dict[tuple[Matcher, ...], Sequence[SegmentRef]]:
    """Unite the segments of pipelines with the same selector: evaluation leaves out stages nobody needs."""
    found: dict[tuple[Matcher, ...], dict[str, SegmentRef]] = {}
    for read, each in zip(reads, selected_segments(unit.segments, unit.selected, len(reads)), strict=True):
        found.setdefault(read.query.matchers, {}).update((one.segment_id, one) for one in each)
    return {matchers: tuple(known.values()) for matchers, known in found.items()}


@lru_cache(256)
def parse_samples(text: str) -> SampleExpr:
    expr = parse_expr(text)
    if isinstance(expr, LogQuery):
        raise WorkFailedError("a unit of samples brings a query for lines")
    return expr


@contextmanager
def _enough_memory() -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise LimitExceededError(
            "this part of the query needs more memory than a worker has: narrow the time range, "
            "use a larger step, or select fewer streams"
        ) from error
