"""A segment file holds row groups, its series table, its token bloom and the footer.

Equal content gives equal bytes, so a retried task writes the same object.
"""

from __future__ import annotations

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
from resources.lake.segment_file import MappedColumn, SegmentFacts, file_metadata


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
        for start, end in content.groups:
            rows = _rows(table, encodings.constant, content.order[start:end])
            writer.write_table(compact_dictionaries(rows), row_group_size=end - start)
        facts = append_blocks(sink, facts, content.series_table, content.bloom)
        writer.add_key_value_metadata({**file_metadata(facts, content.label_map), **content.metadata})
    return facts


def append_blocks(
    sink: pa.NativeFile, facts: SegmentFacts, series_table: bytes, bloom: bytes
) -> SegmentFacts:
    """Write the blocks behind the row groups; return the facts with their offsets."""
    series_offset = sink.tell()
    sink.write(series_table)
    sink.write(bloom)
    return replace(
        facts,
        series_offset=series_offset,
        series_length=len(series_table),
        bloom_offset=series_offset + len(series_table),
        bloom_length=len(bloom),
    )


def _rows(table: pa.Table, constant: Collection[str], order: np.ndarray) -> pa.Table:
    """Take the rows in this order; of a constant column, as many from its start."""
    varying = table.drop_columns(list(constant))
    chosen = pc.take(varying, pa.array(order), boundscheck=False)
    columns = [
        table.column(name).slice(0, len(order)) if name in constant else chosen.column(name)
        for name in table.column_names
    ]
    return pa.Table.from_arrays(columns, schema=table.schema).combine_chunks()
