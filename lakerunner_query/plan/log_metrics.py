"""What a metric query over logs reads: each range's stretch of time, at which evaluation times.

sum by (app) (rate({job="api"} |= "error" [5m] offset 1h))  at 12:00, 12:01 … 13:00

lines of {job="api"} |= "error" in (10:55, 12:00]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakerunner_query.evaluate.logs.metrics.times import LogSteps
from lakerunner_query.lang.logql.ast import (
    Binary,
    LabelReplace,
    LogQuery,
    LogRange,
    RangeAggregation,
    SampleExpr,
    VectorAggregation,
)


@dataclass(frozen=True, slots=True)
class LogReads:
    """Lines in `(from_ns, to_ns]` that come out of the pipeline."""

    query: LogQuery
    from_ns: int
    to_ns: int


def log_ranges(expr: SampleExpr) -> Iterator[LogRange]:
    """All of an expression, in the order of the text."""
    match expr:
        case RangeAggregation(range=one):
            yield one
        case VectorAggregation(expr=inner) | LabelReplace(expr=inner):
            yield from log_ranges(inner)
        case Binary(left=left, right=right):
            yield from log_ranges(left)
            yield from log_ranges(right)
        case _:
            return


def log_reads(expr: SampleExpr, steps: LogSteps) -> tuple[LogReads, ...]:
    """All stretches of an expression, those of one pipeline together."""
    found: dict[LogQuery, LogReads] = {}
    for one in log_ranges(expr):
        from_ns = steps.start_ns - one.offset_ns - one.range_ns
        to_ns = steps.end_ns - one.offset_ns
        known = found.get(one.query, LogReads(one.query, from_ns, to_ns))
        found[one.query] = LogReads(one.query, min(known.from_ns, from_ns), max(known.to_ns, to_ns))
    return tuple(found.values())
