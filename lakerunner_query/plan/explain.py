"""A plan as text a person can read, with the rules that fired and who runs which stage.

The answer to "why did this read so much": matchers, terms, words and filters as they are after rewriting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakerunner_query.logql.lang.ast import LabelFilter, LabelMatch, LineFilter, Stage
from lakerunner_query.logql.lang.printer import matcher_text, stage_text
from lakerunner_query.logql.pipeline import fallbacks
from lakerunner_query.plan.logql import LogPlan, Nothing, RunStages, Words
from lakerunner_query.plan.optimise import Improved, Optimised
from lakerunner_query.plan.rules.filters import stored_matches


def explain(optimised: Optimised) -> str:
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
