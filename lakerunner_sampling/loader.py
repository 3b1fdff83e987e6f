"""Spans of kept traces are loaded from the files that hold them, in chunks.

    batch (trace, commits 41 to 44) → files of these commits and buckets → join by trace id → chunks by trace

DuckDB reads row groups whose statistics may hold one of the ids. It sorts by trace and spills what does not
fit; a chunk has at most `CHUNK_ROWS` spans, so that a long trace is several chunks and is never in memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from fsspec.spec import AbstractFileSystem

from lakerunner_sampling.follower import Follower, TableFile
from lakerunner_sampling.policies.hashing import with_threshold
from lakerunner_sampling.shapes import EVERYTHING, SpanShape, schema_of
from lakerunner_sampling.table_files import TableFiles
from resources.duckdb import DuckSession

CHUNK_ROWS, CHUNK_BYTES = 4096, 4 << 20
"""Greatest chunk: that many spans, or the first span beyond that many bytes."""
EXPORTS = pa.schema(
    [
        pa.field("trace_id", pa.binary(16)),
        pa.field("first_sequence", pa.int64()),
        pa.field("last_sequence", pa.int64()),
        pa.field("is_late", pa.bool_()),
        pa.field("policy", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("probability", pa.float64()),
        pa.field("threshold", pa.int64()),
    ]
)
"""Traces to export and the commits that hold their spans; of late ones only those spans are sent."""


def pack(traces: pa.Table) -> bytes:
    """Write a batch's traces as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, EXPORTS) as writer:
        writer.write_table(traces.select(EXPORTS.names).cast(EXPORTS))
    return bytes(sink.getvalue())


def unpack(body: bytes) -> pa.Table:
    """Read the traces of a batch."""
    with pa.ipc.open_stream(body) as reader:
        return reader.read_all()


@dataclass(frozen=True, slots=True)
class Loader:
    """Reads spans of one table."""

    follower: Follower
    shape: SpanShape
    session: DuckSession
    scratch: Path
    """Folder of decoded files, for tables that hold raw bytes."""
    files: AbstractFileSystem | None = None
    """File system of tables that are not on disk."""

    def load(self, traces: pa.Table) -> Iterator[pa.Table]:
        """Yield the spans of traces (`EXPORTS`) in chunks, sorted by trace and start."""
        if not traces.num_rows:
            return
        first = min(traces["first_sequence"].to_pylist())
        last = max(traces["last_sequence"].to_pylist())
        buckets = self.follower.buckets_of(traces["trace_id"].to_pylist())
        files = self.follower.files_between(first, last, buckets)
        try:
            if files:
                yield from self._chunks(traces, files, last)
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def _chunks(self, traces: pa.Table, files: Sequence[TableFile], last: int) -> Iterator[pa.Table]:
        is_late = any(traces["is_late"].to_pylist())
        relation = self._by_commit(files, last) if is_late else self._relation([one.path for one in files])
        within = "spans.sequence BETWEEN wanted.first_sequence AND wanted.last_sequence"
        columns = ", ".join(f"spans.{name}" for name in sorted(EVERYTHING.columns))
        sql = f"""
            SELECT {columns}, wanted.policy AS sampling_policy, wanted.reason AS sampling_reason,
                wanted.probability AS sampling_probability, wanted.threshold AS sampling_threshold
            FROM ({relation}) AS spans JOIN wanted ON spans.trace_id = wanted.trace_id
            {f"WHERE NOT wanted.is_late OR spans.sequence IS NULL OR {within}" if is_late else ""}
            ORDER BY spans.trace_id, spans.start_ns, spans.span_id
        """
        ids = traces.set_column(0, "trace_id", traces["trace_id"].cast(pa.binary()))
        with self.session.cursor() as cursor:
            cursor.register("wanted", ids)
            for batch in cursor.sql(sql).to_arrow_reader(CHUNK_ROWS):
                yield from _within_bytes(_with_thresholds(pa.Table.from_batches([batch])))

    def _by_commit(self, files: Sequence[TableFile], last: int) -> str:
        """Return spans with the number of their commit; those written anew since belong to no one commit."""
        groups: dict[str, list[str]] = {}
        for file in files:
            groups.setdefault(str(file.sequence) if file.sequence <= last else "NULL", []).append(file.path)
        return " UNION ALL ".join(
            f"SELECT *, {number}::BIGINT AS sequence FROM ({self._relation(paths)})"
            for number, paths in groups.items()
        )

    def _relation(self, paths: Sequence[str]) -> str:
        found = [TableFiles.named(one) for one in paths]
        ready = self.shape.prepare(found, self.scratch)
        is_plain = ready == found
        schema = self.follower.schema if is_plain else None
        return self.shape.relation(ready, schema or schema_of(ready, self.files if is_plain else None))


def _with_thresholds(spans: pa.Table) -> pa.Table:
    """Write the thresholds of sampled traces into the tracestate of their spans."""
    pairs = spans.select(["trace_state", "sampling_threshold"])
    found = pairs.group_by(["trace_state", "sampling_threshold"]).aggregate([])
    states = [
        with_threshold(state or "", threshold) if threshold else state
        for state, threshold in zip(*(column.to_pylist() for column in found.columns), strict=True)
    ]
    keys = _keys(found), _keys(pairs)
    chosen = pc.take(pa.array(states, pa.string()), pc.index_in(keys[1], keys[0]))
    return spans.set_column(spans.schema.get_field_index("trace_state"), "trace_state", chosen)


def _keys(pairs: pa.Table) -> pa.ChunkedArray:
    states = pc.fill_null(pairs["trace_state"], "")
    return pc.binary_join_element_wise(pairs["sampling_threshold"].cast(pa.string()), states, " ")


def _within_bytes(spans: pa.Table) -> Iterator[pa.Table]:
    """Cut a chunk in halves until none is too large."""
    if spans.num_rows > 1 and spans.nbytes > CHUNK_BYTES:
        half = spans.num_rows // 2
        yield from _within_bytes(spans.slice(0, half))
        yield from _within_bytes(spans.slice(half))
    else:
        yield spans
