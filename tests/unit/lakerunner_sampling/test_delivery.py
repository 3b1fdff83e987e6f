"""An exporter sends each trace, and neither a slow nor a refusing destination makes it lose one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from lakerunner_sampling.export import delivery
from lakerunner_sampling.export.delivery import BREAK_AFTER, MOST_ATTEMPTS, Exporter
from lakerunner_sampling.export.senders import Outcome, Reply
from lakerunner_sampling.loader import EXPORTS, pack, unpack
from resources.index.memory import MemoryIndex
from resources.index.sampling_types import ExportBatch, SamplerRecord, SamplingStep, no_rows

TAKEN, LATER = Reply(Outcome.TAKEN), Reply(Outcome.LATER, "503 busy")


def trace_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def traces(*numbers: int) -> pa.Table:
    rows = [
        {"trace_id": trace_id(one), "first_sequence": 1, "last_sequence": 1, "is_late": False, "policy": "p",
         "reason": "r", "probability": 1.0, "threshold": 0}
        for one in numbers
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, EXPORTS)


@dataclass
class FakeLoader:
    """Each trace has two spans; a chunk has three."""

    lost: frozenset[int] = frozenset()

    def load(self, wanted: pa.Table) -> Iterator[pa.Table]:
        ids = [one for one in wanted["trace_id"].to_pylist() for _ in range(2)]
        ids = [one for one in ids if int.from_bytes(one, "big") not in self.lost]
        for at in range(0, len(ids), 3):
            yield pa.table({"trace_id": pa.array(ids[at : at + 3], pa.binary())})


@dataclass
class FakeSender:
    """Answers as a test says, by the numbers of the traces of each span."""

    name: str = "agent"
    answer: Callable[[list[int]], Reply] = lambda _: TAKEN
    taken: list[int] = field(default_factory=list)
    calls: int = 0

    def encode(self, spans: pa.Table) -> bytes:
        return b"".join(spans["trace_id"].to_pylist())

    def send(self, payload: bytes, traces: int, identity: str) -> Reply:
        self.calls += 1
        numbers = [int.from_bytes(payload[at : at + 16], "big") for at in range(0, len(payload), 16)]
        reply = self.answer(numbers)
        if reply.outcome is Outcome.TAKEN:
            self.taken += numbers
        return reply

    def close(self) -> None:
        """Close nothing."""


@dataclass
class Outbox:
    index: MemoryIndex
    record: SamplerRecord
    sender: FakeSender
    exporter: Exporter

    def put(self, sequence: int, *numbers: int) -> None:
        batch = ExportBatch("agent", 0, len(numbers), pack(traces(*numbers)))
        self.record = replace(self.record, sequence=sequence)
        assert self.index.write_step(SamplingStep(self.record, no_rows(), (), [batch]))

    def wait(self, seconds: float = 1000) -> None:
        now = self.index._clock() + seconds
        self.index._clock = lambda: now
        self.exporter.probe_at = 0.0


@pytest.fixture
def outbox(monkeypatch: pytest.MonkeyPatch) -> Outbox:
    index, sender = MemoryIndex(), FakeSender()
    index.create_organisation("acme")
    record = index.claim_sampler("acme", "s", "one", 1e6)
    assert record is not None
    exporter = Exporter(sender, index, FakeLoader(), lambda: record, lambda _: None)  # type: ignore[arg-type]
    return Outbox(index, record, sender, exporter)


def test_batches_leave_in_order_and_once(outbox: Outbox) -> None:
    outbox.put(1, 1, 2)
    outbox.put(2, 3)
    assert outbox.exporter.send_one()
    assert outbox.exporter.send_one()
    assert not outbox.exporter.send_one()
    assert outbox.sender.taken == [1, 1, 2, 2, 3, 3]
    assert outbox.index.waiting_batches("acme") == []


def test_what_was_taken_is_not_sent_again_after_a_failure(outbox: Outbox) -> None:
    outbox.put(1, 1, 2, 3, 4)
    replies = iter([TAKEN, TAKEN, LATER, LATER, LATER])
    outbox.sender.answer = lambda _: next(replies)
    assert not outbox.exporter.send_one()
    assert outbox.sender.taken == [1, 1, 2, 2, 3, 3]
    (waiting,) = outbox.index.waiting_batches("acme")
    assert (waiting.traces, waiting.error) == (1, "503 busy")
    outbox.sender.answer = lambda _: TAKEN
    assert not outbox.exporter.send_one(), "it rests"
    outbox.wait()
    assert outbox.exporter.send_one()
    assert outbox.sender.taken == [1, 1, 2, 2, 3, 3, 4, 4]


def test_a_destination_says_how_long_it_rests(outbox: Outbox) -> None:
    outbox.put(1, 1)
    outbox.sender.answer = lambda _: Reply(Outcome.LATER, "429", 300.0)
    assert not outbox.exporter.send_one()
    assert outbox.sender.calls == 1, "no attempt before the time it named"
    outbox.sender.answer = lambda _: TAKEN
    outbox.wait(299)
    assert not outbox.exporter.send_one()
    outbox.wait(2)
    assert outbox.exporter.send_one()


def test_a_broken_destination_is_probed_with_one_call(outbox: Outbox) -> None:
    outbox.put(1, 1)
    outbox.sender.answer = lambda _: LATER
    for _ in range(BREAK_AFTER):
        outbox.exporter.send_one()
        outbox.wait()
    assert outbox.exporter.is_broken
    before = outbox.sender.calls
    outbox.exporter.send_one()
    assert outbox.sender.calls == before + 1
    outbox.wait()
    outbox.sender.answer = lambda _: TAKEN
    assert outbox.exporter.send_one()
    assert not outbox.exporter.is_broken


def test_large_payloads_are_halved_down_to_single_spans(outbox: Outbox) -> None:
    outbox.put(1, 1, 2, 3)
    outbox.sender.answer = lambda spans: TAKEN if len(spans) == 1 else Reply(Outcome.TOO_LARGE, "413")
    assert outbox.exporter.send_one()
    assert outbox.sender.taken == [1, 1, 2, 2, 3, 3]
    assert outbox.index.dead_traces("acme", 9) == []


def test_traces_that_are_refused_alone_become_dead_letters(outbox: Outbox) -> None:
    outbox.put(1, 1, 2, 3, 4)
    outbox.sender.answer = lambda spans: Reply(Outcome.REFUSED, "400 bad") if 2 in spans else TAKEN
    assert outbox.exporter.send_one()
    assert sorted(set(outbox.sender.taken)) == [1, 3, 4]
    (letter,) = outbox.index.dead_traces("acme", 9)
    assert (letter.error, unpack(letter.body)["trace_id"].to_pylist()) == ("400 bad", [trace_id(2)])
    outbox.sender.answer = lambda _: TAKEN
    assert outbox.index.retry_dead("acme", letter.letter_id)
    assert outbox.exporter.send_one()
    assert outbox.sender.taken[-2:] == [2, 2]


def test_endless_failures_end_as_dead_letters(outbox: Outbox) -> None:
    outbox.put(1, 1)
    outbox.sender.answer = lambda _: LATER
    (waiting,) = outbox.index._state.sampling.batches.values()
    waiting.batch = replace(waiting.batch, attempts=MOST_ATTEMPTS - 1)
    assert outbox.exporter.send_one()
    assert [one.traces for one in outbox.index.dead_traces("acme", 9)] == [1]


def test_a_batch_that_somebody_else_claimed_is_left_alone(outbox: Outbox) -> None:
    outbox.put(1, 1, 2, 3)

    def take_over(_: list[int]) -> Reply:
        if outbox.sender.calls == 1:
            outbox.wait(delivery.CLAIM_S + 1)
            assert outbox.index.claim_batch(outbox.record, "agent", 60) is not None
        return TAKEN

    outbox.sender.answer = take_over
    assert not outbox.exporter.send_one()
    assert outbox.sender.calls == 1
    assert [one.batches for one in outbox.index.waiting_batches("acme")] == [1]


def test_traces_whose_files_are_gone_are_counted(outbox: Outbox) -> None:
    outbox.exporter.loader = FakeLoader(frozenset({2}))  # type: ignore[assignment]
    outbox.put(1, 1, 2)
    assert outbox.exporter.send_one()
    name = 'lakerunner_sampler_export_missing_traces_total{destination="agent"}'
    assert outbox.exporter.counts[name] == 1
