"""Scanned rows become frames, and chosen rows get their other columns by row address.

A segment may have a thousand columns of attributes. All of a row group at once would be half a gigabyte, of
which a query returns a hundred rows: columns are read a few at a time, and empty ones not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_query.logql.frame import LogFrame
from lakerunner_query.worker.logs.footer import Footer
from lakerunner_query.worker.logs.labels import ScannedRows, label_columns
from lakerunner_query.worker.logs.scan_intervals import fetch
from lakerunner_query.worker.logs.segment_opener import OpenSegment
from lakerunner_query.worker.shared.segment_file import Range
from resources.arrays import Int32s, Int64s
from resources.duckdb import Cancellation
from resources.lake.columns import CHQ_OBJECT, CHQ_POSITION, CHQ_TSNS
from resources.lake.streams import Labels, Stream


@dataclass(frozen=True, slots=True)
class StreamRanks:
    """Positions of label sets among all of the unit, in order: DuckDB sorts rows of one time by them."""

    rank_of: dict[Labels, int]
    labels: tuple[dict[str, str], ...]

    @classmethod
    def of(cls, streams: Iterable[Stream]) -> StreamRanks:
        ordered = sorted({stream.labels for stream in streams})
        return cls({one: rank for rank, one in enumerate(ordered)}, tuple(dict(one) for one in ordered))

    def table(self, streams: Iterable[Stream]) -> pa.Table:
        """(stream_id, rank), one row per id; the streams must be free of collisions."""
        ranks = {stream.stream_id: self.rank_of[stream.labels] for stream in streams}
        ids = pa.array(list(ranks), pa.int64())
        return pa.table({"stream_id": ids, "rank": pa.array(list(ranks.values()), pa.int32())})


ROW_COLUMNS = (CHQ_TSNS, "rank", "scanned_file", "scanned_row", CHQ_OBJECT, CHQ_POSITION)
MESSAGE = "log_message"


def scanned_rows(table: pa.Table, group: Sequence[OpenSegment], ranks: StreamRanks) -> ScannedRows:
    paths = pa.array([one.name for one in group], pa.string())
    files = pc.index_in(table["scanned_file"], value_set=paths)
    return ScannedRows(
        table,
        files.to_numpy().astype(np.int32),
        table["rank"].to_numpy().astype(np.int32),
        [one.footer for one in group],
        ranks.labels,
    )


def frame_of(scanned: ScannedRows, names: Collection[str] | None) -> LogFrame:
    """Make a frame with these labels, or all; lines are empty where they were not read."""
    table = scanned.rows
    return LogFrame(
        integers(table, CHQ_TSNS),
        lines_of(table),
        label_columns(scanned, names),
        integers(table, CHQ_OBJECT),
        integers(table, CHQ_POSITION),
    )


def integers(table: pa.Table, name: str) -> Int64s:
    found: Int64s = table[name].to_numpy().astype(np.int64, copy=False)
    return found


def lines_of(table: pa.Table) -> pa.StringArray:
    if MESSAGE not in table.column_names:
        return pa.repeat(pa.scalar("", pa.string()), table.num_rows)
    return pc.fill_null(one_chunk(table[MESSAGE]), "")


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        return found.chunk(0) if found.num_chunks else pa.array([], column.type)
    return found


MIN_COLUMNS = 16
"""Columns that are read at once."""
BATCH_CELLS = 1 << 20
"""Rows of a row group times columns; small row groups are read with more columns at once."""
ROW = "scanned_row"
MEANINGFUL_NULLS = frozenset({"detected_level"})
"""Columns whose null still is a label value."""


@dataclass(frozen=True, slots=True)
class RowAddresses:
    """Rows by file and row number."""

    files: Int32s
    """Index of the file within its group."""
    rows: Int64s
    """Row number within the file."""


@dataclass(frozen=True, slots=True)
class _RowsOfGroup:
    """Chosen rows of one row group, and the columns that have a value there."""

    number: int
    rows: Int64s
    """Row numbers within the row group, ascending."""
    columns: list[str]


def fetch_columns(
    group: Sequence[OpenSegment], addresses: RowAddresses, columns: Sequence[str], cancellation: Cancellation
) -> pa.Table:
    """Read these columns of these rows, in the order of the rows."""
    order: list[Int64s] = []
    chosen: list[tuple[OpenSegment, list[_RowsOfGroup]]] = []
    for number in np.unique(addresses.files).tolist():
        mine = np.flatnonzero(addresses.files == number)
        mine = mine[np.argsort(addresses.rows[mine], kind="stable")]
        chosen.append((group[number], list(_by_row_group(group[number], addresses.rows[mine], columns))))
        order.append(mine)
    fetch([(one, list(_chunks(one, parts))) for one, parts in chosen if not one.is_local])
    tables = [table for one, parts in chosen for table in _read_rows(one, parts, cancellation)]
    back = np.empty(len(addresses.rows), np.int64)
    back[np.concatenate(order)] = np.arange(len(addresses.rows))
    return pa.concat_tables(tables, promote_options="default").combine_chunks().take(pa.array(back))


def _by_row_group(one: OpenSegment, rows: Int64s, columns: Sequence[str]) -> Iterator[_RowsOfGroup]:
    """Cut rows, which ascend."""
    there = [name for name in columns if name in one.footer.columns]
    first = one.footer.groups.first
    for number in np.unique(np.searchsorted(first, rows, side="right") - 1).tolist():
        inside = rows[(rows >= first[number]) & (rows < first[number + 1])] - first[number]
        yield _RowsOfGroup(number, inside, _columns_with_values(one.footer, number, there))


def _chunks(one: OpenSegment, parts: Sequence[_RowsOfGroup]) -> Iterator[Range]:
    for part in parts:
        only = np.zeros(len(one.footer.groups.min_ns), np.bool_)
        only[part.number] = True
        yield from one.footer.chunk_ranges(part.columns, only)


def _read_rows(
    one: OpenSegment, parts: Sequence[_RowsOfGroup], cancellation: Cancellation
) -> Iterator[pa.Table]:
    texts = sorted({name for part in parts for name in part.columns if is_kept_coded(one.footer, name)})
    source, metadata = one.file.source(), one.footer.metadata
    # the bytes are here: reading ahead in another thread takes longer than reading
    with pq.ParquetFile(source, metadata=metadata, read_dictionary=texts, pre_buffer=False) as file:
        for part in parts:
            yield _fetch_from_group(file, part.number, part.rows, part.columns, cancellation)


def _fetch_from_group(
    file: pq.ParquetFile, number: int, rows: Int64s, columns: Sequence[str], cancellation: Cancellation
) -> pa.Table:
    size = file.metadata.row_group(number).num_rows
    width = max(MIN_COLUMNS, BATCH_CELLS // max(1, size))
    taken = pa.array(rows)
    found: dict[str, pa.ChunkedArray] = {ROW: pa.chunked_array([taken])}
    for start in range(0, len(columns), width):
        cancellation.check()
        part = file.read_row_group(number, columns=list(columns[start : start + width]), use_threads=False)
        for name in part.column_names:
            column = part.column(name).take(taken)
            found[name] = column.cast(column.type.value_type) if _is_coded(column) else column
    return pa.table(found)


def is_kept_coded(footer: Footer, name: str) -> bool:
    """Tell texts with a dictionary from those for which one would have to be made."""
    return footer.columns[name] == "string" and not any(footer.plain_chunks(name))


def _is_coded(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_dictionary(column.type))


def _columns_with_values(footer: Footer, number: int, columns: Sequence[str]) -> list[str]:
    """Return columns that have a value in the row group; nested ones always count."""
    group = footer.metadata.row_group(number)
    return [
        name
        for name in columns
        if name in MEANINGFUL_NULLS
        or len(footer.places[name]) != 1
        or not _is_empty(group.column(footer.places[name][0]))
    ]


def _is_empty(column: pq.ColumnChunkMetaData) -> bool:
    statistics = column.statistics
    return statistics is not None and statistics.has_null_count and statistics.null_count == column.num_values
