"""A pure decision tells if an hour is recorded anew, and from which segments.

metrics 12:00 v4, recorded v7 from v3            →  record 12:00 again, if it is still v7 then
metrics 12:00 v4, recorded v8 from v4, not due   →  nothing to do, if the rules are those of then
samples of 11:00 deleted because of their age    →  refused: rules look back into it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from resources.index.types import Partition, Segment, TierView
from resources.lake.frequency import AS_SENT
from resources.lake.layout import Signal
from resources.lake.signals import RECORDED_MS
from resources.lake.timecut import HOUR_NS

ORIGIN = "recorded"
"""Name that the origins of recorded segments begin with."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Signals and hours that the rules of an organisation read."""

    signals: tuple[Signal, ...]
    back_ns: int

    @property
    def hours_back(self) -> int:
        return -(-self.back_ns // HOUR_NS)


@dataclass(frozen=True, slots=True)
class Recording:
    """One hour to be recorded."""

    org: str
    hour_ns: int
    expected_version: int
    built_from: Mapping[int, int]
    """Versions of the hours that it is recorded from."""
    segments: Mapping[Signal, tuple[Segment, ...]]
    """Segments that rules read."""
    retire: tuple[str, ...]
    """Ids of the recorded segments that are swapped out."""

    @property
    def source_bytes(self) -> int:
        return sum(one.bytes for segments in self.segments.values() for one in segments)


class Skip(StrEnum):
    """Reasons why an hour is not recorded."""

    CURRENT = "current"
    EMPTY = "empty"  # it never had a record
    REFUSED = "refused"  # it cannot be recorded any more


@dataclass(frozen=True, slots=True)
class Skipped:
    skip: Skip
    reason: str = ""


def plan_hour(
    org: str,
    hour: int,
    metrics: TierView,
    views: Mapping[Signal, TierView],
    sources: Mapping[int, int],
    reach: Reach,
    origin: str,
    *,
    force: bool,
) -> Recording | Skipped:
    """Plan one hour.

    `metrics` has the hour alone; the views of what rules read, and `sources`, have hours before it, too.
    """
    recorded = {p.start_ns: p for p in metrics.partitions if p.frequency_ms == RECORDED_MS}
    own = recorded.get(hour) or Partition(org, Signal.METRICS, RECORDED_MS, hour, 0, {}, 0)
    mine = [s for s in metrics.segments if s.hour_ns == hour and is_recorded(s)]
    if hour not in sources and own.version == 0 and not mine:
        return Skipped(Skip.EMPTY)
    seen = [partition for view in (metrics, *views.values()) for partition in view.partitions]
    expired = sorted(p.start_ns for p in seen if _is_gone(p, hour, reach))
    if expired:
        return Skipped(Skip.REFUSED, f"records of the hour {expired[0]} were deleted for their age")
    is_current = own.version > 0 and dict(own.built_from) == dict(sources)
    if not force and not own.due and is_current and all(s.origin == origin for s in mine):
        return Skipped(Skip.CURRENT)
    return Recording(
        org,
        hour,
        own.version,
        dict(sources),
        {signal: tuple(_read(view.segments, hour, reach)) for signal, view in views.items()},
        tuple(s.segment_id for s in mine),
    )


def is_recorded(segment: Segment) -> bool:
    return segment.origin.partition("@")[0] == ORIGIN


def _is_gone(partition: Partition, hour: int, reach: Reach) -> bool:
    inside = hour - reach.hours_back * HOUR_NS <= partition.start_ns <= hour
    return partition.expired and inside and partition.frequency_ms == AS_SENT


def _read(segments: Sequence[Segment], hour: int, reach: Reach) -> list[Segment]:
    """Return the segments with samples that rules read; what the hour recorded before is none of them."""
    first, last = hour - reach.back_ns, hour + HOUR_NS
    return [
        one
        for one in segments
        if one.frequency_ms == AS_SENT
        and one.max_ns > first
        and one.min_ns <= last
        and not (one.hour_ns >= hour and is_recorded(one))
    ]
