"""Batches and the heartbeats of runs live in memory."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from resources.index.contract import Grouping
from resources.index.memory.state import Batch, MemoryPart, pending_of, raw_of
from resources.index.types import (
    BatchKind,
    BatchPlan,
    BatchState,
    Claim,
    DueBatch,
    ObjectState,
    PendingObject,
    PublishConflictError,
)
from resources.lake.layout import Signal


class Runs(MemoryPart):
    def beat_run(self, run_id: str) -> None:
        self._state.runs[run_id] = self._clock()

    def rest_run(self, run_id: str, seconds: float) -> None:
        self._state.runs[run_id] = self._clock() + seconds

    def forget_run(self, run_id: str) -> None:
        self._state.runs.pop(run_id, None)

    def run_heartbeats(self) -> dict[str, float]:
        return {run_id: self._clock() - beat for run_id, beat in self._state.runs.items()}


class Batches(MemoryPart):
    def batched_bytes(self, window_s: float) -> dict[str, int]:
        found: dict[str, int] = {}
        for batch in self._state.batches.values():
            if batch.plan.kind is BatchKind.COOK and batch.created_at > self._clock() - window_s:
                found[batch.plan.org] = found.get(batch.plan.org, 0) + self._bytes(batch)
        return found

    def pending_bytes(self, signal: Signal) -> int:
        limited = {org for org, found in self._state.settings.items() if "ingest_bytes_per_minute" in found}
        return sum(
            min(o.notice.size, 2**32)
            for o in self._state.objects.values()
            if o.notice.signal is signal
            and (
                o.state is ObjectState.BATCHED
                or (o.state is ObjectState.REGISTERED and o.notice.org not in limited)
            )
        )

    def plan_batches(self, signal: Signal, group: Grouping, held_back: Sequence[str] = ()) -> int:
        with self._transaction():
            now = self._clock()
            ready = [
                pending_of(o)
                for o in self._state.objects.values()
                if o.state is ObjectState.REGISTERED
                and o.notice.signal is signal
                and o.next_try_at <= now
                and o.notice.org not in held_back
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
            over = batch.plan.kind is not BatchKind.COOK
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
            pending_of(o)
            for o in self._state.objects.values()
            if o.state is ObjectState.REGISTERED
            and (o.notice.org, o.notice.signal) == (org, signal)
            and from_hour_ns <= o.notice.arrival_hour_ns <= to_hour_ns
        ]

    def batched_objects(self, org: str, signal: Signal, from_hour_ns: int, to_hour_ns: int) -> int:
        return sum(
            o.state is ObjectState.BATCHED
            and (o.notice.org, o.notice.signal) == (org, signal)
            and from_hour_ns <= o.notice.arrival_hour_ns <= to_hour_ns
            for o in self._state.objects.values()
        )

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

    def _create(self, plan: BatchPlan) -> Batch:
        for object_id in plan.object_ids:
            found = self._state.objects.get(object_id)
            if found is None or (plan.kind is BatchKind.COOK and found.state is not ObjectState.REGISTERED):
                raise PublishConflictError(f"object {object_id} is missing or already in another batch")
            if plan.kind is BatchKind.COOK:
                found.state = ObjectState.BATCHED
        self._check_segments(plan)
        self._state.last_batch += 1
        batch = Batch(self._state.last_batch, plan, self._clock(), self._clock())
        self._state.batches[batch.batch_id] = batch
        return batch

    def _claim(self, batch: Batch) -> Claim:
        batch.state, batch.token, batch.beat_at = BatchState.CLAIMED, uuid.uuid4().hex, self._clock()
        plan = batch.plan
        inputs = tuple(raw_of(self._state.objects[object_id]) for object_id in plan.object_ids)
        return Claim(
            batch.batch_id, batch.token, batch.attempt, batch.crashes,
            plan.kind, plan.org, plan.collector, plan.signal, plan.hour_ns, inputs, plan.frequency_ms,
        )  # fmt: skip

    def _check_segments(self, plan: BatchPlan) -> None:
        taken = {
            segment_id
            for batch in self._state.batches.values()
            if batch.state is BatchState.CLAIMED
            for segment_id in batch.plan.segment_ids
        }
        for segment_id in plan.segment_ids:
            kept = self._state.segments.get(segment_id)
            if kept is None or not kept.live or kept.segment.org != plan.org or segment_id in taken:
                raise PublishConflictError(f"segment {segment_id} is gone or in another batch")

    def _due(self, signal: Signal, kind: BatchKind) -> list[Batch]:
        return [
            b
            for b in self._state.batches.values()
            if b.state is BatchState.DUE
            and (b.plan.signal, b.plan.kind) == (signal, kind)
            and b.next_attempt_at <= self._clock()
        ]

    def _bytes(self, batch: Batch) -> int:
        return sum(self._state.objects[object_id].notice.size for object_id in batch.plan.object_ids)

    def _held(self, claim: Claim) -> Batch:
        batch = self._state.batches[claim.batch_id]
        if batch.state is not BatchState.CLAIMED or batch.token != claim.token:
            raise PublishConflictError(f"batch {claim.batch_id} was taken over; nothing was changed")
        return batch

    def _return(self, batch: Batch, error: str, delay_s: float) -> None:
        batch.state, batch.token, batch.error = BatchState.DUE, "", error
        batch.attempt += 1
        batch.next_attempt_at = self._clock() + delay_s

    @staticmethod
    def _end(batch: Batch, state: BatchState, error: str) -> None:
        batch.state, batch.token, batch.error = state, "", error
