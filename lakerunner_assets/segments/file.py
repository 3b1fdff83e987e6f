"""A segment file holds row groups, its token bloom, its series table and the footer.

    row groups │ Parquet's blooms │ page index │ trace summaries │ token bloom │ series table │ footer
                                                                               └── one range ──┘

A query needs the footer and the table, words need the bloom too: each is one range up to the end of the file.
Span segments alone have trace summaries.
Equal content gives equal bytes, so a retried task writes the same object.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_assets.segments.encoding import (
    LOG_LEVEL,
    Encodings,
    bloom_rows,
    choose,
    compact_dictionaries,
    narrow_columns,
)
from lakerunner_assets.segments.written import WrittenSegment
from resources.arrays import Int64s
from resources.lake.columns import CHQ_STREAM_ID
from resources.lake.segment_file import (
    MappedColumn,
    SegmentFacts,
    file_metadata,
    group_streams_metadata,
    place_blocks,
)
from resources.lake.trace_summaries import length_metadata

_TAIL = 8
"""Bytes behind the footer: its length, and `PAR1`."""


@dataclass(frozen=True, slots=True)
class Content:
    """Everything between the first and the last byte."""

    table: pa.Table
    """One chunk per column, in any order."""
    order: np.ndarray
    """Row numbers of the table in the order they are written."""
    groups: Sequence[tuple[int, int]]
    """Row groups as ranges of `order`."""
    label_map: Sequence[MappedColumn]
    series_table: bytes
    bloom: bytes
    compression_level: int = LOG_LEVEL
    encodings: Encodings | None = None
    """None chooses by a look at the values."""
    metadata: Mapping[bytes, bytes] = field(default_factory=dict)
    """Entries of the footer beside those that every segment has."""
    summaries: bytes = b""
    """Trace summaries of a span segment."""


def write_file(
    path: Path,
    content: Content,
    facts: SegmentFacts,
    *,
    terms: tuple[int, ...],
    label_names: tuple[str, ...],
    metric_names: tuple[str, ...],
) -> WrittenSegment:
    """Write the file completely or leave nothing; the offsets in `facts` are filled in here."""
    try:
        facts = _write(path, content, facts)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return index_facts(
        path, facts, len(content.groups), terms=terms, label_names=label_names, metric_names=metric_names
    )


def index_facts(
    path: Path,
    facts: SegmentFacts,
    row_groups: int,
    *,
    terms: tuple[int, ...],
    label_names: tuple[str, ...],
    metric_names: tuple[str, ...],
) -> WrittenSegment:
    """Return what the index must know about a complete file."""
    return WrittenSegment(
        rows=facts.rows,
        bytes=path.stat().st_size,
        min_ns=facts.min_ns,
        max_ns=facts.max_ns,
        format_version=facts.format_version,
        sort_version=facts.sort_version,
        terms=terms,
        label_names=label_names,
        metric_names=metric_names,
        series_offset=facts.series_offset,
        series_length=facts.series_length,
        bloom_offset=facts.bloom_offset,
        bloom_length=facts.bloom_length,
        object_ids=facts.source_objects,
        row_groups=row_groups,
    )


def _write(path: Path, content: Content, facts: SegmentFacts) -> SegmentFacts:
    table = content.table
    encodings = content.encodings or choose(table)
    table = narrow_columns(table, encodings)
    options = encodings.writer_options(
        table.schema, bloom_rows(table, content.groups), content.compression_level
    )
    with pa.OSFile(str(path), "wb") as sink, pq.ParquetWriter(sink, table.schema, **options) as writer:
        streams: list[Int64s] = []
        for start, end in content.groups:
            rows = _rows(table, encodings.constant, content.order[start:end])
            writer.write_table(compact_dictionaries(rows), row_group_size=end - start)
            streams += stream_ids(rows)
        more = {
            **group_streams_metadata(streams),
            **length_metadata(content.summaries),
            **content.metadata,
        }
        writer.add_key_value_metadata({**file_metadata(facts, content.label_map), **more})
    return insert_blocks(path, facts, content.series_table, content.bloom, content.summaries)


def stream_ids(rows: pa.Table) -> list[Int64s]:
    """Return the distinct stream ids of a row group, in a list of one; none for other signals."""
    if CHQ_STREAM_ID not in rows.column_names:
        return []
    return [rows.column(CHQ_STREAM_ID).unique().cast(pa.int64()).to_numpy()]


def insert_blocks(
    path: Path, facts: SegmentFacts, series_table: bytes, bloom: bytes, summaries: bytes = b""
) -> SegmentFacts:
    """Write the blocks before the footer of a closed file; return the facts with their offsets.

    Nothing in a Parquet file points at its footer, so the footer may move. Parquet's own blooms are megabytes
    in a large file, and would lie between the blocks and the footer if the blocks came first.
    """
    with path.open("r+b") as file:
        file.seek(-_TAIL, os.SEEK_END)
        length = int.from_bytes(file.read(4), "little") + _TAIL
        end = file.seek(-length, os.SEEK_END)
        footer = file.read()
        at = end + len(summaries)
        placed = replace(
            facts,
            bloom_offset=at,
            bloom_length=len(bloom),
            series_offset=at + len(bloom),
            series_length=len(series_table),
        )
        file.seek(end)
        file.write(summaries)
        file.write(bloom)
        file.write(series_table)
        file.write(place_blocks(footer, facts, placed))
    return placed


def _rows(table: pa.Table, constant: Collection[str], order: np.ndarray) -> pa.Table:
    """Take the rows in this order; of a constant column, as many from its start."""
    varying = table.drop_columns(list(constant))
    chosen = pc.take(varying, pa.array(order), boundscheck=False)
    columns = [
        table.column(name).slice(0, len(order)) if name in constant else chosen.column(name)
        for name in table.column_names
    ]
    return pa.Table.from_arrays(columns, schema=table.schema).combine_chunks()
