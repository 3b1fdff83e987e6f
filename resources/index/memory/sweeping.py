"""The sweeper sees and deletes values in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from threading import Lock

from resources.index.memory.open_tables import held_segments, note_changes
from resources.index.memory.state import Batch, MemoryPart, Object, State, StoredSegment, Version
from resources.index.sweeping_types import (
    Aging,
    AgingSegment,
    LakeFile,
    Leftovers,
    OldObject,
    OldTier,
    OldWindow,
    OrphanCount,
    Remove,
    Retention,
)
from resources.index.types import BatchState, ObjectState
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS


class Sweeping(MemoryPart):
    @cached_property
    def _sweeping(self) -> Lock:
        return Lock()

    @contextmanager
    def sweep_lock(self) -> Iterator[bool]:
        held = self._sweeping.acquire(blocking=False)
        try:
            yield held
        finally:
            if held:
                self._sweeping.release()

    def retentions(self) -> list[Retention]:
        return [
            Retention(org, signal, tier, days, self._clock() - since)
            for (org, signal, tier), (days, since) in sorted(self._state.retention.items())
        ]

    def put_retention(self, org: str, signal: Signal, tier: str, keep_days: int) -> None:
        old = self._state.retention.get((org, signal, tier))
        if old is None or old[0] != keep_days:
            self._state.retention[org, signal, tier] = (keep_days, self._clock())

    def remove_retention(self, org: str, signal: Signal, tier: str) -> bool:
        return self._state.retention.pop((org, signal, tier), None) is not None

    def all_organisations(self) -> list[str]:
        return sorted(self._state.organisations)

    def aging(self, tier: OldTier, limit: int) -> Aging:
        busy = _busy_segments(self._state)
        kept = sorted(_of(tier, self._state), key=lambda k: (k.segment.hour_ns, k.segment.segment_id))
        segments = [_aging(k, busy) for k in kept if k.segment.hour_ns < tier.ended_by_ns][:limit]
        starts = sorted(s for s in _unexpired(tier, self._state) if s < tier.ended_by_ns)[:limit]
        ends = [found[-1] for found in ([s.start_ns for s in segments], starts) if len(found) == limit]
        return Aging(tuple(segments), tuple(starts), min([*ends, tier.ended_by_ns]))

    def expire(self, tier: OldTier, window: OldWindow) -> bool:
        inside = range(window.start_ns, window.end_ns)
        found = {k.segment.segment_id: k for k in _of(tier, self._state) if k.segment.hour_ns in inside}
        partitions = {s: v for s, v in _unexpired(tier, self._state).items() if s in inside}
        wanted = {segment.segment_id for segment in window.segments}
        if found.keys() != wanted or partitions.keys() != set(window.partitions):
            return False
        if wanted & _busy_segments(self._state):
            return False
        for kept in found.values():
            kept.retired_at = self._clock()
        for version in partitions.values():
            version.expired = True
        note_changes(self._state, list(found.values()), self._clock)
        return True

    def retired_segments(self, grace_s: float, org: str, limit: int) -> list[LakeFile]:
        found = sorted(
            (kept.retired_at or 0.0, kept.segment.key, _file(kept))
            for kept in self._deletable(grace_s)
            if org in {"", kept.segment.org}
        )
        return [file for _, _, file in found][:limit]

    def delete_retired(self, keys: Sequence[str], grace_s: float, remove: Remove) -> list[LakeFile]:
        with self._transaction() as state:
            free = [kept for kept in self._deletable(grace_s) if kept.segment.key in set(keys)]
            if free:
                remove([kept.segment.key for kept in free])
            for kept in free:
                del state.segments[kept.segment.segment_id]
            return [_file(kept) for kept in free]

    def old_objects(
        self, org: str, signal: Signal, ended_by_ns: int, limit: int, without: Sequence[str] = ()
    ) -> list[OldObject]:
        found = [
            o
            for o in self._expirable()
            if (o.notice.org, o.notice.signal) == (org, signal)
            and o.notice.arrival_hour_ns + HOUR_NS <= ended_by_ns
            and o.notice.bucket not in without
        ]
        found.sort(key=lambda o: (o.notice.arrival_hour_ns, o.object_id))
        return [_old(o) for o in found][:limit]

    def expire_objects(self, object_ids: Sequence[int], remove: Remove) -> list[OldObject]:
        with self._transaction():
            free = [o for o in self._expirable() if o.object_id in set(object_ids)]
            if free:
                remove([o.notice.key for o in free])
            for o in free:
                o.expired_at = self._clock()
            return [_old(o) for o in free]

    def forgettable_objects(
        self, org: str, signal: Signal, ended_by_ns: int, expired_s: float, limit: int
    ) -> list[int]:
        needed = _needed_objects(self._state)
        found = [
            o
            for o in self._state.objects.values()
            if (o.notice.org, o.notice.signal) == (org, signal)
            and o.expired_at is not None
            and o.expired_at < self._clock() - expired_s
            and not o.overwritten_etag
            and o.object_id not in needed
            and all(h + HOUR_NS <= ended_by_ns for h in [o.notice.arrival_hour_ns, *_hours(o)])
        ]
        found.sort(key=lambda o: (o.notice.arrival_hour_ns, o.object_id))
        return [o.object_id for o in found][:limit]

    def forget_objects(self, object_ids: Sequence[int]) -> int:
        needed = _needed_objects(self._state)
        free = [
            object_id
            for object_id in object_ids
            if object_id not in needed
            and object_id in self._state.objects
            and self._state.objects[object_id].expired_at is not None
        ]
        for object_id in free:
            del self._state.objects[object_id]
        return len(free)

    def known_segment_keys(self, keys: Sequence[str]) -> set[str]:
        return {kept.segment.key for kept in self._state.segments.values()} & set(keys)

    def note_listed(self, org: str, unknown: Mapping[str, int], known: Sequence[str]) -> int:
        for key in known:
            self._state.orphans.pop(key, None)
        new = {key: size for key, size in unknown.items() if key not in self._state.orphans}
        self._state.orphans.update({key: (org, size, self._clock()) for key, size in new.items()})
        return len(new)

    def ripe_orphans(self, age_s: float, org: str, limit: int, without: Sequence[str] = ()) -> list[LakeFile]:
        known = self.known_segment_keys(list(self._state.orphans))
        found = sorted(
            (found_at, key, LakeFile(key, owner, size))
            for key, (owner, size, found_at) in self._state.orphans.items()
            if found_at < self._clock() - age_s
            and org in {"", owner}
            and owner not in without
            and key not in known
            and not any(b.plan.org == owner and b.created_at <= found_at for b in _claimed(self._state))
        )
        return [file for _, _, file in found][:limit]

    def delete_orphans(self, keys: Sequence[str], age_s: float, remove: Remove) -> list[LakeFile]:
        with self._transaction() as state:
            free = [f for f in self.ripe_orphans(age_s, "", len(state.orphans)) if f.key in set(keys)]
            if free:
                remove([file.key for file in free])
            for file in free:
                del state.orphans[file.key]
            return free

    def orphan_counts(self) -> dict[str, OrphanCount]:
        counts: dict[str, OrphanCount] = {}
        for org in sorted({owner for owner, _, _ in self._state.orphans.values()}):
            sizes = [size for owner, size, _ in self._state.orphans.values() if owner == org]
            known = sum(kept.segment.org == org for kept in self._state.segments.values())
            counts[org] = OrphanCount(len(sizes), sum(sizes), known)
        return counts

    def forget_batches(self, batch_s: float, limit: int) -> int:
        idle = self._idle(batch_s)[:limit]
        for batch in idle:
            del self._state.batches[batch.batch_id]
        return len(idle)

    def forget_silent_runs(self, run_s: float) -> int:
        silent = self._silent(run_s)
        for run_id in silent:
            del self._state.runs[run_id]
        return len(silent)

    def leftovers(self, batch_s: float, run_s: float, message_s: float) -> Leftovers:
        old = sum(since < self._clock() - message_s for since, _ in self._state.outbox)
        retired = sum(not kept.live for kept in self._state.segments.values())
        return Leftovers(len(self._idle(batch_s)), len(self._silent(run_s)), old, retired)

    def _deletable(self, grace_s: float) -> list[StoredSegment]:
        busy = _busy_segments(self._state) | held_segments(self._state)
        return [
            kept
            for kept in self._state.segments.values()
            if kept.retired_at is not None
            and kept.retired_at < self._clock() - grace_s
            and kept.segment.segment_id not in busy
        ]

    def _expirable(self) -> list[Object]:
        open_ = {BatchState.DUE, BatchState.CLAIMED}
        busy = {i for b in self._state.batches.values() if b.state in open_ for i in b.plan.object_ids}
        return [
            o
            for o in self._state.objects.values()
            if o.state is ObjectState.DONE
            and o.expired_at is None
            and not o.overwritten_etag
            and o.object_id not in busy
        ]

    def _idle(self, batch_s: float) -> list[Batch]:
        """List batches without segments of their own: the index in memory does not know a segment's batch."""
        return [
            batch
            for batch in self._state.batches.values()
            if batch.state is BatchState.DONE and batch.created_at < self._clock() - batch_s
        ]

    def _silent(self, run_s: float) -> list[str]:
        return [run_id for run_id, beat in self._state.runs.items() if beat < self._clock() - run_s]


def _of(tier: OldTier, state: State) -> list[StoredSegment]:
    wanted = (tier.org, tier.signal, tier.frequency_ms)
    return [
        kept
        for kept in state.segments.values()
        if kept.live and (kept.segment.org, kept.segment.signal, kept.segment.frequency_ms) == wanted
    ]


def _unexpired(tier: OldTier, state: State) -> dict[int, Version]:
    wanted = (tier.org, tier.signal, tier.frequency_ms)
    return {key[3]: v for key, v in state.versions.items() if key[:3] == wanted and not v.expired}


def _claimed(state: State) -> list[Batch]:
    return [batch for batch in state.batches.values() if batch.state is BatchState.CLAIMED]


def _busy_segments(state: State) -> set[str]:
    return {segment_id for batch in _claimed(state) for segment_id in batch.plan.segment_ids}


def _needed_objects(state: State) -> set[int]:
    in_batches = {i for batch in state.batches.values() for i in batch.plan.object_ids}
    return in_batches | {i for kept in state.segments.values() for i in kept.segment.object_ids}


def _hours(o: Object) -> list[int]:
    return [hour for hour, _ in o.done.hours] if o.done else []


def _aging(kept: StoredSegment, busy: set[str]) -> AgingSegment:
    s = kept.segment
    return AgingSegment(s.segment_id, s.key, s.hour_ns, s.width_ns, s.bytes, s.segment_id in busy)


def _file(kept: StoredSegment) -> LakeFile:
    return LakeFile(kept.segment.key, kept.segment.org, kept.segment.bytes)


def _old(o: Object) -> OldObject:
    n = o.notice
    return OldObject(o.object_id, n.bucket, n.key, n.org, n.size)
