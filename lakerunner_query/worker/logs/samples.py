"""Log rows of segments for metric queries: `LogSource` over the files of one unit.

What SQL can tell is told by it, as in log queries; labels that nobody looks at are not read. A file that
turns out to be damaged in the middle ends the evaluation, which begins anew without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa

from lakerunner_query.errors import LimitExceededError, WorkFailedError
from lakerunner_query.logql import pipeline
from lakerunner_query.logql.frame import LogFrame
from lakerunner_query.logql.lang.ast import Drop as DropStage
from lakerunner_query.logql.lang.ast import Keep, LabelFilter, LogQuery, SampleExpr, Stage
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.metrics.context import LogSteps, Options
from lakerunner_query.logql.metrics.evaluate import Answer, evaluate
from lakerunner_query.logql.pipeline import Buckets, Demand, wanted_by
from lakerunner_query.plan.logql import Nothing, RunStages
from lakerunner_query.plan.optimise import improved
from lakerunner_query.protocol.answers import MetricAnswer
from lakerunner_query.protocol.units import LogMetricUnit, Missing, SegmentRef, UnitReport
from lakerunner_query.vectors.vector import Scalar
from lakerunner_query.worker.logs.labels import columns_for
from lakerunner_query.worker.logs.line_counts import Counter, Grid
from lakerunner_query.worker.logs.lines import DAMAGE, NO_DAMAGE, Shared, damage, groups
from lakerunner_query.worker.logs.row_fetch import MESSAGE, StreamRanks, frame_of, scanned
from lakerunner_query.worker.logs.scan_intervals import (
    Read,
    Window,
    WindowSizes,
    report,
    reports_together,
    rows_within,
    windows,
)
from lakerunner_query.worker.logs.segment_opener import Opened, OpenedSet, SegmentOpener
from lakerunner_query.worker.logs.sql import Question, label_conditions, rows, split
from lakerunner_query.worker.logs.stream_listing import selection
from lakerunner_query.worker.shared.render_samples import scalar_text, vector_texts
from resources.duckdb import Cancellation, DuckSession

FRAME_ROWS, FRAME_BYTES = 131_072, 64 * 1024 * 1024
WINDOWS = WindowSizes(rows=1_000_000, first=1.0)
NO_LINE_NEEDED = (LabelFilter, Keep, DropStage)
BUCKETS, ROWS_ONE_BY_ONE = "counted in SQL", "rows"


class DamagedError(Exception):
    """A file could not be read to its end; it is left out from now on, or fetched again."""


@dataclass(slots=True)
class Lost:
    """Segments of which nothing can be read, for as long as a unit is tried."""

    missing: dict[str, Missing] = field(default_factory=dict)


@dataclass(slots=True)
class LakeLogSource:
    segments: Sequence[SegmentRef]
    shared: Shared
    lost: Lost
    now_ns: int
    reports: list[UnitReport] = field(default_factory=list)
    served_by: dict[str, None] = field(default_factory=dict)
    """Which ways were gone, for EXPLAIN."""

    def rows(self, query: LogQuery, from_ns: int, to_ns: int, demand: Demand) -> Iterator[LogFrame]:
        plan = improved(query).pipeline
        if isinstance(plan, Nothing):
            return
        self.served_by[ROWS_ONE_BY_ONE] = None
        with self._opened(plan, from_ns, to_ns) as (files, read):
            ranks = StreamRanks.of(stream for one in files.opened for stream in one.streams)
            for window in windows(files.opened, from_ns + 1, to_ns + 1, WINDOWS, reverse=False):
                read.add(window)
                for group in groups(window.files):
                    yield from self._frames(plan.stages, window, group, ranks, demand)

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
        plan = improved(query).pipeline
        counter = Counter(Grid(start_ns, width_ns, count), self.shared.session, self.shared.cancellation)
        if isinstance(plan, Nothing):
            return counter.buckets()
        end_ns = start_ns + width_ns * count
        if split(plan.stages)[1] and not all(isinstance(s, LabelFilter) for s in split(plan.stages)[1]):
            return None
        with self._opened(plan, start_ns, end_ns) as (files, read):
            read.add(Window(start_ns + 1, end_ns + 1, tuple(files.opened)))
            for group in groups(files.opened):
                if not counter.add(group, plan.stages, by, with_bytes=with_bytes):
                    return None
        self.served_by[BUCKETS] = None
        return counter.buckets()

    def report(self) -> UnitReport:
        return reports_together(self.reports, tuple(self.lost.missing.values()))

    def _frames(
        self,
        stages: Sequence[Stage],
        window: Window,
        group: Sequence[Opened],
        ranks: StreamRanks,
        demand: Demand,
    ) -> Iterator[LogFrame]:
        lines, rest = split(stages)
        labels, rest = label_conditions(rest, group)
        names = wanted_by(rest, demand)[0]
        needs_line = demand.line or not all(isinstance(stage, NO_LINE_NEEDED) for stage in rest)
        columns = [c for c in columns_for([one.footer for one in group], names) if c != MESSAGE]
        question = Question(group, window.start_ns, window.end_ns, lines, labels)
        for table in self._tables(question, [MESSAGE, *columns] if needs_line else columns, ranks):
            frame = frame_of(scanned(table, group, ranks), names)
            yield pipeline.apply(frame, rest, demand, self.now_ns, self.shared.cancellation.check)

    def _tables(self, question: Question, columns: Sequence[str], ranks: StreamRanks) -> Iterator[pa.Table]:
        """Runs of rows as DuckDB comes to them: never a whole window at a time."""
        statement = rows(question, columns)
        streams = ranks.table(stream for one in question.group for stream in one.streams)
        run = self.shared.cancellation.run
        size = rows_within(question.group, FRAME_BYTES, FRAME_ROWS)
        with self.shared.session.cursor() as cursor:
            cursor.register("streams", streams)
            relation = cursor.sql(statement.sql, params=statement.parameters)
            reader = run(cursor, lambda: relation.to_arrow_reader(size))
            while (batch := run(cursor, lambda: next(reader, None))) is not None:
                yield pa.Table.from_batches([batch])

    @contextmanager
    def _opened(self, plan: RunStages, from_ns: int, to_ns: int) -> Iterator[tuple[OpenedSet, Read]]:
        wanted = selection(plan.source, from_ns + 1, to_ns + 1)
        mine = [
            one
            for one in self.segments
            if one.segment_id not in self.lost.missing and one.min_ns <= to_ns and one.max_ns > from_ns
        ]
        read = Read()
        with self.shared.opener.open(mine, wanted, self.shared.cancellation) as files:
            try:
                yield files, read
            except NO_DAMAGE:
                raise
            except DAMAGE as error:
                if not self._leave_out(files):
                    raise
                raise DamagedError from error
            finally:
                self.reports.append(report(files, read, from_ns + 1, to_ns + 1))

    def _leave_out(self, files: OpenedSet) -> bool:
        """A copy that was here before is thrown away and fetched again, another is given up."""
        found = [(one, reason) for one in files.opened if (reason := damage(one, self.shared.cancellation))]
        for one, reason in found:
            self.shared.opener.forget(one.segment)
            if one.fetched:
                identity = one.segment.segment_id
                self.lost.missing[identity] = Missing(identity, f"unreadable: {reason}")
        return bool(found)


# << One unit of a metric query over logs on one worker: the expression over its steps, as finished text.


class LogMetricScanner:
    """Everything a worker process shares between metric queries over logs."""

    def __init__(self, opener: SegmentOpener, session: DuckSession) -> None:
        self._opener = opener
        self._session = session

    def run(self, unit: LogMetricUnit, cancellation: Cancellation) -> MetricAnswer:
        expr = samples(unit.text)
        steps = LogSteps(unit.start_ns, unit.step_ns, unit.steps)
        options = Options(max_series=unit.max_series) if unit.max_series else Options()
        shared, lost = Shared(self._opener, self._session, cancellation), Lost()
        while True:
            source = LakeLogSource(unit.segments, shared, lost, unit.now_ns)
            try:
                with _enough_memory():
                    return rendered(evaluate(expr, steps, source, options), steps, source)
            except DamagedError:
                continue


def rendered(found: Answer, steps: LogSteps, source: LakeLogSource) -> MetricAnswer:
    times_ms = steps.times_ns // 1_000_000
    if isinstance(found.value, Scalar):
        series = scalar_text(found.value.values, times_ms)
    else:
        series = vector_texts(found.value, times_ms)
    return MetricAnswer(
        "scalar" if isinstance(found.value, Scalar) else "vector",
        series,
        is_ordered=found.is_ordered,
        samples=sum(one.points for one in series),
        report=source.report(),
    )


@lru_cache(256)
def samples(text: str) -> SampleExpr:
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
