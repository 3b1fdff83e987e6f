"""Decisions, checkpoints and batches of samplers live in five tables; decisions arrive as binary rows."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from resources.index.postgres.connections import Connection, PostgresPart, storable
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
    packed_ids,
    rows_of,
)
from resources.index.statements import load

SQL = load("sampling")
_COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_COPY_END = struct.pack(">h", -1)
_TYPES = {
    "sampler_id": ">i8", "trace_id": "V16", "is_kept": "?", "reason_id": ">i4", "probability": ">f8",
    "threshold": ">i8", "spans": ">i8", "first_ns": ">i8", "last_ns": ">i8", "first_sequence": ">i8",
    "last_sequence": ">i8", "sequence": ">i8", "revision": ">i4",
}  # fmt: skip
"""Columns of `copy_decisions`, in its order."""
_COPY_ROW = np.dtype(
    [("columns", ">i2")]
    + [pair for name, kind in _TYPES.items() for pair in ((f"{name}_bytes", ">i4"), (name, kind))]
)


class Sampling(PostgresPart):
    def claim_sampler(self, org: str, name: str, owner: str, lease_s: float) -> SamplerRecord | None:
        values = {"org": org, "name": name, "owner": owner, "lease_s": lease_s}
        with self._transaction() as connection:
            connection.execute(SQL["add_sampler"], values)
            row = connection.execute(SQL["claim_sampler"], values).fetchone()
        return None if row is None else SamplerRecord(**{_FIELDS.get(k, k): v for k, v in row.items()})

    def beat_sampler(self, record: SamplerRecord, lease_s: float) -> bool:
        return self._change(SQL["beat_sampler"], {**_claim(record), "lease_s": lease_s}) > 0

    def release_sampler(self, record: SamplerRecord) -> None:
        self._change(SQL["release_sampler"], _claim(record))

    def write_step(self, step: SamplingStep) -> bool:
        record = step.record
        values = {
            **_claim(record), "snapshot_id": record.snapshot_id, "sequence": record.sequence,
            "low_sequence": record.low_sequence, "watermark_ns": record.watermark_ns,
            "memory": record.memory, "policies": record.policies,
        }  # fmt: skip
        with self._transaction() as connection:
            if not connection.execute(SQL["write_checkpoint"], values).rowcount:
                return False
            if len(step.decisions):
                ids = _reason_ids(connection, record, step.reasons)
                _copy(connection, record, step.decisions, ids)
            if step.batches:
                batches = step.batches
                values |= {
                    "destinations": [one.destination for one in batches],
                    "parts": [one.part for one in batches],
                    "traces": [one.traces for one in batches],
                    "bodies": [one.body for one in batches],
                }
                connection.execute(SQL["add_batches"], values)
        return True

    def known_decisions(self, record: SamplerRecord, packed: bytes) -> Rows:
        values = {"sampler_id": record.sampler_id, "ids": ids_of(packed)}
        with self._transaction() as connection, connection.cursor(binary=True) as cursor:
            return _rows(cursor.execute(SQL["known_decisions"], values).fetchall())

    def decided_since(self, record: SamplerRecord, sequence: int, most: int) -> Iterator[Rows]:
        values = {"sampler_id": record.sampler_id, "sequence": sequence}
        with (
            self._transaction() as connection,
            connection.cursor("decided_since", binary=True) as cursor,
        ):
            cursor.execute(SQL["decided_since"], values)
            while found := cursor.fetchmany(most):
                yield _rows(found)

    def kept_elsewhere(self, record: SamplerRecord, packed: bytes, within_s: float) -> bytes:
        values = {"sampler_id": record.sampler_id, "org": record.org, "ids": ids_of(packed)}
        rows = self._rows(SQL["kept_elsewhere"], {**values, "within_s": within_s})
        return b"".join(sorted(row["trace_id"] for row in rows))

    def find_decisions(self, org: str, trace_id: bytes) -> list[StoredDecision]:
        rows = self._rows(SQL["find_decisions"], {"org": org, "trace_id": trace_id})
        return [StoredDecision(**row) for row in rows]

    def claim_batch(self, record: SamplerRecord, destination: str, lease_s: float) -> StoredBatch | None:
        values = {"sampler_id": record.sampler_id, "destination": destination, "lease_s": lease_s}
        with self._transaction() as connection:
            row = connection.execute(SQL["claim_batch"], values).fetchone()
        return None if row is None else StoredBatch(**row)

    def beat_batch(self, batch: StoredBatch, lease_s: float) -> bool:
        return self._change(SQL["beat_batch"], {**_batch(batch), "lease_s": lease_s}) > 0

    def finish_batch(self, batch: StoredBatch, dead: ExportLetter | None = None) -> bool:
        with self._transaction() as connection:
            if not connection.execute(SQL["finish_batch"], _batch(batch)).rowcount:
                return False
            _bury(connection, batch, dead)
        return True

    def put_off_batch(
        self,
        batch: StoredBatch,
        error: str,
        delay_s: float,
        left: tuple[bytes, int] | None = None,
        dead: ExportLetter | None = None,
    ) -> None:
        body, traces = left or (batch.body, batch.traces)
        values = {"error": storable(error), "delay_s": delay_s, "body": body, "traces": traces}
        with self._transaction() as connection:
            if connection.execute(SQL["put_off_batch"], {**_batch(batch), **values}).rowcount:
                _bury(connection, batch, dead)

    def waiting_batches(self, org: str) -> list[WaitingBatches]:
        return [WaitingBatches(**row) for row in self._rows(SQL["waiting_batches"], {"org": org})]

    def dead_traces(self, org: str, limit: int) -> list[DeadTraces]:
        return [DeadTraces(**row) for row in self._rows(SQL["dead_traces"], {"org": org, "limit": limit})]

    def retry_dead(self, org: str, letter_id: int) -> bool:
        return self._change(SQL["retry_dead"], {"org": org, "letter_id": letter_id}) > 0

    def forget_sampling(self, keep_s: float, letter_s: float, limit: int) -> int:
        values = {"keep_s": keep_s, "letter_s": letter_s, "limit": limit}
        with self._transaction() as connection:
            connection.execute(SQL["forget_dead_letters"], values)
            found = connection.execute(SQL["forget_decisions"], values).rowcount
            connection.execute(SQL["forget_reasons"])
        return found


_FIELDS = {"org_id": "org"}


def _claim(record: SamplerRecord) -> dict[str, Any]:
    return {"sampler_id": record.sampler_id, "owner": record.owner, "token": record.token}


def _batch(batch: StoredBatch) -> dict[str, Any]:
    return {"batch_id": batch.batch_id, "attempts": batch.attempts}


def _bury(connection: Connection, batch: StoredBatch, dead: ExportLetter | None) -> None:
    if dead is not None:
        values = {
            "sampler_id": batch.sampler_id, "destination": batch.destination, "traces": dead.traces,
            "body": dead.body, "error": storable(dead.error),
        }  # fmt: skip
        connection.execute(SQL["add_dead_letter"], values)


def _reason_ids(connection: Connection, record: SamplerRecord, reasons: Sequence[Reason]) -> list[int]:
    """Return the id of each reason; those that are new are added."""
    pairs = [(storable(one.policy), storable(one.reason)) for one in reasons]
    values = {
        "sampler_id": record.sampler_id, "policies": record.policies,
        "names": [name for name, _ in dict.fromkeys(pairs)],
        "reasons": [reason for _, reason in dict.fromkeys(pairs)],
    }  # fmt: skip
    connection.execute(SQL["add_reasons"], values)
    found = connection.execute(SQL["reasons"], values).fetchall()
    ids = {(row["policy"], row["reason"]): row["reason_id"] for row in found}
    return [ids[pair] for pair in pairs]


def _copy(connection: Connection, record: SamplerRecord, decisions: Rows, reason_ids: Sequence[int]) -> None:
    """Write decisions as one block in the binary format of COPY."""
    before = _dropped(connection, record, decisions[decisions["revision"] > 1])
    rows = np.zeros(len(decisions), _COPY_ROW)
    rows["columns"] = len(_TYPES)
    for name, kind in _TYPES.items():
        rows[f"{name}_bytes"] = np.dtype(kind).itemsize
    for name in DECISION.names or ():
        if name != "reason":
            rows[name] = decisions[name]
    rows["sampler_id"] = record.sampler_id
    rows["reason_id"] = np.asarray([*reason_ids, 0], np.int64)[decisions["reason"]]
    for at in np.flatnonzero(decisions["reason"] == SAME):
        rows["reason_id"][at] = before[decisions["trace_id"][at].tobytes()]
    with connection.cursor() as cursor, cursor.copy(SQL["copy_decisions"]) as copy:
        copy.write(_COPY_HEAD)
        copy.write(rows.tobytes())
        copy.write(_COPY_END)


def _dropped(connection: Connection, record: SamplerRecord, replaced: Rows) -> dict[bytes, int]:
    """Delete the decisions that others replace; return their reasons by trace."""
    if not len(replaced):
        return {}
    values = {"sampler_id": record.sampler_id, "ids": ids_of(packed_ids(replaced))}
    found = connection.execute(SQL["drop_decisions"], values).fetchall()
    return {row["trace_id"]: row["reason_id"] for row in found}


def _rows(found: Sequence[Mapping[str, Any]]) -> Rows:
    names = [name for name in DECISION.names or () if name != "reason"]
    columns: dict[str, Any] = {name: [row[name] for row in found] for name in names}
    columns["reason"] = SAME
    return rows_of({**columns, "trace_id": b"".join(columns["trace_id"])}, len(found))
