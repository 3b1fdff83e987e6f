"""Which segments may hold an answer: one question to the index, scoped by organisation in its SQL.

A connection that went stale while idle fails on first use, so the question is asked once more before the
query is refused with 503.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TypeVar

import anyio
from anyio.to_thread import run_sync

from lakerunner_query.errors import IndexUnavailableError
from lakerunner_query.plan.logql import ReadStreams
from lakerunner_query.plan.promql import Reads
from lakerunner_query.protocol.units import RollupRef, segment_ref
from resources.index import postgres
from resources.index.contract import QueryIndex
from resources.index.types import ApiKey, Segment, SegmentQuery, TierView
from resources.lake.currency import current_partitions
from resources.lake.frequency import AS_SENT, rollup_of
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS, HOUR_NS, cut

Answer = TypeVar("Answer")
NS_PER_MS = 1_000_000
READING_A_ROLLUP_ROW = 24
"""It takes about as long as so many samples: ten the first time, fifty where samples are in memory."""
MAX_NS = 2**63 - 1 - 2 * DAY_NS
KEY_GOOD_S = 2.0
MOST_KEYS = 10_000
LOST = (postgres.IndexUnavailableError, OSError)


class Locator:
    """The index as the query side sees it, off the event loop."""

    def __init__(self, index: QueryIndex, threads: int = 8) -> None:
        self._index = index
        self._limiter = anyio.CapacityLimiter(threads)
        self._keys: dict[bytes, tuple[float, ApiKey]] = {}

    async def segments(self, streams: ReadStreams, *, names: bool = False) -> list[Segment]:
        """Live segments that overlap the range and carry the demanded terms, oldest first."""
        question = SegmentQuery(
            org=streams.org,
            dataset=streams.dataset,
            frequency_ms=0,
            start_ns=streams.start_ns,
            end_ns=streams.end_ns - 1,  # the index takes both ends as inclusive
            terms=streams.terms,
            names=names,
        )
        return await self._ask(partial(self._index.find_segments, question))

    async def metric_segments(
        self, org: str, dataset: str, wanted: Reads, *, names: bool = False
    ) -> list[Segment]:
        """Live segments that may hold samples in `(from_ms, to_ms]` of what matches, oldest first."""
        question = SegmentQuery(
            org=org,
            dataset=dataset,
            frequency_ms=0,
            start_ns=_held(wanted.from_ms * NS_PER_MS + 1),
            end_ns=_held(wanted.to_ms * NS_PER_MS + NS_PER_MS - 1),
            terms=wanted.terms,
            names=names,
        )
        return await self._ask(partial(self._index.find_segments, question))

    async def tiers(self, org: str, frequencies_ms: Sequence[int], from_ms: int, to_ms: int) -> TierView:
        """Partitions and rollup segments of the days that `(from_ms, to_ms]` touches."""
        start = cut(_held(from_ms * NS_PER_MS + 1), DAY_NS)
        end = _held(cut(_held(to_ms * NS_PER_MS), DAY_NS) + DAY_NS)
        return await self._ask(
            partial(self._index.tier_view, org, Signal.METRICS, (AS_SENT, *frequencies_ms), start, end)
        )

    async def api_key(self, key_hash: bytes) -> ApiKey | None:
        """A key that was good a moment ago is; a revoked one may be for as long."""
        now = time.monotonic()
        until, known = self._keys.get(key_hash, (0.0, None))
        if until > now:
            return known
        found = await self._ask(partial(self._index.find_api_key, key_hash))
        if len(self._keys) >= MOST_KEYS:
            self._keys.clear()
        if found is not None:
            self._keys[key_hash] = now + KEY_GOOD_S, found
        return found

    async def live_segments(self, org: str, dataset: str) -> int:
        return await self._ask(partial(self._index.count_segments, org, dataset))

    async def _ask(self, question: partial[Answer]) -> Answer:
        try:
            return await run_sync(question, limiter=self._limiter)
        except LOST:
            return await self._ask_again(question)

    async def _ask_again(self, question: partial[Answer]) -> Answer:
        try:
            return await run_sync(question, limiter=self._limiter)
        except LOST as error:
            raise IndexUnavailableError(
                "the segment index does not answer; nothing was read, try again shortly"
            ) from error


def _held(ns: int) -> int:
    """Queries may name times of which there cannot be samples; the index holds those of 1678 to 2261."""
    return max(-MAX_NS, min(MAX_NS, ns))


def rollup_refs(tiers: TierView, reads: Sequence[Reads]) -> tuple[RollupRef, ...]:
    """What of the rollups may be used for these stretches."""
    return narrowed(worth_reading(tiers), reads)


def worth_reading(tiers: TierView) -> tuple[RollupRef, ...]:
    """What of the rollups is current, and read faster than the samples that it stands for."""
    if not tiers.partitions:
        return ()
    found: list[RollupRef] = []
    as_sent = rows_per_hour(tiers.segments, AS_SENT)
    for frequency, starts in current_partitions(tiers.partitions).items():
        mine = [segment for segment in tiers.segments if segment.frequency_ms == frequency]
        if frequency == AS_SENT or not starts:
            continue
        if as_sent and rows_per_hour(mine, frequency) * READING_A_ROLLUP_ROW > as_sent:
            continue
        found.append(RollupRef(frequency, tuple(sorted(starts)), tuple(map(segment_ref, mine))))
    return tuple(found)


def narrowed(rollups: Sequence[RollupRef], reads: Sequence[Reads]) -> tuple[RollupRef, ...]:
    """As much of them as these stretches touch."""
    if not rollups or not reads:
        return ()
    from_ns = min(read.from_ms for read in reads) * NS_PER_MS
    to_ns = max(read.to_ms for read in reads) * NS_PER_MS
    found: list[RollupRef] = []
    for rollup in rollups:
        width = rollup_of(rollup.frequency_ms).partition_ns
        starts = tuple(start for start in rollup.starts if start + width > from_ns and start < to_ns)
        segments = tuple(s for s in rollup.segments if s.max_ns > from_ns and s.min_ns <= to_ns)
        if starts:
            found.append(RollupRef(rollup.frequency_ms, starts, segments))
    return tuple(found)


def rows_per_hour(segments: Sequence[Segment], frequency_ms: int) -> float:
    """Of the hours that have any; told from whole segments, of all metrics together."""
    mine = [segment for segment in segments if segment.frequency_ms == frequency_ms]
    hours = {
        hour for s in mine for hour in range(cut(s.min_ns, HOUR_NS), cut(s.max_ns, HOUR_NS) + 1, HOUR_NS)
    }
    return sum(segment.rows for segment in mine) / len(hours) if hours else 0.0
