"""A pure decision tells which partitions of a rollup are built, and from what.

samples 12:00 v4, 10s 12:00 v7 built from v3   →  build 10s 12:00 from v4, if it is still v7 then
samples 12:00 v4, 10s 12:00 v8 built from v4   →  nothing to do
samples 12:00 deleted because of their age     →  refused: half of its rows are gone
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from resources.index.types import Partition, Segment, TierView
from resources.lake.frequency import Rollup
from resources.lake.layout import Signal


@dataclass(frozen=True, slots=True)
class Roll:
    """One partition to be built."""

    org: str
    rollup: Rollup
    start_ns: int
    expected_version: int
    built_from: Mapping[int, int]
    sources: tuple[str, ...]
    """Keys of the live segments it is built from; they may be wider than the partition."""
    side: tuple[str, ...]
    """Keys of side data of the sources."""
    source_bytes: int
    retire: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RollPlan:
    rolls: tuple[Roll, ...]
    current: tuple[int, ...] = ()
    """Starts of partitions that are up to date."""
    sealed: tuple[int, ...] = ()
    """Starts of partitions that lie in wider segments and are carved out first."""
    refused: tuple[tuple[int, str], ...] = ()


def plan_rolls(
    org: str,
    rollup: Rollup,
    starts: Sequence[int],
    view: TierView,
    side: Sequence[Segment],
    *,
    force: bool,
    rests: Collection[str] = (),
) -> RollPlan:
    """Plan the partitions; `side` are live segments of side data, swapped together with the rollup.

    `rests` are ids of wider segments that are known to hold no row of these partitions.
    """
    mine = {p.start_ns: p for p in view.partitions if p.frequency_ms == rollup.frequency_ms}
    rolls: list[Roll] = []
    current: list[int] = []
    sealed: list[int] = []
    refused: list[tuple[int, str]] = []
    for start in sorted(starts):
        end = start + rollup.partition_ns
        own = mine.get(start) or Partition(org, Signal.METRICS, rollup.frequency_ms, start, 0, {}, 0)
        sources = [
            p
            for p in view.partitions
            if p.frequency_ms == rollup.source_ms and start <= p.start_ns < end and p.version > 0
        ]
        versions = {p.start_ns: p.version for p in sources}
        written = [
            s for s in _within(view.segments, rollup.frequency_ms, start, end) if s.segment_id not in rests
        ]
        if not versions and own.version == 0:
            continue
        if dict(own.built_from) == versions and not force:
            current.append(start)
        elif expired := [p.start_ns for p in sources if p.expired]:
            refused.append(
                (start, f"{len(expired)} of its {len(sources)} sources were deleted for their age")
            )
        elif any(s.width_ns > rollup.partition_ns for s in written):
            sealed.append(start)
        else:
            inputs = _within(view.segments, rollup.source_ms, start, end)
            beside = [s for s in side if _overlaps(s, start, end)]
            rolls.append(
                Roll(
                    org,
                    rollup,
                    start,
                    own.version,
                    versions,
                    tuple(s.key for s in inputs),
                    tuple(s.key for s in beside if s.frequency_ms == rollup.source_ms),
                    sum(s.bytes for s in inputs),
                    tuple(s.segment_id for s in (*written, *beside) if s.frequency_ms == rollup.frequency_ms),
                )
            )
    return RollPlan(tuple(rolls), tuple(current), tuple(sealed), tuple(refused))


def _within(segments: Sequence[Segment], frequency_ms: int, start_ns: int, end_ns: int) -> list[Segment]:
    return [s for s in segments if s.frequency_ms == frequency_ms and _overlaps(s, start_ns, end_ns)]


def _overlaps(segment: Segment, start_ns: int, end_ns: int) -> bool:
    return segment.hour_ns < end_ns and segment.hour_ns + segment.width_ns > start_ns
