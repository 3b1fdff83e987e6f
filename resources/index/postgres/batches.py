"""Batches are planned, claimed, kept alive, given back and split.

Heartbeats of running Dagster runs stand here too; the watchdog compares them with what Dagster believes.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from resources.index.claims import within_bytes
from resources.index.contract import Grouping
from resources.index.postgres.connections import Connection, IndexDeadlockError, PostgresPart, storable
from resources.index.statements import load
from resources.index.types import (
    BatchKind,
    BatchPlan,
    Claim,
    DueBatch,
    PendingObject,
    PublishConflictError,
    RawObject,
)
from resources.lake.layout import Signal

RUNS_SQL = load("reading")


class Runs(PostgresPart):
    def beat_run(self, run_id: str) -> None:
        self._change(RUNS_SQL["beat_run"], {"run_id": run_id})

    def rest_run(self, run_id: str, seconds: float) -> None:
        self._change(RUNS_SQL["rest_run"], {"run_id": run_id, "seconds": seconds})

    def forget_run(self, run_id: str) -> None:
        self._change(RUNS_SQL["forget_run"], {"run_id": run_id})

    def run_heartbeats(self) -> dict[str, float]:
        return {row["run_id"]: row["age_s"] for row in self._rows(RUNS_SQL["run_heartbeats"], {})}


SQL = load("batches")


class Batches(PostgresPart):
    def batched_bytes(self, window_s: float) -> dict[str, int]:
        rows = self._rows(SQL["batched_bytes"], {"window_s": window_s})
        return {row["org_id"]: int(row["bytes"]) for row in rows}

    def pending_bytes(self, signal: Signal) -> int:
        return int(self._rows(SQL["pending_bytes"], {"signal": signal.value})[0]["bytes"])

    def plan_batches(self, signal: Signal, group: Grouping, held_back: Sequence[str] = ()) -> int:
        wanted = {"signal": signal.value, "held_back": list(held_back)}
        with self._transaction() as connection:
            rows = connection.execute(SQL["pending"], wanted).fetchall()
            plans = group([_pending(row) for row in rows])
            for plan in plans:
                _create(connection, plan, token=None)
            return len(plans)

    def batch_now(self, plans: Sequence[BatchPlan]) -> list[Claim]:
        with self._transaction() as connection:
            return [_create_claimed(connection, plan) for plan in plans]

    def create_claimed(self, plan: BatchPlan) -> Claim:
        try:
            with self._transaction() as connection:
                return _create_claimed(connection, plan)
        except IndexDeadlockError as error:
            raise PublishConflictError(str(error)) from error

    def due_batches(self, signal: Signal, kind: BatchKind) -> list[DueBatch]:
        rows = self._rows(SQL["due_batches"], {"signal": signal.value, "kind": kind.value})
        return [
            DueBatch(
                row["batch_id"],
                row["org_id"],
                row["hour_ns"],
                row["attempt"],
                row["requests"],
                row["input_bytes"],
                row["input_count"],
                row["waited_s"],
                row["requested_s"],
            )
            for row in rows
        ]

    def note_requested(self, batch_ids: Sequence[int]) -> None:
        self._change(SQL["note_requested"], {"batch_ids": list(batch_ids)})

    def claim_due(self, signal: Signal, kind: BatchKind, max_bytes: int) -> list[Claim]:
        with self._transaction() as connection:
            rows = connection.execute(
                SQL["claimable"], {"signal": signal.value, "kind": kind.value}
            ).fetchall()
            taken = within_bytes([(row["batch_id"], row["input_bytes"]) for row in rows], max_bytes)
            return [_claim(connection, batch_id) for batch_id in taken]

    def beat(self, tokens: Sequence[str]) -> int:
        return self._change(SQL["beat"], {"tokens": list(tokens)})

    def release_expired(self, lease_s: float) -> int:
        return self._change(SQL["release_expired"], {"lease_s": lease_s})

    def give_back(self, claim: Claim, error: str, delay_s: float) -> None:
        with self._transaction() as connection:
            _give_back(connection, claim, error, delay_s, crashes=0)

    def abandon(self, claim: Claim, error: str) -> None:
        with self._transaction() as connection:
            _finish(connection, claim, "done", error)

    def split(self, claim: Claim, error: str, max_tries: int) -> None:
        with self._transaction() as connection:
            if len(claim.inputs) > 1:
                _halve(connection, claim, error)
            elif claim.crashes + 1 < max_tries:
                _give_back(connection, claim, error, 2.0**claim.crashes, crashes=1)
            else:
                _finish(connection, claim, "parked", error)
                values = {"object_id": claim.inputs[0].object_id, "error": storable(error)}
                _expect(connection.execute(SQL["park_object"], values).rowcount, 1, claim, "object to park")

    def pending_objects(
        self, org: str, signal: Signal, from_hour_ns: int, to_hour_ns: int
    ) -> list[PendingObject]:
        values = {"org": org, "signal": signal.value, "from_hour_ns": from_hour_ns, "to_hour_ns": to_hour_ns}
        return [_pending(row) for row in self._rows(SQL["pending_in_hours"], values)]

    def batched_objects(self, org: str, signal: Signal, from_hour_ns: int, to_hour_ns: int) -> int:
        values = {"org": org, "signal": signal.value, "from_hour_ns": from_hour_ns, "to_hour_ns": to_hour_ns}
        return int(self._rows(SQL["batched_in_hours"], values)[0]["objects"])

    def retry_parked(self, org: str, object_ids: Sequence[int] | None) -> int:
        ids = None if object_ids is None else list(object_ids)
        return self._change(SQL["retry_parked"], {"org": org, "object_ids": ids})


def _create(connection: Connection, plan: BatchPlan, token: str | None) -> int:
    ids = list(plan.object_ids)
    values = {
        "kind": plan.kind.value,
        "org": plan.org,
        "collector": plan.collector,
        "signal": plan.signal.value,
        "hour_ns": plan.hour_ns,
        "object_ids": ids,
        "token": token,
        "frequency_ms": plan.frequency_ms,
    }
    row = connection.execute(SQL["create_batch"], values).fetchone()
    if row is None or row["input_count"] != len(ids):
        raise PublishConflictError(f"a batch of {len(ids)} objects was planned, but not all of them exist")
    batch_id: int = row["batch_id"]
    connection.execute(SQL["freeze_inputs"], {"batch_id": batch_id, "object_ids": ids})
    if plan.kind is BatchKind.COOK:
        marked = connection.execute(SQL["mark_batched"], {"object_ids": ids}).rowcount
        if marked != len(ids):
            raise PublishConflictError(
                f"{len(ids) - marked} of {len(ids)} objects are already in another batch"
            )
    if plan.segment_ids:
        _freeze_segments(connection, batch_id, plan)
    return batch_id


def _freeze_segments(connection: Connection, batch_id: int, plan: BatchPlan) -> None:
    ids = list(plan.segment_ids)
    rows = connection.execute(SQL["lock_segments"], {"segment_ids": ids, "org": plan.org}).fetchall()
    busy = connection.execute(SQL["busy_segments"], {"segment_ids": ids}).fetchall()
    if len(rows) != len(ids) or busy:
        raise PublishConflictError(
            f"of {len(ids)} segments {len(ids) - len(rows)} are gone and {len(busy)} are in another batch"
        )
    connection.execute(SQL["freeze_segments"], {"batch_id": batch_id, "segment_ids": ids})
    total = sum(row["bytes"] for row in rows)
    connection.execute(SQL["note_input_bytes"], {"batch_id": batch_id, "bytes": total, "count": len(ids)})


def _create_claimed(connection: Connection, plan: BatchPlan) -> Claim:
    token = uuid.uuid4().hex
    batch_id = _create(connection, plan, token)
    return Claim(
        batch_id, token, 0, 0, plan.kind, plan.org, plan.collector, plan.signal, plan.hour_ns,
        _inputs(connection, batch_id), plan.frequency_ms,
    )  # fmt: skip


def _claim(connection: Connection, batch_id: int) -> Claim:
    token = uuid.uuid4().hex
    row = connection.execute(SQL["claim"], {"batch_id": batch_id, "token": token}).fetchone()
    if row is None:
        raise PublishConflictError(f"batch {batch_id} was locked as due and is not due")
    return Claim(
        batch_id,
        token,
        row["attempt"],
        row["crashes"],
        BatchKind(row["kind"]),
        row["org_id"],
        row["collector"],
        Signal(row["signal"]),
        row["hour_ns"],
        _inputs(connection, batch_id),
    )


def _inputs(connection: Connection, batch_id: int) -> tuple[RawObject, ...]:
    rows = connection.execute(SQL["inputs"], {"batch_id": batch_id}).fetchall()
    return tuple(RawObject(**row) for row in rows)


def _halve(connection: Connection, claim: Claim, error: str) -> None:
    """Create two batches with half of the inputs each; the neighbours of a bad object get away."""
    _finish(connection, claim, "done", f"split: {error}")
    ids = [obj.object_id for obj in claim.inputs]
    middle = len(ids) // 2
    for half in (ids[:middle], ids[middle:]):
        connection.execute(SQL["unbatch"], {"object_ids": half})
        plan = BatchPlan(claim.kind, claim.org, claim.collector, claim.signal, claim.hour_ns, tuple(half))
        _create(connection, plan, token=None)


def _give_back(connection: Connection, claim: Claim, error: str, delay_s: float, crashes: int) -> None:
    values = {"batch_id": claim.batch_id, "token": claim.token, "error": storable(error), "delay_s": delay_s}
    _expect(connection.execute(SQL["give_back"], {**values, "crashes": crashes}).rowcount, 1, claim, "claim")


def _finish(connection: Connection, claim: Claim, state: str, error: str) -> None:
    values = {"batch_id": claim.batch_id, "token": claim.token, "state": state, "error": storable(error)}
    _expect(connection.execute(SQL["finish"], values).rowcount, 1, claim, "claim")


def _expect(found: int, wanted: int, claim: Claim, what: str) -> None:
    if found != wanted:
        raise PublishConflictError(
            f"batch {claim.batch_id}: expected {wanted} {what}, found {found}; it was taken over"
        )


def _pending(row: dict[str, Any]) -> PendingObject:
    return PendingObject(
        row["object_id"],
        row["org_id"],
        row["collector"],
        Signal(row["signal"]),
        row["arrival_hour_ns"],
        row["size"],
        row["tries"],
        row["registered_at_ns"],
    )
