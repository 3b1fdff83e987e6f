"""LogQL's functions for the engine where a query gives samples: plan it, cut its evaluation times."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache

import msgspec

from lakerunner_query.coordinator.engine import Cut, Limits, PreparedQuery, all_at_once, step_count
from lakerunner_query.coordinator.locate import Lookup, rows_query
from lakerunner_query.coordinator.merge import SampleMerge, SampleResult
from lakerunner_query.coordinator.rewriting import Candidates, metric_units, mosaic
from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.logql.lang import parser
from lakerunner_query.logql.lang.ast import Literal, LogQuery, SampleExpr
from lakerunner_query.logql.lang.normal_form import normal_form
from lakerunner_query.logql.lang.printer import print_query
from lakerunner_query.logql.metrics.context import LogSteps
from lakerunner_query.plan.logql import LOGS, Nothing
from lakerunner_query.plan.logql_samples import LogReads, log_reads
from lakerunner_query.plan.optimise import Improved, improve_cached
from lakerunner_query.plan.rewrite import ActiveRule, AskedText, Guards
from lakerunner_query.plan.rewrite_logql import GUARDS, leaves_of, rewrite_logql
from lakerunner_query.plan.slices import LogSliceSizes, cut_log_steps, overlapping_segments
from lakerunner_query.protocol.answers import Kind, MetricAnswer, decode_metric_answer
from lakerunner_query.protocol.units import LogMetricUnit, Unit, share_segments
from lakerunner_query.rules.documents import RuleLanguage
from lakerunner_query.vectors.vector import Steps
from resources.index.types import SegmentQuery
from resources.lake.layout import Signal

NOW = "now"
SLOW = "narrow the time range, use a larger step, or select fewer streams"
SLICE_SIZES = LogSliceSizes()
NS_PER_MS = 1_000_000
EXPONENT = b"e"
_WITH_EXPONENT = re.compile(rb"(?<=\")-?[0-9](?:\.[0-9]++)?e[-+][0-9]++(?=\")")


@dataclass(frozen=True, slots=True)
class LogSamplesRequest:
    """Parameters of a LogQL query for samples; a step of 0 is an instant query at `end_ns`."""

    org: str
    start_ns: int
    end_ns: int
    step_ns: int = 0
    timeout_s: float = 0.0
    """Seconds; 0: the limit."""
    rewrite: bool = True
    """Derived metrics may answer parts of the query."""


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


def rewrite_log_samples(
    plan: LogSamplesPlan,
    request: LogSamplesRequest,
    rules: Sequence[ActiveRule],
    guards: Guards = GUARDS,
) -> Candidates | None:
    """Find the rules that may serve the ranges of a query."""
    found = rewrite_logql(plan.expr, plan.steps, rules, guards) if request.rewrite else None
    if found is None:
        return None
    places = {normal_form(read.query): place for place, read in enumerate(plan.reads)}
    steps = Steps(plan.steps.start_ns // NS_PER_MS, plan.steps.step_ns // NS_PER_MS, plan.steps.count)
    raw = [places[case.leaf.body.form] for case in found.cases]
    return Candidates.of(found, Signal.LOGS, steps, raw)


def asked_log_samples(plan: LogSamplesPlan, _: LogSamplesRequest) -> AskedText:
    """Return the query in normal form, for the query log."""
    return AskedText(RuleLanguage.LOGQL, print_query(plan.expr), tuple(leaves_of(plan.expr, plan.steps)))


def cut_log_samples(
    query: LogSamplesQuery, workers: int, limits: Limits, sizes: LogSliceSizes = SLICE_SIZES
) -> Cut:
    def of_records(first: int, behind: int) -> Iterator[Unit]:
        steps, count = query.plan.steps, behind - first
        run = replace(steps, start_ns=steps.start_ns + first * steps.step_ns, count=count)
        return _slices(query, run, workers, limits, sizes)

    def of_metrics(first: int, behind: int) -> Iterator[Unit]:
        if query.rewritten is None:
            return iter(())
        return metric_units(query.request.org, query.rewritten, (first, behind), workers, limits)

    return all_at_once(list(mosaic(query.rewritten, query.plan.steps.count, of_records, of_metrics)))


def _slices(
    query: LogSamplesQuery, steps: LogSteps, workers: int, limits: Limits, sizes: LogSliceSizes
) -> Iterator[LogMetricUnit]:
    loads = list(zip(log_reads(query.plan.expr, steps), query.segments, strict=True))
    for part in cut_log_steps(steps, loads, workers, sizes):
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


def decode_log_samples(body: bytes) -> MetricAnswer:
    """Decode the answer of a unit; numbers of derived metrics are spelled as Loki does, without exponents."""
    answer = decode_metric_answer(body)
    if not any(EXPONENT in one.floats for one in answer.series):
        return answer
    spelled = tuple(
        msgspec.structs.replace(one, floats=_WITH_EXPONENT.sub(_plain_number, one.floats))
        for one in answer.series
    )
    return msgspec.structs.replace(answer, series=spelled)


def _plain_number(found: re.Match[bytes]) -> bytes:
    return format(Decimal(found[0].decode()), "f").encode()


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
