"""Publications change partitions; rollups and materialized metrics are built from those."""

from __future__ import annotations

from resources.index.types import BatchKind, Publication
from resources.lake.frequency import AS_SENT
from resources.lake.layout import Signal
from resources.lake.signals import FACTS, MATERIALIZED_MS
from resources.lake.timecut import HOUR_NS, cut

DERIVING = frozenset({BatchKind.MATERIALIZE})
"""Batches that publish what was derived: nothing is derived from that."""


def is_sent(publication: Publication) -> bool:
    """Tell if what was sent changes; derived metrics change only what is read."""
    return publication.claim.kind not in DERIVING


def changed_partitions(publication: Publication) -> list[int]:
    """Return the starts of the partitions whose content changes, in the order in which they are locked."""
    return sorted({*publication.hours, *(built.start_ns for built in publication.built)})


def dependents(publication: Publication) -> list[tuple[int, int]]:
    """Return (frequency, start) of partitions to be built again, in the order in which they are locked."""
    facts = FACTS[publication.claim.signal]
    rollups = {
        (rollup.frequency_ms, start)
        for rollup in facts.rollups
        if rollup.source_ms == publication.frequency_ms
        for start in {cut(start + 1, rollup.partition_ns) for start in changed_partitions(publication)}
    }
    is_source = facts.is_materialized and publication.frequency_ms == AS_SENT and is_sent(publication)
    return sorted(
        rollups | ({(MATERIALIZED_MS, hour) for hour in _touched(publication)} if is_source else set())
    )


def source_window(signal: Signal, hour_ns: int) -> tuple[int, int]:
    """Return the hours that the metrics of an hour are derived from, as bounds of their starts."""
    beside = HOUR_NS if FACTS[signal].margin_ns else 0
    return hour_ns - beside, hour_ns + HOUR_NS + beside


def _touched(publication: Publication) -> set[int]:
    """Return the changed hours, and their neighbours where records changed near the boundary."""
    changed = set(changed_partitions(publication))
    margin_ns = FACTS[publication.claim.signal].margin_ns
    if not margin_ns:
        return changed
    if publication.retire:
        return {hour + step for hour in changed for step in (-HOUR_NS, 0, HOUR_NS)}
    mine = [s for s in publication.segments if s.hour_ns in changed]
    before = {s.hour_ns - HOUR_NS for s in mine if s.min_ns <= s.hour_ns + margin_ns}
    behind = {s.hour_ns + HOUR_NS for s in mine if s.max_ns > s.hour_ns + HOUR_NS - margin_ns}
    return changed | before | behind
