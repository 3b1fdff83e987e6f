"""Further columns of rows that are already chosen: read by row group, a few columns at a time.

A segment may have a thousand columns of attributes; all of a row group at once would be half a gigabyte, of
which a query wants a hundred rows. Columns that hold nothing in a row group are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.worker.opening import Opened
from resources.arrays import Int32s, Int64s
from resources.duckdb import Cancellation

AT_ONCE = 16
"""Columns."""
FEW_ROWS = 1 << 20
"""Of a row group times columns: so much is read at once, whatever the number of columns."""
ROW = "scanned_row"
SAYS_SOMETHING_EMPTY = frozenset({"detected_level"})
"""A row without a value still has the label."""


@dataclass(frozen=True, slots=True)
class Places:
    """Rows of files: index into the files, and row number within the file."""

    files: Int32s
    rows: Int64s


def fetched(
    group: Sequence[Opened], places: Places, columns: Sequence[str], cancellation: Cancellation
) -> pa.Table:
    """These columns of these rows, in the order of the rows."""
    parts: list[pa.Table] = []
    order: list[Int64s] = []
    for number in np.unique(places.files).tolist():
        mine = np.flatnonzero(places.files == number)
        mine = mine[np.argsort(places.rows[mine], kind="stable")]
        parts.append(_of_file(group[number], places.rows[mine], columns, cancellation))
        order.append(mine)
    back = np.empty(len(places.rows), np.int64)
    back[np.concatenate(order)] = np.arange(len(places.rows))
    return pa.concat_tables(parts, promote_options="default").combine_chunks().take(pa.array(back))


def _of_file(one: Opened, rows: Int64s, columns: Sequence[str], cancellation: Cancellation) -> pa.Table:
    """`rows` ascend."""
    there = [name for name in columns if name in one.footer.columns]
    texts = [name for name in there if one.footer.columns[name] == "string"]
    first = one.footer.groups.first
    parts: list[pa.Table] = []
    with pq.ParquetFile(one.path, read_dictionary=texts) as file:
        place = {file.metadata.schema.column(n).path: n for n in range(file.metadata.num_columns)}
        for number in np.unique(np.searchsorted(first, rows, side="right") - 1).tolist():
            inside = rows[(rows >= first[number]) & (rows < first[number + 1])] - first[number]
            filled = _filled(file.metadata.row_group(number), there, place)
            parts.append(_of_group(file, number, inside, filled, cancellation))
    return pa.concat_tables(parts, promote_options="default")


def _of_group(
    file: pq.ParquetFile, number: int, rows: Int64s, columns: Sequence[str], cancellation: Cancellation
) -> pa.Table:
    size = file.metadata.row_group(number).num_rows
    width = max(AT_ONCE, FEW_ROWS // max(1, size))
    taken = pa.array(rows)
    found: dict[str, pa.ChunkedArray] = {ROW: pa.chunked_array([taken])}
    for start in range(0, len(columns), width):
        cancellation.check()
        part = file.read_row_group(number, columns=list(columns[start : start + width]), use_threads=False)
        for name in part.column_names:
            column = part.column(name).take(taken)
            found[name] = column.cast(column.type.value_type) if _is_coded(column) else column
    return pa.table(found)


def _is_coded(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_dictionary(column.type))


def _filled(group: pq.RowGroupMetaData, columns: Sequence[str], place: dict[str, int]) -> list[str]:
    """Columns that have a value somewhere in the row group; nested ones are not looked into."""
    return [
        name
        for name in columns
        if name in SAYS_SOMETHING_EMPTY or name not in place or not _is_empty(group.column(place[name]))
    ]


def _is_empty(column: pq.ColumnChunkMetaData) -> bool:
    statistics = column.statistics
    return statistics is not None and statistics.has_null_count and statistics.null_count == column.num_values
