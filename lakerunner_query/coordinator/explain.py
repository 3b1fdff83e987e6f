"""A plan is explained as text: the rules that fired, who runs which stage, and what the index pruned.

steps: 61, every 60000 ms from 1767225600000 to 1767229200000
  Read {__name__="up"} in (1767225300000, 1767229200000], terms 1: 3 segments, 120000 rows, 1048576 bytes
segments: 40 live, 37 pruned by time and terms, 3 may match
rollup 300000 ms: 1 files, 400 rows of 12 columns, 1.3 ms, samples: 3 files, …, 3.7 ms: read
slices: 1
  steps 1767225600000 to 1767229200000 (61): 3 segments
shards of series: 2, of rate(up[5m])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lakerunner_query.coordinator.engine import Cut, PreparedQuery
from lakerunner_query.coordinator.logql_lines import LogLinesQuery
from lakerunner_query.coordinator.logql_samples import LogSamplesQuery
from lakerunner_query.coordinator.promql import PromQLQuery, compare_rollups
from lakerunner_query.logql.lang.ast import Stage
from lakerunner_query.logql.lang.conditions import matcher_text
from lakerunner_query.logql.lang.printer import print_query
from lakerunner_query.logql.lang.stages import match_of, search_of, stage_text
from lakerunner_query.logql.pipeline import fallbacks
from lakerunner_query.plan.costs import Choice
from lakerunner_query.plan.logql import LogPlan, Nothing, RunStages, Words
from lakerunner_query.plan.logql_samples import LogReads, ways
from lakerunner_query.plan.optimise import Improved, Optimised
from lakerunner_query.plan.promql import Reads, per_series
from lakerunner_query.plan.rules.filters import stored_matches
from lakerunner_query.promql.lang.ast import Selector
from lakerunner_query.promql.lang.printer import to_text
from lakerunner_query.protocol.units import LogMetricUnit, MetricUnit
from resources.index.types import Segment


def explain_segments(query: PreparedQuery[Any, Any, Any, Any], _: Cut) -> Iterator[str]:
    """Say how many segments the index pruned; all there is to say of a question without a text."""
    left, live = len(query.distinct_segments), query.live
    if live is None:
        yield f"segments: {left} may match; the live ones are not counted"
    else:
        yield f"segments: {live} live, {live - left} pruned by time and terms, {left} may match"


def _rewrite_lines(query: PreparedQuery[Any, Any, Any, Any]) -> Iterator[str]:
    if query.rewritten is not None:
        yield from query.rewritten.lines()


def _to_fetch(segments: Sequence[Segment]) -> str:
    size = sum(segment.bytes for segment in segments)
    return f"object store: at most {size} bytes, in {len(segments)} objects, less what is in caches"


def explain_promql(query: PromQLQuery, cut: Cut) -> Iterator[str]:
    steps, units = query.plan.steps, list(cut.units)
    yield f"query: {to_text(query.plan.expr)}"
    if query.request.step_ms:
        yield f"steps: {steps.count}, every {steps.step_ms} ms from {steps.start_ms} to {steps.end_ms}"
    else:
        yield f"step: one, at {steps.end_ms}"
    for read, segments in zip(query.plan.reads, query.segments, strict=True):
        yield _selector_line(read, segments)
    yield from _rewrite_lines(query)
    yield from explain_segments(query, cut)
    yield _to_fetch(query.distinct_segments)
    yield from map(_choice_line, compare_rollups(query))
    yield f"slices: {len(units)}"
    yield from (_slice_line(unit) for unit in units if isinstance(unit, MetricUnit))
    if cut.shards:
        parts = ", ".join(to_text(part) for part in per_series(query.plan.expr) or ())
        yield f"shards of series: {len(cut.shards.units)}, of {parts}"


def _selector_line(read: Reads, segments: Sequence[Segment]) -> str:
    selector = to_text(Selector("", read.matchers))
    stretch = f"({read.from_ms}, {read.to_ms}]"
    return f"  Read {selector} in {stretch}, terms {len(read.terms)}: {_sizes(segments)}"


def _choice_line(choice: Choice) -> str:
    if choice.samples_are_gone:
        why = "read, samples of that time are gone"
    else:
        why = "read" if choice.is_read else "not read"
    rollup, samples = choice.rollup, choice.samples
    return f"rollup {rollup.frequency_ms} ms: {rollup.text()}, samples: {samples.text()}: {why}"


def _slice_line(unit: MetricUnit) -> str:
    last = unit.first_ms + (unit.steps - 1) * unit.step_ms
    rollups = "".join(
        f", rollup {one.frequency_ms} ms: {len(one.segments)} segments in {len(one.starts)} partitions"
        for one in unit.rollups
    )
    return f"  steps {unit.first_ms} to {last} ({unit.steps}): {len(unit.segments)} segments{rollups}"


def _sizes(segments: Sequence[Segment]) -> str:
    rows, size = sum(segment.rows for segment in segments), sum(segment.bytes for segment in segments)
    return f"{len(segments)} segments, {rows} rows, {size} bytes"


def explain_trace_metrics(query: PreparedQuery[Any, Any, Any, Any], cut: Cut) -> Iterator[str]:
    yield from _rewrite_lines(query)
    yield from explain_segments(query, cut)


def explain_log_samples(query: LogSamplesQuery, cut: Cut) -> Iterator[str]:
    plan, units = query.plan, list(cut.units)
    yield f"query: {print_query(plan.expr)}"
    if query.request.step_ns:
        first, last = plan.steps.start_ns, plan.steps.end_ns
        yield f"steps: {plan.steps.count}, every {plan.steps.step_ns} ns from {first} to {last}"
    else:
        yield f"step: one, at {plan.steps.end_ns}"
    for read, found, segments in zip(plan.reads, plan.pipelines, query.segments, strict=True):
        yield from _range_lines(read, found, segments)
    yield from (f"{way}: {text}" for way, text in ways(plan.expr))
    yield from _rewrite_lines(query)
    yield from explain_segments(query, cut)
    yield _to_fetch(query.distinct_segments)
    yield f"slices: {len(units)}"
    for unit in units:
        if isinstance(unit, LogMetricUnit):
            yield _log_slice_line(unit)
        elif isinstance(unit, MetricUnit):
            yield f"{_slice_line(unit)} of derived metrics"


def _range_lines(read: LogReads, found: Improved, segments: Sequence[Segment]) -> Iterator[str]:
    yield f"  Read ({read.from_ns}, {read.to_ns}]: {_sizes(segments)}"
    yield from (f"    {line}" for line in explain_pipeline(found))


def _log_slice_line(unit: LogMetricUnit) -> str:
    last = unit.start_ns + (unit.steps - 1) * unit.step_ns
    return f"  steps {unit.start_ns} to {last} ({unit.steps}): {len(unit.segments)} segments"


def explain_log_lines(query: LogLinesQuery, cut: Cut) -> Iterator[str]:
    yield explain_lines(query.plan)
    if not isinstance(query.plan.plan, Nothing):
        yield from explain_segments(query, cut)
        yield _to_fetch(query.distinct_segments)
        size, slices = sum(s.bytes for s in query.distinct_segments), len(list(cut.units))
        yield f"bytes: {size}; slices: {slices}, stopping once {query.request.limit} rows exist"


def explain_lines(optimised: Optimised) -> str:
    """Describe the nodes, the top one first, then the rules."""
    lines = _nodes(optimised.plan)
    lines.append("rules: " + (", ".join(optimised.fired) or "none fired"))
    lines += [f"refused: {reason}" for reason in optimised.refused]
    return "\n".join(lines)


def explain_pipeline(found: Improved) -> list[str]:
    """Describe what a range of a query for samples reads, with the rules."""
    if isinstance(found.pipeline, Nothing):
        return [f"Nothing ({found.pipeline.reason})"]
    rules = "rules: " + (", ".join(found.fired) or "none fired")
    return [*pipeline_lines(found.pipeline), rules, *(f"refused: {reason}" for reason in found.refused)]


def pipeline_lines(plan: RunStages) -> list[str]:
    """Describe what is read and which of the stages run where."""
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
    """Name what runs each stage; label filters run in SQL where segments keep the label in a column."""
    stored = set(stored_matches(stages))
    is_first = True
    slow = set(fallbacks(stages))
    for stage in stages:
        is_line = search_of(stage) is not None
        is_stored = match_of(stage) in stored
        if is_line and is_first:
            yield f"SQL: {stage_text(stage)}"
        elif is_stored:
            yield f"SQL where it is a column, else Arrow: {stage_text(stage)}"
        else:
            yield f"kernels: {stage_text(stage)}"
        is_first = is_first and (is_line or is_stored)
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
