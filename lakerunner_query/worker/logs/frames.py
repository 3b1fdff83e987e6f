"""Scanned rows as frames: times, lines and label columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.logql.frame import LogFrame
from lakerunner_query.worker.logs.label_columns import Scanned, label_columns
from lakerunner_query.worker.logs.stream_ranks import StreamRanks
from lakerunner_query.worker.opening import Opened
from resources.arrays import Int64s

ROW_COLUMNS = ("chq_tsns", "rank", "scanned_file", "scanned_row", "chq_object", "chq_position")
MESSAGE = "log_message"


def scanned(table: pa.Table, group: Sequence[Opened], ranks: StreamRanks) -> Scanned:
    paths = pa.array([str(one.path) for one in group], pa.string())
    files = pc.index_in(table["scanned_file"], value_set=paths)
    return Scanned(
        table,
        files.to_numpy().astype(np.int32),
        table["rank"].to_numpy().astype(np.int32),
        [one.footer for one in group],
        ranks.labels,
    )


def frame_of(found: Scanned, names: Collection[str] | None) -> LogFrame:
    """With these labels, or all; lines are empty where they were not read."""
    table = found.rows
    return LogFrame(
        integers(table, "chq_tsns"),
        lines_of(table),
        label_columns(found, names),
        integers(table, "chq_object"),
        integers(table, "chq_position"),
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
