"""Writes one span segment: a sorted Parquet file with its stream table and token bloom inside.

Rows in (any order, several tables):           rows out (sorted, one file):

    trace  start     span  object              trace  start     span  object
    b2…    12:07:00  s3    1                   a1…    12:06:00  s1    1
    a1…    12:06:01  s2    2                   a1…    12:06:01  s2    2
    a1…    12:06:00  s1    1                   b2…    12:07:00  s3    1

The stream table says which services (with the other index labels of their resources) have spans here, how
many and when they start. Quarantined rows are written the same way; their extra column is a column like any
other. Equal inputs give equal bytes, so a retried task writes the same object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa

from lakerunner_assets.segments import token_bloom
from lakerunner_assets.segments.file import Content, write_file
from lakerunner_assets.segments.span_order import span_groups, span_order
from lakerunner_assets.segments.span_streams import STREAM_COLUMN, streams_of
from lakerunner_assets.segments.unify import unify
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from resources.lake import streams
from resources.lake.segment_file import (
    FORMAT_VERSION,
    OVERFLOW_COLUMNS,
    SPAN_SORT_ORDER,
    SPAN_SORT_VERSION,
    SegmentFacts,
)
from resources.lake.streams import Labels
from resources.lake.terms import terms_of

TERM_COLUMNS = ("service_name", "span_name", "span_kind", "span_status_code")
_NOT_TOKENS = frozenset({"span_kind", "span_status_code"})


def write_span_segment(
    tables: Sequence[pa.Table], sink_path: Path, identity: SegmentIdentity
) -> WrittenSegment:
    """Write the rows of decoded tables as one segment; there must be at least one row."""
    filled = [table for table in tables if table.num_rows]
    if not filled:
        raise ValueError(f"segment {identity.segment_id}: no rows; an empty segment is never written")
    unified = unify(filled)
    table = unified.table
    found = streams_of(table, "span_start_ns")
    start, object_id, position = (
        table.column(name).to_numpy() for name in ("span_start_ns", "chq_object", "chq_position")
    )
    order = span_order(table.column("span_trace_id").chunk(0), start, object_id, position)
    facts = SegmentFacts(
        **asdict(identity),
        format_version=FORMAT_VERSION,
        sort_version=SPAN_SORT_VERSION,
        sort_order=SPAN_SORT_ORDER,
        source_objects=tuple(np.unique(object_id).tolist()),
        rows=len(start),
        min_ns=int(start.min()),
        max_ns=int(start.max()),
        series_offset=0,
        series_length=0,
        bloom_offset=0,
        bloom_length=0,
    )
    content = Content(
        table.drop_columns([STREAM_COLUMN]),
        order,
        span_groups(len(start), table.nbytes / len(start)),
        unified.label_map,
        streams.encode(found),
        token_bloom.build(token_columns(table)).to_bytes(),
    )
    return write_file(
        sink_path,
        content,
        facts,
        terms=span_terms(term_values(table), [stream.labels for stream in found]),
        label_names=tuple(sorted({name for stream in found for name, _ in stream.labels})),
        metric_names=(),
    )


def term_values(table: pa.Table) -> dict[str, set[str]]:
    """What the rows have in the columns that make terms; spans that are not OTLP may lack any of them."""
    return {
        name: set(table.column(name).unique().drop_null().to_pylist())
        for name in TERM_COLUMNS
        if name in table.column_names
    }


def span_terms(of_rows: Mapping[str, set[str]], label_sets: Iterable[Labels]) -> tuple[int, ...]:
    """Index terms of a span segment."""
    values = {name: set(texts) for name, texts in of_rows.items()}
    for labels in label_sets:
        for name, value in labels:
            values.setdefault(name, set()).add(value)
    return terms_of(values)


def token_columns(table: pa.Table) -> Iterator[pa.Array]:
    """Everything a person may look for: names, text attributes, ids, and the same of events and links."""
    for field, column in zip(table.schema, table.columns, strict=True):
        if field.name in OVERFLOW_COLUMNS.values():
            yield column.chunk(0).items
        elif field.name not in _NOT_TOKENS and not field.name.startswith("chq_"):
            yield from _searchable(column.chunk(0))


def _searchable(column: pa.Array) -> Iterator[pa.Array]:
    """Texts and ids in a column, also those in lists of structs; keys and kinds of attributes are neither."""
    kind = column.type
    if pa.types.is_list(kind):
        yield from _searchable(column.flatten())
    elif pa.types.is_struct(kind):
        for member in kind:
            if member.name not in {"key", "kind"}:
                yield from _searchable(pa.StructArray.field(column, member.name))
    elif pa.types.is_string(kind) or pa.types.is_dictionary(kind) or pa.types.is_fixed_size_binary(kind):
        yield column
