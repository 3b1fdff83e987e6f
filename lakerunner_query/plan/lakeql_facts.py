"""The index knows counts and extents of whole segments: a statement that asks for no more reads none of them.

SELECT count(*), max(timestamp) FROM logs WHERE timestamp >= '2026-01-01 10:30:00'

segments of 11:00 and later    120,000 rows, the last at 12:59:59        from the index
the segment of 10:00           SELECT COUNT(*) AS a0, MAX(…) AS a1 …     by a worker: it has earlier rows
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from lakerunner_query.lakeql.tables import TIMESTAMP, LakeTable
from lakerunner_query.plan.lakeql import TableRead
from lakerunner_query.plan.lakeql_conditions import is_interval
from resources.index.types import Segment

NS_PER_US, NS_PER_MS = 1_000, 1_000_000
Fact = str
"""Name of a value that the index has of segments."""
_OF_SEGMENTS: Mapping[Fact, tuple[Callable[[Sequence[Segment]], int], pa.DataType]] = {
    "rows": (lambda segments: sum(one.rows for one in segments), pa.int64()),
    "min(timestamp)": (lambda segments: min(one.min_ns for one in segments) // NS_PER_US, pa.timestamp("us")),
    "max(timestamp)": (lambda segments: max(one.max_ns for one in segments) // NS_PER_US, pa.timestamp("us")),
    "min(tsns)": (lambda segments: min(one.min_ns for one in segments), pa.int64()),
    "max(tsns)": (lambda segments: max(one.max_ns for one in segments), pa.int64()),
}


def facts_of(parts: Iterable[exp.Expr], table: LakeTable, conditions: Sequence[exp.Expr]) -> tuple[Fact, ...]:
    """Return what the parts of aggregates over all rows are; empty where one is unknown to the index."""
    found = [_fact(one, table) for one in parts]
    if not all(found) or not all(map(is_interval, conditions)):
        return ()
    return tuple(found)


def _fact(part: exp.Expr, table: LakeTable) -> Fact:
    if isinstance(part, exp.Count) and isinstance(part.this, exp.Star):
        return "rows"
    if not isinstance(part, exp.Min | exp.Max) or part.expressions or not isinstance(part.this, exp.Column):
        return ""
    name = part.this.name.lower()
    if name not in {TIMESTAMP, "tsns"} or table.in_milliseconds:  # buckets are later than their samples
        return ""
    return f"{part.sql_name().lower()}({name})"


def divide(read: TableRead, segments: Sequence[Segment]) -> tuple[list[Segment], list[Segment]]:
    """Return segments all of whose rows lie in the interval of a read, and the others."""
    tick = NS_PER_MS if read.table.in_milliseconds else 1
    first, last = -(-read.start_ns // tick), read.end_ns // tick
    whole, cut = list[Segment](), list[Segment]()
    for one in segments:
        is_whole = one.min_ns // tick >= first and one.max_ns // tick <= last
        (whole if is_whole else cut).append(one)
    return whole, cut


def known_part(facts: Sequence[Fact], segments: Sequence[Segment]) -> pa.Table:
    """Return the row that a worker would answer with for whole segments."""
    columns = {}
    for place, fact in enumerate(facts):
        value, kind = _OF_SEGMENTS[fact]
        columns[f"a{place}"] = pa.array([value(segments)], pa.int64()).cast(kind)
    return pa.table(columns)
