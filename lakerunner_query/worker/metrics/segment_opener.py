"""Metric segments as a query needs them: series tables first, files only where a series matches.

What cannot be read is noted and the others answer; whoever asked is told which segments are missing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.promql.selectors import is_stale
from lakerunner_query.protocol.answers import Trait
from lakerunner_query.protocol.units import Missing, SegmentRef
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.labels import SharedLabels
from lakerunner_query.vectors.vector import Series
from lakerunner_query.worker.logs.segment_opener import WHOLE_BELOW, SegmentStore
from lakerunner_query.worker.metrics.row_groups import (
    DAMAGE,
    HISTOGRAM_BYTES,
    START,
    RowGroup,
    RowGroupCache,
    Sized,
    read_row_groups,
)
from lakerunner_query.worker.metrics.series_table import Interner, SeriesTable
from lakerunner_query.worker.metrics.shards import Shard
from lakerunner_query.worker.parquet.column_chunks import PlainGroup, plain_group
from lakerunner_query.worker.shared.lru import Recent
from lakerunner_query.worker.shared.segment_cache import Segments, SegmentsInPlace, SegmentUnreadableError
from resources.duckdb import Cancellation
from resources.lake import series
from resources.objects.errors import StoreError

# << How much one selector may read: an error that says what to narrow, before memory is full.


@dataclass(slots=True)
class Most:
    """What one selector may need; 0: any number. Remembers the most that one did."""

    series: int = 0
    samples: int = 0
    seen_series: int = 0
    seen_samples: int = 0

    def check_series(self, count: int) -> None:
        self.seen_series = max(self.seen_series, count)
        if self.series and count > self.series:
            raise LimitExceededError(
                f"a selector matches more than {self.series} series (query_max_series): "
                "add matchers, or narrow the time range"
            )

    def check_samples(self, count: int) -> None:
        self.seen_samples = max(self.seen_samples, count)
        if self.samples and count > self.samples:
            raise LimitExceededError(
                "query processing would load too many samples into memory in query execution: "
                f"more than {self.samples} (query_max_samples); add matchers, or narrow the time range"
            )


# << What a selector found, kept in memory between queries: the next one that asks the same reads nothing.
# <<
# << Segments never change, so that their keys, the matchers and the times say all; a published segment
# << is another
# << key. Nobody writes to what is kept.

LABELS_BYTES = 150
"""Of a series: its place in lists, and in what is worked out about it. The label texts are everybody's."""


class Selected(NamedTuple):
    """All that an answer depends on."""

    keys: tuple[str, ...]
    matchers: tuple[Matcher, ...]
    from_ms: int
    to_ms: int
    starts: bool
    shard: Shard | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    series: Series
    nbytes: int
    traits: Trait = Trait.NOTHING

    @classmethod
    def of(cls, series: Series, traits: Trait = Trait.NOTHING) -> Selection:
        known = series.labels
        labels = known.for_other_samples() if isinstance(known, SharedLabels) else SharedLabels(known)
        series = replace(series, labels=labels, are_real=not bool(is_stale(series).any()))
        arrays = (series.offsets, series.time_ms, series.value, series.is_delta, series.start_ms)
        size = sum(array.nbytes for array in arrays if array is not None) + LABELS_BYTES * series.count
        if series.histograms is not None:
            size += HISTOGRAM_BYTES * len(series.histograms)
        return cls(series, size, traits)


Found = TypeVar("Found")
SELECTIONS = ""
"""Their key in the cache, where those of segments are paths."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the footer says: where row groups begin, and which columns there are."""

    starts: npt.NDArray[np.int64]
    """One entry per row group and one more."""
    columns: frozenset[str]
    metadata: pq.FileMetaData


@dataclass(slots=True)
class Reading:
    """The segments of one unit of work: pinned as they are used, missing ones noted."""

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
        """The series tables of those that can be read."""
        self.cancellation.check()
        asked = [segment for segment in segments if segment.segment_id not in self.missing]
        known = {segment.key: self.shared.series.peek(segment.key) for segment in asked}
        made = self.shared.each(self._table, [s for s in asked if known[s.key] is None])
        known.update((segment.key, table) for segment, table in made)
        return [(segment, table) for segment in asked if (table := known[segment.key]) is not None]

    def paths(self, segments: Sequence[SegmentRef]) -> dict[str, Path]:
        """Local files by segment id, fetched now if they are not here; missing ones are left out."""
        self.cancellation.check()
        here = [s for s in segments if s.segment_id in self.opened or self.shared.cache.holds(s)]
        apart = {segment.segment_id for segment in here}
        found = [(segment, self._path(segment)) for segment in here]
        found += self.shared.each(self._path, [s for s in segments if s.segment_id not in apart])
        return {segment.segment_id: path for segment, path in found if path is not None}

    def shape(self, segment: SegmentRef, path: Path) -> Shape | None:
        try:
            return self.shared.shapes.get(segment.key, lambda: _shape(path))
        except DAMAGE as error:
            self.damaged(segment, f"damaged footer: {error}")
            return None

    def groups(
        self, segment: SegmentRef, path: Path, shape: Shape, numbers: Sequence[int], *, starts: bool
    ) -> dict[int, RowGroup | PlainGroup] | None:
        """These row groups, from memory where they are there; `starts`: when counting began is asked for."""
        has_starts = starts and START in shape.columns
        try:
            return {number: self._group(segment, path, shape, number, has_starts) for number in numbers}
        except DAMAGE as error:
            self.damaged(segment, str(error))
            return None

    def _group(
        self, segment: SegmentRef, path: Path, shape: Shape, number: int, has_starts: bool
    ) -> RowGroup | PlainGroup:
        plain = None if has_starts else plain_group(path, shape.metadata, number)
        if plain is not None:
            return plain
        found = self.shared.row_groups.get(segment.key, number)
        if found is None:
            self.cancellation.check()  # one at a time: what is decoded is the large part of the memory
            found = read_row_groups(path, [number])[0]
            self.shared.row_groups.put(segment.key, number, found)
        return found

    def remembered(self, what: Selected) -> Selection | None:
        found = self.shared.selections.get(SELECTIONS, what)
        if found is not None:
            self.rows_considered += len(found.series.time_ms)
        return found

    def remember(self, what: Selected, found: Selection) -> None:
        """Unless something is missing, which may be there for the next query."""
        if not self.missing:
            self.shared.selections.put(SELECTIONS, what, found)

    def damaged(self, segment: SegmentRef, reason: str) -> None:
        self.shared.forget(segment)
        self._note(segment, f"unreadable: {reason}")

    def release(self) -> None:
        for segment in self._pinned:
            self.shared.cache.release(segment)
        self._pinned.clear()

    def _note(self, segment: SegmentRef, reason: str) -> None:
        with self._lock:
            self.missing[segment.segment_id] = Missing(segment.segment_id, reason)

    def _table(self, segment: SegmentRef) -> SeriesTable | None:
        try:
            return self.shared.series.get(segment.key, lambda: self._read_table(segment))
        except (SegmentUnreadableError, StoreError, series.SeriesTableError) as error:
            self._note(segment, str(error))
            return None

    def _read_table(self, segment: SegmentRef) -> SeriesTable:
        if segment.bytes >= WHOLE_BELOW and not self.shared.cache.holds(segment):
            raw = self.shared.store.get_range(segment.key, segment.series_offset, segment.series_length)
        else:
            path = self._acquired(segment)
            with path.open("rb") as file:
                file.seek(segment.series_offset)
                raw = file.read(segment.series_length)
        return SeriesTable.of(series.read_table(raw, segment.rows))

    def _path(self, segment: SegmentRef) -> Path | None:
        try:
            return self._acquired(segment)
        except (SegmentUnreadableError, StoreError) as error:
            self._note(segment, str(error))
            return None

    def _acquired(self, segment: SegmentRef) -> Path:
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
    """Shared by all metric queries of a worker process."""

    def __init__(self, cache: Segments, store: SegmentStore, memory_bytes: int) -> None:
        self.cache = cache
        self.store = store
        self.interner = Interner()
        decoded: RowGroupCache[Any] = RowGroupCache(memory_bytes * 3 // 4)
        self.row_groups: RowGroupCache[RowGroup] = decoded
        self.selections: RowGroupCache[Selection] = decoded
        """In one memory: once a selection is kept, the row groups that it was read from are used no more."""
        self.rollup_rows: RowGroupCache[Sized] = RowGroupCache(memory_bytes // 4)
        self.series: Recent[SeriesTable] = Recent(2048)
        self.shapes: Recent[Shape] = Recent(4096)
        self._fetchers = ThreadPoolExecutor(8, thread_name_prefix="metrics")

    @contextmanager
    def reading(self, cancellation: Cancellation) -> Iterator[Reading]:
        found = Reading(self, cancellation)
        try:
            yield found
        finally:
            found.release()

    def each(
        self, work: Callable[[SegmentRef], Found], segments: Iterable[SegmentRef]
    ) -> list[tuple[SegmentRef, Found]]:
        """Side by side where most of the time is waiting for the object store."""
        asked = list(segments)
        if isinstance(self.cache, SegmentsInPlace):
            return [(segment, work(segment)) for segment in asked]
        return list(zip(asked, self._fetchers.map(work, asked), strict=True))

    def forget(self, segment: SegmentRef) -> None:
        """The local copy is bad: the next query fetches it again."""
        self.cache.forget(segment)
        self.series.forget(segment.key)
        self.shapes.forget(segment.key)
        self.row_groups.forget(segment.key)
        self.selections.forget(SELECTIONS)
        self.rollup_rows.forget(segment.key)


def _shape(path: Path) -> Shape:
    metadata = pq.read_metadata(path)
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    names = frozenset(metadata.schema.to_arrow_schema().names)
    return Shape(np.concatenate(([0], np.cumsum(sizes))).astype(np.int64), names, metadata)
