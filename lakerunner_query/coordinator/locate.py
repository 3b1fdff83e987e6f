"""The locator asks the index, per organisation, which segments may hold an answer.

A connection that went stale while idle fails on first use, so the question is asked once more before the
query is refused with 503. Nobody waits for the index longer than for the answer to the query: a call that
hangs is left to the time limits of its connection, and a call that waits for a thread is dropped.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from lakerunner_query.coordinator.replica import Replicas
from lakerunner_query.errors import IndexUnavailableError
from lakerunner_query.plan.logql import ReadStreams
from lakerunner_query.plan.promql import Reads
from resources.index import postgres
from resources.index.account_types import ApiKey, MetricFamily
from resources.index.contract import QueryIndex
from resources.index.query_log import AskedQuery
from resources.index.rule_types import CoverageQuery, RuleChange, RuleSet, StoredRule
from resources.index.ruling_types import (
    AlertChange,
    AlertCorrection,
    GroupRecord,
    RecordedState,
    WaitingNotices,
)
from resources.index.types import CountQuery, SegmentQuery, Snapshot, TierQuery
from resources.lake.frequency import AS_SENT
from resources.lake.layout import Signal
from resources.lake.metric_families import possible_families
from resources.lake.timecut import DAY_NS, cut, to_datetime

FoundT = TypeVar("FoundT")
METRICS = "metrics"
NS_PER_MS = 1_000_000
MAX_NS = 2**63 - 1 - 2 * DAY_NS
KEY_GOOD_S = 2.0
"""Seconds for which a key that was good stays so; a revoked one may be used for as long."""
SUSPECT_S, PROBE_S = 0.5, 1.0
"""Seconds without an answer after which the index is asked whether it lives, and that it has to say so."""
LOOK_S = 0.5
"""Seconds between two looks at what is to be read again, or whether the index is back."""
YIELD_S = 0.25
"""Seconds by which reading a replica lets the query that needs it go first."""
REFRESH_PATIENCE_S = 30.0
PROBE = b"is anybody there"
"""A hash that no key has."""
WATCHES = 3
"""Threads for probes and replicas."""
MAX_FAMILY_LISTS = 64
AWAY = "the segment index does not answer; nothing was read, try again shortly"
WAIT_S = 3.0
"""Seconds for a question that belongs to no query, such as the check of a key."""
MAX_KEYS = 10_000
LOOKUPS, KEY_CHECKS = 8, 2
"""Calls to the index at a time."""
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
    counted: CountQuery | None = None
    """Dataset whose live segments are counted, for a query that is explained."""
    coverage: tuple[CoverageQuery, ...] = ()
    """Rules that may serve parts of the query."""


def rows_query(streams: ReadStreams, *, names: bool = False) -> SegmentQuery:
    """Ask for segments that may hold rows of these streams."""
    return _segment_query(
        streams.org, streams.dataset, streams.start_ns, streams.end_ns - 1, streams.terms, names
    )


def samples_query(org: str, reads: Reads, *, names: bool = False) -> SegmentQuery:
    """Ask for segments that may hold samples in `(from_ms - before_ms, to_ms]` of what matches."""
    first = (reads.from_ms - reads.before_ms) * NS_PER_MS + 1
    last = reads.to_ms * NS_PER_MS + NS_PER_MS - 1
    return _segment_query(org, METRICS, first, last, reads.terms, names)


def _segment_query(
    org: str, dataset: str, first_ns: int, last_ns: int, terms: tuple[tuple[int, ...], ...], names: bool
) -> SegmentQuery:
    return SegmentQuery(
        org=org, dataset=dataset, frequency_ms=AS_SENT, start_ns=_in_range(first_ns),
        end_ns=_in_range(last_ns), terms=terms, names=names,
    )  # fmt: skip


class Locator:
    """The index as the query side sees it, off the event loop.

    Once opened it keeps replicas of what queries touch. While the index is away they answer, up to an age,
    and answers say so.
    """

    def __init__(
        self, index: QueryIndex, threads: int = LOOKUPS, *, max_age_s: float = 0.0, max_bytes: int = 128 << 20
    ) -> None:
        self._index = index
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="index")
        self._key_threads = ThreadPoolExecutor(KEY_CHECKS, thread_name_prefix="keys")
        """Keys are checked in threads of their own: slow look-ups must not make callers strangers."""
        self._watch_threads = ThreadPoolExecutor(WATCHES, thread_name_prefix="index-watch")
        self._keys: dict[bytes, tuple[float, ApiKey]] = {}
        """Keys that were good, with the time of their last check."""
        self._families: dict[tuple[str, str], tuple[float, list[MetricFamily]]] = {}
        self._max_age_s = max_age_s
        self._replicas = Replicas(index, max_bytes)
        self._is_away = False
        self._last_answer = time.monotonic()
        self._probe: asyncio.Task[bool] | None = None
        self._wake = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self.outdated_answers = 0
        """Look-ups that were answered from a replica."""

    def open(self) -> None:
        """Begin to keep replicas, and to watch the index; needs a running event loop."""
        if self._max_age_s > 0:
            self._keeping = asyncio.create_task(self._keep())

    def close(self) -> None:
        """Ask nothing more; calls at work end by themselves."""
        for task in (self._keeping, self._probe):
            if task is not None:
                task.cancel()
        for threads in (self._threads, self._key_threads, self._watch_threads):
            threads.shutdown(wait=False, cancel_futures=True)

    async def look_up(self, lookup: Lookup, deadline: float) -> Snapshot:
        """Answer all questions of a query as of one moment; segments by selector."""
        questions = [question for question in lookup.segments if question is not None]
        tiers = None if lookup.rollups is None else _tier_query(lookup.rollups)
        if not questions and tiers is None and lookup.counted is None:
            return Snapshot(((),) * len(lookup.segments))
        if self._keeping is not None and self._replicas.touch(questions, tiers):
            self._wake.set()
        # indexes are asked for coverage only where a rule may serve the query
        more = (lookup.coverage,) if lookup.coverage else ()
        asking = partial(self._index.snapshot, questions, tiers, lookup.counted, *more)
        found = await self._ask_or_recall(asking, partial(self._recall, questions, tiers), deadline)
        answers = iter(found.segments)
        segments = tuple(() if question is None else next(answers) for question in lookup.segments)
        return Snapshot(segments, found.tiers, found.outdated, found.live, found.gaps)

    def _recall(self, questions: Sequence[SegmentQuery], tiers: TierQuery | None) -> Snapshot | None:
        org = questions[0].org if questions else tiers.org if tiers else ""
        replica = self._replicas.find(org, self._max_age_s)
        found = None if replica is None else replica.snapshot(questions, tiers)
        if replica is None or found is None:
            return None
        self.outdated_answers += 1
        silent_s, moment = time.monotonic() - self._last_answer, to_datetime(replica.moment_ns)
        return replace(
            found,
            outdated=(
                f"the segment index has not answered for {silent_s:.0f} s: "
                f"data newer than {moment:%Y-%m-%dT%H:%M:%SZ} may be missing"
            ),
        )

    async def api_key(self, key_hash: bytes) -> ApiKey | None:
        """Return a good key; while the index is away, one that was good at its last check."""
        now = time.monotonic()
        checked_at, known = self._keys.get(key_hash, (-math.inf, None))
        if now - checked_at < KEY_GOOD_S:
            return known

        def recall() -> ApiKey | None:
            return known if time.monotonic() - checked_at <= self._max_age_s else None

        asking = partial(self._index.find_api_key, key_hash)
        found = await self._ask_or_recall(asking, recall, threads=self._key_threads)
        if found is None:
            self._keys.pop(key_hash, None)
        elif not self._is_away:
            if len(self._keys) >= MAX_KEYS:
                self._keys.clear()
            self._keys[key_hash] = now, found
        return found

    async def ingest_losses(self, org: str, start_ns: int, end_ns: int) -> list[Mapping[str, object]]:
        """Count what ingestion could not keep; while the index is away nobody knows."""
        asking = partial(self._index.ingest_losses, org, _in_range(start_ns), _in_range(end_ns))
        return await self._ask_or_recall(asking, lambda: None)

    async def rule_groups(self, org: str) -> tuple[RuleSet, list[GroupRecord], RecordedState]:
        """Return the rules of an organisation, their last evaluations, and how recording rules go."""

        def asking() -> tuple[RuleSet, list[GroupRecord], RecordedState]:
            return self._index.rules(org), self._index.group_records(org), self._index.recorded_state(org)

        return await self._ask_or_recall(partial(asking), lambda: None)

    async def rules(self, org: str) -> RuleSet:
        """Return the rules of an organisation, of which nothing is remembered."""
        return await self._ask(partial(self._index.rules, org))

    async def asked_queries(self, org: str, since_ns: int, most: int) -> list[AskedQuery]:
        return await self._ask(partial(self._index.asked_queries, org, _in_range(since_ns), most))

    async def rule_versions(self, org: str, rule_id: int) -> list[StoredRule]:
        return await self._ask(partial(self._index.rule_versions, org, rule_id))

    async def change_rules(
        self, org: str, changes: Sequence[RuleChange], expected_revision: int | None
    ) -> RuleSet:
        return await self._ask(partial(self._index.change_rules, org, changes, expected_revision))

    async def alert_changes(self, org: str, from_ms: int, to_ms: int, limit: int) -> list[AlertChange]:
        """List changes of alerts, the newest first."""
        asking = partial(self._index.alert_changes, org, from_ms, to_ms, limit)
        return await self._ask_or_recall(asking, lambda: None)

    async def alert_corrections(
        self, org: str, from_ms: int, to_ms: int, limit: int
    ) -> list[AlertCorrection]:
        """List what alerts missed, the newest first."""
        asking = partial(self._index.alert_corrections, org, from_ms, to_ms, limit)
        return await self._ask_or_recall(asking, lambda: None)

    async def waiting_notices(self, org: str) -> list[WaitingNotices]:
        """Count the notifications of an organisation that wait for a receiver."""
        return await self._ask_or_recall(partial(self._index.waiting_notices, org), lambda: None)

    async def metric_families(self, org: str, since_ms: int, metric: str) -> list[MetricFamily]:
        """List what remote write told of metric families lately; `metric` narrows it to that one."""
        names = [family for family, _ in possible_families(metric)] if metric else None
        asking = partial(self._index.metric_metadata, org, _in_range(since_ms * NS_PER_MS), names)
        found = await self._ask_or_recall(asking, partial(self._recall_families, org, metric, names))
        if not self._is_away:
            if len(self._families) >= MAX_FAMILY_LISTS:
                self._families.clear()
            self._families[org, metric] = time.monotonic(), found
        return found

    def _recall_families(self, org: str, metric: str, names: list[str] | None) -> list[MetricFamily] | None:
        for key in ((org, metric), (org, "")):
            read_at, known = self._families.get(key, (-math.inf, []))
            if time.monotonic() - read_at <= self._max_age_s:
                return [one for one in known if names is None or one.family in names]
        return None

    async def health(self) -> str:
        """Return `ok`, or `degraded` with the reason; raise if nothing can be answered."""

        def recall() -> str | None:
            if self._replicas.youngest_age_s() > self._max_age_s:
                return None
            silent_s = time.monotonic() - self._last_answer
            return f"degraded: no answer for {silent_s:.0f} s, queries are answered from memory"

        def asking() -> str:
            self._index.find_api_key(PROBE)
            return "ok"

        return await self._ask_or_recall(partial(asking), recall, threads=self._watch_threads)

    def gauges(self) -> dict[str, float]:
        return {
            **self._replicas.gauges(),
            "lakerunner_query_index_away": float(self._is_away),
            "lakerunner_query_index_silent_seconds": (
                time.monotonic() - self._last_answer if self._is_away else 0.0
            ),
            "lakerunner_query_index_outdated_answers_total": self.outdated_answers,
        }

    async def _ask_or_recall(
        self,
        question: partial[FoundT],
        recall: Callable[[], FoundT | None],
        deadline: float | None = None,
        threads: ThreadPoolExecutor | None = None,
    ) -> FoundT:
        """Ask the index; while it is away, return what is known, or raise at once if that is nothing."""
        if self._is_away:
            known = recall()
            if known is None:
                raise IndexUnavailableError(AWAY)
            return known
        asking = asyncio.ensure_future(self._ask(question, deadline, threads))
        try:
            done, _ = await asyncio.wait({asking}, timeout=SUSPECT_S)
            if not done and not await self._is_answering():
                known = recall()
                if known is not None:
                    return known
            return await asking
        except IndexUnavailableError:
            known = self._recalled(recall)
            if known is None:
                raise
            return known
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    def _recalled(self, recall: Callable[[], FoundT | None]) -> FoundT | None:
        return recall() if self._is_away else None

    async def _ask(
        self,
        question: partial[FoundT],
        deadline: float | None = None,
        threads: ThreadPoolExecutor | None = None,
    ) -> FoundT:
        """Return the answer, or raise once the deadline, a time on the event loop's clock, has passed."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(loop.time() + WAIT_S if deadline is None else deadline):
                try:
                    found = await loop.run_in_executor(threads or self._threads, question)
                except postgres.IndexTimeoutError:
                    raise
                except LOST:
                    found = await loop.run_in_executor(threads or self._threads, question)
        except LOST as error:  # the deadline's TimeoutError is an OSError, too
            if isinstance(error, postgres.IndexUnavailableError) and self._keeping is not None:
                await self._is_answering()
            raise IndexUnavailableError(AWAY) from error
        self._answered()
        return found

    def _answered(self) -> None:
        self._last_answer, self._is_away = time.monotonic(), False

    async def _is_answering(self) -> bool:
        """Ask for next to nothing; all who wonder wait for the same answer."""
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._ask_for_life())
        return await asyncio.shield(self._probe)

    async def _ask_for_life(self) -> bool:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(PROBE_S):
                await loop.run_in_executor(self._watch_threads, self._index.find_api_key, PROBE)
        except LOST:
            self._is_away = self._keeping is not None
            return False
        self._answered()
        return True

    async def _keep(self) -> None:
        """Read replicas again when it is time; while the index is away, ask until it answers."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._wake.wait()
            if self._wake.is_set():
                self._wake.clear()
                await asyncio.sleep(YIELD_S)
            if self._is_away and not await self._is_answering():
                await asyncio.sleep(LOOK_S)
                continue
            for org in self._replicas.due(max_age_s=self._max_age_s):
                if not await self._refresh(org):
                    break

    async def _refresh(self, org: str) -> bool:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(REFRESH_PATIENCE_S):
                await loop.run_in_executor(self._watch_threads, self._replicas.refresh, org)
        except LOST:
            is_slow = await self._is_answering()
            if is_slow:
                self._replicas.put_off(org)
            return is_slow
        self._answered()
        return True


def _tier_query(lookup: RollupLookup) -> TierQuery:
    """Ask for partitions and rollup segments of whole days."""
    start = cut(_in_range(lookup.from_ms * NS_PER_MS + 1), DAY_NS)
    end = _in_range(cut(_in_range(lookup.to_ms * NS_PER_MS), DAY_NS) + DAY_NS)
    return TierQuery(lookup.org, Signal.METRICS, (AS_SENT, *lookup.frequencies_ms), start, end)


def _in_range(ns: int) -> int:
    """Clamp a time to the years 1678 to 2261: queries may name any, the index holds those."""
    return max(-MAX_NS, min(MAX_NS, ns))
