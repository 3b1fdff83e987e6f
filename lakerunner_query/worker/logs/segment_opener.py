"""`SegmentOpener` opens the log segments that may answer: those with a selected stream, pinned while in use.

The stream table of a large object is read by range first, and its token bloom where the query names words,
so that a segment without a match is never downloaded. A segment that cannot be read comes back as `Missing`,
and the others answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.protocol.units import Missing, SegmentRef
from lakerunner_query.worker.logs.stream_filter import StreamFilter, TokenBlooms
from lakerunner_query.worker.parquet.column_chunks import ColumnLocation
from lakerunner_query.worker.shared.lru import ByteLru
from lakerunner_query.worker.shared.segment_cache import (
    WHOLE_BELOW,
    SegmentCache,
    SegmentStore,
    SegmentUnreadableError,
)
from resources.arrays import Flags, Int64s
from resources.duckdb import Cancellation, DuckSession
from resources.lake.columns import CHQ_STREAM_ID, CHQ_TSNS
from resources.lake.segment_file import MappedColumn, read_label_map
from resources.lake.streams import Stream
from resources.lake.streams import decode as decode_streams
from resources.objects.errors import StoreError

BLOOM_BYTES = 128 * 1024 * 1024
DAMAGE = (duckdb.Error, pa.ArrowException, OSError)
"""Errors of reading a damaged file; DuckDB has no class of its own for headers of pages."""
NO_DAMAGE = (duckdb.OutOfMemoryException, duckdb.InterruptException)
"""Errors among those that no file is to blame for."""


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Statistics of all row groups of a file, one entry each."""

    first: Int64s
    """First row numbers within the file, and the row count of the file behind them."""
    min_ns: Int64s
    max_ns: Int64s
    min_stream: Int64s
    max_stream: Int64s
    bytes: Int64s
    """Uncompressed bytes of all columns."""

    def overlapping(self, start_ns: int, end_ns: int, stream_ids: Int64s) -> Flags:
        """Flag row groups that may have rows of one of these streams in `[start_ns, end_ns)`."""
        ids = np.sort(stream_ids)
        at = np.searchsorted(ids, self.min_stream)
        next_id = np.append(ids, np.iinfo(np.int64).max)[at]
        found: Flags = (
            (self.min_ns < end_ns)
            & (self.max_ns >= start_ns)
            & (at < len(ids))
            & (next_id <= self.max_stream)
        )
        return found


@dataclass(frozen=True, slots=True)
class Footer:
    """Columns of a file, flat columns with their original names, and row group statistics."""

    columns: dict[str, str]
    """Parquet types by name, to see where one name has different types in two files."""
    mapped: tuple[MappedColumn, ...]
    rows: int
    groups: RowGroups
    locations: dict[str, tuple[ColumnLocation, ...]] = field(default_factory=dict, compare=False, repr=False)
    """Column locations by name and row group, filled as columns are asked for (`page_counts.py`)."""


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """A segment on local disk with the streams that are selected from it."""

    segment: SegmentRef
    path: Path
    footer: Footer
    streams: tuple[Stream, ...]
    fetched: int


@dataclass(slots=True)
class OpenSegments:
    """The files of a scan; one that proves damaged moves to `missing`."""

    opened: list[OpenSegment] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    skipped: int = 0
    """Segments without a selected stream."""
    without_words: int = 0
    """Segments whose token blooms exclude a word."""


class SkipReason(Enum):
    """Reasons not to open a segment."""

    NO_STREAM = "no stream is selected"
    NO_WORD = "a word is not in it"


class SegmentOpener:
    """Opens segments for all scans of a worker process."""

    def __init__(self, cache: SegmentCache, store: SegmentStore, bloom_bytes: int = BLOOM_BYTES) -> None:
        self._cache = cache
        self._store = store
        self._blooms = TokenBlooms(bloom_bytes)
        self._streams: ByteLru[str, tuple[Stream, ...]] = ByteLru(2048)
        self._names: ByteLru[str, frozenset[str]] = ByteLru(4096)
        """Names of stream labels."""
        self._footers: ByteLru[str, Footer] = ByteLru(4096)
        self._fetchers = ThreadPoolExecutor(8, thread_name_prefix="fetch")

    @contextmanager
    def open(
        self, segments: Sequence[SegmentRef], stream_filter: StreamFilter, cancellation: Cancellation
    ) -> Iterator[OpenSegments]:
        """Open segments with matching streams, pinned for as long as the block runs."""

        def attempt(segment: SegmentRef) -> OpenSegment | Missing | SkipReason:
            return self._attempt(stream_filter, segment, cancellation)

        found = list(self._fetchers.map(attempt, segments))
        files = OpenSegments(
            [one for one in found if isinstance(one, OpenSegment)],
            [one for one in found if isinstance(one, Missing)],
            sum(one is SkipReason.NO_STREAM for one in found),
            sum(one is SkipReason.NO_WORD for one in found),
        )
        try:
            cancellation.check()
            yield files
        finally:
            for one in files.opened:
                self._cache.release(one.segment)

    def stream_tables(
        self, segments: Sequence[SegmentRef], cancellation: Cancellation
    ) -> Iterator[tuple[SegmentRef, tuple[Stream, ...] | Missing]]:
        """Read the stream tables of segments; no whole object is fetched for it."""

        def attempt(segment: SegmentRef) -> tuple[Stream, ...] | Missing:
            cancellation.check()
            try:
                return self._streams.get_or_make(segment.key, lambda: self._remote_streams(segment))
            except (SegmentUnreadableError, StoreError) as error:
                return Missing(segment.segment_id, str(error))

        return zip(segments, self._fetchers.map(attempt, segments), strict=True)

    def replace_damaged(
        self, stream_filter: StreamFilter, files: OpenSegments, damaged: OpenSegment, reason: str
    ) -> None:
        """Fetch a damaged file again where the copy was an old one; else report it as missing."""
        files.opened.remove(damaged)
        self._forget(damaged.segment)
        self._cache.release(damaged.segment)
        again = (
            self._attempt(stream_filter, damaged.segment, Cancellation()) if damaged.fetched == 0 else None
        )
        if isinstance(again, OpenSegment):
            files.opened.append(replace(again, fetched=again.segment.bytes))  # so it is not fetched for ever
        else:
            files.missing.append(Missing(damaged.segment.segment_id, f"unreadable: {reason}"))

    def _attempt(
        self, stream_filter: StreamFilter, segment: SegmentRef, cancellation: Cancellation
    ) -> OpenSegment | Missing | SkipReason:
        if cancellation.cancelled:
            return SkipReason.NO_STREAM
        was_cached = self._cache.holds(segment)
        try:
            return self._open(stream_filter, segment)
        except SegmentUnreadableError as error:
            if not was_cached:
                return Missing(segment.segment_id, str(error))
            return self._attempt(stream_filter, segment, cancellation)  # a bad local copy is gone now
        except StoreError as error:
            return Missing(segment.segment_id, str(error))

    def _open(self, stream_filter: StreamFilter, segment: SegmentRef) -> OpenSegment | SkipReason:
        if (segment.bytes >= WHOLE_BELOW or stream_filter.words) and not self._cache.holds(segment):
            skipped = self._skip_reason(stream_filter, segment, lambda: self._remote_streams(segment))
            if skipped is not None:
                return skipped
        path, fetched = self._cache.acquire(segment)
        opened: OpenSegment | None = None
        try:
            found = self._open_local(stream_filter, segment, path, fetched)
            opened = found if isinstance(found, OpenSegment) else None
        except SegmentUnreadableError:
            self._forget(segment)
            raise
        finally:
            if opened is None:
                self._cache.release(segment)
        return found

    def _open_local(
        self, stream_filter: StreamFilter, segment: SegmentRef, path: Path, fetched: int
    ) -> OpenSegment | SkipReason:
        streams = self._streams.get_or_make(segment.key, lambda: _local_streams(segment, path))
        if not self._may_hold_words(stream_filter, segment, streams):
            return SkipReason.NO_WORD
        selected = stream_filter.select(streams)
        if not selected:
            return SkipReason.NO_STREAM
        footer = self._footers.get_or_make(segment.key, lambda: read_footer(path))
        return OpenSegment(segment, path, footer, selected, fetched)

    def _skip_reason(
        self, stream_filter: StreamFilter, segment: SegmentRef, read: Callable[[], tuple[Stream, ...]]
    ) -> SkipReason | None:
        """Ask the bloom first: words are hashed already, streams are matched one by one."""
        streams = self._streams.get_or_make(segment.key, read)
        if not self._may_hold_words(stream_filter, segment, streams):
            return SkipReason.NO_WORD
        return None if stream_filter.select(streams) else SkipReason.NO_STREAM

    def _may_hold_words(
        self, stream_filter: StreamFilter, segment: SegmentRef, streams: tuple[Stream, ...]
    ) -> bool:
        names = (
            self._names.get_or_make(segment.key, lambda: label_names(streams)) if stream_filter.words else ()
        )
        words = stream_filter.words_in_rows(names)
        return self._blooms.may_hold(segment, words, partial(self._store.get_range, segment.key))

    def worth_opening(
        self, segments: Sequence[SegmentRef], stream_filter: StreamFilter, cancellation: Cancellation
    ) -> tuple[list[SegmentRef], OpenSegments]:
        """Return segments that may have matching rows, without fetching one, and counts of the others."""

        def attempt(segment: SegmentRef) -> SkipReason | None:
            cancellation.check()
            try:
                return self._skip_reason(stream_filter, segment, lambda: self._remote_streams(segment))
            except (SegmentUnreadableError, StoreError):
                return None  # opening it tells the reason

        unknown = [one for one in segments if not self._is_known(one)]
        for _ in self._fetchers.map(attempt, unknown):
            pass  # now all are known, and asking in this thread takes microseconds
        found = [(segment, attempt(segment)) for segment in segments]
        pruned = OpenSegments(
            skipped=sum(why is SkipReason.NO_STREAM for _, why in found),
            without_words=sum(why is SkipReason.NO_WORD for _, why in found),
        )
        return [segment for segment, why in found if why is None], pruned

    def _is_known(self, segment: SegmentRef) -> bool:
        return self._streams.peek(segment.key) is not None and self._blooms.has(segment)

    def forget(self, segment: SegmentRef) -> None:
        """Drop the local copy; the next query fetches it."""
        self._forget(segment)

    def _remote_streams(self, segment: SegmentRef) -> tuple[Stream, ...]:
        raw = self._store.get_range(segment.key, segment.series_offset, segment.series_length)
        return stream_table(segment, raw)

    def _forget(self, segment: SegmentRef) -> None:
        self._cache.forget(segment)
        self._streams.forget(segment.key)
        self._footers.forget(segment.key)
        self._names.forget(segment.key)


def label_names(streams: Sequence[Stream]) -> frozenset[str]:
    return frozenset(name for stream in streams for name, _ in stream.labels)


def _local_streams(segment: SegmentRef, path: Path) -> tuple[Stream, ...]:
    with path.open("rb") as file:
        file.seek(segment.series_offset)
        return stream_table(segment, file.read(segment.series_length))


@dataclass(frozen=True, slots=True)
class ScanResources:
    """Opener and DuckDB session of the worker, and the cancellation of one unit."""

    opener: SegmentOpener
    session: DuckSession
    cancellation: Cancellation


def discard_damaged(stream_filter: StreamFilter, files: OpenSegments, resources: ScanResources) -> bool:
    """Read every file alone and replace damaged ones; True where at least one was damaged."""
    damaged = [(one, reason) for one in files.opened if (reason := find_damage(one, resources.cancellation))]
    for one, reason in damaged:
        resources.opener.replace_damaged(stream_filter, files, one, reason)
    return bool(damaged)


def find_damage(one: OpenSegment, cancellation: Cancellation) -> str:
    """Decode every column of a file; return the error, empty where there is none."""
    try:
        with pq.ParquetFile(one.path) as file:
            for number in range(file.num_row_groups):
                for name in one.footer.columns:
                    cancellation.check()
                    file.read_row_group(number, columns=[name], use_threads=False).validate(full=True)
    except (pa.ArrowException, OSError) as error:
        return str(error).splitlines()[0]
    return ""


def read_footer(path: Path) -> Footer:
    """Read the footer of a local copy; anything unexpected in it makes the segment unreadable."""
    try:
        metadata = pq.read_metadata(path)
        columns = {field.name: str(field.type) for field in metadata.schema.to_arrow_schema()}
        return Footer(columns, read_label_map(metadata), metadata.num_rows, _row_groups(metadata))
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        raise SegmentUnreadableError(f"damaged footer: {error}") from error


def stream_table(segment: SegmentRef, raw: bytes) -> tuple[Stream, ...]:
    """Decode the stream table from its bytes inside the object."""
    try:
        return decode_streams(raw)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        reason = f"damaged stream table of {segment.series_length} bytes: {error}"
        raise SegmentUnreadableError(reason) from error


def _row_groups(metadata: pq.FileMetaData) -> RowGroups:
    place = {metadata.schema.column(number).path: number for number in range(metadata.num_columns)}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    sizes = np.array([0, *(group.num_rows for group in groups)], np.int64)
    times = np.array([_bounds(group, place[CHQ_TSNS]) for group in groups], np.int64).reshape(-1, 2)
    ids = np.array([_bounds(group, place[CHQ_STREAM_ID]) for group in groups], np.int64).reshape(-1, 2)
    plain = np.array([group.total_byte_size for group in groups], np.int64)
    return RowGroups(np.cumsum(sizes), times[:, 0], times[:, 1], ids[:, 0], ids[:, 1], plain)


def _bounds(group: pq.RowGroupMetaData, column: int) -> tuple[int, int]:
    """Return lowest and highest value; without statistics every value is possible."""
    statistics = group.column(column).statistics
    if statistics is None or not statistics.has_min_max:
        return np.iinfo(np.int64).min, np.iinfo(np.int64).max
    return statistics.min, statistics.max
