"""How much an organisation may push per second: a token bucket each.

A request is let in while its organisation is not in debt, and then charged in full: one larger than the
limit passes once and is paid for by waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

BURST_S = 10.0
"""An organisation that was quiet may send so many seconds' worth at once."""
MAX_BUCKETS = 10_000

LimitOf = Callable[[str], int | None]
"""Bytes per second that an organisation may push; None is unlimited."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    moment: float


class Quota:
    """Used from the event loop only."""

    def __init__(self, limit_of: LimitOf, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_of = limit_of
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def allowed(self, org: str, size: int) -> float | None:
        """None and charged for `size` bytes, or the seconds to wait and not charged."""
        limit = self._limit_of(org)
        if limit is None:
            return None
        if limit <= 0:
            return 60.0
        now = self._clock()
        bucket = self._buckets.pop(org, None) or _Bucket(limit * BURST_S, now)
        bucket.tokens = min(limit * BURST_S, bucket.tokens + (now - bucket.moment) * limit)
        bucket.moment = now
        self._buckets[org] = bucket  # behind the others: the first is the one longest unused
        if len(self._buckets) > MAX_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
        if bucket.tokens <= 0:
            return max(0.001, -bucket.tokens / limit)
        bucket.tokens -= size
        return None

    def charge(self, org: str, size: int) -> None:
        """More of a request that was let in: it passes, and its organisation waits the longer afterwards."""
        if bucket := self._buckets.get(org):
            bucket.tokens -= size
