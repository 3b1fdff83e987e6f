"""Queries that derived metrics could serve are noted behind their answers, and counted in batches.

    sum(rate({app="web"} |= "error" [5m]))    120 times, 31 s, 4 GB of segments, 1 series

Noting a query costs an append to a bounded list. A thread of its own puts texts into normal form and sends
them every ten seconds. What cannot be noted or sent is counted, and nothing is tried again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakerunner_query.errors import QueryError
from lakerunner_query.plan.rewrite import BUCKET_NS, Leaf, bytes_read
from resources.index import postgres
from resources.index.query_log import AskedQuery, QueryLogIndex, add_up
from resources.lake.timecut import DAY_NS, SECOND_NS, cut

if TYPE_CHECKING:
    from lakerunner_query.coordinator.engine import PreparedQuery

SENDERS = 1
"""Threads that send, each over a connection of its own."""
FLUSH_S = 10.0
MAX_WAITING = 1000
"""Queries that wait for the next batch."""
MAX_SEGMENTS = 200_000
"""Segments of these queries, which are held in memory until then."""
MAX_TEXT = 4000
"""Characters of a query; nobody makes a rule for a longer one."""
MOST_PER_DAY = 2000
"""Different queries of one organisation and day."""
END_S = 2.0
"""Seconds for the last batch of a process that ends."""
LOST = (postgres.IndexUnavailableError, OSError)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Noted:
    """Query that was answered, and what it took."""

    query: PreparedQuery[Any, Any, Any, Any]
    seconds: float
    series: int
    at_ns: int


class QueryLog:
    """Counts queries of all organisations, and sends the counts to the index."""

    def __init__(self, index: QueryLogIndex, flush_s: float = FLUSH_S) -> None:
        self._index = index
        self._flush_s = flush_s
        self._waiting: list[Noted] = []
        self._segments = 0
        self._threads = ThreadPoolExecutor(SENDERS, thread_name_prefix="query-log")
        self._flushing: asyncio.Task[None] | None = None
        self.lost = 0
        self.without_room = 0

    def open(self) -> None:
        self._flushing = asyncio.create_task(self._keep_flushing())

    async def close(self) -> None:
        """Send what waits, if the index takes it soon."""
        if self._flushing is not None:
            self._flushing.cancel()
            await asyncio.gather(self._flushing, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await self.flush()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def note(self, query: PreparedQuery[Any, Any, Any, Any], seconds: float, series: int) -> None:
        """Take an answered query along with the next batch; one for which there is no place is lost."""
        held = self._segments + sum(map(len, query.segments))
        if len(self._waiting) >= MAX_WAITING or (self._waiting and held > MAX_SEGMENTS):
            self.lost += 1
            return
        self._segments = held
        self._waiting.append(Noted(query, seconds, series, time.time_ns()))

    async def flush(self) -> None:
        """Send what waits; nothing of it is kept if the index does not take it."""
        noted, self._waiting, self._segments = self._waiting, [], 0
        if not noted:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._send, noted)
        except LOST:
            self.lost += len(noted)
        except asyncio.CancelledError:
            self.lost += len(noted)
            raise
        except Exception:  # noqa: BLE001 - a defect here ends no query, and not the task
            self.lost += len(noted)
            _log.exception("the query log lost a batch of %d queries", len(noted))

    def gauges(self) -> dict[str, float]:
        return {
            "lakerunner_query_log_lost_total": float(self.lost),
            "lakerunner_query_log_without_room_total": float(self.without_room),
        }

    async def _keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(self._flush_s)
            await self.flush()

    def _send(self, noted: Sequence[Noted]) -> None:
        asked = add_up(one for one in map(asked_query, noted) if one is not None)
        if asked:
            self.without_room += self._index.add_asked(asked, MOST_PER_DAY)


def asked_query(noted: Noted) -> AskedQuery | None:
    """Return what is counted of a query; None where no part of it could be derived."""
    query = noted.query
    try:
        asked = query.language.asked(query.plan, query.request)
    except (QueryError, RecursionError):  # too deep to be printed
        return None
    if asked is None or not asked.leaves or len(asked.text) > MAX_TEXT:
        return None
    is_served = query.rewritten is not None and query.rewritten.is_used
    from_ns = min(leaf.times.from_ns for leaf in asked.leaves)
    to_ns = max(leaf.times.to_ns for leaf in asked.leaves)
    return AskedQuery(
        query.request.org,
        cut(noted.at_ns, DAY_NS),
        asked.language.value,
        asked.text,
        all(map(_is_aligned, asked.leaves)),
        served=int(is_served),
        seconds=0.0 if is_served else noted.seconds,
        read_bytes=0.0 if is_served else bytes_read(query.distinct_segments, from_ns, to_ns),
        segments=0 if is_served else len(query.distinct_segments),
        window_s=0.0 if is_served else (to_ns - from_ns) / SECOND_NS,
        series=noted.series,
        last_ns=noted.at_ns,
    )


def _is_aligned(leaf: Leaf) -> bool:
    times = leaf.times
    return not times.first_ns % BUCKET_NS and (times.count == 1 or not times.step_ns % BUCKET_NS)


def count_series(answer: object) -> int:
    """Count the series of one answer for samples, or the groups of one for spans."""
    series = getattr(answer, "series", ())
    functions = getattr(answer, "functions", ())
    return max(len(series), *map(len, functions)) if functions else len(series)
