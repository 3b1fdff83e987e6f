"""Limits of pushes: bytes per second of an organisation, from its settings."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from resources.index.contract import IngressIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.lake.options import OptionError, OrgOptions

log = logging.getLogger(__name__)
MAX_AGE_S = 5.0


class PushLimits:
    """The setting `push_bytes_per_second` of organisations, at most a few seconds old.

    The event loop asks with every request, so a thread of its own reads. Until the first reading nobody is
    limited, and while the index is away the last reading holds.
    """

    def __init__(self, index: IngressIndex, clock: Callable[[], float] = time.monotonic) -> None:
        self._index = index
        self._clock = clock
        self._options: Mapping[str, OrgOptions] = {}
        self._began = float("-inf")
        self._reading: threading.Thread | None = None

    def __call__(self, org: str) -> int | None:
        if self._clock() - self._began >= MAX_AGE_S and not (self._reading and self._reading.is_alive()):
            self._began = self._clock()
            self._reading = threading.Thread(target=self._read, name="push-limits", daemon=True)
            self._reading.start()
        options = self._options.get(org)
        return options.push_bytes_per_second if options else None

    def settle(self) -> None:
        """Wait for a reading under way."""
        if self._reading:
            self._reading.join()

    def _read(self) -> None:
        try:
            self._options = self._index.org_options()
        except (IndexUnavailableError, OptionError) as error:
            log.warning("limits of pushes could not be read, the last ones hold: %s", error)


BURST_S = 10.0
"""Size of a token bucket, in seconds of the limit."""
MAX_BUCKETS = 10_000

LimitOf = Callable[[str], int | None]
"""Source of the bytes per second that an organisation may push; None is unlimited."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    moment: float


class Quota:
    """A token bucket per organisation, for the event loop only.

    A request passes while its organisation is not in debt, and is then charged in full: one larger than the
    limit passes once, and later ones wait for it.
    """

    def __init__(self, limit_of: LimitOf, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_of = limit_of
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def try_charge(self, org: str, size: int) -> float | None:
        """Charge `size` bytes and return None, or return the seconds to wait and charge nothing."""
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
        """Charge more for a request that has passed; its organisation waits the longer afterwards."""
        if bucket := self._buckets.get(org):
            bucket.tokens -= size
