"""Plan of a metric query over logs: the interval of time that each range reads.

sum by (app) (rate({job="api"} |= "error" [5m] offset 1h))  at 12:00, 12:01 … 13:00

lines of {job="api"} |= "error" in (10:55, 12:00]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lakerunner_query.logql.lang.ast import (
    Binary,
    LabelReplace,
    LogQuery,
    LogRange,
    RangeAggregation,
    SampleExpr,
    VectorAggregation,
)
from lakerunner_query.logql.lang.printer import print_query
from lakerunner_query.logql.lang.stages import match_of, search_of
from lakerunner_query.logql.metrics.context import LogSteps
from lakerunner_query.logql.metrics.demand import naming_of, pushed_grouping
from lakerunner_query.plan.rules.filters import stored_matches

COUNTED = "counted in SQL where the labels are columns"
ROW_BY_ROW = "over frames of rows"


@dataclass(frozen=True, slots=True)
class LogReads:
    """Lines of a pipeline in `(from_ns, to_ns]`."""

    query: LogQuery
    from_ns: int
    to_ns: int

    @property
    def interval_ns(self) -> tuple[int, int]:
        return self.from_ns, self.to_ns


def log_ranges(expr: SampleExpr) -> Iterator[LogRange]:
    """Yield the ranges of an expression, in the order of the text."""
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


def ways(expr: SampleExpr) -> Iterator[tuple[str, str]]:
    """Yield how each range aggregation can be answered, and its text."""
    match expr:
        case RangeAggregation():
            yield (COUNTED if _is_countable(expr) else ROW_BY_ROW), print_query(expr)
        case VectorAggregation(expr=RangeAggregation() as below) if pushed_grouping(expr) is not None:
            merged = replace(below, grouping=pushed_grouping(expr))
            yield (COUNTED if _is_countable(merged) else ROW_BY_ROW), print_query(expr)
        case VectorAggregation(expr=inner) | LabelReplace(expr=inner):
            yield from ways(inner)
        case Binary(left=left, right=right):
            yield from ways(left)
            yield from ways(right)
        case _:
            return


def _is_countable(expr: RangeAggregation) -> bool:
    """Tell whether SQL can count by named labels, if segments keep the labels in columns."""
    stages = expr.range.query.stages
    stored = set(stored_matches(stages))
    return (
        expr.range.unwrap is None
        and not naming_of(expr, None).is_without
        and all(search_of(one) is not None or match_of(one) in stored for one in stages)
    )


def log_reads(expr: SampleExpr, steps: LogSteps) -> tuple[LogReads, ...]:
    """Return the intervals of an expression, one per pipeline."""
    found: dict[LogQuery, LogReads] = {}
    for one in log_ranges(expr):
        from_ns = steps.start_ns - one.offset_ns - one.range_ns
        to_ns = steps.end_ns - one.offset_ns
        known = found.get(one.query, LogReads(one.query, from_ns, to_ns))
        found[one.query] = LogReads(one.query, min(known.from_ns, from_ns), max(known.to_ns, to_ns))
    return tuple(found.values())
