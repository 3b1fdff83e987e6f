"""The stream table of a log segment lists label sets, row counts and times.

It lies inside the Parquet object before the footer, so that matchers run on a few kilobytes before any
column is read. The id of a stream is a hash of its canonical label set and is the same in every segment,
for ever.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import xxhash

Labels = tuple[tuple[str, str], ...]
UNKNOWN_SERVICE = "unknown_service"
"""The label `service_name` of what was sent without one."""

SCHEMA = pa.schema(
    [
        pa.field("stream_id", pa.int64(), nullable=False),
        pa.field("labels", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("min_ns", pa.int64(), nullable=False),
        pa.field("max_ns", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Stream:
    """One row of the table; `min_ns` and `max_ns` are exact and inclusive."""

    stream_id: int
    labels: Labels
    rows: int
    min_ns: int
    max_ns: int


def canonical(labels: Mapping[str, str]) -> Labels:
    """Sort labels by name (as bytes) and drop empty values: absent and empty are the same."""
    return tuple(sorted(((k, v) for k, v in labels.items() if v), key=lambda pair: pair[0].encode()))


def stream_id(labels: Labels) -> int:
    """Hash the canonical set: first 64 bits of xxh3-128, lengths before texts.

    >>> stream_id((("a", "bc"),)) == stream_id((("ab", "c"),))
    False
    """
    parts: list[bytes] = []
    for text in (text for pair in labels for text in pair):
        raw = text.encode()
        parts += (len(raw).to_bytes(4, "little"), raw)
    return int.from_bytes(xxhash.xxh3_128_digest(b"".join(parts))[:8], "big", signed=True)


def labels_to_text(labels: Labels) -> str:
    """Write labels as JSON pairs in canonical order, the form they have in a column."""
    return json.dumps(labels, ensure_ascii=False, separators=(",", ":"))


def labels_from_text(text: str) -> Labels:
    return tuple((name, value) for name, value in json.loads(text))


def encode(streams: Iterable[Stream]) -> bytes:
    """Encode the table as an Arrow IPC stream, ordered by label set."""
    ordered = sorted(streams, key=lambda stream: (stream.labels, stream.stream_id))
    columns = {
        "stream_id": [s.stream_id for s in ordered],
        "labels": [list(s.labels) for s in ordered],
        "rows": [s.rows for s in ordered],
        "min_ns": [s.min_ns for s in ordered],
        "max_ns": [s.max_ns for s in ordered],
    }
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=3))
    with pa.ipc.new_stream(sink, SCHEMA, options=options) as writer:
        writer.write_table(pa.table(columns, schema=SCHEMA))
    return bytes(sink.getvalue())


def read_table(raw: bytes | memoryview | pa.Buffer) -> pa.Table:
    """Read and check the table for matchers on columns; bad offsets would kill the process."""
    with pa.ipc.open_stream(raw) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return table


def decode(raw: bytes | memoryview | pa.Buffer) -> tuple[Stream, ...]:
    return tuple(
        Stream(row["stream_id"], tuple(row["labels"]), row["rows"], row["min_ns"], row["max_ns"])
        for row in read_table(raw).to_pylist()
    )
