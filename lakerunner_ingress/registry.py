"""The registry of buckets, prefixes and organisations, at most five seconds old.

A name that is not in it makes it load anew, so that an organisation works the moment it is created. While
the index is down the last known registry goes on serving: notifications are still placed and accepted.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from resources.index.contract import IngressIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.lake.notice import Registry

log = logging.getLogger(__name__)
MAX_AGE_S = 5.0
PAUSE_S = 2.0


class RegistryCache:
    def __init__(self, index: IngressIndex, clock: Callable[[], float] = time.monotonic) -> None:
        self._index = index
        self._clock = clock
        self._lock = threading.Lock()
        self._registry: Registry | None = None
        self._loaded_at = 0.0
        self._retry_at = 0.0

    def current(self) -> Registry:
        """The registry; stale while the index is down, an error only if there never was one."""
        with self._lock:
            registry, now = self._registry, self._clock()
            if registry is not None and (now - self._loaded_at < MAX_AGE_S or now < self._retry_at):
                return registry
            try:
                return self._load()
            except IndexUnavailableError as error:
                if registry is None:
                    raise
                self._retry_at = self._clock() + PAUSE_S
                log.warning("registry is %.0f s old: %s", now - self._loaded_at, error)
                return registry

    def newer_than(self, moment: float) -> Registry:
        """A registry loaded after `moment`; what it does not know does not exist."""
        with self._lock:
            if self._registry is not None and self._loaded_at > moment:
                return self._registry
            return self._load()

    def now(self) -> float:
        return self._clock()

    def _load(self) -> Registry:
        began = self._clock()
        registry = Registry(
            self._index.storage_profiles(),
            tuple(self._index.prefix_mappings()),
            frozenset(self._index.organisations()),
        )
        self._registry, self._loaded_at = registry, began
        return registry
