"""Rules about stream matchers: fewer regexes, more equalities, because equalities can prune segments."""

from __future__ import annotations

from dataclasses import replace

from lakerunner_query.gotext import regexp
from lakerunner_query.plan.logical import Nothing, Pipeline, RunStages
from lakerunner_query.syntax import Matcher, MatchOp

_PLAIN = {MatchOp.REGEX: MatchOp.EQUAL, MatchOp.NOT_REGEX: MatchOp.NOT_EQUAL}


def literal_label_regex(plan: RunStages) -> Pipeline:
    """`{a=~"web"}` becomes `{a="web"}`: label regexes are fully anchored."""
    return with_matchers(plan, tuple(map(_literal, plan.source.matchers)))


def trivial_matchers(plan: RunStages) -> Pipeline:
    """`{a="x", b=~".*"}` becomes `{a="x"}`; `{a=~".+"}` becomes `{a!=""}`."""
    matchers = (_without_dots(m) for m in plan.source.matchers)
    return with_matchers(plan, tuple(m for m in matchers if m is not None))


def repeated_matchers(plan: RunStages) -> Pipeline:
    """`{a="x", a="x"}` becomes `{a="x"}`."""
    return with_matchers(plan, tuple(dict.fromkeys(plan.source.matchers)))


def contradicting_matchers(plan: RunStages) -> Pipeline:
    """`{a="x", a="y"}` and `{a="x", a!="x"}` match no stream."""
    matchers = plan.source.matchers
    demanded = {m.name: m.value for m in matchers if m.op is MatchOp.EQUAL}
    for one in matchers:
        if one.name in demanded and _excludes(demanded[one.name], one):
            return Nothing(f"label {one.name} cannot satisfy both of two matchers")
    return plan


def with_matchers(plan: RunStages, matchers: tuple[Matcher, ...]) -> RunStages:
    return replace(plan, source=replace(plan.source, matchers=matchers))


def _literal(matcher: Matcher) -> Matcher:
    if matcher.op.is_regex and regexp.literal(matcher.value) is not None:
        return replace(matcher, op=_PLAIN[matcher.op])
    return matcher


def _without_dots(matcher: Matcher) -> Matcher | None:
    if matcher.op is MatchOp.REGEX and matcher.value == ".*":
        return None
    if matcher.op is MatchOp.REGEX and matcher.value == ".+":
        return replace(matcher, op=MatchOp.NOT_EQUAL, value="")
    if matcher.op is MatchOp.NOT_REGEX and matcher.value == ".+":
        return replace(matcher, op=MatchOp.EQUAL, value="")
    return matcher


def _excludes(value: str, other: Matcher) -> bool:
    if other.op is MatchOp.EQUAL:
        return other.value != value
    return other.op is MatchOp.NOT_EQUAL and other.value == value
