"""Publications change partitions, and rollups are built from those."""

from __future__ import annotations

from resources.index.types import Publication
from resources.lake.signals import FACTS
from resources.lake.timecut import cut


def changed_partitions(publication: Publication) -> list[int]:
    """Return the starts of the partitions whose content changes, in the order in which they are locked."""
    return sorted({*publication.hours, *(built.start_ns for built in publication.built)})


def dependents(publication: Publication) -> list[tuple[int, int]]:
    """Return (frequency, start) of the rollups to be built again, in the order in which they are locked."""
    return sorted(
        (rollup.frequency_ms, start)
        for rollup in FACTS[publication.claim.signal].rollups
        if rollup.source_ms == publication.frequency_ms
        for start in {cut(start + 1, rollup.partition_ns) for start in changed_partitions(publication)}
    )
