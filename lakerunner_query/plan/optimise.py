"""Rewrites of a log plan, in the order in which they run.

Each rule is a pure function from plan to plan and returns its argument when it does not apply. Matchers and
filters are simplified before terms and words are derived from them. Conditions that cannot prune segments are
listed in `refused`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.plan.logql import LogPlan, Nothing, Pipeline, RunStages, TakeRows, run_stages
from lakerunner_query.plan.rules.filters import (
    demanded_words,
    drop_always_true,
    find_idle_conditions,
    line_filters_first,
    literal_line_regex,
    never_matching_line,
    repeated_filters,
    stream_narrowing,
)
from lakerunner_query.plan.rules.matchers import (
    contradicting_matchers,
    empty_range,
    literal_label_regex,
    matcher_terms,
    repeated_matchers,
    trivial_matchers,
    zero_limit,
)

RequestRule = Callable[[TakeRows], LogPlan]
Rule = Callable[[RunStages], Pipeline]

REQUEST_RULES: tuple[tuple[str, RequestRule], ...] = (
    ("empty-range", empty_range),
    ("zero-limit", zero_limit),
)
RULES: tuple[tuple[str, Rule], ...] = (
    ("literal-label-regex", literal_label_regex),
    ("trivial-matchers", trivial_matchers),
    ("repeated-matchers", repeated_matchers),
    ("contradicting-matchers", contradicting_matchers),
    ("literal-line-regex", literal_line_regex),
    ("always-true-filters", drop_always_true),
    ("never-matching-line", never_matching_line),
    ("line-filters-first", line_filters_first),
    ("repeated-filters", repeated_filters),
    ("matcher-terms", matcher_terms),
    ("stream-narrowing", stream_narrowing),
    ("demanded-words", demanded_words),
)


@dataclass(frozen=True, slots=True)
class Optimised:
    """Plan of a request after all rules."""

    plan: LogPlan
    fired: tuple[str, ...]
    refused: tuple[str, ...] = ()
    """Conditions that prune nothing, with the reason."""


@dataclass(frozen=True, slots=True)
class Improved:
    """Pipeline after all rules, whatever is done with its rows."""

    pipeline: Pipeline
    fired: tuple[str, ...]
    refused: tuple[str, ...] = ()


def optimise(plan: LogPlan) -> Optimised:
    """Run every rule once, in order, and name those that changed something."""
    for name, rule in REQUEST_RULES:
        if isinstance(plan, Nothing):
            break
        better = rule(plan)
        if isinstance(better, Nothing):
            return Optimised(better, (name,))
    if isinstance(plan, Nothing):
        return Optimised(plan, ())
    asked = plan.source.source
    found = _improve_anywhere(replace(plan.source, source=replace(asked, org="", start_ns=0, end_ns=0)))
    if isinstance(found.pipeline, Nothing):
        return Optimised(found.pipeline, found.fired)
    here = replace(found.pipeline.source, org=asked.org, start_ns=asked.start_ns, end_ns=asked.end_ns)
    improved = replace(found.pipeline, source=here)
    return Optimised(replace(plan, source=improved), found.fired, found.refused)


def improve(plan: Pipeline) -> Improved:
    fired: list[str] = []
    for name, rule in RULES:
        if isinstance(plan, Nothing):
            break
        better = rule(plan)
        if better != plan:
            fired.append(name)
        plan = better
    refused = () if isinstance(plan, Nothing) else tuple(find_idle_conditions(plan))
    return Improved(plan, tuple(fired), refused)


@lru_cache(256)
def _improve_anywhere(plan: RunStages) -> Improved:
    """Improve a pipeline of no tenant and no time: no rule looks at them, and dashboards ask again."""
    return improve(plan)


@lru_cache(256)
def improve_cached(query: LogQuery) -> Improved:
    """Improve a query alone: a worker learns tenant and times from its unit."""
    return improve(run_stages(query))
