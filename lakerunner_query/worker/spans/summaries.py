"""Trace summaries tell which traces a window has, and where their rows are.

    newest 20 of { status = error }       summaries say when traces start; 20 whole traces are read, not all

Summaries of several segments are joined: a trace starts with its first span anywhere. What they tell of a
trace holds for a superset: a span that arrived twice is counted twice, and may end later there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.traceql.lang.ast import CompareOp, Intrinsic
from lakerunner_query.traceql.lang.conditions import AllOf, AnyOf, Condition, Requirement, SomeSpan
from lakerunner_query.worker.tables.segments import OpenTable
from resources.arrays import Flags, Int64s, UInt64s
from resources.lake import trace_summaries
from resources.lake.streams import UNKNOWN_SERVICE
from resources.lake.trace_summaries import SCHEMA, TRACE_ID_BYTES, first_of_runs, halves

TRACE, START, END = "span_trace_id", "span_start_ns", "span_end_ns"
MANY = 2
"""Roots of a trace of which nothing is known."""
ID = f"S{TRACE_ID_BYTES}"
"""Ids as NumPy compares them: as bytes."""


@dataclass(frozen=True)
class KnownTraces:
    """Traces of a window, sorted by id."""

    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def ids(self) -> np.ndarray:
        return ids_of(self.table)

    @cached_property
    def start_ns(self) -> Int64s:
        found: Int64s = self.table.column("start_ns").to_numpy()
        return found

    @cached_property
    def spans(self) -> Int64s:
        """Numbers of spans, or more."""
        found: Int64s = self.table.column("spans").to_numpy()
        return found

    @cached_property
    def end_ns(self) -> Int64s:
        """Ends, or times behind them."""
        found: Int64s = self.table.column("end_ns").to_numpy()
        return found

    def may_match(self, requirement: Requirement) -> Flags:
        """Flag traces that may meet a demand, by their times and roots."""
        match requirement:
            case Condition(field=Intrinsic(name=name)) if name in _DECIDABLE:
                return _DECIDABLE[name](self, requirement)
            case SomeSpan(requirement=inside):
                return self.may_match(inside)
            case AllOf(parts=parts) if parts:
                every: Flags = np.logical_and.reduce([self.may_match(one) for one in parts])
                return every
            case AnyOf(parts=parts) if parts:
                some: Flags = np.logical_or.reduce([self.may_match(one) for one in parts])
                return some
            case _:
                return np.ones(len(self), np.bool_)

    def lasts(self, condition: Condition) -> Flags:
        """Flag traces that may last so long."""
        least = [one.value for one in condition.values if isinstance(one.value, int | float)]
        if condition.op not in _AT_LEAST or len(least) < len(condition.values):
            return np.ones(len(self), np.bool_)
        found: Flags = self.end_ns - self.start_ns >= min(least)
        return found

    def has_root(self, column: str, condition: Condition) -> Flags:
        """Flag traces whose root may have one of these texts; without a root the text is empty."""
        if condition.op is not CompareOp.EQUAL:
            return np.ones(len(self), np.bool_)
        texts = pa.array([one.value for one in condition.values if isinstance(one.value, str)], pa.string())
        stored = self.table.column(column).combine_chunks()
        known = self.table.column("roots").to_numpy() == 1
        is_any = pa.compute.is_in(stored, texts).to_numpy(zero_copy_only=False)
        is_unsure = pa.compute.equal(stored, UNKNOWN_SERVICE).fill_null(False).to_numpy(zero_copy_only=False)
        found: Flags = ~known | is_any | is_unsure
        return found


_AT_LEAST = {CompareOp.GREATER, CompareOp.GREATER_EQUAL, CompareOp.EQUAL}
_DECIDABLE: dict[str, Callable[[KnownTraces, Condition], Flags]] = {
    "traceDuration": KnownTraces.lasts,
    "rootName": lambda traces, condition: traces.has_root("root_name", condition),
    "rootServiceName": lambda traces, condition: traces.has_root("root_service", condition),
}


def ids_of(table: pa.Table) -> np.ndarray:
    """Return the trace ids of summaries as NumPy compares them."""
    ids = table.column("trace_id").combine_chunks()
    if not len(ids):
        return np.zeros(0, ID)
    return np.frombuffer(ids.buffers()[1], ID, ids.offset + len(ids))[ids.offset :]


def known_traces(tables: Sequence[pa.Table], first: bytes, behind: bytes) -> KnownTraces:
    """Join the summaries of segments, of traces with ids from `first` to before `behind`."""
    return KnownTraces(trace_summaries.joined([between(one, first, behind) for one in tables]))


def between(table: pa.Table, first: bytes, behind: bytes) -> pa.Table:
    """Return the summaries of traces with ids from `first` to before `behind`."""
    ids = ids_of(table)
    begin = int(np.searchsorted(ids, np.array(first, ID)))
    end = int(np.searchsorted(ids, np.array(behind, ID))) if behind else len(ids)
    return table.slice(begin, end - begin)


def starting_in(
    tables: Sequence[tuple[OpenTable, pa.Table]], since_ns: int, behind_ns: int
) -> list[pa.Table]:
    """Leave out traces that start in `[since_ns, behind_ns)` in no segment: they do not start there.

    Those that are left keep what all segments tell of them.
    """
    ids = ids_from(tables, since_ns, behind_ns)
    every = [table for _, table in tables]
    if 2 * sum(map(len, ids)) > sum(map(len, every)):
        return every
    wanted = np.unique(np.concatenate(ids)) if ids else np.zeros(0, ID)
    return [one.take(pa.array(places_of(one, wanted))) for one in every]


def ids_from(tables: Sequence[tuple[OpenTable, pa.Table]], since_ns: int, behind_ns: int) -> list[np.ndarray]:
    """Return, of each segment, the ids of its traces that start there in `[since_ns, behind_ns)`."""
    found = []
    for one, table in tables:
        if one.segment.max_ns < since_ns:
            found.append(np.zeros(0, ID))
            continue
        starts = table.column("start_ns").to_numpy()
        found.append(ids_of(table)[(starts >= since_ns) & (starts < behind_ns)])
    return found


def newest_since(tables: Sequence[tuple[OpenTable, pa.Table]], behind_ns: int, count: int) -> int | None:
    """Return a time from which on some `count` traces start before `behind_ns`; None: there are fewer.

    Only segments with later spans than that are looked into.
    """
    newest = np.zeros(0, np.int64)
    for one, table in sorted(tables, key=lambda each: -each[0].segment.max_ns):
        if len(newest) == count and one.segment.max_ns < newest.min():
            break
        starts = table.column("start_ns").to_numpy()
        newest = np.concatenate([newest, starts[starts < behind_ns]])
        if len(newest) > count:
            newest = np.partition(newest, -count)[-count:]
    return int(newest.min()) if len(newest) == count else None


def places_of(table: pa.Table, wanted: np.ndarray) -> Int64s:
    """Return the places at which a segment's summaries have the wanted ids; both ascend.

    First halves are compared as numbers, which is much faster, unless ids of the segment share them.
    """
    ids = ids_of(table)
    first = _first_halves(ids)
    if (first[1:] > first[:-1]).all():
        places = np.searchsorted(first, _first_halves(wanted))
    else:
        places = np.searchsorted(ids, wanted)
    inside = np.flatnonzero(places < len(ids))
    places = places[inside]
    found: Int64s = places[ids[places] == wanted[inside]]
    return found


def _first_halves(ids: np.ndarray) -> UInt64s:
    found: UInt64s = np.frombuffer(np.ascontiguousarray(ids), ">u8")[::2].astype(np.uint64)
    return found


def rows_of(table: pa.Table, wanted: np.ndarray) -> Int64s:
    """Return the rows of a segment that the wanted traces have there; ids ascend."""
    places = places_of(table, wanted)
    spans = table.column("spans").to_numpy()
    counts, behind = spans[places], np.cumsum(spans)[places]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    rows: Int64s = np.repeat(behind - counts, counts) + within
    return rows


def scan_summaries(one: OpenTable) -> pa.Table:
    """Summarise a segment that has no summaries: its rows are sorted by trace id."""
    with pq.ParquetFile(one.file.source(), metadata=one.footer.layout.metadata) as parquet:
        rows = parquet.read([TRACE, START, END], use_threads=False).combine_chunks()
    column = rows.column(TRACE)
    count = rows.num_rows - column.null_count
    ids = column.chunk(0).slice(0, count) if count else pa.array([], pa.binary(TRACE_ID_BYTES))
    first = first_of_runs(*halves(ids)) if count else np.zeros(0, np.int64)
    rows = rows.slice(0, count)
    start = rows.column(START).to_numpy()
    end = pa.compute.coalesce(rows.column(END), rows.column(START)).to_numpy()
    found = {
        "trace_id": ids.take(pa.array(first)),
        "start_ns": np.minimum.reduceat(start, first) if count else start,
        "end_ns": np.maximum.reduceat(np.maximum(start, end), first) if count else start,
        "spans": np.diff(np.append(first, count)),
        "errors": np.zeros(len(first), np.int64),
        "roots": np.full(len(first), MANY),
        "root_name": pa.nulls(len(first), pa.string()),
        "root_service": pa.nulls(len(first), pa.string()),
    }
    return pa.table(found, schema=pa.schema(list(SCHEMA)[: len(found)]))
