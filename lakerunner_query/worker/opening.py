"""From the segments of a unit to open files: only those with a wanted stream, each pinned while in use.

The stream table of a large object is asked for by range first, and its token bloom where the query names
words, so that a segment without a match is never downloaded. A segment that cannot be read comes back as
`Missing`, and the others answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Protocol

from lakerunner_query.protocol.units import Missing, SegmentRef
from lakerunner_query.worker.blooms import Blooms
from lakerunner_query.worker.cache import Fetcher, SegmentCache, SegmentUnreadableError
from lakerunner_query.worker.segment_facts import Footer, Recent, read_footer, stream_table
from lakerunner_query.worker.selection import Selection
from resources.duckdb import Cancellation
from resources.lake.streams import Stream
from resources.store.errors import StoreError

WHOLE_BELOW = 1024 * 1024
"""Smaller objects are fetched at once instead of asking for their stream table first."""
BLOOM_BYTES = 128 * 1024 * 1024


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
    """No stream in them is wanted."""
    without_words: int = 0
    """Their token blooms say so."""


class Skipped(Enum):
    """Why a segment is not opened."""

    NO_STREAM = "no stream is wanted"
    NO_WORD = "a word is not in it"


class SegmentOpener:
    """Shared by all scans of a worker process."""

    def __init__(self, cache: SegmentCache, store: SegmentStore, bloom_bytes: int = BLOOM_BYTES) -> None:
        self._cache = cache
        self._store = store
        self._blooms = Blooms(bloom_bytes)
        self._streams: Recent[tuple[Stream, ...]] = Recent(2048)
        self._names: Recent[frozenset[str]] = Recent(4096)
        """Of labels of streams."""
        self._footers: Recent[Footer] = Recent(4096)
        self._fetchers = ThreadPoolExecutor(8, thread_name_prefix="fetch")

    @contextmanager
    def open(
        self, segments: Sequence[SegmentRef], wanted: Selection, cancellation: Cancellation
    ) -> Iterator[OpenedSet]:
        """Segments with matching streams, pinned for as long as the block runs."""

        def attempt(segment: SegmentRef) -> Opened | Missing | Skipped:
            return self._attempt(wanted, segment, cancellation)

        found = list(self._fetchers.map(attempt, segments))
        files = OpenedSet(
            [one for one in found if isinstance(one, Opened)],
            [one for one in found if isinstance(one, Missing)],
            sum(one is Skipped.NO_STREAM for one in found),
            sum(one is Skipped.NO_WORD for one in found),
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

    def replace_damaged(self, wanted: Selection, files: OpenedSet, damaged: Opened, reason: str) -> None:
        """Rows of this file cannot be read: fetch it again when the copy was an old one, else say so."""
        files.opened.remove(damaged)
        self._forget(damaged.segment)
        self._cache.release(damaged.segment)
        again = self._attempt(wanted, damaged.segment, Cancellation()) if damaged.fetched == 0 else None
        if isinstance(again, Opened):
            files.opened.append(replace(again, fetched=again.segment.bytes))  # so it is not fetched for ever
        else:
            files.missing.append(Missing(damaged.segment.segment_id, f"unreadable: {reason}"))

    def _attempt(
        self, wanted: Selection, segment: SegmentRef, cancellation: Cancellation
    ) -> Opened | Missing | Skipped:
        if cancellation.cancelled:
            return Skipped.NO_STREAM
        old = self._cache.holds(segment)
        try:
            return self._open(wanted, segment)
        except SegmentUnreadableError as error:
            if not old:
                return Missing(segment.segment_id, str(error))
            return self._attempt(wanted, segment, cancellation)  # a bad local copy is gone now
        except StoreError as error:
            return Missing(segment.segment_id, str(error))

    def _open(self, wanted: Selection, segment: SegmentRef) -> Opened | Skipped:
        if (segment.bytes >= WHOLE_BELOW or wanted.needles) and not self._cache.holds(segment):
            skipped = self._skipped(wanted, segment, lambda: self._remote_streams(segment))
            if skipped is not None:
                return skipped
        path, fetched = self._cache.acquire(segment)
        opened: Opened | None = None
        try:
            found = self._look_into(wanted, segment, path, fetched)
            opened = found if isinstance(found, Opened) else None
        except SegmentUnreadableError:
            self._forget(segment)
            raise
        finally:
            if opened is None:
                self._cache.release(segment)
        return found

    def _look_into(
        self, wanted: Selection, segment: SegmentRef, path: Path, fetched: int
    ) -> Opened | Skipped:
        streams = self._streams.get(segment.key, lambda: _local_streams(segment, path))
        if not self._may_hold_words(wanted, segment, streams):
            return Skipped.NO_WORD
        found = wanted.streams(streams)
        if not found:
            return Skipped.NO_STREAM
        footer = self._footers.get(segment.key, lambda: read_footer(path))
        return Opened(segment, path, footer, found, fetched)

    def _skipped(
        self, wanted: Selection, segment: SegmentRef, read: Callable[[], tuple[Stream, ...]]
    ) -> Skipped | None:
        """The cheaper question first: words are hashed, streams are matched one by one."""
        streams = self._streams.get(segment.key, read)
        if not self._may_hold_words(wanted, segment, streams):
            return Skipped.NO_WORD
        return None if wanted.streams(streams) else Skipped.NO_STREAM

    def _may_hold_words(self, wanted: Selection, segment: SegmentRef, streams: tuple[Stream, ...]) -> bool:
        names = self._names.get(segment.key, lambda: label_names(streams)) if wanted.needles else ()
        needles = wanted.words_beside(names)
        return self._blooms.may_hold(segment, needles, partial(self._store.get_range, segment.key))

    def worth_opening(
        self, segments: Sequence[SegmentRef], wanted: Selection, cancellation: Cancellation
    ) -> tuple[list[SegmentRef], OpenedSet]:
        """Segments that may have wanted rows, told without fetching one, and why the others have none."""

        def attempt(segment: SegmentRef) -> Skipped | None:
            cancellation.check()
            try:
                return self._skipped(wanted, segment, lambda: self._remote_streams(segment))
            except (SegmentUnreadableError, StoreError):
                return None  # told when it is opened

        unknown = [one for one in segments if not self._is_known(one)]
        for _ in self._fetchers.map(attempt, unknown):
            pass  # now all are known, and asking in this thread takes microseconds
        found = [(segment, attempt(segment)) for segment in segments]
        pruned = OpenedSet(
            skipped=sum(why is Skipped.NO_STREAM for _, why in found),
            without_words=sum(why is Skipped.NO_WORD for _, why in found),
        )
        return [segment for segment, why in found if why is None], pruned

    def _is_known(self, segment: SegmentRef) -> bool:
        return self._streams.peek(segment.key) is not None and self._blooms.has(segment)

    def forget(self, segment: SegmentRef) -> None:
        """The local copy is of no use: next time it is fetched."""
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
