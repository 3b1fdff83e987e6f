"""Data exists at several frequencies: 0 as it was sent, the others as buckets of that width.

Each rollup is built from the one below it, and the lowest from what was sent. Nothing else spells the names
of their datasets.
"""

from __future__ import annotations

from dataclasses import dataclass

from resources.lake.timecut import DAY_NS, HOUR_NS

AS_SENT = 0
TEN_SECONDS, MINUTE, FIVE_MINUTES, HOUR, DAY = 10_000, 60_000, 300_000, 3_600_000, 86_400_000
"""Milliseconds: metrics are cut on whole ones."""


@dataclass(frozen=True, slots=True)
class Rollup:
    """One frequency of rolled-up metrics."""

    label: str
    frequency_ms: int
    source_ms: int
    """Frequency that it is built from."""
    partition_ns: int
    """Width of one partition."""

    @property
    def dataset(self) -> str:
        return f"metrics-{self.label}"


ROLLUPS: tuple[Rollup, ...] = (
    Rollup("10s", TEN_SECONDS, AS_SENT, HOUR_NS),
    Rollup("1m", MINUTE, TEN_SECONDS, HOUR_NS),
    Rollup("5m", FIVE_MINUTES, MINUTE, HOUR_NS),
    Rollup("1h", HOUR, FIVE_MINUTES, HOUR_NS),
    Rollup("1d", DAY, HOUR, DAY_NS),
)
BY_FREQUENCY = {rollup.frequency_ms: rollup for rollup in ROLLUPS}
CARDINALITY_DATASET = "metrics-cardinality"
"""Side data of the rollups: counts of series and label values of each metric per hour and day."""


def rollup_of(frequency_ms: int) -> Rollup:
    """Return the rollup of this width."""
    found = BY_FREQUENCY.get(frequency_ms)
    if found is None:
        raise ValueError(f"{frequency_ms} ms is no rollup: expected one of {sorted(BY_FREQUENCY)}")
    return found
