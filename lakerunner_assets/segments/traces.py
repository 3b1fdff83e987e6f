"""This module writes one span segment: a sorted Parquet file with stream table and token bloom.

Rows in (any order, several tables):           rows out (sorted, one file):

    trace  start     span  object              trace  start     span  object
    b2…    12:07:00  s3    1                   a1…    12:06:00  s1    1
    a1…    12:06:01  s2    2                   a1…    12:06:01  s2    2
    a1…    12:06:00  s1    1                   b2…    12:07:00  s3    1

The stream table says which services (with the other index labels of their resources) have spans here, how
many and when they start; the summaries say what each trace has here. Quarantined rows are written the same
way; their extra column is a column like any other. Equal inputs give equal bytes, so a retried task writes
the same object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_assets.segments import token_bloom
from lakerunner_assets.segments.file import Content, write_file
from lakerunner_assets.segments.order import SPAN_GROUP_ROWS, most_rows
from lakerunner_assets.segments.segment_kernels import is_ordered, radix_sorted
from lakerunner_assets.segments.trace_summaries import COLUMNS, SummaryWriter
from lakerunner_assets.segments.unify import unify
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from resources.arrays import Int64s
from resources.lake import streams
from resources.lake.columns import CHQ_OBJECT, CHQ_POSITION, CHQ_STREAM, PREFIX
from resources.lake.segment_file import (
    FORMAT_VERSION,
    OVERFLOW_COLUMNS,
    SPAN_SORT_ORDER,
    SPAN_SORT_VERSION,
    SegmentFacts,
)
from resources.lake.streams import Labels, Stream, labels_from_text, stream_id
from resources.lake.terms import terms_of
from resources.lake.trace_summaries import halves

STREAM_COLUMN = CHQ_STREAM
"""Label texts, a dictionary, which become the stream table and are not written as a column."""


def streams_of(table: pa.Table, time_column: str) -> list[Stream]:
    """List the streams that have rows."""
    column = table.column(STREAM_COLUMN).chunk(0)
    texts = column.dictionary.to_pylist()
    grouped = (
        pa.table({"code": column.indices, "time": table.column(time_column)})
        .group_by("code", use_threads=False)
        .aggregate([("time", "count"), ("time", "min"), ("time", "max")])
        .to_pylist()
    )
    by_id: dict[int, Labels] = {}
    found: list[Stream] = []
    for row in grouped:
        labels = labels_from_text(texts[row["code"]])
        identity = stream_id(labels)
        if by_id.setdefault(identity, labels) != labels:
            raise ValueError(
                f"stream id {identity} of both {by_id[identity]} and {labels}: the hash collided"
            )
        found.append(Stream(identity, labels, row["time_count"], row["time_min"], row["time_max"]))
    return found


def span_order(
    trace_id: pa.FixedSizeBinaryArray, start: Int64s, object_id: Int64s, position: Int64s
) -> npt.NDArray[np.int64]:
    """Return row numbers in segment order: by trace id, start and row id.

    A trace is one run of rows, and the statistics of row groups and pages name a narrow range of ids. Spans
    without a trace id come last. Ids are ranked first, then rows are sorted by small integers, as logs are.
    """
    keys = [start, trace_ranks(trace_id)]
    if not is_ordered(object_id, position):  # rows usually come in this order, and the sort is stable
        keys = [position, object_id, *keys]
    order = np.arange(len(start))
    for key in keys:
        order = radix_sorted(order, key.view(np.uint64) - key.min().view(np.uint64))
    return order


def trace_ranks(trace_id: pa.FixedSizeBinaryArray) -> Int64s:
    """Rank each trace id among those here, compared as bytes; rows without one come last.

    >>> trace_ranks(pa.array([b"b" * 16, None, b"a" * 16, b"b" * 16], pa.binary(16))).tolist()
    [1, 2, 0, 1]
    """
    coded = trace_id.dictionary_encode()
    ids = coded.dictionary
    high, low = halves(ids)
    place = np.empty(len(ids) + 1, np.int64)
    place[np.lexsort((low, high))] = np.arange(len(ids))
    place[len(ids)] = len(ids)
    ranks: Int64s = place[coded.indices.fill_null(len(ids)).to_numpy()]
    return ranks


def span_groups(count: int, bytes_per_row: float) -> list[tuple[int, int]]:
    """Return (first, behind) of each row group, all of about the same size."""
    limit = min(most_rows(bytes_per_row), SPAN_GROUP_ROWS)
    pieces = -(-count // limit)
    return list(pairwise(count * piece // pieces for piece in range(pieces + 1)))


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
        table.column(name).to_numpy() for name in ("span_start_ns", CHQ_OBJECT, CHQ_POSITION)
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
    summaries = SummaryWriter()
    summaries.add(table.select([name for name in COLUMNS if name in table.column_names]).take(order))
    content = Content(
        table.drop_columns([STREAM_COLUMN]),
        order,
        span_groups(len(start), table.nbytes / len(start)),
        unified.label_map,
        streams.encode(found),
        token_bloom.build(token_columns(table)).to_bytes(),
        summaries=summaries.finish(),
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
    """Return the distinct values of columns that make terms; foreign spans may lack any of them."""
    return {
        name: set(table.column(name).unique().drop_null().to_pylist())
        for name in TERM_COLUMNS
        if name in table.column_names
    }


def span_terms(of_rows: Mapping[str, set[str]], label_sets: Iterable[Labels]) -> tuple[int, ...]:
    """Return the index terms of a span segment."""
    values = {name: set(texts) for name, texts in of_rows.items()}
    for labels in label_sets:
        for name, value in labels:
            values.setdefault(name, set()).add(value)
    return terms_of(values)


def token_columns(table: pa.Table) -> Iterator[pa.Array]:
    """Yield everything a person may search for: names, text attributes, ids, also of events and links."""
    for field, column in zip(table.schema, table.columns, strict=True):
        if field.name in OVERFLOW_COLUMNS.values():
            yield column.chunk(0).items
        elif field.name not in _NOT_TOKENS and not field.name.startswith(PREFIX):
            yield from _searchable(column.chunk(0))


def _searchable(column: pa.Array) -> Iterator[pa.Array]:
    """Yield texts and ids in a column, also in lists of structs; not keys and kinds of attributes."""
    kind = column.type
    if pa.types.is_list(kind):
        yield from _searchable(column.flatten())
    elif pa.types.is_struct(kind):
        for member in kind:
            if member.name not in {"key", "kind"}:
                yield from _searchable(pa.StructArray.field(column, member.name))
    elif pa.types.is_string(kind) or pa.types.is_dictionary(kind) or pa.types.is_fixed_size_binary(kind):
        yield column
