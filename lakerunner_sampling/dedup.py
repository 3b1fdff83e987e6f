"""Redis says which kept traces another sampler exports already; PostgreSQL answers while Redis is away.

    SET lr:acme:<trace id> <sampler> NX EX 7200      one script for a batch of traces

Only kept traces have keys. A key names its sampler: a key of one's own is left from a step that was killed
before it was stored, and does not stop its repetition. The time to live exceeds the longest trace.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import redis

from resources.arrays import Flags
from resources.index.sampling_contract import SamplerIndex
from resources.index.sampling_types import SamplerRecord

CLAIM = """
local taken = {}
for at = 3, #ARGV do
  if not redis.call('SET', KEYS[1] .. ARGV[at], ARGV[1], 'NX', 'EX', ARGV[2]) then
    if redis.call('GET', KEYS[1] .. ARGV[at]) ~= ARGV[1] then
      taken[#taken + 1] = at - 3
    end
  end
end
return taken
"""
"""Claims ids, and returns the places of those that another sampler has."""
BATCH = 5000
"""Ids in one call: Redis does nothing else meanwhile."""
TIMEOUT_S = 0.5
FIRST_REST_S, LONGEST_REST_S = 1.0, 30.0
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Deduplicator:
    """Claims kept traces for one sampler."""

    index: SamplerIndex
    ttl_s: int
    url: str = ""
    """Address of Redis; without one PostgreSQL answers always."""
    prefix: str = "lr"
    clock: Callable[[], float] = time.monotonic
    counts: Counter[str] = field(default_factory=Counter)
    _redis: redis.Redis | None = None
    _away_until: float = 0.0
    _rest_s: float = FIRST_REST_S

    def claim(self, record: SamplerRecord, ids: Sequence[bytes]) -> Flags:
        """Flag the traces that are this sampler's to export."""
        if not ids:
            return np.zeros(0, np.bool_)
        taken = self._in_redis(record, ids)
        if taken is None:
            self.counts["postgres"] += len(ids)
            found = self.index.kept_elsewhere(record, b"".join(ids), float(self.ttl_s))
            others = {found[at : at + 16] for at in range(0, len(found), 16)}
            return np.array([one not in others for one in ids], np.bool_)
        self.counts["redis"] += len(ids)
        ours = np.ones(len(ids), np.bool_)
        ours[taken] = False
        return ours

    def close(self) -> None:
        if self._redis is not None:
            self._redis.close()

    def _in_redis(self, record: SamplerRecord, ids: Sequence[bytes]) -> list[int] | None:
        """Return the places of ids that other samplers have; None while Redis is away."""
        if not self.url or self.clock() < self._away_until:
            return None
        if self._redis is None:
            self._redis = redis.Redis.from_url(
                self.url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S
            )
        key = f"{self.prefix}:{record.org}:"
        taken: list[int] = []
        try:
            script = self._redis.register_script(CLAIM)
            for at in range(0, len(ids), BATCH):
                found = script(keys=[key], args=[record.name, self.ttl_s, *ids[at : at + BATCH]])
                taken += [at + place for place in found]
        except redis.RedisError as error:
            self.counts["failures"] += 1
            self._away_until = self.clock() + self._rest_s
            _log.warning("Redis is away, PostgreSQL answers; next attempt in %g s: %s", self._rest_s, error)
            self._rest_s = min(LONGEST_REST_S, 2 * self._rest_s)
            return None
        self._rest_s = FIRST_REST_S
        return taken
