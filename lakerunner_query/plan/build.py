"""A parsed log query and its request parameters become the plain, unimproved plan."""

from __future__ import annotations

from dataclasses import dataclass

from lakerunner_query.lang.logql.ast import LogQuery
from lakerunner_query.plan.logical import FilterLines, ReadStreams, TakeRows


@dataclass(frozen=True, slots=True)
class LogRange:
    """What a request says beside the query text."""

    org: str
    start_ns: int
    end_ns: int
    limit: int
    reverse: bool = True
    distinct: bool = False


def build(query: LogQuery, asked: LogRange) -> TakeRows:
    """One node per construct, nothing decided yet."""
    streams = ReadStreams(asked.org, query.matchers, asked.start_ns, asked.end_ns)
    lines = FilterLines(streams, query.stages)
    return TakeRows(lines, asked.limit, asked.reverse, asked.distinct)
