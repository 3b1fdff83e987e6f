"""The rewrites of a log plan, in the order in which they run.

Each rule is a pure function from plan to plan and returns its argument when it has nothing to say.
Order matters: matchers and filters are simplified before terms are derived from what is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakerunner_query.plan.logical import LogPlan, Nothing, TakeRows
from lakerunner_query.plan.rules.bounds import empty_range, zero_limit
from lakerunner_query.plan.rules.lines import (
    drop_always_true,
    literal_line_regex,
    never_matching_line,
    repeated_filters,
)
from lakerunner_query.plan.rules.matchers import (
    contradicting_matchers,
    literal_label_regex,
    repeated_matchers,
    trivial_matchers,
)
from lakerunner_query.plan.rules.terms import matcher_terms

Rule = Callable[[TakeRows], LogPlan]

RULES: tuple[tuple[str, Rule], ...] = (
    ("empty-range", empty_range),
    ("zero-limit", zero_limit),
    ("literal-label-regex", literal_label_regex),
    ("trivial-matchers", trivial_matchers),
    ("repeated-matchers", repeated_matchers),
    ("contradicting-matchers", contradicting_matchers),
    ("literal-line-regex", literal_line_regex),
    ("always-true-filters", drop_always_true),
    ("never-matching-line", never_matching_line),
    ("repeated-filters", repeated_filters),
    ("matcher-terms", matcher_terms),
)


@dataclass(frozen=True, slots=True)
class Optimised:
    plan: LogPlan
    fired: tuple[str, ...]


def optimise(plan: LogPlan) -> Optimised:
    """Run every rule once, in order, and say which changed something."""
    fired: list[str] = []
    for name, rule in RULES:
        if isinstance(plan, Nothing):
            break
        better = rule(plan)
        if better != plan:
            fired.append(name)
        plan = better
    return Optimised(plan, tuple(fired))
