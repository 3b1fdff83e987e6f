"""PromQL's functions for the engine: plan a metric query, cut it into slices and shards.

A query is cut along its evaluation times. One that is a single slice is cut along its series:

    unit: sum(rate(m[30d])) at one time  ->  2 shards of rate(m[30d]), then a unit that is given both

Whatever goes wrong in a shard, and whatever is in doubt when all are there, is left to a single worker, which
says it as it would have without shards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from lakerunner_query.coordinator.engine import Cut, Limits, PreparedQuery, Shards, all_at_once, step_count
from lakerunner_query.coordinator.locate import METRICS, Lookup, RollupLookup, samples_query
from lakerunner_query.coordinator.merge import SampleMerge, SampleResult
from lakerunner_query.coordinator.rewriting import Candidates, Lists, Rewritten, metric_units, mosaic
from lakerunner_query.plan.costs import Choice, choices
from lakerunner_query.plan.promql import Reads, per_series, reads, rollups_for
from lakerunner_query.plan.rewrite import ActiveRule, AskedText, Guards, steps_of
from lakerunner_query.plan.rewrite_promql import GUARDS, leaves_of, rewrite_promql
from lakerunner_query.plan.slices import SampleSliceSizes, cut_steps, overlapping_segments, rows_to_read
from lakerunner_query.promql.context import Options
from lakerunner_query.promql.lang.ast import Expr
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.cursor import Features
from lakerunner_query.promql.lang.functions import RESET_CONTEXT_MS
from lakerunner_query.promql.lang.parser import parse_cached
from lakerunner_query.promql.lang.printer import to_text
from lakerunner_query.protocol.answers import MetricAnswer, ShardAnswer, agree, decode_shard_answer
from lakerunner_query.protocol.units import MetricUnit, RollupRef, ShardUnit, segment_ref, share_segments
from lakerunner_query.rules.documents import RuleLanguage
from lakerunner_query.vectors.vector import Steps
from resources.index.types import Segment, TierView
from resources.lake.frequency import rollup_of
from resources.lake.layout import Signal

NS_PER_MS = 1_000_000
LOOKBACK_MS = 300_000
SLOW = "narrow the time range, use a larger step, or select fewer series"
SLICE_SIZES = SampleSliceSizes()
_OF_THE_RANGE = re.compile(r"\b(start|end|range)\b")
"""Words of queries whose parts depend on where the whole begins and ends; labels called so do no harm."""


@dataclass(frozen=True, slots=True)
class PromQLRequest:
    """Parameters of a PromQL query; a step of 0 is an instant query at `end_ms`."""

    org: str
    start_ms: int
    end_ms: int
    step_ms: int = 0
    lookback_ms: int = LOOKBACK_MS
    timeout_s: float = 0.0
    """Seconds; 0: the limit."""
    part_ms: tuple[int, int] | None = None
    """First and last step that are evaluated, of a range query that goes on; None: all."""
    rewrite: bool = True
    """Derived metrics may answer parts of the query."""


@dataclass(frozen=True, slots=True)
class PromQLPlan:
    """A bound expression, the times at which it is evaluated, and what its selectors read."""

    expr: Expr
    steps: Steps
    reads: tuple[Reads, ...]
    frequencies_ms: tuple[int, ...]
    """Rollups that may serve windows of the query."""


PromQLQuery = PreparedQuery[PromQLRequest, PromQLPlan, MetricAnswer, SampleResult]


def plan_promql(text: str, request: PromQLRequest, limits: Limits) -> PromQLPlan:
    steps = evaluation_times(request)
    features = Features.from_flags(limits.features)
    expr = bind(parse_cached(text, features), request.start_ms, request.end_ms, request.step_ms)
    read = reads(expr, steps, request.lookback_ms, limits.default_subquery_step_ms)
    return PromQLPlan(expr, steps, read, rollups_for(expr, steps, request.lookback_ms))


def look_up_samples(plan: PromQLPlan, request: PromQLRequest) -> Lookup:
    segments = tuple(samples_query(request.org, read) for read in plan.reads)
    if not plan.frequencies_ms or not plan.reads:
        return Lookup(segments)
    first, last = min(read.from_ms for read in plan.reads), max(read.to_ms for read in plan.reads)
    return Lookup(segments, RollupLookup(request.org, plan.frequencies_ms, first, last))


def evaluation_times(request: PromQLRequest) -> Steps:
    if not request.step_ms:
        return Steps(request.end_ms, 0, 1)
    count = step_count(
        request.start_ms,
        request.end_ms,
        request.step_ms,
        backwards="end timestamp must not be before start time",
        too_many=(
            "exceeded maximum resolution of 11,000 points per timeseries. "
            "Try decreasing the query resolution (?step=XX)"
        ),
    )
    if request.part_ms is not None:
        first, last = request.part_ms
        return Steps(first, request.step_ms, (last - first) // request.step_ms + 1)
    return Steps(request.start_ms, request.step_ms, count)


def cut_promql(
    query: PromQLQuery, workers: int, limits: Limits, sizes: SampleSliceSizes = SLICE_SIZES
) -> Cut:
    """Cut the query along its evaluation times, or one slice of it along its series."""
    if query.rewritten is not None and query.rewritten.is_used:
        return all_at_once(list(_mosaic(query, query.rewritten, workers, limits, sizes)))
    loads = list(zip(query.plan.reads, query.segments, strict=True))
    units = list(_slices(query, query.plan.steps, loads, workers, limits, sizes))
    if len(units) == 1:
        parts = shard_units(units[0], query.plan.expr, rows_to_read(loads), workers, sizes)
        if parts:
            shards = Shards(parts, decode_shard, lambda _, found: [join_shards(units[0], found)])
            return all_at_once(units, shards)
    return all_at_once(units)


def rewrite_samples(
    plan: PromQLPlan, request: PromQLRequest, rules: Sequence[ActiveRule], guards: Guards = GUARDS
) -> Candidates | None:
    """Find the rules that may serve aggregations over samples."""
    found = rewrite_promql(plan.expr, plan.steps, rules, guards) if request.rewrite else None
    if found is None:
        return None
    places = {frozenset(read.matchers): place for place, read in enumerate(plan.reads)}
    raw = [places[case.leaf.body.matchers] for case in found.cases]

    def whole_only(segments: Lists, tiers: TierView) -> str:
        """Refuse to mix where rollups are read: they have samples of that name from everywhere."""
        are_read = _chosen(plan, segments, tiers)
        return "rollups answer other parts of the query" if any(one.is_read for one in are_read) else ""

    return Candidates.of(found, Signal.METRICS, plan.steps, raw, request.lookback_ms, whole_only)


def asked_samples(plan: PromQLPlan, _: PromQLRequest) -> AskedText:
    """Return the query in normal form, for the query log."""
    return AskedText(RuleLanguage.PROMQL, to_text(plan.expr), tuple(leaves_of(plan.expr, plan.steps)))


def _mosaic(
    query: PromQLQuery, rewritten: Rewritten, workers: int, limits: Limits, sizes: SampleSliceSizes
) -> Iterator[MetricUnit]:
    def of_samples(first: int, behind: int) -> Iterator[MetricUnit]:
        steps = steps_of(query.plan.steps, first, behind)
        read = reads(query.plan.expr, steps, query.request.lookback_ms, limits.default_subquery_step_ms)
        return _slices(query, steps, list(zip(read, query.segments, strict=True)), workers, limits, sizes)

    others = list(zip(query.plan.reads, query.segments, strict=True))

    def of_metrics(first: int, behind: int, cases: int) -> Iterator[MetricUnit]:
        expr, run = rewritten.expr(cases) or query.plan.expr, (first, behind)
        return metric_units(query.request.org, rewritten, expr, run, workers, limits, others)

    return mosaic(rewritten, query.plan.steps.count, of_samples, of_metrics)


def _slices(
    query: PromQLQuery,
    steps: Steps,
    loads: Sequence[tuple[Reads, Sequence[Segment]]],
    workers: int,
    limits: Limits,
    sizes: SampleSliceSizes,
) -> Iterator[MetricUnit]:
    request, plan = query.request, query.plan
    affinity = _affinity(query)
    rollups = rollups_to_read(query)
    knows_its_range = bool(_OF_THE_RANGE.search(query.text))
    whole_start = request.start_ms if request.step_ms else plan.steps.start_ms
    for part in cut_steps(steps, loads, workers, sizes):
        steps = part.steps
        read = reads(plan.expr, steps, request.lookback_ms, limits.default_subquery_step_ms)
        before_ns = RESET_CONTEXT_MS * NS_PER_MS
        segments, selected = share_segments(overlapping_segments(read, query.segments, before_ns))
        yield MetricUnit(
            affinity=affinity,
            turn=part.number,
            text=query.text,
            start_ms=whole_start if knows_its_range else steps.start_ms,
            end_ms=request.end_ms if knows_its_range else steps.end_ms,
            step_ms=request.step_ms,
            first_ms=steps.start_ms,
            steps=steps.count,
            lookback_ms=request.lookback_ms,
            segments=segments,
            selected=selected,
            rollups=narrow_rollups(rollups, read),
            features=limits.features,
            max_series=limits.max_series,
            max_samples=limits.max_points,
        )


def merge_promql(query: PromQLQuery, limits: Limits) -> SampleMerge:
    return SampleMerge(limits.max_points, query.language.advice)


def _affinity(query: PromQLQuery) -> str:
    """Queries for the same series go to the same workers, which have them in memory."""
    matchers = sorted(
        f"{matcher.name}{matcher.op}{matcher.value}" for read in query.plan.reads for matcher in read.matchers
    )
    return f"{query.request.org}/{METRICS}/{','.join(matchers)}"


@dataclass(frozen=True, slots=True)
class EncodedShard:
    """The answer of a shard, with the bytes that are handed on to the unit above."""

    body: bytes
    answer: ShardAnswer


def decode_shard(body: bytes) -> EncodedShard:
    return EncodedShard(body, decode_shard_answer(body))


def shard_units(
    unit: MetricUnit, expr: Expr, rows: int, workers: int, sizes: SampleSliceSizes
) -> tuple[ShardUnit, ...]:
    """Cut a query that is one unit into one shard for each worker; return none where nothing is gained.

    Rollups are few rows and not read by shards.
    """
    if workers < 2 or rows <= sizes.at_least or unit.rollups or per_series(expr) is None:
        return ()
    return tuple(ShardUnit(unit, number, workers) for number in range(workers))


def join_shards(unit: MetricUnit, shards: Sequence[EncodedShard]) -> MetricUnit:
    """Return the unit that is left, or the whole one where shards do not say what a single worker would."""
    max_cells = Options().max_cells
    max_series = min(unit.max_series or max_cells, max_cells // unit.steps)
    max_samples = min(unit.max_samples or max_cells, max_cells)
    if not agree([shard.answer for shard in shards], max_series, max_samples):
        return unit
    return msgspec.structs.replace(
        unit, segments=(), selected=(), given=tuple(shard.body for shard in shards)
    )


def rollups_to_read(query: PromQLQuery) -> tuple[RollupRef, ...]:
    """Choose rollups that are current and cost less than the samples that they stand for."""
    return tuple(
        RollupRef(
            choice.rollup.frequency_ms,
            choice.starts,
            tuple(
                segment_ref(segment)
                for segment in query.tiers.segments
                if segment.frequency_ms == choice.rollup.frequency_ms
            ),
        )
        for choice in compare_rollups(query)
        if choice.is_read
    )


def compare_rollups(query: PromQLQuery) -> tuple[Choice, ...]:
    return _chosen(query.plan, query.segments, query.tiers)


def _chosen(plan: PromQLPlan, segments: Lists, tiers: TierView) -> tuple[Choice, ...]:
    return choices(plan.expr, list(zip(plan.reads, segments, strict=True)), tiers)


def narrow_rollups(rollups: Sequence[RollupRef], read: Sequence[Reads]) -> tuple[RollupRef, ...]:
    """Keep partitions and segments that these stretches touch."""
    if not rollups or not read:
        return ()
    from_ns = min(one.from_ms for one in read) * NS_PER_MS
    to_ns = max(one.to_ms for one in read) * NS_PER_MS
    found: list[RollupRef] = []
    for rollup in rollups:
        width = rollup_of(rollup.frequency_ms).partition_ns
        starts = tuple(start for start in rollup.starts if start + width > from_ns and start < to_ns)
        segments = tuple(s for s in rollup.segments if s.max_ns > from_ns and s.min_ns <= to_ns)
        if starts:
            found.append(RollupRef(rollup.frequency_ms, starts, segments))
    return tuple(found)
