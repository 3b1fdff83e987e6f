"""This module writes one log segment: a sorted Parquet file with stream table and token bloom.

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

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa

from lakerunner_assets.segments import token_bloom
from lakerunner_assets.segments.file import Content, write_file
from lakerunner_assets.segments.order import columns_in_order, row_groups, row_order
from lakerunner_assets.segments.unify import unify
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from resources.arrays import Int64s
from resources.lake import streams
from resources.lake.columns import CHQ_FINGERPRINT, CHQ_OBJECT, CHQ_POSITION, CHQ_STREAM, CHQ_TSNS, PREFIX
from resources.lake.segment_file import (
    FORMAT_VERSION,
    LOG_SORT_ORDER,
    LOG_SORT_VERSION,
    OVERFLOW_COLUMNS,
    SegmentFacts,
)
from resources.lake.streams import Labels, Stream, labels_from_text
from resources.lake.terms import terms_of

STREAM_COLUMN = CHQ_STREAM
_NOT_TOKENS = frozenset({"log_level", "detected_level", "log_severity_text"})


def write_log_segment(
    tables: Sequence[pa.Table], sink_path: Path, identity: SegmentIdentity
) -> WrittenSegment:
    """Write the rows of decoded tables as one segment; there must be at least one row."""
    filled = [table for table in tables if table.num_rows]
    if not filled:
        raise ValueError(f"segment {identity.segment_id}: no rows; an empty segment is never written")
    unified = unify(filled)
    found = _streams(unified.table)
    services = _service_ranks(unified.table, found)
    order = _order(unified.table, services)
    times = unified.table.column(CHQ_TSNS).to_numpy()
    objects = sorted(unified.table.column(CHQ_OBJECT).unique().to_pylist())
    facts = SegmentFacts(
        **asdict(identity),
        format_version=FORMAT_VERSION,
        sort_version=LOG_SORT_VERSION,
        sort_order=LOG_SORT_ORDER,
        source_objects=tuple(objects),
        rows=len(times),
        min_ns=int(times.min()),
        max_ns=int(times.max()),
        series_offset=0,
        series_length=0,
        bloom_offset=0,
        bloom_length=0,
    )
    stream_table = streams.encode(stream for stream, _ in found)
    bloom = token_bloom.build(token_columns(unified.table)).to_bytes()
    names = columns_in_order(name for name in unified.table.column_names if name != STREAM_COLUMN)
    groups = row_groups(times[order], services[order], unified.table.nbytes / len(times), len(names))
    content = Content(unified.table.select(names), order, groups, unified.label_map, stream_table, bloom)
    return write_file(
        sink_path,
        content,
        facts,
        terms=log_terms(levels_of(unified.table), [stream.labels for stream, _ in found]),
        label_names=tuple(sorted({name for stream, _ in found for name, _ in stream.labels})),
        metric_names=(),
    )


def _streams(table: pa.Table) -> list[tuple[Stream, int]]:
    """List the streams that have rows, each with its code in the stream column."""
    column = table.column(STREAM_COLUMN).chunk(0)
    texts = column.dictionary.to_pylist()
    grouped = (
        pa.table({"code": column.indices, "time": table.column(CHQ_TSNS)})
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


def _service_ranks(table: pa.Table, found: Sequence[tuple[Stream, int]]) -> Int64s:
    codes = table.column(STREAM_COLUMN).chunk(0).indices.to_numpy()
    services = {code: dict(stream.labels).get("service_name", "") for stream, code in found}
    names = sorted(set(services.values()), key=str.encode)
    rank = {name: place for place, name in enumerate(names)}
    rank_of_code = np.zeros(max(services) + 1, np.int64)
    for code, name in services.items():
        rank_of_code[code] = rank[name]
    ranks: Int64s = rank_of_code[codes]
    return ranks


def _order(table: pa.Table, services: Int64s) -> np.ndarray:
    columns = (table.column(name).to_numpy() for name in (CHQ_FINGERPRINT, CHQ_OBJECT, CHQ_POSITION))
    return row_order(table.column(CHQ_TSNS).to_numpy(), services, *columns)


def levels_of(table: pa.Table) -> set[str]:
    return set(table.column("log_level").unique().drop_null().to_pylist())


def log_terms(levels: Collection[str], label_sets: Iterable[Labels]) -> tuple[int, ...]:
    """Return the index terms of a log segment."""
    values: dict[str, set[str]] = {}
    for labels in label_sets:
        for name, value in labels:
            values.setdefault(name, set()).add(value)
    # added to, never instead of: a stream may have a label of that name
    values.setdefault("log_level", set()).update(levels)
    return terms_of(values)


def token_columns(table: pa.Table) -> Iterator[pa.Array]:
    """Yield everything a person may search for: message, text attributes, ids."""
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
        or (text and name not in _NOT_TOKENS and not name.startswith(PREFIX))
    )
