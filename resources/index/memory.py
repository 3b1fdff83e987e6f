"""The index without a database, for unit tests.

One contract test (`tests/contract`) runs over this and over PostgreSQL, so a test that passes here says
something about the real thing. Time comes from a `clock` that tests can move.
"""

from __future__ import annotations

import copy
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from resources.index.contract import Deliver, Grouping
from resources.index.types import (
    ApiKey,
    Backlog,
    BatchKind,
    BatchPlan,
    BatchState,
    Claim,
    DeadLetter,
    DueBatch,
    Intake,
    IntakeResult,
    ObjectDone,
    ObjectFailed,
    ObjectNotice,
    ObjectState,
    OutboxMessage,
    Partition,
    PendingObject,
    Publication,
    PublishConflictError,
    RawObject,
    Segment,
    SegmentQuery,
    StorageProfile,
    TopicOffset,
)
from resources.lake.layout import PrefixMapping, Signal


@dataclass(slots=True)
class _Object:
    object_id: int
    notice: ObjectNotice
    etag: str
    registered_at: float
    next_try_at: float
    state: ObjectState = ObjectState.REGISTERED
    tries: int = 0
    error: str = ""
    overwritten_etag: str = ""
    done: ObjectDone | None = None


@dataclass(slots=True)
class _Batch:
    batch_id: int
    plan: BatchPlan
    next_attempt_at: float
    state: BatchState = BatchState.DUE
    attempt: int = 0
    requests: int = 0
    requested_at: float = float("-inf")
    crashes: int = 0
    token: str = ""
    beat_at: float = 0.0
    error: str = ""


@dataclass(slots=True)
class _State:
    organisations: dict[str, bool] = field(default_factory=dict)
    keys: dict[bytes, tuple[ApiKey, float | None, bool]] = field(default_factory=dict)
    profiles: dict[str, StorageProfile] = field(default_factory=dict)
    mappings: dict[tuple[str, str], PrefixMapping] = field(default_factory=dict)
    objects: dict[int, _Object] = field(default_factory=dict)
    batches: dict[int, _Batch] = field(default_factory=dict)
    segments: dict[str, tuple[Segment, bool]] = field(default_factory=dict)
    versions: dict[tuple[str, Signal, int], int] = field(default_factory=dict)
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    dead: list[DeadLetter] = field(default_factory=list)
    outbox: list[tuple[float, OutboxMessage]] = field(default_factory=list)
    counters: dict[str, float] = field(default_factory=dict)
    runs: dict[str, float] = field(default_factory=dict)


class MemoryIndex:
    """Implements `PipelineIndex`, `QueryIndex` and `AdminIndex`."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._state = _State()

    @contextmanager
    def _transaction(self) -> Iterator[_State]:
        before = copy.deepcopy(self._state)
        try:
            yield self._state
        except BaseException:
            self._state = before
            raise

    # --- accounts ---------------------------------------------------------------------------------

    def find_api_key(self, key_hash: bytes) -> ApiKey | None:
        found = self._state.keys.get(key_hash)
        if found is None:
            return None
        key, expires_at, revoked = found
        live = not revoked and (expires_at is None or expires_at > self._clock())
        return key if live and self._state.organisations.get(key.org, False) else None

    def organisations(self) -> list[str]:
        return sorted(org for org, enabled in self._state.organisations.items() if enabled)

    def storage_profiles(self) -> dict[str, StorageProfile]:
        return dict(self._state.profiles)

    def prefix_mappings(self) -> list[PrefixMapping]:
        return list(self._state.mappings.values())

    def create_organisation(self, org: str) -> bool:
        is_new = org not in self._state.organisations
        self._state.organisations[org] = True
        return is_new

    def create_api_key(
        self, org: str, role: str, name: str, key_hash: bytes, expires_at_ns: int | None
    ) -> None:
        expires_at = None if expires_at_ns is None else expires_at_ns / 1e9
        self._state.keys[key_hash] = (ApiKey(org, role, name), expires_at, False)

    def revoke_api_key(self, org: str, name: str) -> int:
        revoked = 0
        for key_hash, (key, expires_at, gone) in self._state.keys.items():
            if (key.org, key.name) == (org, name) and not gone:
                self._state.keys[key_hash] = (key, expires_at, True)
                revoked += 1
        return revoked

    def put_storage_profile(self, profile: StorageProfile) -> None:
        self._state.profiles[profile.bucket] = profile

    def put_prefix_mapping(self, mapping: PrefixMapping) -> None:
        self._state.mappings[mapping.bucket, mapping.prefix] = mapping

    # --- intake -----------------------------------------------------------------------------------

    def read_offsets(self, cluster: str, topic: str) -> list[TopicOffset]:
        found = [
            TopicOffset(t, p, offset)
            for (c, t, p), offset in self._state.offsets.items()
            if (c, t) == (cluster, topic)
        ]
        return sorted(found, key=lambda offset: offset.partition)

    def take_in(self, intake: Intake) -> IntakeResult:
        with self._transaction() as state:
            result = self.register_listed(intake.notices)
            state.dead.extend(intake.dead_letters)
            for offset in intake.offsets:
                state.offsets[intake.cluster, offset.topic, offset.partition] = offset.next_offset
        return replace(result, dead_letters=len(intake.dead_letters))

    def register_listed(self, notices: Sequence[ObjectNotice]) -> IntakeResult:
        by_key = {(o.notice.bucket, o.notice.key): o for o in self._state.objects.values()}
        new: list[ObjectNotice] = []
        overwritten = 0
        for notice in sorted(notices, key=lambda n: (n.bucket, n.key)):
            known = by_key.get((notice.bucket, notice.key))
            if known is None:
                by_key[notice.bucket, notice.key] = self._add_object(notice)
                new.append(notice)
            else:
                overwritten += _note_overwrite(known, notice.etag.strip('"'))
        return IntakeResult(tuple(new), len(notices) - len(new), overwritten, 0)

    def append_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        self._state.dead.extend(letters)

    def dead_letters(self) -> list[DeadLetter]:
        """For assertions."""
        return list(self._state.dead)

    def known_keys(self, bucket: str, keys: Sequence[str]) -> set[str]:
        wanted = set(keys)
        return {o.notice.key for o in self._state.objects.values() if o.notice.bucket == bucket} & wanted

    def add_counters(self, amounts: Mapping[str, float]) -> None:
        for name, amount in amounts.items():
            self._state.counters[name] = self._state.counters.get(name, 0.0) + amount

    def _add_object(self, notice: ObjectNotice) -> _Object:
        if notice.org not in self._state.organisations:
            raise ValueError(f"organisation {notice.org!r} does not exist")
        now = self._clock()
        new = _Object(len(self._state.objects) + 1, notice, notice.etag.strip('"'), now, now)
        self._state.objects[new.object_id] = new
        return new

    # --- batches ----------------------------------------------------------------------------------

    def plan_batches(self, signal: Signal, group: Grouping) -> int:
        with self._transaction():
            now = self._clock()
            ready = [
                _pending(o)
                for o in self._state.objects.values()
                if o.state is ObjectState.REGISTERED and o.notice.signal is signal and o.next_try_at <= now
            ]
            plans = group(ready)
            for plan in plans:
                self._create(plan)
            return len(plans)

    def batch_now(self, plans: Sequence[BatchPlan]) -> list[Claim]:
        with self._transaction():
            return [self._claim(self._create(plan)) for plan in plans]

    def create_claimed(self, plan: BatchPlan) -> Claim:
        with self._transaction():
            return self._claim(self._create(plan))

    def due_batches(self, signal: Signal, kind: BatchKind) -> list[DueBatch]:
        return [
            DueBatch(
                b.batch_id,
                b.plan.org,
                b.plan.hour_ns,
                b.attempt,
                b.requests,
                self._bytes(b),
                len(b.plan.object_ids),
                self._clock() - b.next_attempt_at,
                self._clock() - b.requested_at,
            )
            for b in self._due(signal, kind)
        ]

    def note_requested(self, batch_ids: Sequence[int]) -> None:
        for batch_id in batch_ids:
            self._state.batches[batch_id].requests += 1
            self._state.batches[batch_id].requested_at = self._clock()

    def claim_due(self, signal: Signal, kind: BatchKind, max_bytes: int) -> list[Claim]:
        claims: list[Claim] = []
        total = 0
        for batch in self._due(signal, kind)[:100]:
            total += self._bytes(batch)
            if claims and total > max_bytes:
                break
            claims.append(self._claim(batch))
        return claims

    def beat(self, tokens: Sequence[str]) -> int:
        held = [
            b for b in self._state.batches.values() if b.state is BatchState.CLAIMED and b.token in tokens
        ]
        for batch in held:
            batch.beat_at = self._clock()
        return len(held)

    def release_expired(self, lease_s: float) -> int:
        expired = [
            b
            for b in self._state.batches.values()
            if b.state is BatchState.CLAIMED and b.beat_at < self._clock() - lease_s
        ]
        for batch in expired:
            over = batch.plan.kind is BatchKind.REBUILD
            batch.state = BatchState.DONE if over else BatchState.DUE
            batch.token, batch.attempt = "", batch.attempt + 1
        return len(expired)

    def give_back(self, claim: Claim, error: str, delay_s: float) -> None:
        self._return(self._held(claim), error, delay_s)

    def abandon(self, claim: Claim, error: str) -> None:
        self._end(self._held(claim), BatchState.DONE, error)

    def split(self, claim: Claim, error: str, max_tries: int) -> None:
        with self._transaction() as state:
            batch = self._held(claim)
            ids = batch.plan.object_ids
            if len(ids) > 1:
                self._end(batch, BatchState.DONE, error)
                for half in (ids[: len(ids) // 2], ids[len(ids) // 2 :]):
                    for object_id in half:
                        state.objects[object_id].state = ObjectState.REGISTERED
                    self._create(replace(batch.plan, object_ids=half))
            elif batch.crashes + 1 < max_tries:
                self._return(batch, error, 2.0**batch.crashes)
                batch.crashes += 1
            else:
                self._end(batch, BatchState.PARKED, error)
                state.objects[ids[0]].state = ObjectState.PARKED
                state.objects[ids[0]].error = error

    def pending_objects(
        self, org: str, signal: Signal, from_hour_ns: int, to_hour_ns: int
    ) -> list[PendingObject]:
        return [
            _pending(o)
            for o in self._state.objects.values()
            if o.state is ObjectState.REGISTERED
            and (o.notice.org, o.notice.signal) == (org, signal)
            and from_hour_ns <= o.notice.arrival_hour_ns <= to_hour_ns
        ]

    def retry_parked(self, org: str, object_ids: Sequence[int] | None) -> int:
        found = [
            o
            for o in self._state.objects.values()
            if o.state is ObjectState.PARKED
            and o.notice.org == org
            and (object_ids is None or o.object_id in object_ids)
        ]
        for parked in found:
            parked.state, parked.tries, parked.next_try_at = ObjectState.REGISTERED, 0, self._clock()
        return len(found)

    def _create(self, plan: BatchPlan) -> _Batch:
        for object_id in plan.object_ids:
            found = self._state.objects.get(object_id)
            if found is None or (plan.kind is BatchKind.COOK and found.state is not ObjectState.REGISTERED):
                raise PublishConflictError(f"object {object_id} is missing or already in another batch")
            if plan.kind is BatchKind.COOK:
                found.state = ObjectState.BATCHED
        batch = _Batch(len(self._state.batches) + 1, plan, self._clock())
        self._state.batches[batch.batch_id] = batch
        return batch

    def _claim(self, batch: _Batch) -> Claim:
        batch.state, batch.token, batch.beat_at = BatchState.CLAIMED, uuid.uuid4().hex, self._clock()
        plan = batch.plan
        inputs = tuple(_raw(self._state.objects[object_id]) for object_id in plan.object_ids)
        return Claim(
            batch.batch_id, batch.token, batch.attempt, batch.crashes,
            plan.kind, plan.org, plan.collector, plan.signal, plan.hour_ns, inputs,
        )  # fmt: skip

    def _due(self, signal: Signal, kind: BatchKind) -> list[_Batch]:
        return [
            b
            for b in self._state.batches.values()
            if b.state is BatchState.DUE
            and (b.plan.signal, b.plan.kind) == (signal, kind)
            and b.next_attempt_at <= self._clock()
        ]

    def _bytes(self, batch: _Batch) -> int:
        return sum(self._state.objects[object_id].notice.size for object_id in batch.plan.object_ids)

    def _held(self, claim: Claim) -> _Batch:
        batch = self._state.batches[claim.batch_id]
        if batch.state is not BatchState.CLAIMED or batch.token != claim.token:
            raise PublishConflictError(f"batch {claim.batch_id} was taken over; nothing was changed")
        return batch

    def _return(self, batch: _Batch, error: str, delay_s: float) -> None:
        batch.state, batch.token, batch.error = BatchState.DUE, "", error
        batch.attempt += 1
        batch.next_attempt_at = self._clock() + delay_s

    @staticmethod
    def _end(batch: _Batch, state: BatchState, error: str) -> None:
        batch.state, batch.token, batch.error = state, "", error

    # --- publishing -------------------------------------------------------------------------------

    def publish(self, publication: Publication) -> dict[int, int]:
        with self._transaction() as state:
            claim = publication.claim
            self._end(self._held(claim), BatchState.DONE, "")
            self._check_sources(publication)
            self._give_up(publication)
            self._swap(publication)
            for done in publication.done:
                batched = self._batched(done.object_id)
                batched.state, batched.done, batched.etag = ObjectState.DONE, done, done.etag.strip('"')
            for failed in publication.failed:
                self._fail(failed, publication)
            state.outbox.extend((self._clock(), message) for message in publication.outbox)
            return {hour: self._bump(claim, hour) for hour in sorted(publication.hours)}

    def append_outbox(self, messages: Sequence[OutboxMessage]) -> None:
        self._state.outbox.extend((self._clock(), message) for message in messages)

    def drain_outbox(self, deliver: Deliver, limit: int) -> int:
        with self._transaction() as state:
            batch = [message for _, message in state.outbox[:limit]]
            if batch:
                deliver(batch)
                del state.outbox[: len(batch)]
            return len(batch)

    def _check_sources(self, publication: Publication) -> None:
        claim = publication.claim
        if publication.expect_sources is None:
            return
        found = [o.object_id for o in self.objects_with_rows_in(claim.org, claim.signal, claim.hour_ns)]
        if found != sorted(publication.expect_sources):
            raise PublishConflictError(
                f"batch {claim.batch_id}: objects with rows in the hour changed since planning"
            )

    def _give_up(self, publication: Publication) -> None:
        for object_id in publication.given_up:
            found = self._state.objects[object_id]
            if found.done is None or publication.claim.hour_ns not in dict(found.done.hours):
                raise PublishConflictError(
                    f"object {object_id} is no source of the hour; nothing was published"
                )
            kept = tuple(pair for pair in found.done.hours if pair[0] != publication.claim.hour_ns)
            found.done = replace(found.done, hours=kept)

    def _swap(self, publication: Publication) -> None:
        for segment_id in publication.retire:
            segment, live = self._state.segments.get(segment_id, (None, False))
            if segment is None or not live or segment.org != publication.claim.org:
                raise PublishConflictError(f"segment {segment_id} is not live; nothing was published")
            self._state.segments[segment_id] = (segment, False)
        for segment in publication.segments:
            if segment.segment_id in self._state.segments:
                raise PublishConflictError(f"segment {segment.segment_id} exists already")
            self._state.segments[segment.segment_id] = (segment, True)

    def _fail(self, failed: ObjectFailed, publication: Publication) -> None:
        batched = self._batched(failed.object_id)
        alone = len(publication.claim.inputs) == 1
        batched.next_try_at = self._clock() + min(300, 2**batched.tries)
        batched.tries += 1
        batched.error = failed.error
        give_up = alone and batched.tries >= publication.max_tries
        batched.state = ObjectState.PARKED if give_up else ObjectState.REGISTERED

    def _batched(self, object_id: int) -> _Object:
        found = self._state.objects[object_id]
        if found.state is not ObjectState.BATCHED:
            raise PublishConflictError(f"expected object {object_id} in this batch; nothing was published")
        return found

    def _bump(self, claim: Claim, hour: int) -> int:
        key = (claim.org, claim.signal, hour)
        self._state.versions[key] = self._state.versions.get(key, 0) + 1
        return self._state.versions[key]

    # --- reading ----------------------------------------------------------------------------------

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
        return sorted(found, key=lambda s: (s.min_ns, s.segment_id))

    def count_segments(self, org: str, dataset: str) -> int:
        return sum(1 for s in self._live() if (s.org, s.dataset) == (org, dataset))

    def live_segments(self, org: str, signal: Signal, frequency_ms: int, hour_ns: int) -> list[Segment]:
        wanted = (org, signal, frequency_ms, hour_ns, signal.value)
        found = [s for s in self._live() if (s.org, s.signal, s.frequency_ms, s.hour_ns, s.dataset) == wanted]
        return sorted(found, key=lambda s: (s.min_ns, s.segment_id))

    def objects_with_rows_in(self, org: str, signal: Signal, hour_ns: int) -> list[RawObject]:
        return [
            replace(_raw(o), hour_rows=dict(o.done.hours)[hour_ns])
            for o in self._state.objects.values()
            if o.done is not None
            and (o.notice.org, o.notice.signal) == (org, signal)
            and hour_ns in dict(o.done.hours)
        ]

    def partitions(self, org: str, signal: Signal, frequency_ms: int) -> list[Partition]:
        return [
            Partition(org, signal, 0, hour, version, {}, 0)
            for (o, s, hour), version in sorted(self._state.versions.items())
            if (o, s) == (org, signal) and frequency_ms == 0
        ]

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
        return [segment for segment, live in self._state.segments.values() if live]

    # --- runs -------------------------------------------------------------------------------------

    def beat_run(self, run_id: str) -> None:
        self._state.runs[run_id] = self._clock()

    def forget_run(self, run_id: str) -> None:
        self._state.runs.pop(run_id, None)

    def run_heartbeats(self) -> dict[str, float]:
        return {run_id: self._clock() - beat for run_id, beat in self._state.runs.items()}


def _note_overwrite(known: _Object, etag: str) -> int:
    settled = known.state in {ObjectState.DONE, ObjectState.PARKED}
    if not (settled and etag and known.etag and known.etag != etag):
        return 0
    known.overwritten_etag = etag
    return 1


def _pending(o: _Object) -> PendingObject:
    n = o.notice
    return PendingObject(
        o.object_id,
        n.org,
        n.collector,
        n.signal,
        n.arrival_hour_ns,
        n.size,
        o.tries,
        int(o.registered_at * 1e9),
    )


def _raw(o: _Object) -> RawObject:
    n = o.notice
    return RawObject(o.object_id, n.bucket, n.key, n.size, o.etag, o.tries, n.arrival_hour_ns, n.collector)
