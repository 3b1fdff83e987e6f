"""Ranges are requested from the object store in threads; a request that takes long is sent a second time.

    flight = requests.start(key, 0, 65_536, meter, store_blocks)
    requests.wait(flight, meter)

A request of nobody else is sent again once it takes longer than most of its size do, and the first answer
wins; few may, so that a slow store does not get twice the work. Retries are those of the store's client.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYetError
from typing import Protocol

from lakerunner_query.worker.shared.segment_file import FetchMeter, SegmentUnreadableError

AT_A_TIME = 48
"""Requests of a worker process that are under way; threads that only wait."""
LOOK_S = 0.05
"""Seconds between two looks at whether the query was cancelled."""
HEDGE_SHARE, MOST_HEDGES = 0.05, 8.0
"""Part of all requests that may be sent twice, and how many may be saved up."""
ENOUGH, KEPT = 20, 200
"""Durations of one size that make a percentile, and those that are remembered."""
SLOW_PERCENTILE, SLOW_FACTOR, SLOWEST_S = 0.95, 1.5, 0.03
"""A request is slow at this multiple of this percentile, and never below so many seconds."""

Landed = Callable[[bytes | None], None]
"""Takes the bytes of an answer, or None when there will be none."""
GAP_BLOCKS = 4
"""Blocks between two wanted ones that are fetched along: cheaper than another request."""
REQUEST_BLOCKS = 128
"""Largest request."""


class RangeStore(Protocol):
    """The method of the object store that reading needs."""

    def get_range(self, key: str, start: int, length: int) -> bytes: ...


class Flight:
    """One request under way, or two for the same range; whoever wants its bytes waits for it."""

    __slots__ = ("_done", "attempts", "began", "end", "key", "landed", "lock", "start")

    def __init__(self, key: str, start: int, end: int, landed: Landed) -> None:
        self.key = key
        self.start = start
        self.end = end
        self.landed = landed
        self.began = time.monotonic()
        self.attempts = 1
        self.lock = threading.Lock()
        self._done: Future[None] = Future()

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def is_done(self) -> bool:
        return self._done.done()

    def result(self, timeout_s: float) -> None:
        """Wait until the bytes are kept; raise the error of the last attempt."""
        self._done.result(timeout_s)

    def succeed(self, data: bytes) -> None:
        """Keep the bytes of the first attempt that brings them."""
        with self.lock:
            if self.is_done:
                return
            try:
                self.landed(data)
            except BaseException as error:  # noqa: BLE001 - whoever waits gets it
                self._done.set_exception(error)
            else:
                self._done.set_result(None)

    def fail(self, error: BaseException) -> None:
        """End with the error, unless another attempt may still bring the bytes."""
        with self.lock:
            self.attempts -= 1
            if self.attempts == 0 and not self.is_done:
                self.landed(None)
                self._done.set_exception(error)


class Durations:
    """Seconds that requests took lately, by the order of magnitude of their size."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: dict[int, deque[float]] = {}

    def add(self, size: int, seconds: float) -> None:
        with self._lock:
            self._seconds.setdefault(size.bit_length() // 3, deque(maxlen=KEPT)).append(seconds)

    def slow_s(self, size: int) -> float | None:
        """Return the seconds after which a request of this size is slow; None while that is unknown."""
        with self._lock:
            known = sorted(self._seconds.get(size.bit_length() // 3, ()))
        if len(known) < ENOUGH:
            return None
        return max(SLOWEST_S, SLOW_FACTOR * known[int(SLOW_PERCENTILE * (len(known) - 1))])


class RangeRequests:
    """Sends requests for ranges of objects."""

    def __init__(self, store: RangeStore) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="ranges")
        self._durations = Durations()
        self._lock = threading.Lock()
        self._hedges = MOST_HEDGES
        self.counts: Counter[str] = Counter()
        """Requests, bytes and second attempts, for `/metrics`."""

    def gauges(self) -> dict[str, float]:
        with self._lock:
            return {
                "lakerunner_worker_range_requests_total": float(self.counts["requests"]),
                "lakerunner_worker_range_bytes_total": float(self.counts["bytes"]),
                "lakerunner_worker_range_requests_hedged_total": float(self.counts["hedged"]),
            }

    def start(self, key: str, start: int, end: int, meter: FetchMeter, landed: Landed) -> Flight:
        """Ask for a range; `landed` is called once, in whichever thread, before waiting ends."""
        flight = Flight(key, start, end, landed)
        self._send(flight, meter)
        return flight

    def get(self, key: str, start: int, end: int, meter: FetchMeter) -> bytes:
        """Read a range that nobody keeps."""
        found: list[bytes] = []
        flight = self.start(key, start, end, meter, lambda data: found.append(data or b""))
        self.wait(flight, meter)
        return found[0]

    def wait(self, flight: Flight, meter: FetchMeter) -> None:
        """Wait for the bytes, sending the request again if it is slow; raise what it fails with."""
        slow_s = self._durations.slow_s(flight.size)
        while True:
            meter.cancellation.check()
            try:
                flight.result(LOOK_S)
            except NotYetError:
                if flight.is_done:  # just now, or with such an error of its own
                    return flight.result(0)
            else:
                return None
            is_slow = slow_s is not None and time.monotonic() - flight.began > slow_s
            if is_slow and flight.attempts == 1 and self._may_hedge():
                with flight.lock:
                    flight.attempts += 1
                self.counts["hedged"] += 1
                self._send(flight, meter)

    def _send(self, flight: Flight, meter: FetchMeter) -> None:
        try:
            meter.charge(flight.size)
        except BaseException as error:
            flight.fail(error)
            raise
        with self._lock:
            self._hedges = min(MOST_HEDGES, self._hedges + HEDGE_SHARE)
            self.counts["requests"] += 1
            self.counts["bytes"] += flight.size
        self._threads.submit(self._attempt, flight)

    def _attempt(self, flight: Flight) -> None:
        began = time.monotonic()
        try:
            data = self._store.get_range(flight.key, flight.start, flight.size)
            if len(data) != flight.size:
                raise SegmentUnreadableError(  # noqa: TRY301 - whoever waits gets it
                    f"the object ends before byte {flight.end}, the index says otherwise"
                )
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            flight.fail(error)
            return
        self._durations.add(flight.size, time.monotonic() - began)
        flight.succeed(data)

    def _may_hedge(self) -> bool:
        with self._lock:
            if self._hedges < 1.0:
                return False
            self._hedges -= 1.0
            return True


def runs(blocks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Cut ascending blocks into requests.

    >>> list(runs([0, 1, 4, 40, 41]))
    [(0, 5), (40, 42)]
    """
    first = last = -1
    for block in blocks:
        if first < 0:
            first = last = block
        elif block - last - 1 <= GAP_BLOCKS and block - first < REQUEST_BLOCKS:
            last = block
        else:
            yield first, last + 1
            first = last = block
    if first >= 0:
        yield first, last + 1
