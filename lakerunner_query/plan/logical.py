"""The nodes of a log query, from the bottom up: read streams, filter lines, take the first or last rows.

A node holds its input, so a plan is one value. `Nothing` is what is left of a query whose conditions
contradict each other: no segment is looked for.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakerunner_query.lang.logql.ast import LineFilter
from lakerunner_query.lang.matcher import Matcher

LOGS = "logs"


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


@dataclass(frozen=True, slots=True)
class FilterLines:
    source: ReadStreams
    filters: tuple[LineFilter, ...]


@dataclass(frozen=True, slots=True)
class TakeRows:
    """The first (or, reversed, last) `limit` rows in the order (time, stream labels, row id)."""

    source: FilterLines
    limit: int
    reverse: bool
    distinct: bool
    """Drop rows that repeat (stream, time, line, metadata), as the Loki API does."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """No row can match; `reason` is for EXPLAIN."""

    reason: str


LogPlan = TakeRows | Nothing
