"""Rules about the request around the query."""

from __future__ import annotations

from lakerunner_query.plan.logical import LogPlan, Nothing, TakeRows


def empty_range(plan: TakeRows) -> LogPlan:
    """`start >= end` holds no instant: the end is exclusive."""
    streams = plan.source.source
    return Nothing("the time range is empty") if streams.start_ns >= streams.end_ns else plan


def zero_limit(plan: TakeRows) -> LogPlan:
    """`limit=0` asks for no rows."""
    return Nothing("limit is 0") if plan.limit == 0 else plan
