"""Which organisation a push belongs to.

Keys are asked of the index at most every few seconds, and the last answer stands in while the index is away:
senders go on while PostgreSQL is restarted. So a revoked key can push for `FRESH_S` longer, and for `STALE_S`
while nobody can ask. The webhook's token is no organisation's and cannot push.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from lakerunner_ingress.auth import authenticate
from lakerunner_ingress.errors import ForbiddenError
from lakerunner_ingress.threads import WorkerThreads
from resources.index.contract import KeyIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.index.types import ApiKey

FRESH_S = 5.0
STALE_S = 600.0
MAX_KEYS = 10_000
TENANT = "x-scope-orgid"


class NotFreshError(LookupError):
    """The index has to be asked, which blocks."""


class KeyCache:
    """A `KeyIndex` that remembers. Keys that do not exist are never remembered."""

    def __init__(self, index: KeyIndex, clock: Callable[[], float] = time.monotonic) -> None:
        self._index = index
        self._clock = clock
        self._known: dict[bytes, tuple[float, ApiKey]] = {}

    def find_api_key(self, key_hash: bytes) -> ApiKey | None:
        """Blocks; `IndexUnavailableError` only for a key that was not seen lately."""
        now = self._clock()
        try:
            found = self._index.find_api_key(key_hash)
        except IndexUnavailableError:
            asked, key = self._known.get(key_hash, (now - STALE_S, None))
            if key is None or now - asked >= STALE_S:
                raise
            return key
        if found is None:
            self._known.pop(key_hash, None)
            return None
        if len(self._known) >= MAX_KEYS:
            self._known.clear()
        self._known[key_hash] = (now, found)
        return found

    def fresh(self, key_hash: bytes) -> ApiKey:
        asked, key = self._known.get(key_hash, (0.0, None))
        if key is None or self._clock() - asked >= FRESH_S:
            raise NotFreshError
        return key


class _FreshKeys:
    """The same cache without a way to block."""

    def __init__(self, cache: KeyCache) -> None:
        self._cache = cache

    def find_api_key(self, key_hash: bytes) -> ApiKey | None:
        return self._cache.fresh(key_hash)


class Doorkeeper:
    def __init__(self, index: KeyIndex, workers: WorkerThreads) -> None:
        self._keys = KeyCache(index)
        self._workers = workers

    async def organisation(self, headers: Mapping[str, str]) -> str:
        """The organisation of the key, or `UnauthorizedError` / `ForbiddenError`."""
        try:
            org = authenticate(headers, "", _FreshKeys(self._keys)).org
        except NotFreshError:
            org = (await self._workers.run(lambda: authenticate(headers, "", self._keys))).org
        tenant = headers.get(TENANT, "")
        if tenant not in {"", org}:
            raise ForbiddenError(f"X-Scope-OrgID is {tenant[:64]!r}, but this API key is of {org!r}")
        return org
