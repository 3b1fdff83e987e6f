"""Which index terms a segment must carry: the pruning that opens no file.

Only conditions that demand one of a few non-empty values can prune; a negative matcher, a pattern or the
empty value says nothing about what a segment *has*.
"""

from __future__ import annotations

from dataclasses import replace

from lakerunner_query.gotext import regexp
from lakerunner_query.plan.logical import Pipeline, RunStages
from lakerunner_query.syntax import Matcher, MatchOp
from resources.lake.terms import alternatives

MAX_TERMS = 16
MAX_VALUES = 1000
"""Further conditions prune little, and the index would read a statement of megabytes."""


def matcher_terms(plan: RunStages) -> Pipeline:
    """`{a="x", b=~"y|z", c!="w"}` asks for segments with term a=x and one of b=y, b=z."""
    streams = plan.source
    wanted = ((m.name, demanded_values(m)) for m in streams.matchers)
    terms = tuple(
        tuple(alternatives(name, values)) for name, values in wanted if 0 < len(values) <= MAX_VALUES
    )
    return replace(plan, source=replace(streams, terms=terms[:MAX_TERMS]))


def demanded_values(matcher: Matcher) -> tuple[str, ...]:
    """The values of which a matching stream has one; empty when that cannot be said."""
    if matcher.op is MatchOp.EQUAL:
        values: tuple[str, ...] | None = (matcher.value,)
    elif matcher.op is MatchOp.REGEX:
        values = regexp.alternation(matcher.value)
    else:
        values = None
    return () if values is None or "" in values else values
