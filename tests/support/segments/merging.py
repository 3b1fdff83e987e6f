"""What the tests of the merge share: requests, and segments as plain values to compare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_assets.segments.logs import write_log_segment
from lakerunner_assets.segments.merge.request import MergeKind, MergeRequest, MergeResult, Window
from lakerunner_assets.segments.merge.run import merge
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.traces import write_span_segment
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from resources.lake import metric_values, series, streams, trace_summaries
from resources.lake.segment_file import OVERFLOW_COLUMNS, read_facts, read_label_map
from resources.otel_text import double_text

HOUR_NS = 3_600_000_000_000
START = 1_768_392_000_000_000_000
TARGET = Window(START, HOUR_NS)
WRITERS = {
    MergeKind.LOGS: write_log_segment,
    MergeKind.TRACES: write_span_segment,
    MergeKind.SAMPLES: write_metric_segment,
}
DATASETS = {
    MergeKind.LOGS: "logs",
    MergeKind.TRACES: "traces",
    MergeKind.SAMPLES: "metrics",
    MergeKind.ROLLUP: "metrics-1m",
}
_OVERFLOWS = {column: scope for scope, column in OVERFLOW_COLUMNS.items()}


def written(kind: MergeKind, path: Path, tables: Sequence[pa.Table]) -> WrittenSegment:
    """By the ordinary writer."""
    return WRITERS[kind](tables, path, SegmentIdentity("acme", "eu", DATASETS[kind], START, path.stem))


def merged(
    kind: MergeKind, folder: Path, sources: Iterable[Path], *, max_columns: int = 1000, **changes: Any
) -> MergeResult:
    folder.mkdir(exist_ok=True)
    request: dict[str, Any] = {
        "kind": kind,
        "sources": list(sources),
        "folder": folder,
        "org": "acme",
        "collector": "eu",
        "dataset": DATASETS[kind],
        "target": TARGET,
        "carve": (),
        "generation": 1,
        "target_bytes": 1 << 30,
        "memory_bytes": 64 << 20,
        "name": lambda window, part: f"{window.start_ns}-{part}",
    }
    return merge(MergeRequest(**{**request, **changes}), max_columns)


def only(result: MergeResult) -> Path:
    assert len(result.segments) == 1
    return result.segments[0].path


def rows_of(path: Path, *, as_text: bool = False) -> list[dict[Any, Any]]:
    """Rows in the order of the file: attributes by what they are, doubles as bits, nothing that is null.

    `as_text`: attributes by scope and key, those in overflow maps too.
    """
    table = pq.read_table(path).combine_chunks()
    attributes = {c.column: (c.scope, c.key, c.kind) for c in read_label_map(pq.read_metadata(path))}
    columns: dict[Any, pa.Array] = {name: table.column(name).chunk(0) for name in table.column_names}
    if metric_values.SCALED in columns:
        columns["chq_value"] = metric_values.values({n: columns.pop(n) for n in metric_values.VALUE_COLUMNS})
    rows: list[dict[Any, Any]] = [{} for _ in range(table.num_rows)]
    for name, column in columns.items():
        for row, cell in zip(rows, cells(column), strict=True):
            if cell is None:
                continue
            if as_text and name in _OVERFLOWS:
                row |= {(_OVERFLOWS[name], key): text for key, text in cell}
            elif as_text and name in attributes:
                row[attributes[name][:2]] = _text(cell)
            else:
                row[attributes.get(name, name)] = cell
    return rows


def _text(cell: Any) -> str:
    if isinstance(cell, tuple):
        return double_text(float(np.array([cell[1]], np.uint64).view(np.float64)[0]))
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def cells(column: pa.Array) -> list[Any]:
    """Python values; doubles as their bits at any depth."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return cells(column.cast(kind.value_type))
    if pa.types.is_floating(kind):
        bits = np.frombuffer(column.buffers()[1], np.uint64)[column.offset : column.offset + len(column)]
        valid = column.is_valid().to_pylist()
        return [("bits", int(each)) if ok else None for each, ok in zip(bits, valid, strict=True)]
    if pa.types.is_list(kind):
        flat, lengths = cells(column.flatten()), column.value_lengths().to_pylist()
        found, at = [], 0
        for length in lengths:
            found.append(None if length is None else flat[at : at + length])
            at += length or 0
        return found
    if pa.types.is_struct(kind):
        members = [(f.name, cells(pa.StructArray.field(column, f.name))) for f in kind]
        valid = column.is_valid().to_pylist()
        return [
            {name: values[row] for name, values in members} if ok else None for row, ok in enumerate(valid)
        ]
    return list(column.to_pylist())


def blocks_of(path: Path) -> tuple[list[Any], bytes]:
    """Series or stream table without how values are stored, trace summaries, and the bloom."""
    metadata = pq.read_metadata(path)
    facts = read_facts(metadata)
    raw = path.read_bytes()
    table = raw[facts.series_offset : facts.series_offset + facts.series_length]
    bloom = raw[facts.bloom_offset : facts.bloom_offset + facts.bloom_length]
    if "chq_stream_id" in pq.read_schema(path).names:
        traces = raw[facts.bloom_offset - trace_summaries.read_length(metadata) : facts.bloom_offset]
        summaries = trace_summaries.read_table(traces).to_pylist() if traces else []
        return [*streams.decode(table), *summaries], bloom
    keep = ("tid", "labels", "row", "rows", "first_ms", "last_ms")
    return [tuple(getattr(each, name) for name in keep) for each in series.decode(table, facts.rows)], bloom


def index_facts(found: WrittenSegment) -> tuple[Any, ...]:
    return (
        found.rows,
        found.min_ns,
        found.max_ns,
        found.terms,
        found.label_names,
        found.metric_names,
        found.object_ids,
        found.sort_version,
    )


def assert_same(path: Path, expected: Path) -> None:
    """As far as readers can tell."""
    assert rows_of(path) == rows_of(expected)
    assert blocks_of(path) == blocks_of(expected)
    ours, theirs = (pq.read_metadata(each) for each in (path, expected))
    assert set(read_label_map(ours)) == set(read_label_map(theirs))
    left, right = read_facts(ours), read_facts(theirs)
    assert (left.sort_order, left.source_objects, left.min_ns, left.max_ns) == (
        right.sort_order,
        right.source_objects,
        right.min_ns,
        right.max_ns,
    )
