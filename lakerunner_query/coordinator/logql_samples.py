"""LogQL's functions for the engine where a query gives samples: plan it, cut its evaluation times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from lakerunner_query.coordinator.engine import Cut, Limits, PreparedQuery, all_at_once, step_count
from lakerunner_query.coordinator.locate import Lookup, rows_query
from lakerunner_query.coordinator.merge import SampleMerge, SampleResult
from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.logql.lang import parser
from lakerunner_query.logql.lang.ast import Literal, LogQuery, SampleExpr
from lakerunner_query.logql.metrics.context import LogSteps
from lakerunner_query.plan.logql import LOGS, Nothing
from lakerunner_query.plan.logql_samples import LogReads, log_reads
from lakerunner_query.plan.optimise import Improved, improve_cached
from lakerunner_query.plan.slices import LogSliceSizes, cut_log_steps, overlapping_segments
from lakerunner_query.protocol.answers import Kind, MetricAnswer
from lakerunner_query.protocol.units import LogMetricUnit, share_segments
from resources.index.types import SegmentQuery

NOW = "now"
SLOW = "narrow the time range, use a larger step, or select fewer streams"
SLICE_SIZES = LogSliceSizes()


@dataclass(frozen=True, slots=True)
class LogSamplesRequest:
    """Parameters of a LogQL query for samples; a step of 0 is an instant query at `end_ns`."""

    org: str
    start_ns: int
    end_ns: int
    step_ns: int = 0
    timeout_s: float = 0.0
    """Seconds; 0: the limit."""


@dataclass(frozen=True, slots=True)
class LogSamplesPlan:
    """An expression, the times at which it is evaluated, and what its ranges read."""

    expr: SampleExpr
    steps: LogSteps
    reads: tuple[LogReads, ...]
    pipelines: tuple[Improved, ...]
    """Optimised pipelines, by `reads`."""

    @property
    def kind(self) -> Kind:
        """Type of the answer; Loki shows a number over steps as a series without labels."""
        if self.steps.step_ns:
            return "matrix"
        return "scalar" if isinstance(self.expr, Literal) else "vector"


LogSamplesQuery = PreparedQuery[LogSamplesRequest, LogSamplesPlan, MetricAnswer, SampleResult]


def plan_log_samples(text: str, request: LogSamplesRequest, _: Limits) -> LogSamplesPlan:
    steps = evaluation_times(request)
    expr = _parse_samples(text)
    reads = log_reads(expr, steps)
    return LogSamplesPlan(expr, steps, reads, tuple(improve_cached(read.query) for read in reads))


def look_up_ranges(plan: LogSamplesPlan, request: LogSamplesRequest) -> Lookup:
    """Ask for the segments of each range, whose start is exclusive and whose end is not."""

    def question(read: LogReads, found: Improved) -> SegmentQuery | None:
        if isinstance(found.pipeline, Nothing):
            return None
        start_ns, end_ns = read.from_ns + 1, read.to_ns + 1
        return rows_query(replace(found.pipeline.source, org=request.org, start_ns=start_ns, end_ns=end_ns))

    return Lookup(tuple(map(question, plan.reads, plan.pipelines)))


def evaluation_times(request: LogSamplesRequest) -> LogSteps:
    if not request.step_ns:
        return LogSteps(request.end_ns, 0, 1)
    count = step_count(
        request.start_ns,
        request.end_ns,
        request.step_ns,
        backwards="end timestamp must not be before or equal to start time",
        too_many=(
            "exceeded maximum resolution of 11,000 points per time series. "
            "Try increasing the value of the step parameter"
        ),
    )
    return LogSteps(request.start_ns, request.step_ns, count)


def cut_log_samples(
    query: LogSamplesQuery, workers: int, limits: Limits, sizes: LogSliceSizes = SLICE_SIZES
) -> Cut:
    return all_at_once(list(_slices(query, workers, limits, sizes)))


def _slices(
    query: LogSamplesQuery, workers: int, limits: Limits, sizes: LogSliceSizes
) -> Iterator[LogMetricUnit]:
    loads = list(zip(query.plan.reads, query.segments, strict=True))
    for part in cut_log_steps(query.plan.steps, loads, workers, sizes):
        read = log_reads(query.plan.expr, part.steps)
        segments, selected = share_segments(overlapping_segments(read, query.segments))
        yield LogMetricUnit(
            affinity=f"{query.request.org}/{LOGS}/metrics",
            turn=part.number,
            text=query.text,
            start_ns=part.steps.start_ns,
            step_ns=part.steps.step_ns,
            steps=part.steps.count,
            segments=segments,
            selected=selected,
            now_ns=query.now_ns if NOW in query.text else 0,  # else the same unit as a second ago
            max_series=limits.max_series,
        )


def merge_log_samples(query: LogSamplesQuery, limits: Limits) -> SampleMerge:
    return SampleMerge(limits.max_points, query.language.advice)


@lru_cache(256)
def _parse_samples(text: str) -> SampleExpr:
    """Dashboards send the same text again and again."""
    expr = parser.parse_cached(text)
    if isinstance(expr, LogQuery):
        raise InvalidRequestError(
            "the query gives log lines, not samples: wrap it, as in count_over_time(… [5m])"
        )
    return expr
