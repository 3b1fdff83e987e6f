"""Samplers, decisions and batches mean the same in PostgreSQL and in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import psycopg
import pytest

from resources.index.memory import MemoryIndex
from resources.index.postgres import PostgresIndex
from resources.index.sampling_types import (
    ExportBatch,
    ExportLetter,
    Reason,
    Rows,
    SamplerRecord,
    SamplingStep,
    rows_of,
)

LEASE_S = 5.0
TIMES = {
    "sampler": ("lease_until",),
    "sampling_decision": ("decided_at",),
    "sampling_batch": ("created_at", "busy_until"),
    "sampling_dead_letter": ("created_at",),
}
REASONS = (Reason("errors", "status"), Reason("rest", "no policy\0keeps it"))


@dataclass
class Clocked:
    """An index whose time can be moved."""

    index: MemoryIndex | PostgresIndex
    dsn: str = ""

    def wait(self, seconds: float) -> None:
        if isinstance(self.index, MemoryIndex):
            now = self.index._clock() + seconds
            self.index._clock = lambda: now
            return
        with psycopg.connect(self.dsn) as connection:
            for table, names in TIMES.items():
                moved = ", ".join(f"{name} = {name} - make_interval(secs => %(s)s)" for name in names)
                connection.execute(f"UPDATE lakerunner.{table} SET {moved}".encode(), {"s": seconds})


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def clocked(request: pytest.FixtureRequest) -> Clocked:
    if request.param == "memory":
        found = Clocked(MemoryIndex())
    else:
        found = Clocked(request.getfixturevalue("postgres_index"), request.getfixturevalue("index_dsn"))
    for org in ("acme", "beta"):
        found.index.create_organisation(org)
    return found


def trace(number: int) -> bytes:
    return number.to_bytes(16, "big")


def rows(*numbers: int, sequence: int = 1, kept: bool = True, revision: int = 1, spans: int = 3) -> Rows:
    count = len(numbers)
    columns = {
        "trace_id": b"".join(map(trace, numbers)), "is_kept": kept, "reason": 0 if kept else 1,
        "probability": 0.25, "threshold": 1 << 55, "spans": spans, "first_ns": 1_700_000_000_000_000_001,
        "last_ns": 1_700_000_000_000_000_009, "first_sequence": 1, "last_sequence": sequence,
        "sequence": sequence, "revision": revision,
    }  # fmt: skip
    return rows_of(columns, count)


def claim(clocked: Clocked, owner: str = "one", org: str = "acme", name: str = "spans") -> SamplerRecord:
    found = clocked.index.claim_sampler(org, name, owner, LEASE_S)
    assert found is not None
    return found


def step(record: SamplerRecord, sequence: int, decisions: Rows, *batches: ExportBatch) -> SamplingStep:
    reached = replace(
        record,
        sequence=sequence,
        snapshot_id=-sequence,
        low_sequence=2,
        watermark_ns=7,
        memory=b"\0\x01",
        policies="p1",
    )
    return SamplingStep(reached, decisions, REASONS, batches)


def ids(found: Rows) -> list[tuple[int, bool, int, int]]:
    return sorted(
        (int.from_bytes(one["trace_id"].tobytes(), "big"), bool(one["is_kept"]), int(one["sequence"]),
         int(one["revision"]))
        for one in found
    )  # fmt: skip


def test_a_sampler_has_one_owner_until_its_lease_ends(clocked: Clocked) -> None:
    first = claim(clocked)
    assert (first.token, first.sequence, first.memory) == (1, 0, b"")
    assert clocked.index.claim_sampler("acme", "spans", "two", LEASE_S) is None
    assert claim(clocked, org="beta", owner="two").sampler_id != first.sampler_id
    clocked.wait(LEASE_S - 1)
    assert clocked.index.beat_sampler(first, LEASE_S)
    clocked.wait(LEASE_S + 1)
    assert clocked.index.write_step(step(first, 3, rows(1)))
    second = claim(clocked, "two")
    assert (second.low_sequence, second.watermark_ns) == (2, 7)
    assert (second.token, second.sequence, second.snapshot_id, second.memory, second.policies) == (
        2, 3, -3, b"\0\x01", "p1",
    )  # fmt: skip
    assert not clocked.index.beat_sampler(first, LEASE_S)
    clocked.index.release_sampler(first)
    assert clocked.index.claim_sampler("acme", "spans", "three", LEASE_S) is None
    clocked.index.release_sampler(second)
    assert claim(clocked, "three").token == 3


def test_a_process_that_lost_its_claim_writes_nothing(clocked: Clocked) -> None:
    late = claim(clocked)
    clocked.wait(LEASE_S + 1)
    fresh = claim(clocked, "two")
    batch = ExportBatch("file", 0, 1, b"x")
    assert not clocked.index.write_step(step(late, 1, rows(1), batch))
    assert clocked.index.find_decisions("acme", trace(1)) == []
    assert clocked.index.waiting_batches("acme") == []
    assert clocked.index.write_step(step(fresh, 1, rows(1), batch))
    assert [one.batches for one in clocked.index.waiting_batches("acme")] == [1]


def test_decisions_are_found_by_trace_and_by_commit(clocked: Clocked) -> None:
    index, record = clocked.index, claim(clocked)
    assert index.write_step(step(record, 1, rows(*range(1, 6))))
    assert index.write_step(step(record, 2, rows(6, 7, sequence=2, kept=False)))
    known = index.known_decisions(record, trace(7) + trace(99) + trace(2) + trace(7))
    assert ids(known) == [(2, True, 1, 1), (7, False, 2, 1)]
    assert known["first_ns"].tolist() == [1_700_000_000_000_000_001] * 2
    assert (known["probability"].tolist(), known["threshold"].tolist()) == ([0.25] * 2, [1 << 55] * 2)
    assert len(index.known_decisions(record, b"")) == 0
    blocks = list(index.decided_since(record, 2, 1))
    assert [len(block) for block in blocks] == [1, 1]
    assert ids(np.concatenate(blocks)) == [(6, False, 2, 1), (7, False, 2, 1)]
    assert len(np.concatenate(list(index.decided_since(record, 0, 4)))) == 7
    (found,) = index.find_decisions("acme", trace(7))
    assert (found.sampler, found.policy, found.policies, found.is_kept) == ("spans", "rest", "p1", False)
    assert index.find_decisions("beta", trace(7)) == []


def test_a_later_decision_replaces_the_earlier_one(clocked: Clocked) -> None:
    index, record = clocked.index, claim(clocked)
    assert index.write_step(step(record, 1, rows(1, 2, kept=False)))
    assert index.write_step(step(record, 4, rows(2, sequence=4, revision=2, spans=9)))
    assert ids(index.known_decisions(record, trace(1) + trace(2))) == [(1, False, 1, 1), (2, True, 4, 2)]
    (found,) = index.find_decisions("acme", trace(2))
    assert (found.policy, found.spans, found.revision) == ("errors", 9, 2)


def test_a_revision_may_keep_its_reason(clocked: Clocked) -> None:
    index, record = clocked.index, claim(clocked)
    assert index.write_step(step(record, 1, rows(1, 2)))
    known = index.known_decisions(record, trace(1))
    known["spans"], known["sequence"], known["revision"] = 8, 5, 2
    newer = step(record, 5, np.concatenate([known, rows(3, sequence=5, kept=False)]))
    assert index.write_step(replace(newer, record=replace(newer.record, policies="p2")))
    (found,) = index.find_decisions("acme", trace(1))
    assert (found.policy, found.policies, found.spans, found.sequence) == ("errors", "p1", 8, 5)
    (other,) = index.find_decisions("acme", trace(3))
    assert (other.policy, other.policies) == ("rest", "p2")


def test_a_trace_is_decided_for_the_first_time_once(clocked: Clocked) -> None:
    index, record = clocked.index, claim(clocked)
    assert index.write_step(step(record, 1, rows(1)))
    with pytest.raises((ValueError, psycopg.errors.UniqueViolation)):
        index.write_step(step(record, 2, rows(1, sequence=2)))
    assert claim(clocked).sequence == 1


def test_kept_traces_of_other_samplers_are_seen_within_the_organisation(clocked: Clocked) -> None:
    index = clocked.index
    one, other, foreign = claim(clocked), claim(clocked, name="eu"), claim(clocked, org="beta")
    assert index.write_step(step(one, 1, rows(1, 2)))
    assert index.write_step(step(one, 2, rows(3, sequence=2, kept=False)))
    asked = b"".join(map(trace, (3, 2, 1, 9)))
    assert index.kept_elsewhere(other, asked, 60) == trace(1) + trace(2)
    assert index.kept_elsewhere(one, asked, 60) == index.kept_elsewhere(foreign, asked, 60) == b""
    clocked.wait(61)
    assert index.kept_elsewhere(other, asked, 60) == b""


def test_batches_are_claimed_oldest_first_and_fenced(clocked: Clocked) -> None:
    index, record = clocked.index, claim(clocked)
    batches = [
        ExportBatch("agent", 0, 2, b"a"),
        ExportBatch("agent", 1, 3, b"b"),
        ExportBatch("file", 0, 5, b"f"),
    ]
    assert index.write_step(step(record, 1, rows(1), *batches))
    first = index.claim_batch(record, "agent", LEASE_S)
    second = index.claim_batch(record, "agent", LEASE_S)
    assert first is not None
    assert second is not None
    assert [(one.body, one.traces, one.attempts) for one in (first, second)] == [(b"a", 2, 1), (b"b", 3, 1)]
    assert index.claim_batch(record, "agent", LEASE_S) is None
    clocked.wait(LEASE_S - 1)
    assert index.beat_batch(second, LEASE_S)
    clocked.wait(2)
    again = index.claim_batch(record, "agent", LEASE_S)
    assert again is not None
    assert (again.body, again.attempts) == (b"a", 2)
    assert not index.finish_batch(first)
    assert not index.beat_batch(first, LEASE_S)
    index.put_off_batch(first, "too late", 100)
    assert index.finish_batch(again)
    index.put_off_batch(second, "503 a\0b", 100)
    (waiting, filed) = index.waiting_batches("acme")
    assert (waiting.destination, waiting.batches, waiting.traces, waiting.attempts) == ("agent", 1, 3, 1)
    assert waiting.error.startswith("503")
    assert (filed.destination, filed.traces, filed.sampler) == ("file", 5, "spans")
    assert index.claim_batch(record, "agent", LEASE_S) is None
    clocked.wait(101)
    assert index.claim_batch(record, "agent", LEASE_S) is not None


def test_refused_traces_are_kept_and_can_be_sent_again(clocked: Clocked) -> None:
    index, record = clocked.index, claim(clocked)
    assert index.write_step(step(record, 1, rows(1), ExportBatch("agent", 0, 2, b"ab")))
    batch = index.claim_batch(record, "agent", LEASE_S)
    assert batch is not None
    assert index.finish_batch(batch, ExportLetter(1, b"b", "400"))
    (waiting,) = index.waiting_batches("acme")
    assert (waiting.batches, waiting.dead_traces) == (0, 1)
    assert index.waiting_batches("beta") == index.dead_traces("beta", 9) == []
    (letter,) = index.dead_traces("acme", 9)
    assert (letter.sampler, letter.destination, letter.error, letter.body) == ("spans", "agent", "400", b"b")
    assert not index.retry_dead("beta", letter.letter_id)
    assert index.retry_dead("acme", letter.letter_id)
    assert index.dead_traces("acme", 9) == []
    again = index.claim_batch(record, "agent", LEASE_S)
    assert again is not None
    assert (again.body, again.sequence) == (b"b", -letter.letter_id)


def test_what_is_left_of_a_batch_rests(clocked: Clocked) -> None:
    index, record = clocked.index, claim(clocked)
    assert index.write_step(step(record, 1, rows(1), ExportBatch("agent", 0, 3, b"abc")))
    batch = index.claim_batch(record, "agent", LEASE_S)
    assert batch is not None
    index.put_off_batch(batch, "503", 9, (b"c", 1), ExportLetter(1, b"b", "400"))
    (waiting,) = index.waiting_batches("acme")
    assert (waiting.traces, waiting.dead_traces, waiting.error) == (1, 1, "503")
    clocked.wait(10)
    again = index.claim_batch(record, "agent", LEASE_S)
    assert again is not None
    assert (again.body, again.traces, again.attempts) == (b"c", 1, 2)
    index.put_off_batch(batch, "late", 0, (b"", 0), ExportLetter(1, b"x", "late"))
    assert len(index.dead_traces("acme", 9)) == 1, "whoever lost the batch changes nothing"


def test_old_decisions_are_forgotten_in_bounded_pieces(clocked: Clocked) -> None:
    index, record = clocked.index, claim(clocked)
    assert index.write_step(step(record, 1, rows(*range(5))))
    clocked.wait(100)
    assert index.write_step(step(record, 2, rows(7, sequence=2)))
    assert index.forget_sampling(50, 50, 3) == 3
    assert index.forget_sampling(50, 50, 3) == 2
    assert index.forget_sampling(50, 50, 3) == 0
    assert ids(np.concatenate(list(index.decided_since(record, 0, 9)))) == [(7, True, 2, 1)]
