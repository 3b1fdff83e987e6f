"""Tiers are planned and counted in memory."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from resources.index.memory.reading import Reading, partition_of, without_long
from resources.index.memory.state import MemoryPart, StoredSegment, Version
from resources.index.rule_types import CoverageQuery, RuleGaps, RuleHour
from resources.index.sweeping_types import OrphanNumbers, TierNumbers, TierStatus
from resources.index.types import (
    BatchState,
    CountQuery,
    DuePartition,
    HourGrowth,
    LiveSegment,
    Segment,
    SegmentQuery,
    Snapshot,
    Survey,
    TierQuery,
    TierView,
    WholeSegment,
)
from resources.lake.frequency import AS_SENT, DAY, rollup_of
from resources.lake.layout import Signal
from resources.lake.signals import MATERIALIZED_MS, RECORDED_MS, dataset_of
from resources.lake.timecut import DAY_NS, HOUR_NS

Tier: TypeAlias = tuple[str, Signal, str]


class TierStatusDesk(MemoryPart):
    def tier_status(self) -> TierStatus:
        segments: dict[Tier, list[StoredSegment]] = defaultdict(list)
        for kept in self._state.segments.values():
            s = kept.segment
            segments[s.org, s.signal, s.dataset].append(kept)
        due: dict[Tier, list[float]] = defaultdict(list)
        for (org, signal, frequency_ms, start_ns), version in self._state.versions.items():
            if version.due_at is not None and not version.expired:
                over_at = (start_ns + DAY_NS) / 1e9 if frequency_ms == DAY else 0.0
                if over_at <= self._clock():
                    since = max(version.due_at, over_at)
                    due[org, signal, dataset_of(frequency_ms)].append(self._clock() - since)
        tiers = sorted(segments.keys() | due.keys(), key=lambda tier: (tier[0], tier[1].value, tier[2]))
        return TierStatus(
            tuple(self._numbers(tier, segments[tier], due[tier]) for tier in tiers), self._orphans()
        )

    def _numbers(self, tier: Tier, kept: list[StoredSegment], due: list[float]) -> TierNumbers:
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


class Tiers(Reading):
    def snapshot(
        self,
        questions: Sequence[SegmentQuery],
        tiers: TierQuery | None = None,
        counted: CountQuery | None = None,
        coverage: Sequence[CoverageQuery] = (),
    ) -> Snapshot:
        with self._one_at_a_time:
            return Snapshot(
                tuple(tuple(self.find_segments(question)) for question in questions),
                TierView((), ()) if tiers is None else self.tier_view(
                    tiers.org, tiers.signal, tiers.frequencies_ms, tiers.start_ns, tiers.end_ns, tiers.dataset
                ),
                live=None if counted is None else self._count(counted),
                gaps=tuple(gaps for asked in coverage for gaps in self._gaps(asked)),
            )  # fmt: skip

    def _gaps(self, asked: CoverageQuery) -> list[RuleGaps]:
        state = self._state
        hours = sorted(
            (start, found)
            for (org, signal, frequency_ms, start), found in state.versions.items()
            if (org, signal, frequency_ms) == (asked.org, asked.signal, AS_SENT)
            and found.sent > 0
            and asked.start_ns - HOUR_NS < start < asked.end_ns
        )
        expired = {
            start
            for start, found in hours
            for metrics in (state.versions.get((asked.org, Signal.METRICS, AS_SENT, start)),)
            if found.expired or (metrics is not None and metrics.expired)
        }
        built = {
            (start, each.rule_id, each.version)
            for start, found in hours
            for each in state.rule_hours.get((asked.org, asked.signal, start), ())
            if each.eligible and each.source_version == found.sent and start not in expired
        }
        return [
            RuleGaps(rule, tuple(start for start, _ in hours if (start, rule, version) not in built))
            for rule, version in asked.rules
        ]

    def rule_hours(self, org: str, signal: Signal, start_ns: int, end_ns: int) -> list[RuleHour]:
        return sorted(
            (
                each
                for (o, s, hour), rules in self._state.rule_hours.items()
                if (o, s) == (org, signal) and start_ns <= hour < end_ns
                for each in rules
            ),
            key=lambda each: (each.hour_ns, each.rule_id),
        )

    def hour_growth(self, org: str, signal: Signal, hour_ns: int) -> HourGrowth | None:
        with self._one_at_a_time:
            source = self._state.versions.get((org, signal, AS_SENT, hour_ns))
            if source is None:
                return None
            derived = self._state.versions.get((org, signal, MATERIALIZED_MS, hour_ns), Version())
            found = self.objects_with_rows_in(org, signal, hour_ns)
            objects = sorted((one.object_id, one.hour_rows) for one in found)
            new = {one for one, _ in objects} - set(derived.built_objects)
            scope = (org, signal, signal.value, AS_SENT, hour_ns, HOUR_NS, 0, "")
            cooked = [
                without_long(s)
                for s in (kept.segment for kept in self._state.segments.values())
                if (s.org, s.signal, s.dataset, s.frequency_ms, s.hour_ns, s.width_ns, s.level, s.origin)
                == scope
                and new.intersection(s.object_ids)
            ]
            return HourGrowth(
                derived.version, derived.built_from.get(hour_ns, 0), derived.built_objects, derived.built_by,
                source.sent, source.rewritten, tuple(objects),
                tuple(sorted(cooked, key=lambda s: (s.min_ns, s.segment_id))),
            )  # fmt: skip

    def _count(self, counted: CountQuery) -> int:
        return sum(1 for s in self._live() if (s.org, s.dataset) == (counted.org, counted.dataset))

    def survey(
        self,
        questions: Sequence[SegmentQuery],
        tiers: Sequence[TierQuery],
        known: Collection[str],
        most: int,
    ) -> Survey:
        with self._one_at_a_time:
            found = [self.find_segments(replace(one, terms=(), names=True)) for one in questions]
            live = [None if len(each) > most else tuple(s.segment_id for s in each) for each in found]
            new = {s.segment_id: s for each in found if len(each) <= most for s in each}
            fresh = tuple(
                WholeSegment(segment, array("q", self._state.segments[key].segment.terms).tobytes())
                for key, segment in sorted(new.items())
                if key not in set(known)
            )
            views = (
                self.tier_view(t.org, t.signal, t.frequencies_ms, t.start_ns, t.end_ns, t.dataset)
                for t in tiers
            )
            return Survey(tuple(live), fresh, tuple(views))

    def tier_view(
        self,
        org: str,
        signal: Signal,
        frequencies_ms: Sequence[int],
        start_ns: int,
        end_ns: int,
        dataset: str = "",
    ) -> TierView:
        partitions = [
            partition_of(key, found)
            for key, found in sorted(self._state.versions.items(), key=lambda item: item[0][2:])
            if key[:2] == (org, signal)
            and key[2] in frequencies_ms
            and key[3] < end_ns
            and key[3] + _partition_ns(key[2]) > start_ns
        ]
        hidden = {f"{signal.value}-quarantine", f"{signal.value}-cardinality"}
        segments = [
            without_long(s)
            for s in self._live()
            if (s.org, s.signal) == (org, signal)
            and s.frequency_ms in frequencies_ms
            and s.hour_ns < end_ns
            and s.hour_ns + s.width_ns > start_ns
            and (s.dataset == dataset if dataset else s.dataset not in hidden)
        ]
        segments.sort(key=lambda s: (s.frequency_ms, s.min_ns, s.segment_id))
        return TierView(tuple(partitions), tuple(segments))

    def due_partitions(self, signal: Signal, frequency_ms: int, min_due_s: float = 0.0) -> list[DuePartition]:
        found = [
            DuePartition(org, signal, frequency_ms, start, self._clock() - version.due_at)
            for (org, s, frequency, start), version in self._state.versions.items()
            if (s, frequency) == (signal, frequency_ms)
            and version.due_at is not None
            and self._clock() - version.due_at >= min_due_s
            and not version.expired
        ]
        return sorted(found, key=lambda due: (-due.due_s, due.org, due.start_ns))

    def put_off(
        self, org: str, signal: Signal, frequency_ms: int, starts: Sequence[int], *, ever: bool
    ) -> None:
        for start in starts:
            found = self._state.versions.get((org, signal, frequency_ms, start))
            if found is not None and found.due_at is not None:
                found.due_at = None if ever else self._clock()

    def unsettled(self, signal: Signal, org: str = "") -> list[LiveSegment]:
        mine = [
            kept
            for kept in self._state.segments.values()
            if kept.live
            and not kept.segment.origin
            and kept.segment.signal is signal
            and (not org or kept.segment.org == org)
        ]
        open_ = {
            (k.segment.org, k.segment.hour_ns, k.segment.hour_ns + k.segment.width_ns)
            for k in mine
            if not k.segment.settled
        }
        return self._free(
            kept
            for kept in mine
            if any(o == kept.segment.org and _overlaps(kept.segment, start, end) for o, start, end in open_)
        )

    def live_in(self, signal: Signal, org: str, start_ns: int, end_ns: int) -> list[LiveSegment]:
        return self._free(
            kept
            for kept in self._state.segments.values()
            if kept.live
            and not kept.segment.origin
            and (kept.segment.signal, kept.segment.org) == (signal, org)
            and _overlaps(kept.segment, start_ns, end_ns)
        )

    def settle(self, segment_ids: Sequence[str]) -> int:
        found = [self._state.segments.get(segment_id) for segment_id in segment_ids]
        live = [kept for kept in found if kept is not None and kept.live]
        for kept in live:
            kept.segment = replace(kept.segment, settled=True)
        return len(live)

    def _free(self, found: Iterable[StoredSegment]) -> list[LiveSegment]:
        taken = {
            segment_id
            for batch in self._state.batches.values()
            if batch.state is BatchState.CLAIMED
            for segment_id in batch.plan.segment_ids
        }
        live = [_live(kept) for kept in found if kept.segment.segment_id not in taken]
        return sorted(live, key=lambda s: (s.org, s.hour_ns, s.segment_id))


def _partition_ns(frequency_ms: int) -> int:
    hourly = {AS_SENT, MATERIALIZED_MS, RECORDED_MS}
    return HOUR_NS if frequency_ms in hourly else rollup_of(frequency_ms).partition_ns


def _overlaps(segment: Segment, start_ns: int, end_ns: int) -> bool:
    return segment.hour_ns < end_ns and segment.hour_ns + segment.width_ns > start_ns


def _live(kept: StoredSegment) -> LiveSegment:
    s = kept.segment
    return LiveSegment(
        s.segment_id, s.key, s.org, s.collector, s.signal, s.dataset, s.frequency_ms, s.hour_ns, s.width_ns,
        s.rows, s.bytes, s.level, s.settled, int(kept.published_at * 1e9),
    )  # fmt: skip
