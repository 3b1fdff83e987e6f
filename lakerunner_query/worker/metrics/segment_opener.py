"""`MetricOpener` opens metric segments for a query: series tables first, columns only where a series matches.

    series tables and footers of all segments   |··········####|   one range at the end of each, all at once
    columns of row groups with such series      |··##···#······|   then these ranges, of all segments at once

A segment that cannot be read is recorded as missing and the others answer; the caller reports it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar, cast

from lakerunner_query.errors import QueryError
from lakerunner_query.protocol.units import Missing, SegmentRef, UnitReport
from lakerunner_query.worker.metrics.row_groups import (
    START,
    UNREADABLE,
    FileLayout,
    RowGroup,
    read_layout,
    read_row_group,
)
from lakerunner_query.worker.metrics.selections import CachedSelection, SelectionKey
from lakerunner_query.worker.metrics.series_table import KnownLabelSets, SeriesInterner, SeriesTable
from lakerunner_query.worker.parquet.scaled_groups import ScaledGroup
from lakerunner_query.worker.shared.lru import ByteLru
from lakerunner_query.worker.shared.segment_file import (
    FetchMeter,
    Range,
    SegmentFile,
    Segments,
    SegmentUnreadableError,
)
from resources.duckdb import Cancellation, CancelledQueryError
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


@dataclass(slots=True)
class UnitReader:
    """Reads the segments of one unit; records missing ones."""

    shared: MetricOpener
    cancellation: Cancellation
    meter: FetchMeter
    missing: dict[str, Missing] = field(default_factory=dict)
    rows_considered: int = 0
    rollup_rows: dict[int, int] = field(default_factory=dict)
    """Rollup rows that were read, by frequency."""
    opened: dict[str, SegmentFile] = field(default_factory=dict)
    """Segments by id."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def expect(self, segments: Iterable[SegmentRef]) -> None:
        """Begin to fetch the tails of segments whose series tables will be needed."""
        if self.shared.segments.is_local:
            return
        for segment in segments:
            if self.shared.series.peek(segment.key) is None:
                file = self.file(segment)
                if file is not None:
                    file.fetch_ahead([tail_of(segment)])

    def tables(self, segments: Sequence[SegmentRef]) -> list[tuple[SegmentRef, SeriesTable]]:
        """Return the series tables of readable segments."""
        self.cancellation.check()
        self.expect(segments)
        found = ((segment, self._table(segment)) for segment in segments)
        return [(segment, table) for segment, table in found if table is not None]

    def file(self, segment: SegmentRef) -> SegmentFile | None:
        """Open a segment; None for a missing one."""
        with self._lock:
            found = self.opened.get(segment.segment_id)
            if found is None and segment.segment_id not in self.missing:
                try:
                    found = self.opened[segment.segment_id] = self.shared.segments.open(segment, self.meter)
                except UNREADABLE as error:
                    self.missing[segment.segment_id] = Missing(segment.segment_id, str(error))
            return found

    def layout(self, segment: SegmentRef) -> FileLayout | None:
        found = self.shared.layouts.get(segment.key)
        if found is None and (file := self.file(segment)) is not None:
            found = self.attempt(segment, partial(read_layout, file))
            if found is not None:
                self.shared.layouts.put(segment.key, found)
        return found

    def layouts(self, segments: Sequence[SegmentRef]) -> list[tuple[SegmentRef, FileLayout]]:
        """Return the footers of readable segments."""
        if not self.shared.segments.is_local:
            unknown = [one for one in segments if self.shared.layouts.peek(one.key) is None]
            for file in filter(None, map(self.file, unknown)):
                file.fetch_ahead([tail_of(file.segment)])
        found = ((segment, self.layout(segment)) for segment in segments)
        return [(segment, layout) for segment, layout in found if layout is not None]

    def fetch_groups(
        self, wanted: Iterable[tuple[SegmentRef, FileLayout, Iterable[int]]], *, starts: bool
    ) -> None:
        """Begin to fetch what `group` reads of these row groups, of all segments at once."""
        if self.shared.segments.is_local:
            return
        for segment, layout, numbers in wanted:
            ranges: list[Range] = []
            for number in numbers:
                scaled = scaled_of(layout, number, starts=starts)
                if scaled is not None:
                    ranges += scaled.ranges
                elif self.shared.samples.peek((segment.key, number)) is None:
                    ranges += layout.chunks(number, layout.columns(number))
            self.fetch(segment, ranges)

    def fetch(self, segment: SegmentRef, ranges: Sequence[Range]) -> None:
        """Begin to fetch ranges of one segment."""
        if ranges and not self.shared.segments.is_local and (file := self.file(segment)) is not None:
            self.attempt(segment, lambda: file.fetch_ahead(ranges))

    def group(
        self, segment: SegmentRef, layout: FileLayout, number: int, *, starts: bool
    ) -> RowGroup | ScaledGroup | None:
        """Return a row group, decoded or cached; `starts`: with the times at which counting began."""
        scaled = scaled_of(layout, number, starts=starts)
        if scaled is not None:
            return scaled
        key = (segment.key, number)
        cached = self.shared.samples.get(key)
        if cached is not None:
            return cast("RowGroup", cached)
        self.cancellation.check()
        file = self.file(segment)
        if file is None:
            return None
        found = self.attempt(segment, lambda: read_row_group(file, layout, number))
        if found is not None:
            self.shared.samples.put(key, found)
        return found

    def attempt(self, segment: SegmentRef, read: Callable[[], Found]) -> Found | None:
        """Read of a segment; None where that fails, and the segment is missing then."""
        try:
            return read()
        except UNREADABLE as error:
            self.lose(segment, error)
            return None

    def lose(self, segment: SegmentRef, error: BaseException) -> None:
        """Record a segment that cannot be read; raise errors that are the query's own."""
        file = self.opened.get(segment.segment_id)
        cause = (file.failure if file is not None else None) or error
        if isinstance(cause, QueryError | CancelledQueryError):
            raise cause
        reason = str(cause)
        if not isinstance(cause, SegmentUnreadableError | StoreError):
            self.shared.forget(segment)
            reason = f"unreadable: {reason}"
        with self._lock:
            self.missing[segment.segment_id] = Missing(segment.segment_id, reason)

    def cached_selection(self, key: SelectionKey) -> CachedSelection | None:
        found = cast("CachedSelection | None", self.shared.samples.get((SELECTIONS, key)))
        if found is not None:
            self.rows_considered += len(found.series.time_ms)
        return found

    def cache_selection(self, key: SelectionKey, found: CachedSelection) -> None:
        """Cache the result unless a segment is missing: the next query may find it."""
        if not self.missing:
            self.shared.samples.put((SELECTIONS, key), found)

    def report(self) -> UnitReport:
        return UnitReport(
            missing=tuple(self.missing.values()),
            segments_opened=len(self.opened),
            rows_considered=self.rows_considered,
            bytes_fetched=self.meter.bytes,
            requests=self.meter.requests,
            rollup_rows=dict(self.rollup_rows),
        )

    def close(self) -> None:
        for file in self.opened.values():
            file.close()

    def _table(self, segment: SegmentRef) -> SeriesTable | None:
        if segment.segment_id in self.missing:
            return None
        found = self.shared.series.get(segment.key)
        if found is None and (file := self.file(segment)) is not None:
            try:
                found = read_table(file, self.shared.label_sets)
            except series.SeriesTableError as error:
                self._lose_table(segment, error)
                return None
            except UNREADABLE as error:
                self.lose(segment, error)
                return None
            self.shared.series.put(segment.key, found)
        return found

    def _lose_table(self, segment: SegmentRef, error: series.SeriesTableError) -> None:
        self.shared.forget(segment)
        with self._lock:
            self.missing[segment.segment_id] = Missing(segment.segment_id, str(error))


class MetricOpener:
    """Caches and opens segments for all metric queries of a worker process."""

    def __init__(
        self, segments: Segments, memory_bytes: int, *, max_bytes: int = 0, max_requests: int = 0
    ) -> None:
        """`max_bytes` and `max_requests`: what one unit may cost the object store, 0: anything."""
        self.segments = segments
        self.interner = SeriesInterner()
        self.samples: ByteLru[CacheKey, Sized] = ByteLru(memory_bytes * 3 // 4, nbytes, min_entries=1)
        """Row groups and selections: a cached selection leaves its row groups unused, so they go first."""
        self.rollup_rows: ByteLru[CacheKey, Sized] = ByteLru(memory_bytes // 4, nbytes, min_entries=1)
        self.label_sets = KnownLabelSets()
        self.series: ByteLru[str, SeriesTable] = ByteLru(SERIES_TABLES)
        self.layouts: ByteLru[str, FileLayout] = ByteLru(LAYOUTS)
        self._budget = max_bytes, max_requests

    @contextmanager
    def open_unit(self, cancellation: Cancellation) -> Iterator[UnitReader]:
        reader = UnitReader(self, cancellation, FetchMeter(cancellation, *self._budget))
        try:
            yield reader
        finally:
            reader.close()

    def forget(self, segment: SegmentRef) -> None:
        """Drop a damaged copy and what was read from it; the next query fetches it again."""
        self.segments.forget(segment)
        self.series.forget(segment.key)
        self.layouts.forget(segment.key)
        self.samples.forget_where(lambda key: key[0] in {segment.key, SELECTIONS})
        self.rollup_rows.forget_where(lambda key: key[0] in {segment.key, SELECTIONS})


def tail_of(segment: SegmentRef) -> Range:
    """Return the range of series table and footer, which is the end of the object."""
    return segment.series_offset, segment.bytes


def read_table(file: SegmentFile, known: KnownLabelSets) -> SeriesTable:
    segment = file.segment
    raw = file.read(segment.series_offset, segment.series_length)
    return SeriesTable.of(series.read_table(raw, segment.rows), known)


def scaled_of(layout: FileLayout, number: int, *, starts: bool) -> ScaledGroup | None:
    """Return the pages of a row group that says nothing else; when counting began is something else."""
    return None if starts and START in layout.places else layout.scaled(number)
