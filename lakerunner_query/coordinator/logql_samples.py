"""LogQL's functions for the engine where a query gives samples: plan it, cut its evaluation times.

A query that rules serve in part, or that PromQL does not have, is answered in two rounds:

    topk(2, errors) / on (a) sum by (a) (rate(x))
    ->  errors from derived metrics, sum by (a) (rate(x)) from records, then one unit that is given both
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache

import msgspec

from lakerunner_query.coordinator.engine import Cut, Limits, PreparedQuery, Shards, all_at_once, step_count
from lakerunner_query.coordinator.locate import Lookup, rows_query
from lakerunner_query.coordinator.merge import SampleMerge, SampleResult
from lakerunner_query.coordinator.rewriting import Candidates, Rewritten, metric_units
from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.logql.lang import parser
from lakerunner_query.logql.lang.ast import Literal, LogQuery, SampleExpr
from lakerunner_query.logql.lang.normal_form import normal_form
from lakerunner_query.logql.lang.printer import print_query
from lakerunner_query.logql.metrics.context import LogSteps
from lakerunner_query.plan.logql import LOGS, Nothing
from lakerunner_query.plan.logql_samples import LogReads, log_reads
from lakerunner_query.plan.optimise import Improved, improve_cached
from lakerunner_query.plan.rewrite import ActiveRule, AskedText, Guards, runs
from lakerunner_query.plan.rewrite_logql import GUARDS, Piece, leaves_of, pieces_of, rewrite_logql
from lakerunner_query.plan.slices import LogSliceSizes, cut_log_steps, overlapping_segments
from lakerunner_query.promql.lang.ast import Expr
from lakerunner_query.protocol.answers import Kind, MetricAnswer, decode_metric_answer
from lakerunner_query.protocol.units import GivenPart, LogMetricUnit, Unit, UnitReport, share_segments
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
    """Cut the query along its evaluation times, and into pieces where rules serve only some of them."""
    slicer, rewritten = _Slicer(query, workers, limits, sizes), query.rewritten
    if rewritten is None or not rewritten.is_used:
        return all_at_once(list(slicer.of_records(query.plan.expr, 0, query.plan.steps.count)))
    whole = rewritten.all_cases
    if whole and rewritten.expr(whole) is not None and {0, whole}.issuperset(rewritten.settled.served):
        return all_at_once(list(slicer.of_piece(rewritten, Piece(query.plan.expr, None), whole)))
    units, texts = _units_of_pieces(slicer, rewritten)

    def join(_: Sequence[Unit], answers: Sequence[EncodedAnswer]) -> Sequence[Unit]:
        parts = tuple(GivenPart(text, one.body) for text, one in zip(texts, answers, strict=True))
        return [msgspec.structs.replace(slicer.unit(query.text, query.plan.steps), given=parts)]

    raw = list(slicer.of_records(query.plan.expr, 0, query.plan.steps.count))
    return all_at_once(raw, Shards(units, decode_piece, join))


def _units_of_pieces(slicer: _Slicer, rewritten: Rewritten) -> tuple[list[Unit], list[str]]:
    """Return the units of all pieces, and the text that each of them answers."""
    units: list[Unit] = []
    texts: list[str] = []
    for piece in pieces_of(slicer.query.plan.expr, rewritten.candidates.rewriting.cases):
        known = list(slicer.of_piece(rewritten, piece, 0 if piece.case is None else 1 << piece.case))
        units += known
        texts += [print_query(piece.node)] * len(known)
    return units, texts


@dataclass(frozen=True, slots=True)
class EncodedAnswer:
    """The answer to a piece, with the bytes that are handed on to the unit above."""

    body: bytes
    report: UnitReport


def decode_piece(body: bytes) -> EncodedAnswer:
    return EncodedAnswer(body, decode_metric_answer(body).report)


@dataclass(frozen=True, slots=True)
class _Slicer:
    """Cuts expressions of one query."""

    query: LogSamplesQuery
    workers: int
    limits: Limits
    sizes: LogSliceSizes

    def of_piece(self, rewritten: Rewritten, piece: Piece, wanted: int) -> Iterator[Unit]:
        """Yield the units of a piece; steps at which the wanted cases are served are read from metrics."""
        served = tuple(int(bool(wanted) and cases & wanted == wanted) for cases in rewritten.settled.served)
        for first, behind, is_served in runs(served):
            expr = self._promql(rewritten, wanted, piece) if is_served else None
            if expr is None:
                yield from self.of_records(piece.node, first, behind)
            else:
                org, run = self.query.request.org, (first, behind)
                yield from metric_units(org, rewritten, expr, run, self.workers, self.limits)

    def _promql(self, rewritten: Rewritten, wanted: int, piece: Piece) -> Expr | None:
        return (
            rewritten.expr(wanted) if piece.case is None else rewritten.candidates.rewriting.parts[piece.case]
        )

    def of_records(self, expr: SampleExpr, first: int, behind: int) -> Iterator[Unit]:
        steps, plan = self.query.plan.steps, self.query.plan
        run = replace(steps, start_ns=steps.start_ns + first * steps.step_ns, count=behind - first)
        known = dict(zip((one.query for one in plan.reads), self.query.segments, strict=True))
        text = self.query.text if expr is plan.expr else print_query(expr)
        found = log_reads(expr, run)
        loads = [(read, known[read.query]) for read in found]
        for part in cut_log_steps(run, loads, self.workers, self.sizes):
            reads = log_reads(expr, part.steps)
            segments, selected = share_segments(overlapping_segments(reads, [each for _, each in loads]))
            yield msgspec.structs.replace(
                self.unit(text, part.steps), turn=part.number, segments=segments, selected=selected
            )

    def unit(self, text: str, steps: LogSteps) -> LogMetricUnit:
        return LogMetricUnit(
            affinity=f"{self.query.request.org}/{LOGS}/metrics",
            text=text,
            start_ns=steps.start_ns,
            step_ns=steps.step_ns,
            steps=steps.count,
            segments=(),
            now_ns=self.query.now_ns if NOW in text else 0,  # else the same unit as a second ago
            max_series=self.limits.max_series,
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
