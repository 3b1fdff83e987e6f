"""The nodes of a log query, from the bottom up: read streams, run stages, take the first or last rows.

A node holds its input, so a plan is one value. `Nothing` is what is left of a query whose conditions
contradict each other: no segment is looked for.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakerunner_query.logql.lang.ast import LogQuery, Stage
from lakerunner_query.syntax import Matcher

LOGS = "logs"


@dataclass(frozen=True, slots=True)
class Words:
    """A segment with a wanted row holds all words of at least one of the alternatives."""

    alternatives: tuple[tuple[str, ...], ...]
    label: str = ""
    """Whose value has the words, where it is no label of the stream; ``: of lines."""


@dataclass(frozen=True, slots=True)
class ReadStreams:
    """All rows of the streams that match, `start_ns` inclusive to `end_ns` exclusive."""

    org: str
    matchers: tuple[Matcher, ...]
    start_ns: int
    end_ns: int
    dataset: str = LOGS
    terms: tuple[tuple[int, ...], ...] = ()
    """Conjunction of alternatives that a segment must carry to be worth opening."""
    words: tuple[Words, ...] = ()
    """Conjunction of what its token bloom must have."""
    narrowing: tuple[Matcher, ...] = ()
    """What streams that have such a label must satisfy; the others may have it in their metadata."""


@dataclass(frozen=True, slots=True)
class RunStages:
    source: ReadStreams
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class TakeRows:
    """The first (or, reversed, last) `limit` rows in the order (time, stream labels, row id)."""

    source: RunStages
    limit: int
    reverse: bool
    distinct: bool
    """Drop rows that repeat (stream, time, line, metadata), as the Loki API does."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """No row can match; `reason` is for EXPLAIN."""

    reason: str


LogPlan = TakeRows | Nothing
Pipeline = RunStages | Nothing


# << A parsed log query and its request parameters become the plain, unimproved plan.


@dataclass(frozen=True, slots=True)
class LogLinesRequest:
    """What a request says beside the query text."""

    org: str
    start_ns: int
    end_ns: int
    limit: int
    reverse: bool = True
    distinct: bool = False
    timeout_s: float = 0.0
    """Seconds; 0: the limit."""


def build(query: LogQuery, asked: LogLinesRequest) -> TakeRows:
    """One node per construct, nothing decided yet."""
    pipeline = reading(query, asked.org, asked.start_ns, asked.end_ns)
    return TakeRows(pipeline, asked.limit, asked.reverse, asked.distinct)


def reading(query: LogQuery, org: str = "", start_ns: int = 0, end_ns: int = 0) -> RunStages:
    return RunStages(ReadStreams(org, query.matchers, start_ns, end_ns), query.stages)
