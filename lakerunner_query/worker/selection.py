"""Which streams a query wants: matchers run on the stream table, before any row is read.

An absent label has the empty value, as in Prometheus. Regexes go through RE2 on distinct values only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakerunner_query.lang.logql import regex
from lakerunner_query.lang.logql.ast import Matcher

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Stream:
    """One row of a segment's stream table."""

    stream_id: int
    labels: Labels
    rows: int
    min_ns: int
    max_ns: int


def select(streams: Sequence[Stream], matchers: Sequence[Matcher]) -> list[Stream]:
    """Streams whose labels satisfy every matcher."""
    chosen = list(streams)
    for matcher in matchers:
        wanted = _verdicts(matcher, {s.labels.get(matcher.name, "") for s in chosen})
        chosen = [s for s in chosen if wanted[s.labels.get(matcher.name, "")]]
    return chosen


def in_range(streams: Sequence[Stream], start_ns: int, end_ns: int) -> list[Stream]:
    """Streams with a row that may lie in `[start_ns, end_ns)`."""
    return [s for s in streams if s.min_ns < end_ns and s.max_ns >= start_ns]


def _verdicts(matcher: Matcher, values: set[str]) -> dict[str, bool]:
    distinct = list(values)
    if matcher.op.is_regex:
        hits = regex.full_matches(matcher.value, distinct)
    else:
        hits = [value == matcher.value for value in distinct]
    return {value: hit != matcher.op.is_negative for value, hit in zip(distinct, hits, strict=True)}
