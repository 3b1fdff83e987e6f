"""What people and dashboards see of tiers, in numbers. Ages are counted by the index' own clock."""

from __future__ import annotations

from dataclasses import dataclass

from resources.lake.layout import Signal


@dataclass(frozen=True, slots=True)
class TierNumbers:
    """One dataset of an organisation: what is live, what is left to do, what waits for the sweeper."""

    org: str
    signal: Signal
    dataset: str
    segments: int = 0
    bytes: int = 0
    rows: int = 0
    unsettled: int = 0
    """Live segments that may still be merged with others: compaction's debt."""
    unsettled_bytes: int = 0
    newest_ns: int | None = None
    """The newest event of a live segment; of a rollup, the end of its newest bucket."""
    newest_s: float = 0.0
    """How long ago that was; below 0 for telemetry that is stamped ahead."""
    due: int = 0
    """Partitions that can be built (days: once they are over) and whose sources changed since they were."""
    due_s: float = 0.0
    """For how long the first of them has been due."""
    retired: int = 0
    """Segments that were replaced and whose files are still there."""
    retired_bytes: int = 0


@dataclass(frozen=True, slots=True)
class OrphanNumbers:
    """Files of an organisation in the lake that the index does not know."""

    org: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TierStatus:
    tiers: tuple[TierNumbers, ...]
    """By organisation, signal and dataset, in this order."""
    orphans: tuple[OrphanNumbers, ...]
    """By organisation; those without any are not in it."""
