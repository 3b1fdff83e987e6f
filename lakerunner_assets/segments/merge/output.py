"""Merged rows of a window are written as files: row groups fill, full files close."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_assets.segments.encoding import compact_dictionaries
from lakerunner_assets.segments.file import index_facts, insert_blocks, stream_ids
from lakerunner_assets.segments.merge.contents import Contents, source_objects
from lakerunner_assets.segments.merge.layout import Format
from lakerunner_assets.segments.merge.merge_kernels import Keys
from lakerunner_assets.segments.merge.request import MergedSegment, MergeKind, Window
from lakerunner_assets.segments.merge.rounds import Rows, concatenate_rows
from lakerunner_assets.segments.order import (
    MERGED_SPAN_GROUP_ROWS,
    SLOT_NS,
    SMALL_SEGMENT_ROWS,
    fewest_rows,
    most_rows,
    service_cut,
)
from lakerunner_assets.segments.written import SegmentIdentity
from resources.arrays import Int64s
from resources.lake.segment_file import (
    FORMAT_VERSION,
    MappedColumn,
    SegmentFacts,
    file_metadata,
    group_streams_metadata,
)
from resources.lake.timecut import cut
from resources.lake.trace_summaries import length_metadata

# ruff: noqa: ARG001  all cutters are asked the same way


Cutter = Callable[[Sequence[Rows], int, bool, bool], int]
"""Function that counts the pending rows of the next row group, 0: wait. It gets the most that one may have,
whether the file has a group already, and whether these are the last rows.
"""


def log_cut(pending: Sequence[Rows], most: int, has_groups: bool, is_end: bool) -> int:
    """Cut at slots, and at services with many rows on both sides; a small file mixes them."""
    total = sum(map(len, pending))
    if not has_groups and total < SMALL_SEGMENT_ROWS:
        return min(total, most) if is_end or total > most else 0
    slots = _borders([_slots(rows) for rows in pending])
    end = int(slots[1]) if len(slots) > 1 else total
    services = _borders([rows.keys[:, 0] for rows in pending])  # slot and service: `keys.py`
    found = service_cut(services, end, fewest_rows(pending[0].table.num_columns))
    if min(found or end, end) > most:
        return most
    return found or (end if len(slots) > 1 or is_end else 0)


def span_cut(pending: Sequence[Rows], most: int, has_groups: bool, is_end: bool) -> int:
    """Cut full groups; deal the rest at the end evenly."""
    total, most = sum(map(len, pending)), min(most, MERGED_SPAN_GROUP_ROWS)
    if is_end:
        return -(-total // -(-total // most)) if total else 0
    return most if total > most + most // 4 else 0


def series_cut(pending: Sequence[Rows], most: int, has_groups: bool, is_end: bool) -> int:
    """Cut as many whole series as fit, a longer series in pieces."""
    total = sum(map(len, pending))
    if total <= most:
        return total if is_end else 0
    borders = _borders([rows.codes for rows in pending])
    inside = borders[(borders > 0) & (borders <= most)]
    return int(inside[-1]) if len(inside) else most


CUTTERS: dict[MergeKind, Cutter] = {
    MergeKind.LOGS: log_cut,
    MergeKind.TRACES: span_cut,
    MergeKind.SAMPLES: series_cut,
    MergeKind.ROLLUP: series_cut,
}


def _borders(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the rows at which another value begins, the first row too."""
    found: list[np.ndarray] = []
    row = 0
    for place, values in enumerate(parts):
        changes = np.flatnonzero(values[1:] != values[:-1]) + 1
        if place == 0 or values[0] != parts[place - 1][-1]:
            changes = np.concatenate(([0], changes))
        found.append(changes + row)
        row += len(values)
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _slots(rows: Rows) -> np.ndarray:
    return cut(rows.times, SLOT_NS)


@dataclass(frozen=True, slots=True)
class Shape:
    """Properties that all files of a merge share."""

    format: Format
    label_map: tuple[MappedColumn, ...]
    metadata: Mapping[bytes, bytes]
    sort_version: int
    sort_order: tuple[str, ...]
    objects: tuple[int, ...] | None
    """Source objects of rollups, whose rows do not name them."""
    contents: Callable[[], Contents]
    cutter: Cutter
    group_bytes: int
    target_bytes: int


class Output:
    """The files of one window."""

    def __init__(
        self, shape: Shape, window: Window, folder: Path, identity: Callable[[int], SegmentIdentity]
    ) -> None:
        self.segments: list[MergedSegment] = []
        self._shape, self._window, self._folder, self._identity = shape, window, folder, identity
        self._pending: list[Rows] = []
        self._bytes = 0
        self._file: _File | None = None

    def add(self, rows: Rows) -> None:
        """Append rows."""
        if len(rows):
            self._pending.append(rows)
            self._bytes += _bytes(rows.table)
            self._write(is_end=False)

    def close(self) -> None:
        self._write(is_end=True)
        self._end_file()

    def abandon(self) -> None:
        """Remove all files."""
        if self._file is not None:
            self._file.discard()
        for segment in self.segments:
            segment.path.unlink(missing_ok=True)

    def _write(self, is_end: bool) -> None:
        while self._pending:
            total = sum(map(len, self._pending))
            most = most_rows(self._bytes / total, self._shape.group_bytes)
            count = self._shape.cutter(self._pending, most, self._file is not None, is_end)
            if not count:
                return
            if self._file is None:
                identity = self._identity(len(self.segments))
                self._file = _File(self._shape, self._folder / f"tbl_{identity.segment_id}.parquet", identity)
            self._file.write(self._first(count))
            if self._file.bytes >= self._shape.target_bytes:
                self._end_file()

    def _first(self, count: int) -> Rows:
        """Take that many rows off the front."""
        taken: list[Rows] = []
        while count:
            rows = self._pending[0]
            if len(rows) > count:
                self._pending[0] = rows.slice(count, len(rows))
                rows = rows.slice(0, count)
            else:
                del self._pending[0]
            taken.append(rows)
            count -= len(rows)
        self._bytes = sum(_bytes(rows.table) for rows in self._pending)
        return concatenate_rows(taken)

    def _end_file(self) -> None:
        if self._file is not None:
            self.segments.append(self._file.finish(self._window, len(self.segments)))
            self._file = None


class _File:
    """One segment while it is written."""

    def __init__(self, shape: Shape, path: Path, identity: SegmentIdentity) -> None:
        self._shape, self._path, self._identity = shape, path, identity
        self._contents = shape.contents()
        self._objects: set[int] = set(shape.objects or ())
        self._rows = self._groups = 0
        self._streams: list[Int64s] = []
        self._first_key = self._last_key = ""
        self._sink = pa.OSFile(str(path), "wb")
        try:
            self._writer = pq.ParquetWriter(self._sink, shape.format.schema, **shape.format.options)
        except BaseException:
            path.unlink()
            raise

    @property
    def bytes(self) -> int:
        """Bytes of the row groups so far."""
        return int(self._sink.tell())

    def write(self, rows: Rows) -> None:
        table = compact_dictionaries(self._contents.add(rows))
        arrays = [table.column(name) for name in self._shape.format.schema.names]
        self._writer.write_table(
            pa.Table.from_arrays(arrays, schema=self._shape.format.schema), row_group_size=len(rows)
        )
        if self._shape.objects is None:
            self._objects |= source_objects(table)
        self._streams += stream_ids(table)
        self._rows += len(rows)
        self._groups += 1
        self._first_key = self._first_key or printable(rows.keys[0])
        self._last_key = printable(rows.keys[-1])

    def finish(self, window: Window, part: int) -> MergedSegment:
        found = self._contents.summary()
        identity, shape = self._identity, self._shape
        facts = SegmentFacts(
            segment_id=identity.segment_id,
            org=identity.org,
            collector=identity.collector,
            dataset=identity.dataset,
            hour_ns=identity.hour_ns,
            generation=identity.generation,
            format_version=FORMAT_VERSION,
            sort_version=shape.sort_version,
            sort_order=shape.sort_order,
            source_objects=tuple(sorted(self._objects)),
            rows=self._rows,
            min_ns=found.min_ns,
            max_ns=found.max_ns,
            series_offset=0,
            series_length=0,
            bloom_offset=0,
            bloom_length=0,
        )
        more = {**group_streams_metadata(self._streams), **length_metadata(found.traces), **shape.metadata}
        self._writer.add_key_value_metadata({**file_metadata(facts, shape.label_map), **more})
        self._writer.close()
        self._sink.close()
        facts = insert_blocks(self._path, facts, found.table, found.bloom, found.traces)
        result = index_facts(
            self._path,
            facts,
            self._groups,
            terms=found.terms,
            label_names=found.label_names,
            metric_names=found.metric_names,
        )
        return MergedSegment(self._path, window, part, result, self._first_key, self._last_key)

    def discard(self) -> None:
        self._writer.close()
        self._sink.close()
        self._path.unlink(missing_ok=True)


def printable(key: Keys) -> str:
    """Write a key in hex, so that texts of one merge compare like keys."""
    return "-".join(f"{word + (1 << 63):016x}" for word in key.tolist())


def _bytes(table: pa.Table) -> int:
    """Count the bytes of the rows alone: a dictionary is shared by many of them."""
    return int(
        sum(
            (chunk.indices if pa.types.is_dictionary(chunk.type) else chunk).nbytes
            for column in table.columns
            for chunk in column.chunks
        )
    )
