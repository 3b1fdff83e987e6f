"""Segments, partitions and status are read from memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from resources.index.memory.state import MemoryPart, Version, raw_of
from resources.index.types import (
    Backlog,
    ObjectState,
    Partition,
    RawObject,
    Segment,
    SegmentQuery,
)
from resources.lake.layout import Signal
from resources.lake.timecut import hour_start


class Reading(MemoryPart):
    def find_segments(self, query: SegmentQuery) -> list[Segment]:
        found = [
            s
            for s in self._live()
            if (s.org, s.dataset, s.frequency_ms) == (query.org, query.dataset, query.frequency_ms)
            and s.max_ns >= query.start_ns
            and s.min_ns <= query.end_ns
            and all(set(alternatives) & set(s.terms) for alternatives in query.terms)
            and (not query.collectors or s.collector in query.collectors)
        ]
        return _sorted(found, names=query.names)

    def live_segments(self, org: str, signal: Signal, frequency_ms: int, hour_ns: int) -> list[Segment]:
        wanted = (org, signal, frequency_ms, hour_ns, signal.value)
        found = [s for s in self._live() if (s.org, s.signal, s.frequency_ms, s.hour_ns, s.dataset) == wanted]
        return _sorted(found, names=False)

    def objects_with_rows_in(self, org: str, signal: Signal, hour_ns: int) -> list[RawObject]:
        return [
            replace(raw_of(o), hour_rows=dict(o.done.hours)[hour_ns])
            for o in self._state.objects.values()
            if o.done is not None
            and (o.notice.org, o.notice.signal) == (org, signal)
            and hour_ns in dict(o.done.hours)
        ]

    def partitions(self, org: str, signal: Signal, frequency_ms: int) -> list[Partition]:
        return [
            partition_of(key, found)
            for key, found in sorted(self._state.versions.items())
            if key[:3] == (org, signal, frequency_ms)
        ]

    def ingest_losses(self, org: str, start_ns: int, end_ns: int) -> list[Mapping[str, object]]:
        found: list[Mapping[str, object]] = []
        first_ns, last_ns = hour_start(start_ns), hour_start(end_ns)
        for signal in sorted(Signal):
            mine = [
                o
                for o in self._state.objects.values()
                if (o.notice.org, o.notice.signal) == (org, signal)
                and first_ns <= o.notice.arrival_hour_ns <= last_ns
            ]
            done = [o.done for o in mine if o.done is not None]
            parked = [o for o in mine if o.state is ObjectState.PARKED]
            reasons = [(o.object_id, o.done.remark) for o in mine if o.done is not None and o.done.rejected]
            reasons += [(o.object_id, o.error) for o in parked]
            if mine:
                found.append(
                    {
                        "signal": signal.value,
                        "rows": sum(d.rows for d in done),
                        "rejected": sum(d.rejected for d in done),
                        "quarantined": sum(d.quarantined for d in done),
                        "parked_objects": len(parked),
                        "reason": max(reasons, default=(0, ""))[1],
                    }
                )
        return found

    def pipeline_status(self) -> list[Mapping[str, object]]:
        pairs = sorted({(o.notice.org, o.notice.signal) for o in self._state.objects.values()})
        return [self._status(org, signal) for org, signal in pairs]

    def _status(self, org: str, signal: Signal) -> dict[str, object]:
        mine = [o for o in self._state.objects.values() if (o.notice.org, o.notice.signal) == (org, signal)]
        waiting = [o for o in mine if o.state in {ObjectState.REGISTERED, ObjectState.BATCHED}]
        live = [s for s in self._live() if (s.org, s.signal) == (org, signal)]
        done = [o.done for o in mine if o.done is not None]
        oldest = min((o.registered_at for o in waiting), default=self._clock())
        return {
            "org": org,
            "signal": signal.value,
            "pending_objects": len(waiting),
            "pending_bytes": sum(o.notice.size for o in waiting),
            "oldest_pending_s": self._clock() - oldest,
            "done_objects": len(done),
            "parked_objects": sum(o.state is ObjectState.PARKED for o in mine),
            "overwritten_objects": sum(bool(o.overwritten_etag) for o in mine),
            "rows": sum(d.rows for d in done),
            "rejected": sum(d.rejected for d in done),
            "quarantined": sum(d.quarantined for d in done),
            "segments": len(live),
            "segment_bytes": sum(s.bytes for s in live),
        }

    def counters(self) -> dict[str, float]:
        return dict(sorted(self._state.counters.items()))

    def backlog(self) -> Backlog:
        now, waiting = self._clock(), self._state.outbox
        oldest_s = now - min(since for since, _ in waiting) if waiting else 0.0
        return Backlog(len(self._state.dead), len(waiting), oldest_s)

    def _live(self) -> list[Segment]:
        return [kept.segment for kept in self._state.segments.values() if kept.live]


def partition_of(key: tuple[str, Signal, int, int], found: Version) -> Partition:
    due = found.due_at is not None
    return Partition(*key, found.version, dict(found.built_from), 0, due, found.expired, found.sent)


def _sorted(segments: Iterable[Segment], *, names: bool) -> list[Segment]:
    return sorted(
        (without_long(segment, names=names) for segment in segments), key=lambda s: (s.min_ns, s.segment_id)
    )


def without_long(segment: Segment, *, names: bool = False) -> Segment:
    """Drop the arrays that statements leave out."""
    if names:
        return replace(segment, terms=())
    return replace(segment, terms=(), label_names=(), metric_names=())
