"""A parsed log query and its request parameters become the plain, unimproved plan."""

from __future__ import annotations

from dataclasses import dataclass

from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.plan.logical import ReadStreams, RunStages, TakeRows


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
    pipeline = reading(query, asked.org, asked.start_ns, asked.end_ns)
    return TakeRows(pipeline, asked.limit, asked.reverse, asked.distinct)


def reading(query: LogQuery, org: str = "", start_ns: int = 0, end_ns: int = 0) -> RunStages:
    return RunStages(ReadStreams(org, query.matchers, start_ns, end_ns), query.stages)
