"""`SegmentOpener` opens the log segments that may answer: those with a selected stream and all words.

Their footers, stream tables and token blooms are read first, in one request each, and stay in memory; of the
rows a scan then reads what it needs. A segment that cannot be read comes back as `Missing`, and the others
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.errors import QueryError
from lakerunner_query.protocol.units import Missing, SegmentRef
from lakerunner_query.worker.logs.footer import Footer, read_footer, tail_ranges
from lakerunner_query.worker.logs.stream_filter import StreamFilter, TokenBlooms
from lakerunner_query.worker.shared.lru import ByteLru
from lakerunner_query.worker.shared.segment_file import (
    FetchMeter,
    Range,
    SegmentFile,
    Segments,
    SegmentUnreadableError,
)
from resources.arrays import Flags
from resources.duckdb import Cancellation, CancelledQueryError, DuckSession
from resources.lake.streams import Stream
from resources.lake.streams import decode as decode_streams
from resources.objects.errors import StoreError

Found = TypeVar("Found")
BLOOM_BYTES = 128 * 1024 * 1024
FOOTER_BYTES = 64 * 1024 * 1024
STREAM_BYTES = 64 * 1024 * 1024
"""Bounds of what stays in memory of all segments."""
STREAM_SIZE, LABEL_SIZE = 200, 150
"""Bytes of a stream in memory, and of each of its labels."""
UNFETCHED = (SegmentUnreadableError, StoreError)
"""Errors of the object store."""
DAMAGE = (duckdb.Error, pa.ArrowException, OSError, *UNFETCHED)
"""Errors of reading a damaged file; DuckDB has no class of its own for headers of pages."""
NO_DAMAGE = (duckdb.OutOfMemoryException, duckdb.InterruptException)
"""Errors among those that no file is to blame for."""


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """A segment whose ranges can be read, with the streams that are selected from it."""

    segment: SegmentRef
    file: SegmentFile
    footer: Footer
    streams: tuple[Stream, ...]
    is_local: bool = True
    has_all_streams: bool = False
    """All streams of the segment are selected."""
    is_replacement: bool = False
    """It was fetched anew because the copy before was damaged."""
    failures: list[Exception] = field(default_factory=list, compare=False)
    """Errors of the object store."""
    _with_streams: list[Flags] = field(default_factory=list, compare=False, repr=False)
    """Row groups with a selected stream, once somebody asked."""

    @property
    def name(self) -> str:
        """Name in DuckDB's statements, and in their column `filename`."""
        return self.file.name

    def matching_groups(self, start_ns: int, end_ns: int) -> Flags:
        """Flag row groups whose statistics allow for a row of a selected stream."""
        if self.has_all_streams:
            return self.footer.groups.overlapping(start_ns, end_ns)
        if not self._with_streams:
            ids = np.array([stream.stream_id for stream in self.streams], np.int64)
            self._with_streams.append(self.footer.groups.with_any(ids))
        return self.footer.groups.overlapping(start_ns, end_ns) & self._with_streams[0]

    def matching_rows(self, start_ns: int, end_ns: int) -> list[Range]:
        """Return the first row and the row behind the last of runs of matching row groups."""
        flags = np.concatenate(([False], self.matching_groups(start_ns, end_ns), [False]))
        edges = np.flatnonzero(flags[1:] != flags[:-1])
        rows = self.footer.groups.first[edges].reshape(-1, 2).tolist()
        return [(first, behind) for first, behind in rows]

    def read(self, start: int, length: int) -> bytes:
        with self._noting_failures():
            return self.file.read(start, length)

    def fetch(self, ranges: Sequence[Range]) -> None:
        with self._noting_failures():
            self.file.fetch(ranges)

    def fetch_ahead(self, ranges: Sequence[Range]) -> None:
        with self._noting_failures():
            self.file.fetch_ahead(ranges)

    @property
    def failure(self) -> Exception | None:
        return self.file.failure or next(iter(self.failures), None)

    @contextmanager
    def _noting_failures(self) -> Iterator[None]:
        try:
            yield
        except UNFETCHED as error:
            self.failures.append(error)
            raise


@dataclass(slots=True)
class OpenSegments:
    """The files of a scan; one that proves damaged moves to `missing`."""

    opened: list[OpenSegment] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    skipped: int = 0
    """Segments without a selected stream."""
    without_words: int = 0
    """Segments whose token blooms exclude a word."""
    meter: FetchMeter = field(default_factory=FetchMeter)


class SkipReason(Enum):
    """Reasons not to open a segment."""

    NO_STREAM = "no stream is selected"
    NO_WORD = "a word is not in it"


class SegmentOpener:
    """Opens segments for all scans of a worker process."""

    def __init__(
        self,
        segments: Segments,
        bloom_bytes: int = BLOOM_BYTES,
        *,
        max_bytes: int = 0,
        max_requests: int = 0,
    ) -> None:
        """`max_bytes` and `max_requests`: what one unit may cost the object store, 0: anything."""
        self._segments = segments
        self._budget = max_bytes, max_requests
        self._blooms = TokenBlooms(bloom_bytes)
        self._streams: ByteLru[str, tuple[Stream, ...]] = ByteLru(STREAM_BYTES, _streams_bytes)
        self._names: ByteLru[str, frozenset[str]] = ByteLru(4096)
        """Names of stream labels."""
        self._footers: ByteLru[str, Footer] = ByteLru(FOOTER_BYTES, lambda footer: footer.memory_bytes)
        self._decoders = ThreadPoolExecutor(8, thread_name_prefix="footers")

    def meter(self, cancellation: Cancellation) -> FetchMeter:
        """Return the meter of a unit, with its budget."""
        return FetchMeter(cancellation, *self._budget)

    @contextmanager
    def open(
        self, segments: Sequence[SegmentRef], stream_filter: StreamFilter, cancellation: Cancellation
    ) -> Iterator[OpenSegments]:
        """Open segments with matching streams, for as long as the block runs."""
        files = OpenSegments(meter=self.meter(cancellation))
        try:
            self._request_tails(segments, files.meter, with_blooms=bool(stream_filter.words))
            for one in self._map(lambda each: self._attempt(stream_filter, each, files.meter), segments):
                match one:
                    case OpenSegment():
                        files.opened.append(one)
                    case Missing():
                        files.missing.append(one)
                    case SkipReason():
                        files.skipped += one is SkipReason.NO_STREAM
                        files.without_words += one is SkipReason.NO_WORD
            cancellation.check()
            yield files
        finally:
            for opened in files.opened:
                opened.file.close()

    def worth_opening(
        self, segments: Sequence[SegmentRef], stream_filter: StreamFilter, cancellation: Cancellation
    ) -> tuple[list[SegmentRef], OpenSegments]:
        """Return segments that may have matching rows, and counts of the others."""
        pruned = OpenSegments(meter=self.meter(cancellation))
        self._request_tails(segments, pruned.meter, with_blooms=bool(stream_filter.words))

        def attempt(segment: SegmentRef) -> SkipReason | None:
            cancellation.check()
            try:
                return self._skip_reason(stream_filter, segment, pruned.meter)
            except UNFETCHED:
                return None  # opening it tells the reason

        found = list(zip(segments, self._map(attempt, segments), strict=True))
        pruned.skipped = sum(why is SkipReason.NO_STREAM for _, why in found)
        pruned.without_words = sum(why is SkipReason.NO_WORD for _, why in found)
        return [segment for segment, why in found if why is None], pruned

    def stream_tables(
        self, segments: Sequence[SegmentRef], meter: FetchMeter
    ) -> Iterator[tuple[SegmentRef, tuple[Stream, ...] | Missing]]:
        """Read the stream tables of segments, and nothing else of them."""
        self._request_tails(segments, meter, with_blooms=False, with_footers=False)

        def attempt(segment: SegmentRef) -> tuple[Stream, ...] | Missing:
            meter.cancellation.check()
            try:
                return self._streams_of(segment, meter)
            except UNFETCHED as error:
                return Missing(segment.segment_id, str(error))

        return zip(segments, self._map(attempt, segments), strict=True)

    def replace_damaged(
        self, stream_filter: StreamFilter, files: OpenSegments, damaged: OpenSegment, reason: str
    ) -> None:
        """Fetch a damaged file again, once; else report it as missing."""
        files.opened.remove(damaged)
        damaged.file.close()
        is_lost = damaged.is_replacement or damaged.is_local or isinstance(damaged.failure, StoreError)
        again: OpenSegment | Missing | SkipReason | None = None
        if not isinstance(damaged.failure, StoreError):
            self.forget(damaged.segment)
        if not is_lost:
            again = self._attempt(stream_filter, damaged.segment, files.meter)
        if isinstance(again, OpenSegment):
            files.opened.append(replace(again, is_replacement=True))
        else:
            files.missing.append(Missing(damaged.segment.segment_id, f"unreadable: {reason}"))

    def forget(self, segment: SegmentRef) -> None:
        """Drop the local copy and all that is known of it; the next query fetches it."""
        self._segments.forget(segment)
        self._streams.forget(segment.key)
        self._footers.forget(segment.key)
        self._names.forget(segment.key)

    def _map(self, attempt: Callable[[SegmentRef], Found], segments: Sequence[SegmentRef]) -> Iterator[Found]:
        """Do it in threads where something must be read, else here: that takes microseconds."""
        is_known = all(segment.key in self._streams for segment in segments)
        return map(attempt, segments) if is_known else self._decoders.map(attempt, segments)

    def _request_tails(
        self,
        segments: Sequence[SegmentRef],
        meter: FetchMeter,
        *,
        with_blooms: bool,
        with_footers: bool = True,
    ) -> None:
        """Request what is not known yet of any of the segments, all at the same time."""
        for segment in () if self._segments.is_local else segments:
            is_known = segment.key in self._streams and (not with_blooms or self._blooms.has(segment))
            if is_known and (not with_footers or segment.key in self._footers):
                continue
            with suppress(*UNFETCHED), self._segments.open(segment, meter) as file:  # reading it tells why
                file.fetch_ahead(tail_ranges(segment, with_bloom=with_blooms, with_footer=with_footers))

    def _attempt(
        self, stream_filter: StreamFilter, segment: SegmentRef, meter: FetchMeter
    ) -> OpenSegment | Missing | SkipReason:
        if meter.cancellation.cancelled:
            return SkipReason.NO_STREAM
        try:
            return self._open(stream_filter, segment, meter)
        except SegmentUnreadableError as error:
            if self._segments.is_local:
                return Missing(segment.segment_id, str(error))
        except StoreError as error:
            return Missing(segment.segment_id, str(error))
        self.forget(segment)  # the local copy may be to blame
        try:
            return self._open(stream_filter, segment, meter)
        except UNFETCHED as error:
            return Missing(segment.segment_id, str(error))

    def _open(
        self, stream_filter: StreamFilter, segment: SegmentRef, meter: FetchMeter
    ) -> OpenSegment | SkipReason:
        """Ask the bloom first: words are hashed already, streams are matched one by one."""
        streams = self._streams_of(segment, meter)
        if not self._may_hold_words(stream_filter, segment, streams, meter):
            return SkipReason.NO_WORD
        selected = stream_filter.select(streams)
        if not selected:
            return SkipReason.NO_STREAM
        file = self._segments.open(segment, meter)
        try:
            footer = self._footers.get_or_make(segment.key, lambda: read_footer(file))
        except BaseException:
            file.close()
            raise
        has_all = len(selected) == len(streams)
        return OpenSegment(segment, file, footer, selected, self._segments.is_local, has_all)

    def _skip_reason(
        self, stream_filter: StreamFilter, segment: SegmentRef, meter: FetchMeter
    ) -> SkipReason | None:
        streams = self._streams_of(segment, meter)
        if not self._may_hold_words(stream_filter, segment, streams, meter):
            return SkipReason.NO_WORD
        return None if stream_filter.selects_any(streams) else SkipReason.NO_STREAM

    def _may_hold_words(
        self, stream_filter: StreamFilter, segment: SegmentRef, streams: tuple[Stream, ...], meter: FetchMeter
    ) -> bool:
        if not stream_filter.words:
            return True
        names = self._names.get_or_make(segment.key, lambda: label_names(streams))
        words = stream_filter.words_in_rows(names)
        return self._blooms.may_hold(segment, words, partial(self._read, segment, meter))

    def _streams_of(self, segment: SegmentRef, meter: FetchMeter) -> tuple[Stream, ...]:
        return self._streams.get_or_make(
            segment.key,
            lambda: stream_table(
                segment, self._read(segment, meter, segment.series_offset, segment.series_length)
            ),
        )

    def _read(self, segment: SegmentRef, meter: FetchMeter, start: int, length: int) -> bytes:
        with self._segments.open(segment, meter) as file:
            return file.read(start, length)


def label_names(streams: Sequence[Stream]) -> frozenset[str]:
    return frozenset(name for stream in streams for name, _ in stream.labels)


def _streams_bytes(streams: Sequence[Stream]) -> int:
    return sum(STREAM_SIZE + LABEL_SIZE * len(stream.labels) for stream in streams)


@dataclass(frozen=True, slots=True)
class ScanResources:
    """Opener and DuckDB session of the worker, and the cancellation of one unit."""

    opener: SegmentOpener
    session: DuckSession
    cancellation: Cancellation


def discard_damaged(stream_filter: StreamFilter, files: OpenSegments, resources: ScanResources) -> bool:
    """Read every file alone and replace damaged ones; True where at least one was damaged."""
    damaged = [
        (one, reason) for one in files.opened
        if (reason := find_damage(one, stream_filter, resources.cancellation))
    ]  # fmt: skip
    for one, reason in damaged:
        resources.opener.replace_damaged(stream_filter, files, one, reason)
    return bool(damaged)


def find_damage(one: OpenSegment, stream_filter: StreamFilter, cancellation: Cancellation) -> str:
    """Decode every column of the row groups that a scan reads; return the error, empty where there is none.

    An error of the object store that Arrow or DuckDB met is that of the file; a spent budget ends the query.
    """
    if isinstance(one.failure, QueryError | CancelledQueryError):
        raise one.failure
    if one.failure is not None:
        return str(one.failure)
    groups = one.matching_groups(stream_filter.start_ns, stream_filter.end_ns)
    try:
        with pq.ParquetFile(one.file.source()) as file:
            for number in np.flatnonzero(groups).tolist():
                one.fetch(list(one.footer.chunk_ranges(one.footer.columns, np.arange(len(groups)) == number)))
                for name in one.footer.columns:
                    cancellation.check()
                    file.read_row_group(number, columns=[name], use_threads=False).validate(full=True)
    except (pa.ArrowException, OSError, *UNFETCHED) as error:
        return str(error).splitlines()[0]
    return ""


def stream_table(segment: SegmentRef, raw: bytes) -> tuple[Stream, ...]:
    """Decode the stream table from its bytes inside the object."""
    try:
        return decode_streams(raw)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        reason = f"damaged stream table of {segment.series_length} bytes: {error}"
        raise SegmentUnreadableError(reason) from error
