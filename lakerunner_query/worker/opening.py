"""From the segments of a unit to open files: only those with a wanted stream, each pinned while in use.

The stream table of a large object is asked for by range first, so that a segment without a match is never
downloaded. A segment that cannot be read comes back as `Missing`, and the others answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from lakerunner_query.execute.work import LogUnit, Missing, SegmentRef
from lakerunner_query.worker.cache import Fetcher, SegmentCache, SegmentUnreadableError
from lakerunner_query.worker.segment_facts import Footer, Recent, read_footer, stream_table
from lakerunner_query.worker.selection import in_range, select
from resources.duckdb import Cancellation
from resources.lake.streams import Stream
from resources.store.errors import StoreError

WHOLE_BELOW = 1024 * 1024
"""Smaller objects are fetched at once instead of asking for their stream table first."""


class SegmentStore(Fetcher, Protocol):
    """What a worker needs of the object store."""

    def get_range(self, key: str, start: int, length: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Opened:
    """A segment on disk with the streams that are wanted from it."""

    segment: SegmentRef
    path: Path
    footer: Footer
    streams: tuple[Stream, ...]
    fetched: int


@dataclass(slots=True)
class OpenedSet:
    """What a scan works on; a file that proves damaged moves to `missing`."""

    opened: list[Opened] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    skipped: int = 0


class SegmentOpener:
    """Shared by all scans of a worker process."""

    def __init__(self, cache: SegmentCache, store: SegmentStore) -> None:
        self._cache = cache
        self._store = store
        self._streams: Recent[tuple[Stream, ...]] = Recent(2048)
        self._footers: Recent[Footer] = Recent(4096)
        self._fetchers = ThreadPoolExecutor(8, thread_name_prefix="fetch")

    @contextmanager
    def open(self, unit: LogUnit, cancellation: Cancellation) -> Iterator[OpenedSet]:
        """Segments with matching streams, pinned for as long as the block runs."""

        def attempt(segment: SegmentRef) -> Opened | Missing | None:
            return self._attempt(unit, segment, cancellation)

        found = list(self._fetchers.map(attempt, unit.segments))
        files = OpenedSet(
            [one for one in found if isinstance(one, Opened)],
            [one for one in found if isinstance(one, Missing)],
            sum(one is None for one in found),
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
        """What the segments hold, by their stream tables alone: no object is fetched for it."""

        def attempt(segment: SegmentRef) -> tuple[Stream, ...] | Missing:
            cancellation.check()
            try:
                return self._streams.get(segment.key, lambda: self._remote_streams(segment))
            except (SegmentUnreadableError, StoreError) as error:
                return Missing(segment.segment_id, str(error))

        return zip(segments, self._fetchers.map(attempt, segments), strict=True)

    def replace_damaged(self, unit: LogUnit, files: OpenedSet, damaged: Opened, reason: str) -> None:
        """Rows of this file cannot be read: fetch it again when the copy was an old one, else say so."""
        files.opened.remove(damaged)
        self._forget(damaged.segment)
        self._cache.release(damaged.segment)
        again = self._attempt(unit, damaged.segment, Cancellation()) if damaged.fetched == 0 else None
        if isinstance(again, Opened):
            files.opened.append(replace(again, fetched=again.segment.bytes))  # so it is not fetched for ever
        else:
            files.missing.append(Missing(damaged.segment.segment_id, f"unreadable: {reason}"))

    def _attempt(
        self, unit: LogUnit, segment: SegmentRef, cancellation: Cancellation
    ) -> Opened | Missing | None:
        if cancellation.cancelled:
            return None
        old = self._cache.holds(segment)
        try:
            return self._open(unit, segment)
        except SegmentUnreadableError as error:
            if not old:
                return Missing(segment.segment_id, str(error))
            return self._attempt(unit, segment, cancellation)  # a bad local copy is gone now
        except StoreError as error:
            return Missing(segment.segment_id, str(error))

    def _open(self, unit: LogUnit, segment: SegmentRef) -> Opened | None:
        if segment.bytes >= WHOLE_BELOW and not self._cache.holds(segment):
            streams = self._streams.get(segment.key, lambda: self._remote_streams(segment))
            if not _wanted(unit, streams):
                return None
        path, fetched = self._cache.acquire(segment)
        opened: Opened | None = None
        try:
            opened = self._look_into(unit, segment, path, fetched)
        except SegmentUnreadableError:
            self._forget(segment)
            raise
        finally:
            if opened is None:
                self._cache.release(segment)
        return opened

    def _look_into(self, unit: LogUnit, segment: SegmentRef, path: Path, fetched: int) -> Opened | None:
        footer = self._footers.get(segment.key, lambda: read_footer(path))
        streams = self._streams.get(segment.key, lambda: _local_streams(segment, path))
        wanted = _wanted(unit, streams)
        return Opened(segment, path, footer, wanted, fetched) if wanted else None

    def _remote_streams(self, segment: SegmentRef) -> tuple[Stream, ...]:
        raw = self._store.get_range(segment.key, segment.series_offset, segment.series_length)
        return stream_table(segment, raw)

    def _forget(self, segment: SegmentRef) -> None:
        self._cache.forget(segment)
        self._streams.forget(segment.key)
        self._footers.forget(segment.key)


def _wanted(unit: LogUnit, streams: Sequence[Stream]) -> tuple[Stream, ...]:
    return tuple(select(in_range(streams, unit.start_ns, unit.end_ns), unit.matchers))


def _local_streams(segment: SegmentRef, path: Path) -> tuple[Stream, ...]:
    with path.open("rb") as file:
        file.seek(segment.series_offset)
        return stream_table(segment, file.read(segment.series_length))
