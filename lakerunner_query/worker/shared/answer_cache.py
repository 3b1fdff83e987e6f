"""Encoded answers to units of metric queries, kept in memory: a repeated unit gets the same bytes.

A unit names everything that its answer depends on, its segments among it, and segments never change. So
nothing is invalidated when a segment is published: the next query brings another unit.
"""

from __future__ import annotations

import msgspec

from lakerunner_query.protocol.units import LogMetricUnit, MetricUnit, ShardUnit
from lakerunner_query.worker.shared.lru import ByteLru

CacheableUnit = MetricUnit | ShardUnit | LogMetricUnit
LARGEST_SHARE = 4
"""An answer of more than this part of the budget would push out all the others."""


class AnswerCache:
    """The most recently used answers, up to `max_bytes`; 0 turns the cache off."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._answers: ByteLru[CacheableUnit, bytes] = ByteLru(max_bytes, len)

    def get(self, unit: CacheableUnit) -> bytes | None:
        if not self._max_bytes or _merges_shards(unit):
            return None
        return self._answers.get(_key(unit))

    def put(self, unit: CacheableUnit, body: bytes) -> None:
        if not _merges_shards(unit) and len(body) <= self._max_bytes // LARGEST_SHARE:
            self._answers.put(_key(unit), body)


def _merges_shards(unit: CacheableUnit) -> bool:
    """Tell whether the unit brings the answers of shards: large, quickly answered, not worth caching."""
    return isinstance(unit, MetricUnit) and bool(unit.given)


def _key(unit: CacheableUnit) -> CacheableUnit:
    """Return the unit without what only chooses its worker."""
    if isinstance(unit, ShardUnit):
        return ShardUnit(msgspec.structs.replace(unit.of, turn=0, affinity=""), unit.number, unit.count)
    return msgspec.structs.replace(unit, turn=0, affinity="")
