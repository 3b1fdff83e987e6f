"""`MetricOpener` opens metric segments for a query: series tables first, files only where a series matches.

A segment that cannot be read is recorded as missing and the others answer; the caller reports it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar, cast

import numpy as np
import pyarrow.parquet as pq

from lakerunner_query.protocol.units import Missing, SegmentRef
from lakerunner_query.worker.metrics.row_groups import DAMAGE, START, RowGroup, read_row_groups
from lakerunner_query.worker.metrics.selections import CachedSelection, SelectionKey
from lakerunner_query.worker.metrics.series_table import SeriesInterner, SeriesTable
from lakerunner_query.worker.parquet.scaled_groups import ScaledGroup, scaled_group
from lakerunner_query.worker.shared.lru import ByteLru
from lakerunner_query.worker.shared.segment_cache import (
    WHOLE_BELOW,
    Segments,
    SegmentsInPlace,
    SegmentStore,
    SegmentUnreadableError,
)
from resources.arrays import Int64s
from resources.duckdb import Cancellation
from resources.lake import series
from resources.objects.errors import StoreError

Found = TypeVar("Found")
SERIES_TABLES, LAYOUTS = 2048, 4096
"""Segments whose series table or footer stays in memory."""
SELECTIONS = ""
"""The place of selections in the sample cache, where row groups have the key of their segment."""


class Sized(Protocol):
    """A value that knows its bytes in memory."""

    @property
    def nbytes(self) -> int: ...


def nbytes(value: Sized) -> int:
    return value.nbytes


CacheKey = tuple[str, Hashable]
"""A segment's key, and the part of the segment."""


@dataclass(frozen=True, slots=True)
class FileLayout:
    """The footer of a file: where row groups begin, and which columns there are."""

    starts: Int64s
    """First rows of row groups, and the row count behind them."""
    columns: frozenset[str]
    metadata: pq.FileMetaData


@dataclass(slots=True)
class UnitReader:
    """Reads the segments of one unit, which stay pinned; records missing ones."""

    shared: MetricOpener
    cancellation: Cancellation
    missing: dict[str, Missing] = field(default_factory=dict)
    bytes_fetched: int = 0
    rows_considered: int = 0
    opened: dict[str, Path] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    _pinned: list[SegmentRef] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tables(self, segments: Sequence[SegmentRef]) -> list[tuple[SegmentRef, SeriesTable]]:
        """Return the series tables of readable segments."""
        self.cancellation.check()
        readable = [segment for segment in segments if segment.segment_id not in self.missing]
        known = {segment.key: self.shared.series.peek(segment.key) for segment in readable}
        made = self.shared.each(self._table, [s for s in readable if known[s.key] is None])
        known.update((segment.key, table) for segment, table in made)
        return [(segment, table) for segment in readable if (table := known[segment.key]) is not None]

    def paths(self, segments: Sequence[SegmentRef]) -> dict[str, Path]:
        """Return local files by segment id, fetched where they are not cached; missing ones are left out."""
        self.cancellation.check()
        here = [s for s in segments if s.segment_id in self.opened or self.shared.cache.holds(s)]
        cached = {segment.segment_id for segment in here}
        found = [(segment, self._path(segment)) for segment in here]
        found += self.shared.each(self._path, [s for s in segments if s.segment_id not in cached])
        return {segment.segment_id: path for segment, path in found if path is not None}

    def layout(self, segment: SegmentRef, path: Path) -> FileLayout | None:
        try:
            return self.shared.layouts.get_or_make(segment.key, lambda: _layout(path))
        except DAMAGE as error:
            self.report_damage(segment, f"damaged footer: {error}")
            return None

    def groups(
        self, segment: SegmentRef, path: Path, layout: FileLayout, numbers: Sequence[int], *, starts: bool
    ) -> dict[int, RowGroup | ScaledGroup] | None:
        """Return these row groups, decoded or cached; `starts`: with the times at which counting began."""
        has_starts = starts and START in layout.columns
        try:
            return {number: self._group(segment, path, layout, number, has_starts) for number in numbers}
        except DAMAGE as error:
            self.report_damage(segment, str(error))
            return None

    def _group(
        self, segment: SegmentRef, path: Path, layout: FileLayout, number: int, has_starts: bool
    ) -> RowGroup | ScaledGroup:
        scaled = None if has_starts else scaled_group(path, layout.metadata, number)
        if scaled is not None:
            return scaled
        key = (segment.key, number)
        cached = self.shared.samples.get(key)
        if cached is not None:
            return cast("RowGroup", cached)
        self.cancellation.check()
        found = read_row_groups(path, [number])[0]
        self.shared.samples.put(key, found)
        return found

    def cached_selection(self, key: SelectionKey) -> CachedSelection | None:
        found = cast("CachedSelection | None", self.shared.samples.get((SELECTIONS, key)))
        if found is not None:
            self.rows_considered += len(found.series.time_ms)
        return found

    def cache_selection(self, key: SelectionKey, found: CachedSelection) -> None:
        """Cache the result unless a segment is missing: the next query may find it."""
        if not self.missing:
            self.shared.samples.put((SELECTIONS, key), found)

    def report_damage(self, segment: SegmentRef, reason: str) -> None:
        self.shared.forget(segment)
        self._report_missing(segment, f"unreadable: {reason}")

    def release(self) -> None:
        for segment in self._pinned:
            self.shared.cache.release(segment)
        self._pinned.clear()

    def _report_missing(self, segment: SegmentRef, reason: str) -> None:
        with self._lock:
            self.missing[segment.segment_id] = Missing(segment.segment_id, reason)

    def _table(self, segment: SegmentRef) -> SeriesTable | None:
        try:
            return self.shared.series.get_or_make(segment.key, lambda: self._read_table(segment))
        except (SegmentUnreadableError, StoreError, series.SeriesTableError) as error:
            self._report_missing(segment, str(error))
            return None

    def _read_table(self, segment: SegmentRef) -> SeriesTable:
        if segment.bytes >= WHOLE_BELOW and not self.shared.cache.holds(segment):
            raw = self.shared.store.get_range(segment.key, segment.series_offset, segment.series_length)
        else:
            path = self._acquire(segment)
            with path.open("rb") as file:
                file.seek(segment.series_offset)
                raw = file.read(segment.series_length)
        return SeriesTable.of(series.read_table(raw, segment.rows))

    def _path(self, segment: SegmentRef) -> Path | None:
        try:
            return self._acquire(segment)
        except (SegmentUnreadableError, StoreError) as error:
            self._report_missing(segment, str(error))
            return None

    def _acquire(self, segment: SegmentRef) -> Path:
        with self._lock:
            if segment.segment_id in self.opened:
                return self.opened[segment.segment_id]
        path, fetched = self.shared.cache.acquire(segment)
        with self._lock:
            self._pinned.append(segment)
            self.opened[segment.segment_id] = path
            self.bytes_fetched += fetched
        return path


class MetricOpener:
    """Caches and opens segments for all metric queries of a worker process."""

    def __init__(self, cache: Segments, store: SegmentStore, memory_bytes: int) -> None:
        self.cache = cache
        self.store = store
        self.interner = SeriesInterner()
        self.samples: ByteLru[CacheKey, Sized] = ByteLru(memory_bytes * 3 // 4, nbytes, min_entries=1)
        """Row groups and selections: a cached selection leaves its row groups unused, so they go first."""
        self.rollup_rows: ByteLru[CacheKey, Sized] = ByteLru(memory_bytes // 4, nbytes, min_entries=1)
        self.series: ByteLru[str, SeriesTable] = ByteLru(SERIES_TABLES)
        self.layouts: ByteLru[str, FileLayout] = ByteLru(LAYOUTS)
        self._fetchers = ThreadPoolExecutor(8, thread_name_prefix="metrics")

    @contextmanager
    def open_unit(self, cancellation: Cancellation) -> Iterator[UnitReader]:
        reader = UnitReader(self, cancellation)
        try:
            yield reader
        finally:
            reader.release()

    def each(
        self, work: Callable[[SegmentRef], Found], segments: Iterable[SegmentRef]
    ) -> list[tuple[SegmentRef, Found]]:
        """Apply `work` to all segments, in threads where it waits for the object store."""
        listed = list(segments)
        if isinstance(self.cache, SegmentsInPlace):
            return [(segment, work(segment)) for segment in listed]
        return list(zip(listed, self._fetchers.map(work, listed), strict=True))

    def forget(self, segment: SegmentRef) -> None:
        """Drop a damaged copy and what was read from it; the next query fetches it again."""
        self.cache.forget(segment)
        self.series.forget(segment.key)
        self.layouts.forget(segment.key)
        self.samples.forget_where(lambda key: key[0] in {segment.key, SELECTIONS})
        self.rollup_rows.forget_where(lambda key: key[0] == segment.key)


def _layout(path: Path) -> FileLayout:
    metadata = pq.read_metadata(path)
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    names = frozenset(metadata.schema.to_arrow_schema().names)
    return FileLayout(np.concatenate(([0], np.cumsum(sizes))).astype(np.int64), names, metadata)
