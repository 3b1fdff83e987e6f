"""Complete traces become decisions, rows and batches; late spans of decided traces are told apart.

    complete ──► known to the index? ── no ──► policies decide
                     ├─ kept      ──► its new spans are exported, nothing is decided
                     └─ dropped   ──► the whole trace is aggregated again, and may be kept

What was decided before is asked of the index for all complete traces of a commit at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fsspec.spec import AbstractFileSystem

from lakerunner_sampling.aggregate import Commit, StateLimits, TraceState
from lakerunner_sampling.follower import FILES_AT_ONCE, Follower
from lakerunner_sampling.loader import EXPORTS, pack
from lakerunner_sampling.policies.decide import PolicySet
from lakerunner_sampling.policies.model import Decisions
from lakerunner_sampling.shapes import SpanShape
from lakerunner_sampling.table_files import TableFiles
from resources.arrays import Flags, Int64s
from resources.index.sampling_types import (
    SAME,
    ExportBatch,
    Reason,
    Rows,
    no_rows,
    packed_ids,
    rows_of,
)

BATCH_TRACES, BATCH_SPANS = 256, 50_000
"""Greatest batch: that many traces, or the first beyond that many spans."""
LATE = "late spans"
IDS = pa.binary(16)


@dataclass(frozen=True, slots=True)
class Decided:
    """Decisions of one commit, as they are stored."""

    rows: Rows = field(default_factory=no_rows)
    reasons: tuple[Reason, ...] = ()
    exports: pa.Table = field(default_factory=EXPORTS.empty_table)


def packed(ids: pa.ChunkedArray | pa.Array) -> bytes:
    """Return trace ids one behind the other."""
    return b"".join(pc.cast(ids, IDS).to_pylist())


def decided(decisions: Decisions, traces: pa.Table, sequence: int, *, known: Rows | None = None) -> Decided:
    """Turn decisions about traces into rows; `known` are the earlier decisions about the same traces."""
    table = decisions.table
    order = pc.index_in(pc.cast(table["trace_id"], IDS), pc.cast(traces["trace_id"], IDS))
    traces = traces.take(order)
    reasons, codes = _reasons(table)
    first = _numbers(traces["first_seq"])
    before = _earlier(known, table["trace_id"]) if known is not None and len(known) else None
    if before is not None:
        first = np.minimum(first, before["first_sequence"])
    count = table.num_rows
    rows = rows_of(
        {
            "trace_id": packed(table["trace_id"]),
            "is_kept": _flags(table["keep"]),
            "reason": codes,
            "probability": table["probability"].to_numpy(),
            "threshold": _numbers(table["threshold"]),
            "spans": _numbers(traces["span_count"]),
            "first_ns": _numbers(traces["first_ns"]),
            "last_ns": _numbers(traces["last_ns"]),
            "first_sequence": first,
            "last_sequence": _numbers(traces["last_seq"]),
            "sequence": sequence,
            "revision": 1 if before is None else before["revision"] + 1,
        },
        count,
    )
    return Decided(rows, reasons, _exports(rows, reasons, sequence))


def late_spans(known: Rows, traces: pa.Table, sequence: int) -> Decided:
    """Return what follows from new spans of kept traces: they are exported, and counted."""
    traces = traces.take(pc.index_in(id_array(known), pc.cast(traces["trace_id"], IDS)))
    rows = known.copy()
    rows["reason"] = SAME
    rows["spans"] += _numbers(traces["span_count"])
    rows["first_ns"] = np.minimum(rows["first_ns"], _numbers(traces["first_ns"]))
    rows["last_ns"] = np.maximum(rows["last_ns"], _numbers(traces["last_ns"]))
    rows["last_sequence"] = _numbers(traces["last_seq"])
    rows["sequence"], rows["revision"] = sequence, rows["revision"] + 1
    exported = rows.copy()
    exported["first_sequence"] = known["sequence"] + 1
    return Decided(rows, (), _exports(exported, (), sequence))


def joined(parts: Sequence[Decided]) -> Decided:
    """Put decisions together; reasons are counted on."""
    rows: list[Rows] = []
    reasons: list[Reason] = []
    for part in parts:
        moved = part.rows.copy()
        moved["reason"][moved["reason"] != SAME] += len(reasons)
        rows.append(moved)
        reasons += part.reasons
    exports = pa.concat_tables([part.exports for part in parts] or [EXPORTS.empty_table()])
    return Decided(np.concatenate(rows) if rows else no_rows(), tuple(reasons), exports)


def batches(found: Decided, ours: Flags, destinations: Sequence[str], first_part: int) -> list[ExportBatch]:
    """Cut the traces to export into batches, the same for each destination."""
    spans = found.rows["spans"][found.rows["is_kept"]]
    bodies: list[tuple[bytes, int]] = []
    for is_late in (False, True):
        mine = ours & (found.exports["is_late"].to_numpy() == is_late)
        places = np.flatnonzero(mine)
        places = places[np.argsort(_numbers(found.exports["first_sequence"])[places], kind="stable")]
        bodies += [(pack(found.exports.take(pa.array(part))), len(part)) for part in _parts(places, spans)]
    return [
        ExportBatch(name, first_part + number, traces, body)
        for name in destinations
        for number, (body, traces) in enumerate(bodies)
    ]


def _parts(places: Int64s, spans: Int64s) -> Iterator[Int64s]:
    begin = held = 0
    for at, place in enumerate(places.tolist()):
        if at > begin and (at - begin >= BATCH_TRACES or held >= BATCH_SPANS):
            yield places[begin:at]
            begin, held = at, 0
        held += int(spans[place])
    if len(places) > begin:
        yield places[begin:]


def _exports(rows: Rows, reasons: Sequence[Reason], sequence: int) -> pa.Table:
    """List the kept traces; their spans are those up to this commit."""
    kept = rows[rows["is_kept"]]
    names = pa.array([*(one.policy for one in reasons), ""], pa.string())
    texts = pa.array([*(one.reason for one in reasons), LATE], pa.string())
    is_late = kept["reason"] == SAME
    codes = pa.array(np.where(is_late, len(reasons), kept["reason"]).astype(np.int64))
    columns = [
        id_array(kept),
        pa.array(kept["first_sequence"].astype(np.int64)),
        pa.array(np.full(len(kept), sequence, np.int64)),
        pa.array(is_late),
        names.take(codes),
        texts.take(codes),
        pa.array(kept["probability"].astype(np.float64)),
        pa.array(kept["threshold"].astype(np.int64)),
    ]
    return pa.table(columns, schema=EXPORTS)


def _reasons(table: pa.Table) -> tuple[tuple[Reason, ...], Int64s]:
    """Number the distinct pairs of policy and reason."""
    policies = table["policy"].combine_chunks().dictionary_decode()
    texts = table["reason"].combine_chunks().dictionary_decode()
    pairs = pa.table([policies.fill_null(""), texts.fill_null("")], ["policy", "reason"])
    distinct = pairs.group_by(["policy", "reason"], use_threads=False).aggregate([])
    found = tuple(Reason(one["policy"], one["reason"]) for one in distinct.to_pylist())
    keys = [pc.binary_join_element_wise(each["policy"], each["reason"], "\0") for each in (pairs, distinct)]
    return found, _numbers(pc.index_in(keys[0], keys[1]))


def _earlier(known: Rows, ids: pa.ChunkedArray) -> Rows:
    """Return the earlier decisions in the order of ids, of which each has one."""
    return known[_numbers(pc.index_in(pc.cast(ids, IDS), id_array(known)))]


def id_array(rows: Rows) -> pa.Array:
    """Return the trace ids of rows as a column."""
    flat = pa.py_buffer(packed_ids(rows))
    return pa.FixedSizeBinaryArray.from_buffers(IDS, len(rows), [None, flat])


def _numbers(column: pa.ChunkedArray | pa.Array) -> Int64s:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(whole.to_numpy(zero_copy_only=False), np.int64)


def _flags(column: pa.ChunkedArray) -> Flags:
    return np.asarray(column.to_numpy(), np.bool_)


class WholeTraces:
    """Aggregates whole traces again from the files of their spans; its state is empty between calls."""

    def __init__(
        self,
        follower: Follower,
        policies: PolicySet,
        shape: SpanShape,
        limits: StateLimits,
        files: AbstractFileSystem | None,
    ) -> None:
        self._follower = follower
        self._state = TraceState(policies, shape, replace(limits, scratch=limits.scratch / "whole"), files)

    def aggregate(self, ids: pa.Array, first: int, last: int) -> pa.Table:
        """Return the aggregates of traces over commits, as if all came with the last one."""
        buckets = self._follower.buckets_of(ids.to_pylist())
        files = self._follower.files_between(first, last, buckets)
        paths = [TableFiles.named(one.path) for one in files]
        try:
            for at in range(0, len(paths), FILES_AT_ONCE):
                part = paths[at : at + FILES_AT_ONCE]
                self._state.add(Commit(last, part, self._follower.schema), ids)
            return self._state.of(ids)
        finally:
            self._state.evict(ids)

    def close(self) -> None:
        self._state.close()
