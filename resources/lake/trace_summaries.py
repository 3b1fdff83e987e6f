"""The trace summaries of a span segment say what each trace has there: times, spans, errors, root, services.

    trace id   start      end        spans  errors  roots  root name  root service  services
    a1…        12:06:00   12:06:02   7      1       1      GET /      web           web, cart
    b2…        12:07:00   12:07:01   2      0       0                               cart

They lie before the token bloom, in the order of the rows: spans count up to the first row of each trace. A
trace may go on in other segments; joined summaries say what all of them have. Segments of before have none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from resources.arrays import Flags, Int64s, UInt64s

TRACE_ID_BYTES = 16
SCHEMA = pa.schema(
    [
        pa.field("trace_id", pa.binary(TRACE_ID_BYTES), nullable=False),
        pa.field("start_ns", pa.int64(), nullable=False),
        pa.field("end_ns", pa.int64(), nullable=False),
        pa.field("spans", pa.int64(), nullable=False),
        pa.field("errors", pa.int64(), nullable=False),
        pa.field("roots", pa.int64(), nullable=False),
        pa.field("root_name", pa.string()),
        pa.field("root_service", pa.string()),
        pa.field("services", pa.list_(pa.string()), nullable=False),
    ]
)
"""Name and service of the root are known where there is exactly one."""
_WORDS = pa.dictionary(pa.int32(), pa.string())
_STORED = pa.schema(
    [
        field.with_type(pa.list_(_WORDS) if pa.types.is_list(field.type) else _WORDS)
        if field.name in {"root_name", "root_service", "services"}
        else field
        for field in SCHEMA
    ]
)
"""Texts of a segment are few."""
_LENGTH = b"trace_summaries"
_LEVEL = 3


def encode(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", _LEVEL))
    columns = [
        _with_words(table.column(field.name).combine_chunks())
        if field.type != SCHEMA.field(field.name).type
        else table.column(field.name)
        for field in _STORED
    ]
    with pa.ipc.new_stream(sink, _STORED, options=options) as writer:
        writer.write_table(pa.table(columns, schema=_STORED))
    return bytes(sink.getvalue())


def _with_words(texts: pa.Array) -> pa.Array:
    if isinstance(texts, pa.ListArray):
        return pa.ListArray.from_arrays(texts.offsets, texts.values.dictionary_encode())
    return texts.dictionary_encode()


def _without_words(coded: pa.Array) -> pa.Array:
    if isinstance(coded, pa.ListArray):
        return pa.ListArray.from_arrays(coded.offsets, coded.values.cast(pa.string()))
    return coded.cast(pa.string())


def read_table(raw: bytes | memoryview | pa.Buffer) -> pa.Table:
    """Read and check summaries; bad offsets would kill the process."""
    with pa.ipc.open_stream(raw) as reader:
        table = reader.read_all()
    table.validate(full=True)
    if table.schema != _STORED:
        raise ValueError(f"trace summaries of the form {table.schema}")
    table = table.combine_chunks()
    columns = [
        _without_words(_chunk(column)) if pa.types.is_nested(column.type) or column.type == _WORDS else column
        for column in table.columns
    ]
    return pa.table(columns, schema=SCHEMA)


def _chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def length_metadata(raw: bytes) -> dict[bytes, bytes]:
    """Return the entry of the footer that tells the length of the summaries; none without any."""
    return {_LENGTH: str(len(raw)).encode()} if raw else {}


def read_length(metadata: pq.FileMetaData | Mapping[bytes, bytes]) -> int:
    """Return the bytes of summaries before the token bloom; 0: there are none."""
    pairs = metadata if isinstance(metadata, Mapping) else metadata.metadata or {}
    return int(pairs.get(_LENGTH, b"0"))


def halves(ids: pa.Array) -> tuple[UInt64s, UInt64s]:
    """Return the first and the second half of trace ids as numbers that compare as the bytes do.

    >>> [half.tolist() for half in halves(pa.array([bytes(15) + b"a"], pa.binary(16)))]
    [[0], [97]]
    """
    raw = ids.buffers()[1] or b""
    both = np.frombuffer(raw, ">u8")[2 * ids.offset : 2 * (ids.offset + len(ids))].astype(np.uint64)
    return both[::2], both[1::2]


def first_of_runs(*columns: np.ndarray) -> Int64s:
    """Return the places at which any of the columns changes."""
    is_new: Flags = np.zeros(len(columns[0]), np.bool_)
    is_new[:1] = True
    for column in columns:
        is_new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(is_new)


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Join the summaries of several segments, or of several parts of one, by trace.

    The lists of services may be left out.
    """
    table = pa.concat_tables(tables).combine_chunks() if tables else SCHEMA.empty_table()
    if not table.num_rows:
        return table
    high, low = halves(table.column("trace_id").chunk(0))
    order = np.lexsort((low, high))
    first = first_of_runs(high[order], low[order])
    if len(first) == len(order) and (np.diff(order) > 0).all():
        return table
    columns = {name: table.column(name).to_numpy()[order] for name in ("start_ns", "end_ns", *_COUNTS)}
    counts = {name: np.add.reduceat(columns[name], first) for name in _COUNTS}
    roots = _only_roots(columns["roots"], counts["roots"], first, order)
    found = {
        "trace_id": table.column("trace_id").chunk(0).take(pa.array(order[first])),
        "start_ns": np.minimum.reduceat(columns["start_ns"], first),
        "end_ns": np.maximum.reduceat(columns["end_ns"], first),
        **counts,
        "root_name": table.column("root_name").chunk(0).take(roots),
        "root_service": table.column("root_service").chunk(0).take(roots),
    }
    if "services" in table.column_names:
        found["services"] = _services(table.column("services").chunk(0), order, first)
    return pa.table(found, schema=table.schema)


_COUNTS = ("spans", "errors", "roots")


def _only_roots(roots: Int64s, totals: Int64s, first: Int64s, order: Int64s) -> pa.Array:
    """Return the row that knows the root of each trace; null without one, or with several."""
    places = np.flatnonzero(roots == 1)
    of_trace = np.searchsorted(first, places, side="right") - 1
    rows = np.zeros(len(first), np.int64)
    rows[of_trace] = order[places]
    return pa.array(rows, mask=totals != 1)


def _services(lists: pa.ListArray, order: Int64s, first: Int64s) -> pa.ListArray:
    """Unite the lists of each trace."""
    trace_of_row = np.empty(len(order), np.int64)
    trace_of_row[order] = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(order))))
    owners = trace_of_row[lists.value_parent_indices().to_numpy()]
    return lists_of(owners, lists.flatten(), len(first))


def lists_of(owners: Int64s, texts: pa.Array, count: int) -> pa.ListArray:
    """Return the distinct texts of each owner, sorted.

    >>> lists_of(np.array([1, 0, 1, 1]), pa.array(["b", "c", "a", "b"]), 3).to_pylist()
    [['c'], ['a', 'b'], []]
    """
    coded = texts.dictionary_encode()
    words = coded.dictionary.cast(pa.string())
    rank = np.empty(len(words), np.int64)
    by_text = pa.compute.sort_indices(words).to_numpy()
    rank[by_text] = np.arange(len(words))
    size = max(1, len(words))
    pairs = np.unique(owners * size + rank[coded.indices.to_numpy()])
    offsets = np.searchsorted(pairs // size, np.arange(count + 1))
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), words.take(pa.array(by_text[pairs % size]))
    )
