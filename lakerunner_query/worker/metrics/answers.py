"""Finished answers to parts of queries: who asks again while no segment has changed gets the same bytes.

A unit of work names everything that its answer depends on, the segments among it, and segments never change.
So nothing has to be thrown away when something is published: it is another unit.
"""

from __future__ import annotations

import msgspec

from lakerunner_query.protocol.units import LogMetricUnit, MetricUnit, ShardUnit
from lakerunner_query.worker.metrics.row_groups import RowGroupCache

Remembered = MetricUnit | ShardUnit | LogMetricUnit
ANSWER = "answer"


class Answers:
    """The most recently used ones, up to so many bytes; none at all with room for none."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: RowGroupCache[memoryview] = RowGroupCache(max_bytes)

    def of(self, unit: Remembered) -> bytes | None:
        found = self._kept.get(ANSWER, _key(unit)) if self._max_bytes and not _is_given(unit) else None
        return None if found is None else bytes(found)

    def keep(self, unit: Remembered, body: bytes) -> None:
        if _is_given(unit):
            return
        if len(body) <= self._max_bytes // 4:  # a single one must not push out all the others
            self._kept.put(ANSWER, _key(unit), memoryview(body))


def _is_given(unit: Remembered) -> bool:
    """Such a unit is as large as what it is given, and quickly answered: it is not worth keeping."""
    return isinstance(unit, MetricUnit) and bool(unit.given)


def _key(unit: Remembered) -> Remembered:
    """The same for all workers."""
    if isinstance(unit, ShardUnit):
        return ShardUnit(msgspec.structs.replace(unit.of, turn=0, affinity=""), unit.number, unit.count)
    return msgspec.structs.replace(unit, turn=0, affinity="")
