"""Rollup rows in order become segments of the target size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from lakerunner_assets.rollup.buckets import RollupRows
from lakerunner_assets.rollup.encoding import rollup_encodings
from lakerunner_assets.rollup.segment import SegmentWriter, in_file_order
from lakerunner_assets.rollup.stored import stored_columns
from lakerunner_assets.segments.order import MAX_GROUP_ROWS
from lakerunner_assets.segments.series_order import row_groups
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from resources.lake import rollup_columns as rollup
from resources.lake.columns import HIST_PREFIX


@dataclass(frozen=True, slots=True)
class RollupSegment:
    """One written segment."""

    path: Path
    facts: WrittenSegment
    part: int


@dataclass(frozen=True, slots=True)
class Parts:
    """The place, size and series of the segments of a rollup."""

    folder: Path
    identity: Callable[[int], SegmentIdentity]
    """Identity of part n."""
    width_ms: int
    target_bytes: int
    buffer_bytes: int
    """Size of rows that wait in memory."""
    labels_of: Callable[[], Sequence[str]]
    """Labels by series code."""
    with_histograms: bool


class PartsWriter:
    """Takes rows in order; after an error no file is left behind."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._waiting: list[RollupRows] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._open: SegmentWriter | None = None
        self._done: list[RollupSegment] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open is not None:
            self._open.__exit__(kind, error, trace)
        if error is not None:
            for each in self._done:
                each.path.unlink(missing_ok=True)

    def add(self, rolled: RollupRows) -> None:
        if rolled.table.num_rows == 0:
            return
        self._wait(rolled)
        full = self._waiting_bytes > self._parts.buffer_bytes
        if full or (self._open is not None and self._waiting_rows > 2 * MAX_GROUP_ROWS):
            self._flush(is_last=False)

    def finish(self) -> tuple[RollupSegment, ...]:
        if self._waiting:
            self._flush(is_last=True)
        if self._open is not None:
            self._end_part(self._open)
        return tuple(self._done)

    def _wait(self, rolled: RollupRows) -> None:
        self._waiting.append(rolled)
        self._waiting_rows += rolled.table.num_rows
        self._waiting_bytes += rolled.table.nbytes

    def _flush(self, *, is_last: bool) -> None:
        """Write what waits, except a row group that could still grow."""
        table = pa.concat_tables([each.table for each in self._waiting], promote_options="default")
        table = table.unify_dictionaries().combine_chunks()
        codes = np.concatenate([each.codes for each in self._waiting])
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
        groups = row_groups(starts, len(codes), table.nbytes / len(codes))
        if not is_last and len(groups) > 1:
            kept = groups.pop()[0]
            self._wait(RollupRows(table.slice(kept), codes[kept:]))
            table, codes = table.slice(0, kept), codes[:kept]
        table = stored_columns(table.combine_chunks(), codes)
        for start, end in groups:
            writer = self._open
            if writer is None:
                writer = self._open = self._open_part(table.slice(start), is_last)
            rows = _with(table.slice(start, end - start), writer.columns)
            writer.write(rows, codes[start:end])
            if writer.bytes >= self._parts.target_bytes:
                self._end_part(writer)

    def _open_part(self, table: pa.Table, is_last: bool) -> SegmentWriter:
        """Open a file for these rows; unless they are the last, others may have more columns."""
        if is_last:
            table = table.select([n for n in table.column_names if table.column(n).null_count < len(table)])
        else:
            histograms = self._parts.with_histograms
            table = _with(table, [n for n in rollup.STORED if histograms or not n.startswith(HIST_PREFIX)])
        table = table.select(in_file_order(table.column_names)).combine_chunks()
        path = self._parts.folder / f"tbl_{self._identity().segment_id}.parquet"
        return SegmentWriter(path, table.schema, rollup_encodings(table))

    def _end_part(self, writer: SegmentWriter) -> None:
        facts = writer.finish(self._identity(), self._parts.width_ms, self._parts.labels_of())
        self._done.append(RollupSegment(writer.path, facts, len(self._done)))
        self._open = None

    def _identity(self) -> SegmentIdentity:
        return self._parts.identity(len(self._done))


def _with(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Add these columns of rollups where the table lacks them."""
    for name, kind in rollup.STORED.items():
        if name in names and name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, kind))
    return table
