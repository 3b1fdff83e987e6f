"""Frozen values travel between the index and the sweeper.

`resources.index.types` has the others. Ages are counted by the index' own clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from resources.lake.layout import Signal


@dataclass(frozen=True, slots=True)
class TierNumbers:
    """Numbers of one dataset of an organisation: live segments, work left, files for the sweeper."""

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
    """Newest event of a live segment; of a rollup, the end of its newest bucket."""
    newest_s: float = 0.0
    """Age of the newest event; below 0 for telemetry that is stamped ahead."""
    due: int = 0
    """Partitions that can be built (days: once they are over) and whose sources changed since they were."""
    due_s: float = 0.0
    """Time for which the first of them has been due."""
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
    """Numbers by organisation, signal and dataset, in this order."""
    orphans: tuple[OrphanNumbers, ...]
    """Numbers by organisation; those without any are not in it."""


Remove = Callable[[Sequence[str]], None]
"""Function that deletes the objects of these keys; when it raises, the rows stay as they are."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention of one tier of one organisation's signal."""

    org: str
    signal: Signal
    tier: str
    keep_days: int
    stood_s: float
    """Age of its last change."""


@dataclass(frozen=True, slots=True)
class OldTier:
    """Segments of one frequency whose windows ended by `ended_by_ns` and may go."""

    org: str
    signal: Signal
    frequency_ms: int
    ended_by_ns: int


@dataclass(frozen=True, slots=True)
class AgingSegment:
    segment_id: str
    key: str
    start_ns: int
    width_ns: int
    bytes: int
    busy: bool
    """True for an input of a batch that is under way."""


@dataclass(frozen=True, slots=True)
class Aging:
    """Live segments and partitions that are not expired, which start before a tier's limit, oldest first."""

    segments: tuple[AgingSegment, ...]
    partitions: tuple[int, ...]
    seen_to_ns: int
    """Bound before which everything was seen; there may be more behind it."""


@dataclass(frozen=True, slots=True)
class OldWindow:
    """Unit of expiry: overlapping segments and all partitions they cover, together or not at all."""

    start_ns: int
    end_ns: int
    segments: tuple[AgingSegment, ...]
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LakeFile:
    """File of the lake that nothing needs any more."""

    key: str
    org: str
    bytes: int


@dataclass(frozen=True, slots=True)
class OldObject:
    """Raw object whose bytes may go."""

    object_id: int
    bucket: str
    key: str
    org: str
    bytes: int


@dataclass(frozen=True, slots=True)
class OrphanCount:
    """Files of an organisation that the index does not know, beside those that it does."""

    orphans: int
    bytes: int
    segments: int


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Counts of what has no use any more, and of what only a person can judge."""

    batches: int
    runs: int
    old_messages: int
    """Messages in the outbox for longer than a broker is usually away."""
    retired: int
    """Segments whose files wait for the end of the grace."""
