"""Samplers, their decisions and batches live in memory, with the times of tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from resources.index.memory.state import MemoryPart, SamplingState, WaitingBatch
from resources.index.sampling_types import (
    DECISION,
    SAME,
    DeadTraces,
    ExportLetter,
    Reason,
    Rows,
    SamplerRecord,
    SamplingStep,
    StoredBatch,
    StoredDecision,
    WaitingBatches,
    ids_of,
    rows_of,
)


class Sampling(MemoryPart):
    def claim_sampler(self, org: str, name: str, owner: str, lease_s: float) -> SamplerRecord | None:
        with self._transaction() as state:
            now, sampling = self._clock(), state.sampling
            if org not in state.organisations:
                raise ValueError(f"no organisation {org!r}")
            known = sampling.samplers.get((org, name))
            if known is None:
                sampling.last_number += 1
                known = SamplerRecord(sampling.last_number, org, name, "", 0)
                sampling.samplers[org, name] = known
            if known.owner != owner and sampling.leases.get(known.sampler_id, 0.0) > now:
                return None
            sampling.leases[known.sampler_id] = now + lease_s
            claimed = replace(known, owner=owner, token=known.token + 1)
            sampling.samplers[org, name] = claimed
            return claimed

    def beat_sampler(self, record: SamplerRecord, lease_s: float) -> bool:
        with self._transaction() as state:
            if not _holds(state.sampling, record):
                return False
            state.sampling.leases[record.sampler_id] = self._clock() + lease_s
            return True

    def release_sampler(self, record: SamplerRecord) -> None:
        with self._transaction() as state:
            if _holds(state.sampling, record):
                known = state.sampling.samplers[record.org, record.name]
                state.sampling.samplers[record.org, record.name] = replace(known, owner="")
                state.sampling.leases[record.sampler_id] = self._clock()

    def write_step(self, step: SamplingStep) -> bool:
        with self._transaction() as state:
            record, sampling, now = step.record, state.sampling, self._clock()
            if not _holds(sampling, record):
                return False
            sampling.samplers[record.org, record.name] = record
            for one in _stored(step, now, sampling):
                key = record.sampler_id, one.trace_id
                if one.revision == 1 and key in sampling.decisions:
                    raise ValueError(f"a second first decision about {one.trace_id.hex()}")
                sampling.decisions[key] = one
            for batch in step.batches:
                sampling.last_number += 1
                number = sampling.last_number
                stored = StoredBatch(
                    number, record.sampler_id, batch.destination, record.sequence, batch.traces, batch.body, 0
                )
                sampling.batches[number] = WaitingBatch(stored, batch.part, now, now)
            return True

    def known_decisions(self, record: SamplerRecord, packed: bytes) -> Rows:
        with self._one_at_a_time:
            decisions = self._state.sampling.decisions
            keys = [(record.sampler_id, one) for one in dict.fromkeys(ids_of(packed))]
            return _rows(decisions[key] for key in keys if key in decisions)

    def decided_since(self, record: SamplerRecord, sequence: int, most: int) -> Iterator[Rows]:
        with self._one_at_a_time:
            found = [
                one
                for (sampler_id, _), one in self._state.sampling.decisions.items()
                if sampler_id == record.sampler_id and one.sequence >= sequence
            ]
        for at in range(0, len(found), most):
            yield _rows(found[at : at + most])

    def kept_elsewhere(self, record: SamplerRecord, packed: bytes, within_s: float) -> bytes:
        with self._one_at_a_time:
            now, sampling = self._clock(), self._state.sampling
            others = {
                one.sampler_id
                for one in sampling.samplers.values()
                if one.org == record.org and one.sampler_id != record.sampler_id
            }
            found = {
                trace_id
                for trace_id in ids_of(packed)
                for other in others
                if (known := sampling.decisions.get((other, trace_id))) is not None
                and known.is_kept
                and known.decided_s > now - within_s
            }
        return b"".join(sorted(found))

    def find_decisions(self, org: str, trace_id: bytes) -> list[StoredDecision]:
        with self._one_at_a_time:
            sampling = self._state.sampling
            mine = {one.sampler_id for one in sampling.samplers.values() if one.org == org}
            found = [
                one for (number, key), one in sampling.decisions.items() if number in mine and key == trace_id
            ]
        return sorted(found, key=lambda one: one.sampler)

    def claim_batch(self, record: SamplerRecord, destination: str, lease_s: float) -> StoredBatch | None:
        with self._transaction() as state:
            now = self._clock()
            for _, one in sorted(state.sampling.batches.items()):
                batch = one.batch
                is_ours = (batch.sampler_id, batch.destination) == (record.sampler_id, destination)
                if is_ours and one.busy_until <= now:
                    one.busy_until = now + lease_s
                    one.batch = replace(batch, attempts=batch.attempts + 1)
                    return one.batch
            return None

    def beat_batch(self, batch: StoredBatch, lease_s: float) -> bool:
        with self._transaction() as state:
            known = _claimed(state.sampling, batch)
            if known is not None:
                known.busy_until = self._clock() + lease_s
            return known is not None

    def finish_batch(self, batch: StoredBatch, dead: ExportLetter | None = None) -> bool:
        with self._transaction() as state:
            sampling = state.sampling
            if _claimed(sampling, batch) is None:
                return False
            del sampling.batches[batch.batch_id]
            self._bury(sampling, batch, dead)
            return True

    def put_off_batch(
        self,
        batch: StoredBatch,
        error: str,
        delay_s: float,
        left: tuple[bytes, int] | None = None,
        dead: ExportLetter | None = None,
    ) -> None:
        with self._transaction() as state:
            known = _claimed(state.sampling, batch)
            if known is None:
                return
            body, traces = left or (batch.body, batch.traces)
            known.busy_until, known.error = self._clock() + delay_s, error
            known.batch = replace(known.batch, body=body, traces=traces)
            self._bury(state.sampling, batch, dead)

    def _bury(self, sampling: SamplingState, batch: StoredBatch, dead: ExportLetter | None) -> None:
        if dead is not None:
            sampling.last_number += 1
            number, name = sampling.last_number, _name(sampling, batch.sampler_id)
            letter = DeadTraces(number, name, batch.destination, dead.traces, dead.error, dead.body)
            sampling.letters[number] = self._clock(), batch.sampler_id, letter

    def waiting_batches(self, org: str) -> list[WaitingBatches]:
        with self._one_at_a_time:
            sampling, now = self._state.sampling, self._clock()
            names = {one.sampler_id: one.name for one in sampling.samplers.values() if one.org == org}
            waiting = [one for one in sampling.batches.values() if one.batch.sampler_id in names]
            letters = [(number, one) for _, number, one in sampling.letters.values() if number in names]
            keys = {(one.batch.sampler_id, one.batch.destination) for one in waiting}
            keys |= {(number, one.destination) for number, one in letters}
            found = []
            for number, destination in keys:
                mine = [
                    o for o in waiting if (o.batch.sampler_id, o.batch.destination) == (number, destination)
                ]
                dead = sum(o.traces for at, o in letters if (at, o.destination) == (number, destination))
                oldest = now - min((o.created_at for o in mine), default=now)
                last = max(mine, key=lambda o: o.busy_until, default=None)
                found.append(
                    WaitingBatches(
                        names[number], destination, len(mine), sum(o.batch.traces for o in mine), oldest,
                        max((o.batch.attempts for o in mine), default=0), last.error if last else "", dead,
                    )
                )  # fmt: skip
        return sorted(found, key=lambda one: (one.sampler, one.destination))

    def dead_traces(self, org: str, limit: int) -> list[DeadTraces]:
        with self._one_at_a_time:
            sampling = self._state.sampling
            mine = {one.sampler_id for one in sampling.samplers.values() if one.org == org}
            found = [letter for _, number, letter in sampling.letters.values() if number in mine]
        return sorted(found, key=lambda one: -one.letter_id)[:limit]

    def retry_dead(self, org: str, letter_id: int) -> bool:
        with self._transaction() as state:
            if letter_id not in {one.letter_id for one in self.dead_traces(org, 1 << 60)}:
                return False
            sampling, now = state.sampling, self._clock()
            _, sampler_id, letter = sampling.letters.pop(letter_id)
            sampling.last_number += 1
            number = sampling.last_number
            batch = StoredBatch(
                number, sampler_id, letter.destination, -letter_id, letter.traces, letter.body, 0
            )
            sampling.batches[number] = WaitingBatch(batch, 0, now, now)
            return True

    def forget_sampling(self, keep_s: float, letter_s: float, limit: int) -> int:
        with self._transaction() as state:
            now, sampling = self._clock(), state.sampling
            old = [key for key, one in sampling.decisions.items() if one.decided_s < now - keep_s][:limit]
            for key in old:
                del sampling.decisions[key]
            sampling.letters = {
                number: one for number, one in sampling.letters.items() if one[0] >= now - letter_s
            }
            return len(old)


def _holds(sampling: SamplingState, record: SamplerRecord) -> bool:
    known = sampling.samplers.get((record.org, record.name))
    return known is not None and (known.owner, known.token) == (record.owner, record.token)


def _claimed(sampling: SamplingState, batch: StoredBatch) -> WaitingBatch | None:
    known = sampling.batches.get(batch.batch_id)
    return known if known is not None and known.batch.attempts == batch.attempts else None


def _name(sampling: SamplingState, sampler_id: int) -> str:
    return next(one.name for one in sampling.samplers.values() if one.sampler_id == sampler_id)


def _stored(step: SamplingStep, now: float, sampling: SamplingState) -> Iterator[StoredDecision]:
    for row in step.decisions:
        trace_id, policies = row["trace_id"].tobytes(), step.record.policies
        if row["reason"] == SAME:
            known = sampling.decisions[step.record.sampler_id, trace_id]
            reason, policies = Reason(known.policy, known.reason), known.policies
        else:
            reason = step.reasons[int(row["reason"])]
        yield StoredDecision(
            step.record.name, trace_id, bool(row["is_kept"]), reason.policy, reason.reason,
            policies, float(row["probability"]), int(row["threshold"]), int(row["spans"]),
            int(row["first_ns"]), int(row["last_ns"]), int(row["first_sequence"]), int(row["last_sequence"]),
            int(row["sequence"]), int(row["revision"]), now,
        )  # fmt: skip


def _rows(found: Iterable[StoredDecision]) -> Rows:
    stored = list(found)
    names = [name for name in DECISION.names or () if name not in {"trace_id", "reason"}]
    columns = {name: np.array([getattr(one, name) for one in stored]) for name in names}
    ids = b"".join(one.trace_id for one in stored)
    return rows_of({**columns, "reason": SAME, "trace_id": ids}, len(stored))
