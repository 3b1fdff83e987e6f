"""`SummaryWriter` makes the trace summaries of a span segment, from rows in its order.

Rows come in one piece from ingestion, and row group by row group from merging: a trace may go on in the next.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from resources.arrays import Int64s
from resources.lake import trace_summaries
from resources.lake.trace_summaries import SCHEMA, first_of_runs, halves, lists_of

TRACE, PARENT, START, END, STATUS, NAME, SERVICE = (
    "span_trace_id", "span_parent_span_id", "span_start_ns", "span_end_ns", "span_status_code", "span_name",
    "service_name",
)  # fmt: skip
COLUMNS = (TRACE, PARENT, START, END, STATUS, NAME, SERVICE)
ERROR = "error"


class SummaryWriter:
    """Summaries of one segment while it grows."""

    def __init__(self) -> None:
        self._parts: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        """Note rows; each column is one chunk."""
        self._parts.append(summaries_of(rows))

    def finish(self) -> bytes:
        """Return the block of the segment; empty if no span has a trace."""
        table = trace_summaries.joined(self._parts)
        return trace_summaries.encode(table) if table.num_rows else b""


def summaries_of(rows: pa.Table) -> pa.Table:
    """Summarise rows that are sorted by trace id, those without one last."""
    ids = rows.column(TRACE).combine_chunks()
    count = len(ids) - ids.null_count
    if not count:
        return SCHEMA.empty_table()
    rows = rows.select([name for name in COLUMNS if name in rows.column_names]).slice(0, count)
    ids = ids.slice(0, count)
    first = first_of_runs(*halves(ids))
    trace_of = np.repeat(np.arange(len(first)), np.diff(np.append(first, count)))
    start = rows.column(START).to_numpy()
    found = {
        "trace_id": ids.take(pa.array(first)),
        "start_ns": np.minimum.reduceat(start, first),
        "end_ns": np.maximum.reduceat(_ends(rows, start), first),
        "spans": np.diff(np.append(first, count)),
        "errors": np.add.reduceat(_errors(rows), first),
        **_roots(rows, first, trace_of),
        "services": lists_of(trace_of, _texts(rows, SERVICE), len(first)),
    }
    return pa.table(found, schema=SCHEMA)


def _ends(rows: pa.Table, start: Int64s) -> Int64s:
    """Return the ends of spans; the start where none was sent."""
    end = rows.column(END)
    known: Int64s = (pc.coalesce(end, rows.column(START)) if end.null_count else end).to_numpy()
    return np.maximum(known, start)


def _errors(rows: pa.Table) -> Int64s:
    if STATUS not in rows.column_names:
        return np.zeros(rows.num_rows, np.int64)
    flags = pc.equal(_texts(rows, STATUS), ERROR).fill_null(False)
    found: Int64s = flags.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _roots(rows: pa.Table, first: Int64s, trace_of: Int64s) -> dict[str, pa.Array]:
    """Count roots; name the only one."""
    parents = rows.column(PARENT).combine_chunks()
    is_root = pc.or_kleene(parents.is_null(), pc.equal(parents, pa.scalar(bytes(8), parents.type)))
    places = np.flatnonzero(is_root.to_numpy(zero_copy_only=False))
    roots = np.bincount(trace_of[places], minlength=len(first)).astype(np.int64)
    row = np.zeros(len(first), np.int64)
    row[trace_of[places]] = places
    only = pa.array(row, mask=roots != 1)
    names = {"root_name": NAME, "root_service": SERVICE}
    return {"roots": pa.array(roots)} | {
        name: _texts(rows, column).take(only).cast(pa.string()) for name, column in names.items()
    }


def _texts(rows: pa.Table, name: str) -> pa.Array:
    """Return a column of texts, as a dictionary or plain; empty texts where the segment has none."""
    if name not in rows.column_names:
        return pa.array([""], pa.string()).take(pa.array(np.zeros(rows.num_rows, np.int64)))
    return rows.column(name).combine_chunks()
