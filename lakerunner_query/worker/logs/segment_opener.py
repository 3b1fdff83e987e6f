"""From the segments of a unit to open files: only those with a wanted stream, each pinned while in use.

The stream table of a large object is asked for by range first, and its token bloom where the query names
words, so that a segment without a match is never downloaded. A segment that cannot be read comes back as
`Missing`, and the others answer.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Protocol

from lakerunner_query.gotext import regexp
from lakerunner_query.plan.logql import Words
from lakerunner_query.protocol.units import Missing, SegmentRef
from lakerunner_query.syntax import Matcher
from lakerunner_query.worker.shared.lru import Footer, Recent, read_footer, stream_table
from lakerunner_query.worker.shared.segment_cache import Fetcher, SegmentCache, SegmentUnreadableError
from resources.duckdb import Cancellation
from resources.lake.streams import Stream
from resources.lake.tokens import TokenBloom, token_hash
from resources.objects.errors import StoreError

# << Which segments cannot hold a word: their token blooms, asked before anything else of them is read.
# <<
# << A bloom is one small ranged read, kept in memory up to a budget. One that cannot be read or is damaged
# << excludes nothing: whether the segment itself is readable is told when it is opened.

BYTES_PER_WORD = 4


@dataclass(frozen=True, slots=True)
class Needles:
    """`Words` with every word hashed once for all segments."""

    alternatives: tuple[tuple[int, ...], ...]
    label: str

    @classmethod
    def of(cls, words: Words) -> Needles:
        return cls(tuple(tuple(map(token_hash, way)) for way in words.alternatives), words.label)

    def may_be_in(self, bloom: TokenBloom) -> bool:
        return any(all(map(bloom.may_contain_hash, way)) for way in self.alternatives)


class Blooms:
    """The most recently asked ones of a worker process."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[str, TokenBloom] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def used_bytes(self) -> int:
        return self._bytes

    def has(self, segment: SegmentRef) -> bool:
        return not segment.bloom_length or segment.key in self._kept

    def may_hold(
        self, segment: SegmentRef, needles: Sequence[Needles], read: Callable[[int, int], bytes]
    ) -> bool:
        """Whether a row with all of these is possible; `read` gives bytes of the object by offset, length."""
        if not needles or not segment.bloom_length:
            return True
        bloom = self._bloom(segment, read)
        return bloom is None or all(needle.may_be_in(bloom) for needle in needles)

    def _bloom(self, segment: SegmentRef, read: Callable[[int, int], bytes]) -> TokenBloom | None:
        with self._lock:
            known = self._kept.get(segment.key)
            if known is not None:
                self._kept.move_to_end(segment.key)
                return known
        try:
            found = TokenBloom.from_bytes(read(segment.bloom_offset, segment.bloom_length))
        except (StoreError, OSError, ValueError):
            return None
        self._keep(segment.key, found)
        return found

    def _keep(self, key: str, bloom: TokenBloom) -> None:
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = bloom
            self._bytes += len(bloom.words) * BYTES_PER_WORD
            while self._bytes > self._max_bytes and self._kept:
                _, gone = self._kept.popitem(last=False)
                self._bytes -= len(gone.words) * BYTES_PER_WORD


# << Which streams a query wants: matchers run on the stream table, before any row is read.
# <<
# << An absent label has the empty value, as in Prometheus. Regexes go through RE2 on distinct values only.


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows in `[start_ns, end_ns)` of streams that satisfy all matchers."""

    matchers: tuple[Matcher, ...]
    start_ns: int
    end_ns: int
    narrowing: tuple[Matcher, ...] = ()
    """Only for streams that have such a label."""
    needles: tuple[Needles, ...] = ()
    """Words that a segment must hold."""

    def streams(self, found: Iterable[Stream]) -> tuple[Stream, ...]:
        """Those that may have wanted rows."""
        chosen = select(in_range(found, self.start_ns, self.end_ns), self.matchers)
        for matcher in self.narrowing:
            fitting = {id(stream) for stream in select(chosen, [matcher])}
            chosen = [s for s in chosen if id(s) in fitting or not has_label(s, matcher.name)]
        return tuple(chosen)

    def words_beside(self, names: Collection[str]) -> list[Needles]:
        """What the token bloom can be asked: values of labels of streams, which have these, are not in it."""
        return [needle for needle in self.needles if needle.label not in names]


def select(streams: Iterable[Stream], matchers: Sequence[Matcher]) -> list[Stream]:
    """Streams whose labels satisfy every matcher."""
    chosen = list(streams)
    for matcher in matchers:
        values = [label_of(stream, matcher.name) for stream in chosen]
        wanted = _verdicts(matcher, list(dict.fromkeys(values)))
        chosen = [stream for stream, value in zip(chosen, values, strict=True) if wanted[value]]
    return chosen


def in_range(streams: Iterable[Stream], start_ns: int, end_ns: int) -> list[Stream]:
    """Streams with a row that may lie in `[start_ns, end_ns)`."""
    return [s for s in streams if s.min_ns < end_ns and s.max_ns >= start_ns]


def has_label(stream: Stream, name: str) -> bool:
    return any(label == name for label, _ in stream.labels)


def label_of(stream: Stream, name: str) -> str:
    return next((value for label, value in stream.labels if label == name), "")


def _verdicts(matcher: Matcher, distinct: list[str]) -> dict[str, bool]:
    if matcher.op.is_regex:
        hits = regexp.full_matches(matcher.value, distinct)
    else:
        hits = [value == matcher.value for value in distinct]
    is_negative = matcher.op.is_negative
    return {value: hit != is_negative for value, hit in zip(distinct, hits, strict=True)}


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
