"""Producer and reader against librdkafka's mock cluster: a real wire protocol, no Java."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer as NativeProducer

from resources.index.types import OutboxMessage, TopicOffset
from resources.kafka.producer import Producer, ingest_topic
from resources.kafka.reader import (
    EventKind,
    KafkaUnavailableError,
    ReadBatch,
    Watermarks,
    close_readers,
    commit_for_lag,
    read_batch,
    start_of,
)
from tests.support.patience import PATIENCE_S, wait_for


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    mock = NativeProducer({"test.mock.num.brokers": 1, "log_level": 0})
    found = next(iter(mock.list_topics(timeout=PATIENCE_S).brokers.values()))
    yield f"{found.host}:{found.port}"
    close_readers()


@pytest.fixture
def producer(broker: str) -> Iterator[Producer]:
    found = Producer(broker, timeout_s=60)
    yield found
    found.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return ingest_topic(request.node.name)


def messages(topic: str, count: int) -> list[OutboxMessage]:
    return [OutboxMessage(topic, f"org{n % 7}", str(n).encode()) for n in range(count)]


def values(batch: ReadBatch) -> list[int]:
    return sorted(int(m.value) for m in batch.messages)


def test_everything_sent_is_read_once_over_several_batches(
    producer: Producer, broker: str, topic: str
) -> None:
    producer.send(messages(topic, 500))
    batch = read_batch(broker, topic, (), max_messages=120)
    seen = values(batch)
    while batch.messages:
        assert len(batch.messages) <= 120
        batch = read_batch(broker, topic, batch.next_offsets, max_messages=120)
        seen += values(batch)
    assert sorted(seen) == list(range(500))
    assert batch.lag == 0


def test_the_same_offsets_give_the_same_messages_again(producer: Producer, broker: str, topic: str) -> None:
    producer.send(messages(topic, 20))
    first = read_batch(broker, topic, ())
    again = read_batch(broker, topic, ())
    assert values(first) == values(again) == list(range(20))


def test_lag_counts_what_a_bounded_read_left_behind(producer: Producer, broker: str, topic: str) -> None:
    producer.send(messages(topic, 30))
    assert read_batch(broker, topic, (), max_messages=10).lag == 20


def test_nothing_new_is_answered_at_once(producer: Producer, broker: str, topic: str) -> None:
    producer.send(messages(topic, 5))
    done = read_batch(broker, topic, ()).next_offsets
    began = time.monotonic()
    batch = read_batch(broker, topic, done, timeout=PATIENCE_S)
    assert batch.messages == ()
    assert time.monotonic() - began < PATIENCE_S / 2


def test_an_unknown_topic_is_an_event_and_not_a_crash(broker: str, topic: str) -> None:
    batch = read_batch(broker, topic, ())
    assert batch.messages == ()
    assert [event.kind for event in batch.events] == [EventKind.UNKNOWN_TOPIC]


def test_an_offset_above_the_end_means_a_new_broker_and_starts_over(
    producer: Producer, broker: str, topic: str
) -> None:
    producer.send(messages(topic, 8))
    ahead = [TopicOffset(topic, partition, 10_000) for partition in range(4)]
    batch = read_batch(broker, topic, ahead)
    assert values(batch) == list(range(8))
    assert {event.kind for event in batch.events} == {EventKind.BROKER_RESET}
    assert all(offset.next_offset <= 8 for offset in batch.next_offsets)


def test_messages_dropped_by_retention_are_a_gap_with_its_bounds() -> None:
    start, (event,) = start_of("t", 3, 5, Watermarks(9, 20))
    assert start == 9
    assert (event.kind, event.partition, event.start, event.end, event.lost) == (EventKind.GAP, 3, 5, 9, 4)


def test_lag_commit_is_taken_by_the_broker(producer: Producer, broker: str, topic: str) -> None:
    producer.send(messages(topic, 3))
    assert commit_for_lag(broker, read_batch(broker, topic, ()).next_offsets) == ""


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_dead_broker_raises_in_time_and_then_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.kafka.producer.COOL_DOWN_S", PATIENCE_S)
    producer = Producer(f"127.0.0.1:{unused_port()}", timeout_s=0.5)
    with pytest.raises(KafkaUnavailableError, match="not delivered"):
        producer.send(messages("t", 2))
    with pytest.raises(KafkaUnavailableError, match="a moment ago"):
        producer.send(messages("t", 1))
    assert producer.check(0.2)
    producer.close()


def test_senders_do_not_wait_for_each_other(producer: Producer, broker: str, topic: str) -> None:
    """Each of 40 waits some milliseconds for its answer; five times as many, together, as long in all."""
    sent = 0

    def send(count: int) -> None:
        nonlocal sent
        producer.send(messages(topic, count))
        with counting:
            sent += count

    def seconds(threads: int, sends: int) -> float:
        began = time.monotonic()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(send, (number % 3 + 1 for number in range(sends))))
        return (time.monotonic() - began) / sends

    counting = threading.Lock()
    send(1)
    wait_for(lambda: seconds(8, 200) < seconds(1, 40) / 2, "an undisturbed moment")
    found, offsets = 0, ()
    while (batch := read_batch(broker, topic, offsets, timeout=PATIENCE_S)).messages:
        found, offsets = found + len(batch.messages), batch.next_offsets
    assert found == sent


def test_reading_from_a_dead_broker_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.kafka.reader.METADATA_TIMEOUT_S", 0.3)
    with pytest.raises(KafkaUnavailableError, match="reading t"):
        read_batch(f"127.0.0.1:{unused_port()}", "t", ())
