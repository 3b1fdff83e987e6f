"""A cache of the registry of buckets, prefixes and organisations, at most five seconds old.

A name that is missing triggers a new load, so that an organisation works the moment it is created. Loading
happens in a thread of its own and callers wait only briefly: an index that is down, or accepts connections
and never answers, must not stop notifications that the last known registry can place.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from resources.index.contract import IngressIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.notifications.references import Registry

log = logging.getLogger(__name__)
MAX_AGE_S = 5.0
PAUSE_S = 2.0
WAIT_S = 2.0
WAIT_ON_MISS_S = 5.0

TimedRegistry = tuple[float, Registry]
"""Start of the load, and its result."""


class RegistryCache:
    """The cache; thread-safe."""

    def __init__(self, index: IngressIndex, clock: Callable[[], float] = time.monotonic) -> None:
        self._index = index
        self._clock = clock
        self._lock = threading.Lock()
        self._loaded: TimedRegistry | None = None
        self._load_future: Future[TimedRegistry] | None = None
        self._retry_at = 0.0

    def current(self) -> Registry:
        """Return the registry; stale while the index is away, an error only if there never was one."""
        known, now = self._loaded, self._clock()
        if known is None:
            return self._wait(WAIT_ON_MISS_S)[1]
        if now - known[0] < MAX_AGE_S or now < self._retry_at:
            return known[1]
        try:
            return self._wait(WAIT_S)[1]
        except IndexUnavailableError as error:
            self._retry_at = self._clock() + PAUSE_S
            log.warning(
                "the registry could not be loaded, one of %.0f s ago is used: %s", now - known[0], error
            )
            return known[1]

    def load_after(self, moment: float) -> Registry:
        """Return a registry whose load began after `moment`; a name it lacks does not exist."""
        began, registry = self._loaded or self._wait(WAIT_ON_MISS_S)
        while began <= moment:
            began, registry = self._wait(WAIT_ON_MISS_S)
        return registry

    def now(self) -> float:
        return self._clock()

    def _wait(self, seconds: float) -> TimedRegistry:
        try:
            return self._start().result(seconds)
        except TimeoutError as error:
            raise IndexUnavailableError(f"no answer within {seconds:.0f} s") from error

    def _start(self) -> Future[TimedRegistry]:
        """Return the load under way, or start one."""
        with self._lock:
            if self._load_future is None or self._load_future.done():
                self._load_future = Future()
                threading.Thread(
                    target=self._run_load, args=(self._load_future,), name="registry", daemon=True
                ).start()
            return self._load_future

    def _run_load(self, flight: Future[TimedRegistry]) -> None:
        try:
            self._loaded = self._load()
        except Exception as error:  # noqa: BLE001 - handed to whoever waits
            flight.set_exception(error)
        else:
            flight.set_result(self._loaded)

    def _load(self) -> TimedRegistry:
        began = self._clock()
        profiles, mappings = self._index.storage_profiles(), tuple(self._index.prefix_mappings())
        return began, Registry(profiles, mappings, frozenset(self._index.organisations()))
