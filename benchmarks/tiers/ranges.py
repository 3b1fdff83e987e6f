"""P26-layout: bytes and requests that five minutes of one service need from object storage, from footers.

    python -m benchmarks.tiers --only P26-layout

Nothing is read but footers and tables: a request may span a gap between two column chunks, and what lies in
the gap is fetched too. `wide` has a thousand attributes, of which each service has its own eighty.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.report import Record
from benchmarks.tiers.merge import HOUR_NS, MEMORY, START, attribute_column, in_child, log_segments, log_table
from lakerunner_assets.segments.logs import write_log_segment
from lakerunner_assets.segments.merge.request import MergeKind, MergeRequest, Window
from lakerunner_assets.segments.merge.run import merge
from lakerunner_assets.segments.written import SegmentIdentity
from resources.lake import streams
from resources.lake.segment_file import read_facts

SERVICE = "svc-3"
START_NS, END_NS = START + HOUR_NS // 2, START + HOUR_NS // 2 + 300 * 10**9
LINE_COLUMNS = ("chq_tsns", "chq_stream_id", "chq_object", "chq_position", "log_message")
"""Columns of an answer without attributes."""
GAPS = (0, 64 << 10, 256 << 10, 1 << 20)
WIDE_ATTRIBUTES, WIDE_ROWS = 1000, 120_000
SERVICES = 12
MUST, AIM = 1.5, 1.1


@dataclass(frozen=True, slots=True)
class Chunk:
    """The place of a column in a row group."""

    column: str
    start: int
    end: int


def measure(rows: int) -> list[Record]:
    with tempfile.TemporaryDirectory(prefix="lakerunner-ranges-") as name:
        hour = in_child(_merged_hour, Path(name), rows)
        wide = in_child(_wide_segment, Path(name))
        return [*_records("P26-layout", hour), *_records("P26-layout-wide", wide)]


def _merged_hour(folder: Path, rows: int) -> Path:
    log_segments(folder, rows)
    request = MergeRequest(
        kind=MergeKind.LOGS, sources=sorted(folder.glob("tbl_*.parquet")), folder=folder, org="acme",
        collector="eu", dataset="logs", target=Window(START, HOUR_NS), carve=(), generation=1,
        target_bytes=4 << 30, memory_bytes=MEMORY, name=lambda _window, part: f"hour-{part}",
    )  # fmt: skip
    return merge(request).segments[0].path


def _wide_segment(folder: Path) -> Path:
    path = folder / "wide.parquet"
    table = log_table(0, WIDE_ROWS)
    service = np.arange(WIDE_ROWS) % SERVICES
    for place in range(WIDE_ATTRIBUTES):
        absent = service != place % SERVICES
        texts = pa.array([f"value-{each}" for each in range(50)])
        codes = pa.array((np.arange(WIDE_ROWS) * (place + 7) % 50).astype(np.int32), mask=absent)
        column = pa.DictionaryArray.from_arrays(codes, texts)
        table = table.append_column(*attribute_column("record", f"wide.attribute_{place}", column))
    write_log_segment([table], path, SegmentIdentity("acme", "eu", "logs", START, "wide"))
    return path


def _records(name: str, path: Path) -> list[Record]:
    metadata = pq.read_metadata(path)
    groups = _needed_groups(path, metadata)
    counters = _anatomy(path, metadata) | {
        "row_groups_needed": len(groups),
        "rows_needed": sum(metadata.row_group(group).num_rows for group in groups),
    }
    records = []
    for what, names in (("a line", LINE_COLUMNS), ("a line with attributes", None)):
        chunks = [chunk for group in groups for chunk in _chunks(metadata, group, names)]
        needed = sum(chunk.end - chunk.start for chunk in chunks)
        fetched = {gap: _coalesced(chunks, gap) for gap in GAPS}
        found = {"bytes_needed": needed} | {
            f"gap_{gap >> 10}_KiB": f"{len(ranges)} requests, {sum(e - s for s, e in ranges):,} bytes"
            for gap, ranges in fetched.items()
        }
        ratio = sum(end - start for start, end in fetched[GAPS[-1]]) / needed
        title = f"bytes fetched for each byte needed, {what}, gap 1 MiB"
        records.append(Record(name, title, ratio, "x", MUST, AIM, ratio <= MUST, counters=counters | found))
        counters = {}
    return records


def _anatomy(path: Path, metadata: pq.FileMetaData) -> dict[str, int]:
    """Count the bytes of each part of the file."""
    facts = read_facts(metadata)
    chunks = [chunk for group in range(metadata.num_row_groups) for chunk in _chunks(metadata, group, None)]
    pages = sum(chunk.end - chunk.start for chunk in chunks)
    size, footer = path.stat().st_size, metadata.serialized_size + 8
    ends = (facts.series_offset, facts.bloom_offset)
    return {
        "bytes": size,
        "rows": metadata.num_rows,
        "columns": metadata.num_columns,
        "row_groups": metadata.num_row_groups,
        "bytes_of_pages": pages,
        "bytes_of_parquet_index_and_blooms": size - pages - footer - facts.series_length - facts.bloom_length,
        "bytes_of_token_bloom": facts.bloom_length,
        "bytes_of_series_table": facts.series_length,
        "bytes_of_footer": footer,
        "bytes_of_table_and_footer_in_one_range": size - facts.series_offset,
        "bytes_behind_the_first_block": size - min(ends),
    }


def _needed_groups(path: Path, metadata: pq.FileMetaData) -> list[int]:
    """List the row groups that the worker does not rule out: by time, and by stream ids."""
    facts = read_facts(metadata)
    with path.open("rb") as file:
        raw = os.pread(file.fileno(), facts.series_length, facts.series_offset)
    ids = {each.stream_id for each in streams.decode(raw) if ("service_name", SERVICE) in each.labels}
    found = []
    for group in range(metadata.num_row_groups):
        columns = {column.path_in_schema: column for column in _columns(metadata, group)}
        times, stream = columns["chq_tsns"].statistics, columns["chq_stream_id"].statistics
        inside = times.min < END_NS and times.max >= START_NS
        if inside and any(stream.min <= each <= stream.max for each in ids):
            found.append(group)
    return found


def _columns(metadata: pq.FileMetaData, group: int) -> list[pq.ColumnChunkMetaData]:
    row_group = metadata.row_group(group)
    return [row_group.column(index) for index in range(row_group.num_columns)]


def _chunks(metadata: pq.FileMetaData, group: int, names: Sequence[str] | None) -> list[Chunk]:
    """Place the columns of a row group; without names, all that are not empty."""
    found = []
    for column in _columns(metadata, group):
        facts = column.statistics
        is_empty = facts is not None and facts.null_count == column.num_values
        if (names is None and not is_empty) or (names is not None and column.path_in_schema in names):
            start = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
            found.append(Chunk(column.path_in_schema, start, start + column.total_compressed_size))
    return found


def _coalesced(chunks: Sequence[Chunk], gap: int) -> list[tuple[int, int]]:
    """Join chunks with at most `gap` bytes between them.

    >>> _coalesced([Chunk("a", 0, 10), Chunk("b", 15, 20), Chunk("c", 40, 50)], 5)
    [(0, 20), (40, 50)]
    """
    ranges: list[tuple[int, int]] = []
    for chunk in sorted(chunks, key=lambda each: each.start):
        if ranges and chunk.start - ranges[-1][1] <= gap:
            ranges[-1] = (ranges[-1][0], chunk.end)
        else:
            ranges.append((chunk.start, chunk.end))
    return ranges
