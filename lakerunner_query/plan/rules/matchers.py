"""Rules about requests and stream matchers: more equalities and index terms, which prune segments.

Only conditions that demand one of a few non-empty values can prune; a negative matcher, a pattern or the
empty value does not say what a segment *has*.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lakerunner_query.gotext import regexp
from lakerunner_query.plan.logql import LogPlan, Nothing, Pipeline, RunStages, TakeRows
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.labels import matches
from resources.lake.terms import alternatives


def empty_range(plan: TakeRows) -> LogPlan:
    """`start >= end` holds no instant: the end is exclusive."""
    streams = plan.source.source
    return Nothing("the time range is empty") if streams.start_ns >= streams.end_ns else plan


def zero_limit(plan: TakeRows) -> LogPlan:
    """`limit=0` asks for no rows."""
    return Nothing("limit is 0") if plan.limit == 0 else plan


MAX_TERMS = 16
MAX_VALUES = 1000
"""Bounds of conditions and their values: more prune little and make the index read megabytes of SQL."""


def matcher_terms(plan: RunStages) -> Pipeline:
    """`{a="x", b=~"y|z", c!="w"}` asks for segments with term a=x and one of b=y, b=z."""
    streams = plan.source
    wanted = ((m.name, demanded_values(m)) for m in streams.matchers)
    terms = tuple(
        tuple(alternatives(name, values)) for name, values in wanted if 0 < len(values) <= MAX_VALUES
    )
    return replace(plan, source=replace(streams, terms=terms[:MAX_TERMS]))


def demanded_values(matcher: Matcher) -> tuple[str, ...]:
    """Return the values of which a matching stream has one; nothing where they are not known."""
    if matcher.op is MatchOp.EQUAL:
        values: tuple[str, ...] | None = (matcher.value,)
    elif matcher.op is MatchOp.REGEX:
        values = regexp.alternation(matcher.value)
    else:
        values = None
    return () if values is None or "" in values else values


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


def implied(wanted: Matcher, given: Iterable[Matcher]) -> bool:
    """Tell if every row that satisfies the given matchers satisfies the wanted one, too."""
    for one in given:
        if one == wanted:
            return True
        if one.name == wanted.name:
            values = demanded_values(one)
            if values and matches(wanted, list(values)).all():
                return True
            if wanted.op is MatchOp.NOT_EQUAL and not wanted.value and refuses_empty(one):
                return True
    return False


def refuses_empty(matcher: Matcher) -> bool:
    """Tell if a label without a value does not satisfy the matcher."""
    return not bool(matches(matcher, [""])[0])
