"""The locator asks the index, per organisation, which segments may hold an answer.

A connection that went stale while idle fails on first use, so the question is asked once more before the
query is refused with 503.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import anyio
from anyio.to_thread import run_sync

from lakerunner_query.errors import IndexUnavailableError
from lakerunner_query.plan.logql import ReadStreams
from lakerunner_query.plan.promql import Reads
from resources.index import postgres
from resources.index.contract import QueryIndex
from resources.index.types import ApiKey, Segment, SegmentQuery, TierView
from resources.lake.frequency import AS_SENT
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS, cut

FoundT = TypeVar("FoundT")
METRICS = "metrics"
NS_PER_MS = 1_000_000
MAX_NS = 2**63 - 1 - 2 * DAY_NS
KEY_GOOD_S = 2.0
"""Seconds for which a key that was good stays so; a revoked one may be used for as long."""
MAX_KEYS = 10_000
LOST = (postgres.IndexUnavailableError, OSError)


@dataclass(frozen=True, slots=True)
class RollupLookup:
    """Rollups of these frequencies in the days that `(from_ms, to_ms]` touches."""

    org: str
    frequencies_ms: tuple[int, ...]
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class Lookup:
    """All questions of one query to the index."""

    segments: tuple[SegmentQuery | None, ...]
    """Segments by selector; None where a selector contradicts itself and reads nothing."""
    rollups: RollupLookup | None = None


def rows_query(streams: ReadStreams, *, names: bool = False) -> SegmentQuery:
    """Ask for segments that may hold rows of these streams."""
    return _segment_query(
        streams.org, streams.dataset, streams.start_ns, streams.end_ns - 1, streams.terms, names
    )


def samples_query(org: str, reads: Reads, *, names: bool = False) -> SegmentQuery:
    """Ask for segments that may hold samples in `(from_ms, to_ms]` of what matches."""
    first, last = reads.from_ms * NS_PER_MS + 1, reads.to_ms * NS_PER_MS + NS_PER_MS - 1
    return _segment_query(org, METRICS, first, last, reads.terms, names)


def _segment_query(
    org: str, dataset: str, first_ns: int, last_ns: int, terms: tuple[tuple[int, ...], ...], names: bool
) -> SegmentQuery:
    return SegmentQuery(
        org=org, dataset=dataset, frequency_ms=AS_SENT, start_ns=_in_range(first_ns),
        end_ns=_in_range(last_ns), terms=terms, names=names,
    )  # fmt: skip


class Locator:
    """The index as the query side sees it, off the event loop."""

    def __init__(self, index: QueryIndex, threads: int = 8) -> None:
        self._index = index
        self._limiter = anyio.CapacityLimiter(threads)
        self._keys: dict[bytes, tuple[float, ApiKey]] = {}

    async def look_up(self, lookup: Lookup) -> tuple[tuple[tuple[Segment, ...], ...], TierView]:
        """Ask all questions of a query at once."""
        segments, tiers = await asyncio.gather(
            asyncio.gather(*map(self.segments, lookup.segments)), self.tiers(lookup.rollups)
        )
        return tuple(segments), tiers

    async def segments(self, query: SegmentQuery | None) -> tuple[Segment, ...]:
        """Return live segments that overlap the range and carry the demanded terms, oldest first."""
        if query is None:
            return ()
        found: list[Segment] = await self._ask(partial(self._index.find_segments, query))
        return tuple(found)

    async def tiers(self, lookup: RollupLookup | None) -> TierView:
        """Return partitions and rollup segments of whole days."""
        if lookup is None:
            return TierView((), ())
        start = cut(_in_range(lookup.from_ms * NS_PER_MS + 1), DAY_NS)
        end = _in_range(cut(_in_range(lookup.to_ms * NS_PER_MS), DAY_NS) + DAY_NS)
        frequencies: Sequence[int] = (AS_SENT, *lookup.frequencies_ms)
        return await self._ask(
            partial(self._index.tier_view, lookup.org, Signal.METRICS, frequencies, start, end)
        )

    async def api_key(self, key_hash: bytes) -> ApiKey | None:
        now = time.monotonic()
        until, known = self._keys.get(key_hash, (0.0, None))
        if until > now:
            return known
        found = await self._ask(partial(self._index.find_api_key, key_hash))
        if len(self._keys) >= MAX_KEYS:
            self._keys.clear()
        if found is not None:
            self._keys[key_hash] = now + KEY_GOOD_S, found
        return found

    async def live_segments(self, org: str, dataset: str) -> int:
        return await self._ask(partial(self._index.count_segments, org, dataset))

    async def _ask(self, question: partial[FoundT]) -> FoundT:
        try:
            return await run_sync(question, limiter=self._limiter)
        except LOST:
            return await self._ask_again(question)

    async def _ask_again(self, question: partial[FoundT]) -> FoundT:
        try:
            return await run_sync(question, limiter=self._limiter)
        except LOST as error:
            raise IndexUnavailableError(
                "the segment index does not answer; nothing was read, try again shortly"
            ) from error


def _in_range(ns: int) -> int:
    """Clamp a time to the years 1678 to 2261: queries may name any, the index holds those."""
    return max(-MAX_NS, min(MAX_NS, ns))
