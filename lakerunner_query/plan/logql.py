"""The plan of a log query: read streams, run stages, take the first or last rows.

A node holds its input, so a plan is one value. `Nothing` replaces a query whose conditions contradict each
other: no segment is looked for.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakerunner_query.logql.lang.ast import LogQuery, Stage
from lakerunner_query.syntax import Matcher

LOGS = "logs"


@dataclass(frozen=True, slots=True)
class Words:
    """Condition on the token bloom of a segment: it holds all words of at least one alternative."""

    alternatives: tuple[tuple[str, ...], ...]
    label: str = ""
    """Label of rows whose value has the words; empty: the line has them."""


@dataclass(frozen=True, slots=True)
class ReadStreams:
    """Rows of the streams that match, `start_ns` inclusive to `end_ns` exclusive."""

    org: str
    matchers: tuple[Matcher, ...]
    start_ns: int
    end_ns: int
    dataset: str = LOGS
    terms: tuple[tuple[int, ...], ...] = ()
    """Conjunction of alternatives that a segment must carry to be worth opening."""
    words: tuple[Words, ...] = ()
    """Conjunction of conditions on its token bloom."""
    narrowing: tuple[Matcher, ...] = ()
    """Matchers for streams that have such a label; the others may have it in their metadata."""


@dataclass(frozen=True, slots=True)
class RunStages:
    """Rows that pass a pipeline."""

    source: ReadStreams
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class TakeRows:
    """First (or, reversed, last) `limit` rows in the order (time, stream labels, row id)."""

    source: RunStages
    limit: int
    reverse: bool
    distinct: bool
    """Drop rows that repeat (stream, time, line, metadata), as the Loki API does."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """Plan of a query that no row can match; `reason` is for EXPLAIN."""

    reason: str


LogPlan = TakeRows | Nothing
Pipeline = RunStages | Nothing


@dataclass(frozen=True, slots=True)
class LogLinesRequest:
    """Parameters of a request beside the query text."""

    org: str
    start_ns: int
    end_ns: int
    limit: int
    reverse: bool = True
    distinct: bool = False
    timeout_s: float = 0.0
    """Seconds; 0: the limit."""


def build(query: LogQuery, asked: LogLinesRequest) -> TakeRows:
    """Turn a query into the plain plan: one node per construct, nothing decided yet."""
    pipeline = run_stages(query, asked.org, asked.start_ns, asked.end_ns)
    return TakeRows(pipeline, asked.limit, asked.reverse, asked.distinct)


def run_stages(query: LogQuery, org: str = "", start_ns: int = 0, end_ns: int = 0) -> RunStages:
    return RunStages(ReadStreams(org, query.matchers, start_ns, end_ns), query.stages)
