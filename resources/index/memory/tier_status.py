"""Tiers in numbers, without a database."""

from __future__ import annotations

from collections import defaultdict
from typing import TypeAlias

from resources.index.memory.state import Held, Kept
from resources.index.tier_status_types import OrphanNumbers, TierNumbers, TierStatus
from resources.lake.frequency import DAY, rollup_of
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS

Tier: TypeAlias = tuple[str, Signal, str]


class TierStatusDesk(Held):
    def tier_status(self) -> TierStatus:
        segments: dict[Tier, list[Kept]] = defaultdict(list)
        for kept in self._state.segments.values():
            s = kept.segment
            segments[s.org, s.signal, s.dataset].append(kept)
        due: dict[Tier, list[float]] = defaultdict(list)
        for (org, signal, frequency_ms, start_ns), version in self._state.versions.items():
            if version.due_at is not None and not version.expired:
                over_at = (start_ns + DAY_NS) / 1e9 if frequency_ms == DAY else 0.0
                if over_at <= self._clock():
                    since = max(version.due_at, over_at)
                    due[org, signal, rollup_of(frequency_ms).dataset].append(self._clock() - since)
        tiers = sorted(segments.keys() | due.keys(), key=lambda tier: (tier[0], tier[1].value, tier[2]))
        return TierStatus(
            tuple(self._numbers(tier, segments[tier], due[tier]) for tier in tiers), self._orphans()
        )

    def _numbers(self, tier: Tier, kept: list[Kept], due: list[float]) -> TierNumbers:
        live = [k.segment for k in kept if k.live]
        unsettled = [s for s in live if not s.settled]
        newest = max((s.max_ns for s in live), default=None)
        retired = [k.segment for k in kept if not k.live]
        return TierNumbers(
            *tier,
            segments=len(live),
            bytes=sum(s.bytes for s in live),
            rows=sum(s.rows for s in live),
            unsettled=len(unsettled),
            unsettled_bytes=sum(s.bytes for s in unsettled),
            newest_ns=newest,
            newest_s=0.0 if newest is None else self._clock() - newest / 1e9,
            due=len(due),
            due_s=max(due, default=0.0),
            retired=len(retired),
            retired_bytes=sum(s.bytes for s in retired),
        )

    def _orphans(self) -> tuple[OrphanNumbers, ...]:
        sizes: dict[str, list[int]] = defaultdict(list)
        for org, size, _ in self._state.orphans.values():
            sizes[org].append(size)
        return tuple(OrphanNumbers(org, len(found), sum(found)) for org, found in sorted(sizes.items()))
