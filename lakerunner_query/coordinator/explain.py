"""A plan as text a person can read, with the rules that fired and who runs which stage.

The answer to "why did this read so much": matchers, terms, words and filters as they are after rewriting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakerunner_query.coordinator.locate import Locator
from lakerunner_query.coordinator.promql import METRICS, MetricEngine, PreparedMetrics
from lakerunner_query.logql.lang.ast import LabelFilter, LabelMatch, LineFilter, Stage
from lakerunner_query.logql.lang.printer import matcher_text, stage_text
from lakerunner_query.logql.pipeline import fallbacks
from lakerunner_query.plan.logql import LogPlan, Nothing, RunStages, Words
from lakerunner_query.plan.optimise import Improved, Optimised
from lakerunner_query.plan.promql import Reads, per_series
from lakerunner_query.plan.rules.filters import stored_matches
from lakerunner_query.promql.lang.ast import Expr, Selector
from lakerunner_query.promql.lang.printer import to_text
from lakerunner_query.protocol.units import MetricUnit, ShardUnit
from resources.index.types import Segment

# << The plan of a metric query as text: what each selector reads, what the index pruned, how it is cut.
# <<
# << steps: 61, every 60000 ms from 1767225600000 to 1767229200000
# << Read {__name__="up"} in (1767225300000, 1767229200000], terms 1: 3 segments, 120000 rows, 1048576 bytes
# << segments: 40 live, 37 pruned by time and terms, 3 may match
# << rollups: none can serve
# << slices: 1
# <<   steps 1767225600000 to 1767229200000 (61): 3 segments
# << shards of series: 2, of rate(up[5m])            (of a query that is one slice, where that is much to
# << read)


async def explain_promql(engine: MetricEngine, locator: Locator, query: PreparedMetrics) -> str:
    live = await locator.live_segments(query.org, METRICS)
    units = list(engine.units(query))
    return "\n".join(
        [*_plan(query, live), *_slices(units), *_shards(engine.shards(query, units), query.expr)]
    )


def _plan(query: PreparedMetrics, live: int) -> Iterator[str]:
    steps = query.steps
    yield f"query: {to_text(query.expr)}"
    if query.asked.step_ms:
        yield f"steps: {steps.count}, every {steps.step_ms} ms from {steps.start_ms} to {steps.end_ms}"
    else:
        yield f"step: one, at {steps.end_ms}"
    for read, segments in zip(query.reads, query.segments, strict=True):
        yield _read(read, segments)
    found = len({segment.segment_id for each in query.segments for segment in each})
    yield f"segments: {live} live, {live - found} pruned by time and terms, {found} may match"


def _read(read: Reads, segments: Sequence[Segment]) -> str:
    rows, size = sum(segment.rows for segment in segments), sum(segment.bytes for segment in segments)
    selector = to_text(Selector("", read.matchers))
    stretch = f"({read.from_ms}, {read.to_ms}]"
    return (
        f"  Read {selector} in {stretch}, terms {len(read.terms)}: "
        f"{len(segments)} segments, {rows} rows, {size} bytes"
    )


def _slices(units: Sequence[MetricUnit]) -> Iterator[str]:
    yield f"slices: {len(units)}"
    for unit in units:
        last = unit.first_ms + (unit.steps - 1) * unit.step_ms
        rollups = "".join(
            f", rollup {one.frequency_ms} ms: {len(one.segments)} segments in {len(one.starts)} partitions"
            for one in unit.rollups
        )
        yield f"  steps {unit.first_ms} to {last} ({unit.steps}): {len(unit.segments)} segments{rollups}"


def _shards(shards: Sequence[ShardUnit], expr: Expr) -> Iterator[str]:
    if shards:
        parts = ", ".join(to_text(part) for part in per_series(expr) or ())
        yield f"shards of series: {len(shards)}, of {parts}"


def explain_lines(optimised: Optimised) -> str:
    """Top node first, one line each, then the rules."""
    lines = _nodes(optimised.plan)
    lines.append("rules: " + (", ".join(optimised.fired) or "none fired"))
    lines += [f"refused: {reason}" for reason in optimised.refused]
    return "\n".join(lines)


def explain_pipeline(found: Improved) -> list[str]:
    """What a range of a metric query reads, with the rules."""
    if isinstance(found.pipeline, Nothing):
        return [f"Nothing ({found.pipeline.reason})"]
    rules = "rules: " + (", ".join(found.fired) or "none fired")
    return [*pipeline_lines(found.pipeline), rules, *(f"refused: {reason}" for reason in found.refused)]


def pipeline_lines(plan: RunStages) -> list[str]:
    """What is read and which of the stages run where."""
    streams = plan.source
    selector = "{" + ", ".join(map(matcher_text, streams.matchers)) + "}"
    read = (
        f"ReadStreams {selector} dataset={streams.dataset} range=[{streams.start_ns}, {streams.end_ns}) "
        f"terms={len(streams.terms)}"
    )
    words = [f"  words {_words(one)}" for one in streams.words]
    narrowing = [f"  streams that have it: {matcher_text(one)}" for one in streams.narrowing]
    return [*(f"  {line}" for line in who_runs(plan.stages)), read, *words, *narrowing]


def who_runs(stages: Sequence[Stage]) -> Iterator[str]:
    """Each stage with what does its work; label filters in SQL where the segments keep the label apart."""
    stored = {one.matcher for one in stored_matches(stages)}
    is_first = True
    slow = set(fallbacks(stages))
    for stage in stages:
        is_line = isinstance(stage, LineFilter) and not stage.ips and not stage.op.is_pattern
        is_told = (
            isinstance(stage, LabelFilter)
            and isinstance(stage.condition, LabelMatch)
            and stage.condition.matcher in stored
        )
        if is_line and is_first:
            yield f"SQL: {stage_text(stage)}"
        elif is_told:
            yield f"SQL where it is a column, else Arrow: {stage_text(stage)}"
        else:
            yield f"kernels: {stage_text(stage)}"
        is_first = is_first and (is_line or is_told)
    yield from (f"per value in Python: {one}" for one in sorted(slow))


def _nodes(plan: LogPlan) -> list[str]:
    if isinstance(plan, Nothing):
        return [f"Nothing ({plan.reason})"]
    which = "last" if plan.reverse else "first"
    take = f"TakeRows {which} {plan.limit}{' distinct' if plan.distinct else ''}"
    stages = " ".join(map(stage_text, plan.source.stages)) or "(all lines)"
    return [take, f"  RunStages {stages}", *(f"    {line}" for line in pipeline_lines(plan.source))]


def _words(words: Words) -> str:
    found = " or ".join(" ".join(way) for way in words.alternatives)
    return f"of {words.label}: {found}" if words.label else f"of lines: {found}"
