"""Writes one log segment: a sorted Parquet file with its stream table and token bloom inside.

Rows in (any order, several tables):                rows out (sorted, one file):

    service  time      message            object       slot   service  fingerprint  time      object
    web      12:07:00  "took 5ms"         1            12:05  api      F2           12:06:00  1
    api      12:06:00  "no such user 7"   1            12:05  web      F1           12:07:00  1
    web      12:11:00  "took 3ms"         1            12:10  web      F1           12:11:00  1
    web      12:11:00  "took 9ms"         2            12:10  web      F1           12:11:00  2

Quarantined rows are written the same way; their extra column is a column like any other. Equal inputs give
equal bytes, so a retried task writes the same object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_assets.segments import token_bloom
from lakerunner_assets.segments.encoding import bloom_rows, choose, compacted
from lakerunner_assets.segments.order import row_groups, row_order
from lakerunner_assets.segments.unify import Unified, unify
from resources.lake import streams
from resources.lake.segment_file import (
    FORMAT_VERSION,
    LOG_SORT_ORDER,
    LOG_SORT_VERSION,
    OVERFLOW_COLUMNS,
    SegmentFacts,
    file_metadata,
)
from resources.lake.streams import Labels, Stream, labels_from_text
from resources.lake.terms import terms_of

STREAM_COLUMN = "chq_stream"
_NOT_TOKENS = frozenset({"log_level", "detected_level", "log_severity_text"})


@dataclass(frozen=True, slots=True)
class WrittenSegment:
    """What the index needs to know about a segment that now lies at `path`."""

    path: Path
    rows: int
    bytes: int
    min_ns: int
    max_ns: int
    terms: tuple[int, ...]
    label_names: tuple[str, ...]
    series_offset: int
    series_length: int
    bloom_offset: int
    bloom_length: int
    object_ids: tuple[int, ...]
    row_groups: int
    sort_version: int = LOG_SORT_VERSION
    format_version: int = FORMAT_VERSION
    row_counts: dict[int, int] = field(default_factory=dict, compare=False)
    """Rows per raw object."""


def write_log_segment(
    tables: Sequence[pa.Table],
    sink_path: Path,
    *,
    org: str,
    collector: str,
    segment_id: str,
    hour_ns: int,
    dataset: str = "logs",
    generation: int = 0,
) -> WrittenSegment:
    """Write the rows of decoded tables as one segment; there must be at least one row."""
    filled = [table for table in tables if table.num_rows]
    if not filled:
        raise ValueError(f"segment {segment_id}: no rows; an empty segment is never written")
    unified = unify(filled)
    found = _streams(unified.table)
    order = _order(unified.table, found)
    times = unified.table.column("chq_tsns").to_numpy()
    objects, object_rows = np.unique(unified.table.column("chq_object").to_numpy(), return_counts=True)
    facts = SegmentFacts(
        segment_id=segment_id,
        org=org,
        collector=collector,
        dataset=dataset,
        hour_ns=hour_ns,
        generation=generation,
        format_version=FORMAT_VERSION,
        sort_version=LOG_SORT_VERSION,
        sort_order=LOG_SORT_ORDER,
        source_objects=tuple(objects.tolist()),
        rows=len(times),
        min_ns=int(times.min()),
        max_ns=int(times.max()),
        series_offset=0,
        series_length=0,
        bloom_offset=0,
        bloom_length=0,
    )
    stream_table = streams.encode(stream for stream, _ in found)
    bloom = token_bloom.build(_token_columns(unified.table)).to_bytes()
    groups = row_groups(times[order], unified.table.nbytes / len(times))
    try:
        facts = _write(sink_path, unified, order, groups, facts, stream_table, bloom)
    except BaseException:
        sink_path.unlink(missing_ok=True)
        raise
    return WrittenSegment(
        path=sink_path,
        rows=facts.rows,
        bytes=sink_path.stat().st_size,
        min_ns=facts.min_ns,
        max_ns=facts.max_ns,
        terms=_terms(unified.table, [stream.labels for stream, _ in found]),
        label_names=tuple(sorted({name for stream, _ in found for name, _ in stream.labels})),
        series_offset=facts.series_offset,
        series_length=facts.series_length,
        bloom_offset=facts.bloom_offset,
        bloom_length=facts.bloom_length,
        object_ids=facts.source_objects,
        row_groups=len(groups),
        row_counts=dict(zip(objects.tolist(), object_rows.tolist(), strict=True)),
    )


def _write(
    path: Path,
    unified: Unified,
    order: np.ndarray,
    groups: list[tuple[int, int]],
    facts: SegmentFacts,
    stream_table: bytes,
    bloom: bytes,
) -> SegmentFacts:
    """Row groups, then the stream table and the bloom, then the footer that points at all of it."""
    table = unified.table.drop_columns([STREAM_COLUMN])
    encodings = choose(table)
    plain = [
        f.name for f in table.schema if pa.types.is_dictionary(f.type) and f.name not in encodings.dictionary
    ]
    for name in plain:
        table = table.set_column(table.column_names.index(name), name, table.column(name).cast(pa.string()))
    options = encodings.writer_options(bloom_rows(table, groups))
    with pa.OSFile(str(path), "wb") as sink, pq.ParquetWriter(sink, table.schema, **options) as writer:
        for start, end in groups:
            chosen = pc.take(table, pa.array(order[start:end]), boundscheck=False)
            rows = compacted(chosen.combine_chunks())
            writer.write_table(rows, row_group_size=end - start)
        series_offset = sink.tell()
        sink.write(stream_table)
        sink.write(bloom)
        facts = _placed(facts, series_offset, len(stream_table), len(bloom))
        writer.add_key_value_metadata(file_metadata(facts, unified.label_map))
    return facts


def _placed(facts: SegmentFacts, series_offset: int, series_length: int, bloom_length: int) -> SegmentFacts:
    return replace(
        facts,
        series_offset=series_offset,
        series_length=series_length,
        bloom_offset=series_offset + series_length,
        bloom_length=bloom_length,
    )


def _streams(table: pa.Table) -> list[tuple[Stream, int]]:
    """Streams that have rows, each with its code in the stream column."""
    column = table.column(STREAM_COLUMN).chunk(0)
    texts = column.dictionary.to_pylist()
    grouped = (
        pa.table({"code": column.indices, "time": table.column("chq_tsns")})
        .group_by("code", use_threads=False)
        .aggregate([("time", "count"), ("time", "min"), ("time", "max")])
        .to_pylist()
    )
    found: list[tuple[Stream, int]] = []
    by_id: dict[int, Labels] = {}
    for row in grouped:
        labels = labels_from_text(texts[row["code"]])
        identity = streams.stream_id(labels)
        if by_id.setdefault(identity, labels) != labels:
            raise ValueError(
                f"stream id {identity} of both {by_id[identity]} and {labels}: the hash collided"
            )
        found.append(
            (Stream(identity, labels, row["time_count"], row["time_min"], row["time_max"]), row["code"])
        )
    return found


def _order(table: pa.Table, found: Sequence[tuple[Stream, int]]) -> np.ndarray:
    codes = table.column(STREAM_COLUMN).chunk(0).indices.to_numpy()
    services = {code: dict(stream.labels).get("service_name", "") for stream, code in found}
    names = sorted(set(services.values()), key=str.encode)
    rank_of_code = np.zeros(max(services) + 1, np.int64)
    for code, name in services.items():
        rank_of_code[code] = names.index(name)
    columns = (table.column(name).to_numpy() for name in ("chq_fingerprint", "chq_object", "chq_position"))
    return row_order(table.column("chq_tsns").to_numpy(), rank_of_code[codes], *columns)


def _terms(table: pa.Table, label_sets: Sequence[Labels]) -> tuple[int, ...]:
    values: dict[str, set[str]] = {}
    for labels in label_sets:
        for name, value in labels:
            values.setdefault(name, set()).add(value)
    # added to, never instead of: a stream may have a label of that name
    values.setdefault("log_level", set()).update(table.column("log_level").unique().drop_null().to_pylist())
    return terms_of(values)


def _token_columns(table: pa.Table) -> Iterator[pa.Array]:
    """Everything a person may look for: message, text attributes, ids."""
    for schema_field, column in zip(table.schema, table.columns, strict=True):
        name, kind = schema_field.name, schema_field.type
        if name in OVERFLOW_COLUMNS.values():
            yield column.chunk(0).items
        elif _is_searchable(name, kind):
            yield column.chunk(0)


def _is_searchable(name: str, kind: pa.DataType) -> bool:
    text = pa.types.is_string(kind) or pa.types.is_dictionary(kind)
    return bool(
        pa.types.is_fixed_size_binary(kind)
        or (text and name not in _NOT_TOKENS and not name.startswith("chq_"))
    )
