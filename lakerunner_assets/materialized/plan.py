"""A pure decision tells which hours are derived anew, and from which segments.

spans 12:00 v4, derived v7 from v3            →  derive 12:00 again, if it is still v7 then
spans 12:00 v4, derived v8 from v4, not due   →  nothing to do
spans 12:00 deleted because of their age      →  refused: half of its rows are gone
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from resources.index.types import Partition, Segment, TierView
from resources.lake.frequency import AS_SENT
from resources.lake.layout import Signal
from resources.lake.signals import MARGIN_NS, MATERIALIZED_MS
from resources.lake.timecut import HOUR_NS


@dataclass(frozen=True, slots=True)
class Derivation:
    """One hour to be derived."""

    org: str
    signal: Signal
    hour_ns: int
    expected_version: int
    built_from: Mapping[int, int]
    """Versions of the hour and its neighbours."""
    own: tuple[str, ...]
    """Keys of its segments."""
    beside: tuple[str, ...]
    """Keys of segments of the neighbours with records near it."""
    source_bytes: int
    retire: tuple[str, ...]
    """Ids of the derived segments that are swapped out."""


@dataclass(frozen=True, slots=True)
class HourPlan:
    todo: tuple[Derivation, ...] = ()
    current: tuple[int, ...] = ()
    empty: tuple[int, ...] = ()
    """Hours that never had a record."""
    refused: tuple[tuple[int, str], ...] = ()


def plan_hours(
    org: str,
    signal: Signal,
    hours: Sequence[int],
    view: TierView,
    metrics: TierView,
    *,
    preset: str,
    force: bool,
) -> HourPlan:
    """Plan the hours; the view holds their neighbours, too. `preset` begins the origin of what is derived."""
    versions = {p.start_ns: p for p in view.partitions if p.frequency_ms == AS_SENT and p.version > 0}
    derived = {p.start_ns: p for p in view.partitions if p.frequency_ms == MATERIALIZED_MS}
    expired = {p.start_ns for p in metrics.partitions if p.expired}
    todo: list[Derivation] = []
    current: list[int] = []
    empty: list[int] = []
    refused: list[tuple[int, str]] = []
    for hour in sorted(hours):
        own = derived.get(hour) or Partition(org, signal, MATERIALIZED_MS, hour, 0, {}, 0)
        source = versions.get(hour)
        if source is None and own.version == 0:
            empty.append(hour)
        elif source is not None and source.expired:
            refused.append((hour, "its records were deleted for their age"))
        elif hour in expired:
            refused.append((hour, "the metrics of this hour were deleted for their age"))
        elif not force and not own.due and _version(own, hour) == (source.version if source else 0):
            current.append(hour)
        else:
            near = {h: versions[h].version for h in (hour - HOUR_NS, hour, hour + HOUR_NS) if h in versions}
            mine = [s for s in metrics.segments if s.hour_ns == hour and s.origin.startswith(f"{preset}@")]
            todo.append(_derivation(own, near, view.segments, tuple(s.segment_id for s in mine)))
    return HourPlan(tuple(todo), tuple(current), tuple(empty), tuple(refused))


def _version(own: Partition, hour: int) -> int:
    return own.built_from.get(hour, 0) if own.version else -1


def _derivation(
    own: Partition, versions: Mapping[int, int], segments: Sequence[Segment], retire: tuple[str, ...]
) -> Derivation:
    hour, end = own.start_ns, own.start_ns + HOUR_NS
    spans = [s for s in segments if s.frequency_ms == AS_SENT]
    mine = [s for s in spans if s.hour_ns == hour]
    beside = [
        s
        for s in spans
        if (s.hour_ns == hour - HOUR_NS and s.max_ns > hour - MARGIN_NS)
        or (s.hour_ns == end and s.min_ns <= end + MARGIN_NS)
    ]
    return Derivation(
        own.org,
        own.signal,
        hour,
        own.version,
        versions,
        tuple(s.key for s in mine),
        tuple(s.key for s in beside),
        sum(s.bytes for s in (*mine, *beside)),
        retire,
    )
