"""The loop over a queue: what leaves it, what stays, and when it stops."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from lakerunner_ingress.notifications.pipeline import Pipeline
from lakerunner_ingress.notifications.queues import poll as loop
from lakerunner_ingress.notifications.queues.poll import Outcome, Round, poll, run, take
from lakerunner_ingress.notifications.queues.queue import FLUSH_S, QueueTelemetry
from lakerunner_ingress.registry import RegistryCache
from tests.support.ingress import payloads
from tests.support.ingress.doubles import GOOD, FakeProducer, accounts
from tests.support.ingress.queue_servers import MemoryQueue
from tests.support.patience import PATIENCE_S, wait_for

GOOD_BODY = json.dumps(payloads.s3(GOOD)).encode()
IGNORED = b'{"Event":"s3:TestEvent"}'
UNKNOWN = json.dumps(payloads.s3("nowhere/x")).encode()


class Site:
    """A queue, a pipeline, and what is left in either."""

    def __init__(self, **options: Any) -> None:
        self.queue = MemoryQueue(**options)
        self.index, self.producer, self.stop = accounts(), FakeProducer(), threading.Event()
        self.telemetry = QueueTelemetry("memory", self.index)
        self.pipeline = Pipeline(self.index, self.producer, RegistryCache(self.index), self.telemetry)  # type: ignore[arg-type]

    def put(self, *bodies: bytes) -> None:
        for body in bodies:
            self.queue.shelf.put(body)

    def take(self) -> Round:
        return take(self.queue, self.pipeline, self.telemetry, self.stop)

    @property
    def left(self) -> list[bytes]:
        return [message.body for message in self.queue.shelf.messages]

    @property
    def visible(self) -> list[bytes]:
        now = time.monotonic()
        return [message.body for message in self.queue.shelf.messages if message.visible_at <= now]

    @contextmanager
    def polling(self) -> Iterator[None]:
        thread = threading.Thread(target=poll, args=(self.queue, self.pipeline, self.telemetry, self.stop))
        thread.start()
        try:
            yield
        finally:
            self.stop.set()
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def until(self, reached: Any) -> None:
        wait_for(reached, pause_s=0.005)


def outcomes(done: Round) -> list[Outcome]:
    return [outcome for _, outcome in done.outcomes]


def test_what_is_durable_or_kept_or_of_no_interest_leaves_the_queue() -> None:
    site = Site()
    site.put(GOOD_BODY, b"nonsense", IGNORED, UNKNOWN)
    done = site.take()
    assert outcomes(done) == [Outcome.DONE, Outcome.MALFORMED, Outcome.DONE, Outcome.DONE]
    assert site.left == []
    assert site.producer.keys == [GOOD]
    assert [(letter.source, letter.payload[:8]) for letter in site.index.dead_letters()] == [
        ("memory", b"nonsense"),
        ("memory", b'{"v":1,"'),
    ]


def test_nothing_is_acknowledged_before_it_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    site.put(GOOD_BODY)
    sent_at_acknowledgement: list[int] = []
    acknowledge = site.queue.acknowledge
    monkeypatch.setattr(
        site.queue,
        "acknowledge",
        lambda messages: (sent_at_acknowledgement.append(len(site.producer.sent)), acknowledge(messages)),
    )
    site.take()
    assert sent_at_acknowledgement == [1]


def test_without_kafka_the_outbox_takes_it() -> None:
    site = Site()
    site.producer.down = True
    site.put(GOOD_BODY)
    assert outcomes(site.take()) == [Outcome.DONE]
    assert [message.topic for _, message in site.index._state.outbox] == ["objstore.ingest.logs"]
    assert site.left == []


def test_without_kafka_and_postgres_everything_goes_back_at_once() -> None:
    site = Site()
    site.put(GOOD_BODY)
    site.take()
    site.put(GOOD_BODY, GOOD_BODY)
    site.producer.down = site.index.down = True
    done = site.take()
    assert outcomes(done) == [Outcome.REFUSED, Outcome.REFUSED]
    assert not done.is_ok
    assert site.visible == [GOOD_BODY, GOOD_BODY]


def test_without_postgres_what_needs_it_waits_and_the_rest_goes_on() -> None:
    site = Site()
    site.put(GOOD_BODY)
    site.take()
    site.put(UNKNOWN, GOOD_BODY, b"nonsense")
    site.index.down = True
    done = site.take()
    assert outcomes(done) == [Outcome.POSTPONED, Outcome.DONE, Outcome.POSTPONED]
    assert not done.is_ok
    assert (site.left, site.visible) == ([UNKNOWN, b"nonsense"], [])


def test_an_outage_does_not_wear_out_the_receives_of_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "PAUSE_S", 0.005)
    site = Site()
    site.put(GOOD_BODY)
    site.take()
    site.producer.down = site.index.down = True
    site.put(GOOD_BODY)
    with site.polling():
        site.until(site.queue.received.is_set)
        time.sleep(0.2)
        assert site.queue.shelf.messages[0].receives == 1
        site.producer.down = site.index.down = False
        site.until(lambda: not site.left)
    assert len(site.producer.sent) == 2


def test_a_mistake_of_ours_stops_one_message_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site = Site()

    def shape(body: bytes, source: str) -> Any:
        return loop.MalformedMessageError if body == b"trap" else payload_shape(body, source)

    payload_shape, site.queue.shape = site.queue.shape, shape
    site.put(b"trap", GOOD_BODY)
    done = site.take()
    assert outcomes(done) == [Outcome.FAILED, Outcome.DONE]
    assert done.is_ok, "a single trap must not slow the queue down"
    assert done.has_leftovers
    assert (site.left, site.visible) == ([b"trap"], [])
    assert "AttributeError" in caplog.text


def test_told_to_stop_it_finishes_the_message_in_hand_and_gives_the_others_back() -> None:
    site = Site()
    site.put(GOOD_BODY, GOOD_BODY, GOOD_BODY)
    send = site.producer.send
    site.producer.send = lambda messages: (site.stop.set(), send(messages))[1]  # type: ignore[method-assign]
    poll(site.queue, site.pipeline, site.telemetry, site.stop)
    assert len(site.producer.sent) == 1
    assert site.visible == [GOOD_BODY, GOOD_BODY]


def test_a_slow_round_gives_back_what_it_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    site, moments = Site(hold_s=60.0), iter([0.0, 0.0])
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: next(moments, 31.0)))
    site.put(GOOD_BODY, GOOD_BODY, GOOD_BODY)
    done = site.take()
    assert outcomes(done) == [Outcome.DONE, Outcome.RETURNED, Outcome.RETURNED]
    assert len(site.visible) == 2


def test_a_queue_that_is_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "PAUSE_S", 0.005)
    site = Site()
    site.queue.down = True
    site.put(GOOD_BODY)
    with site.polling():
        time.sleep(0.1)
        assert site.producer.sent == []
        site.queue.down = False
        site.until(lambda: not site.left)
    assert site.producer.keys == [GOOD]


def test_a_message_too_large_is_kept_in_part() -> None:
    site = Site()
    site.put(b" " * 3_000_000)
    assert outcomes(site.take()) == [Outcome.MALFORMED]
    (letter,) = site.index.dead_letters()
    assert len(letter.payload) == 1024 * 1024
    assert "3000000 bytes" in letter.reason


def test_counters_end_up_in_the_index_and_are_kept_while_it_is_away() -> None:
    index, now = accounts(), [0.0]
    telemetry = QueueTelemetry("sqs", index, clock=lambda: now[0])
    telemetry.message("done", 3)
    telemetry.count("kafka", 2)
    telemetry.flush()
    assert index.counters() == {}
    index.down, now[0] = True, FLUSH_S
    telemetry.flush()
    index.down = False
    telemetry.message("done", 1)
    telemetry.flush()
    assert index.counters() == {}
    now[0] = 2 * FLUSH_S
    telemetry.flush()
    telemetry.flush(now=True)
    assert index.counters() == {
        'lakerunner_notification_messages_total{queue="sqs",outcome="done"}': 4,
        'lakerunner_notification_records_total{queue="sqs",outcome="kafka"}': 2,
    }


def test_a_round_is_counted() -> None:
    site = Site()
    site.put(GOOD_BODY, b"nonsense", UNKNOWN)
    site.take()
    site.telemetry.flush(now=True)
    name = 'lakerunner_notification_{}_total{{queue="memory",outcome="{}"}}'
    assert site.index.counters() == {
        name.format("messages", "done"): 2,
        name.format("messages", "malformed"): 1,
        name.format("records", "kafka"): 1,
        name.format("records", "rejected"): 2,
    }
    assert site.telemetry.steps.count("receive") == 1
    assert site.telemetry.steps.count("acknowledge") == 1


@pytest.mark.parametrize(("down", "code"), [(False, 0), (True, 1)])
def test_one_round_says_whether_anything_had_to_stay(down: bool, code: int) -> None:
    site = Site()
    site.put(GOOD_BODY)
    site.producer.down = site.index.down = down
    producer: Any = site.producer
    assert run(site.queue, site.index, producer, site.stop, once=True) == code
    assert len(site.left) == code
