"""The reader returns a bounded run of messages from offsets the caller keeps.

It uses `assign()` and no group join (which costs three seconds a tick); consumers are kept between calls,
because a sensor's process lives on. Each call assigns anew: the caller's offsets are the truth, not the
consumer's.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from resources.index.types import TopicOffset


class KafkaUnavailableError(RuntimeError):
    """Broker that did not answer or take a message in time; nothing is known to be lost."""


class EventKind(StrEnum):
    BROKER_RESET = "broker_reset"  # our offset lies above the end: the broker was recreated, start over
    GAP = "gap"  # messages we never read were dropped by retention
    UNKNOWN_TOPIC = "unknown_topic"
    READ_ERROR = "read_error"  # some partition could not be read this time


@dataclass(frozen=True, slots=True)
class ReadEvent:
    """Event for a person to see. For a gap the messages `[start, end)` were never read."""

    kind: EventKind
    topic: str
    partition: int = -1
    start: int = -1
    end: int = -1
    detail: str = ""

    @property
    def lost(self) -> int:
        """Number of messages that were never read."""
        return self.end - self.start if self.kind is EventKind.GAP else 0


@dataclass(frozen=True, slots=True)
class Message:
    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """Messages in offset order per partition, and the offsets to store together with their effects."""

    messages: tuple[Message, ...] = ()
    next_offsets: tuple[TopicOffset, ...] = ()
    events: tuple[ReadEvent, ...] = ()
    lag: int = 0
    """Messages between `next_offsets` and the ends of the partitions, as seen when reading began."""


@dataclass(frozen=True, slots=True)
class Watermarks:
    low: int
    high: int


def start_of(
    topic: str, partition: int, stored: int | None, marks: Watermarks
) -> tuple[int, tuple[ReadEvent, ...]]:
    """Return the first offset to read, with the events to report.

    >>> start_of("t", 0, None, Watermarks(3, 9))
    (3, ())
    >>> start_of("t", 0, 5, Watermarks(3, 9))
    (5, ())
    >>> start_of("t", 0, 1, Watermarks(3, 9))[1][0].lost
    2
    >>> start_of("t", 0, 12, Watermarks(3, 9))[0]
    3
    """
    if stored is None:
        return marks.low, ()
    if stored > marks.high:
        text = f"stored offset {stored} is above the end {marks.high}: broker recreated, starting over"
        return marks.low, (ReadEvent(EventKind.BROKER_RESET, topic, partition, stored, marks.high, text),)
    if stored < marks.low:
        text = f"{marks.low - stored} messages were dropped by the broker before they were read"
        return marks.low, (ReadEvent(EventKind.GAP, topic, partition, stored, marks.low, text),)
    return stored, ()


log = logging.getLogger(__name__)


@dataclass(slots=True)
class Run:
    """Progress of one call; `position` and `end` are by partition."""

    topic: str
    position: dict[int, int] = field(default_factory=dict)
    end: dict[int, int] = field(default_factory=dict)
    stopped: set[int] = field(default_factory=set)
    messages: list[Message] = field(default_factory=list)
    events: list[ReadEvent] = field(default_factory=list)
    size: int = 0

    def open_partitions(self) -> list[int]:
        return [p for p, at in self.position.items() if at < self.end[p] and p not in self.stopped]

    def result(self) -> ReadBatch:
        offsets = tuple(TopicOffset(self.topic, p, at) for p, at in sorted(self.position.items()))
        lag = sum(max(0, self.end[p] - at) for p, at in self.position.items())
        return ReadBatch(tuple(self.messages), offsets, tuple(self.events), lag)


def take(run: Run, native: Any) -> None:
    if native is None:
        return
    error, partition = native.error(), native.partition()
    if error is None:
        _keep(run, native)
    elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own spelling
        run.position[partition] = max(run.position[partition], native.offset())
        run.stopped.add(partition)
    else:
        log.warning("%s[%s]: %s", run.topic, partition, error.str())
        run.events.append(ReadEvent(EventKind.READ_ERROR, run.topic, partition, detail=error.str()))
        run.stopped.add(partition)


def _keep(run: Run, native: Any) -> None:
    value, partition = native.value() or b"", native.partition()
    kind, stamp = native.timestamp()
    run.messages.append(
        Message(run.topic, partition, native.offset(), native.key() or b"", value, stamp if kind else 0)
    )
    run.position[partition] = native.offset() + 1
    run.size += len(value)


GROUP = "lakerunner"
MAX_BATCH_BYTES = 64 * 1024 * 1024
METADATA_TIMEOUT_S = 5.0
POLL_S = 0.1
_UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)  # noqa: SLF001 - librdkafka's own spelling


@dataclass(slots=True)
class SharedConsumer:
    """Consumer and the lock that lets one reader at a time use it."""

    consumer: Consumer
    lock: threading.Lock = field(default_factory=threading.Lock)


_lock = threading.Lock()
_consumers: dict[tuple[int, str, str], SharedConsumer] = {}


def read_batch(
    bootstrap: str,
    topic: str,
    offsets: Sequence[TopicOffset],
    max_messages: int = 5000,
    timeout: float = 5.0,
) -> ReadBatch:
    """Read up to the present ends of `topic`, within the bounds; quick when there is nothing new."""
    shared = _consumer(bootstrap, topic)
    with shared.lock:
        try:
            return _read(shared.consumer, topic, offsets, max_messages, time.monotonic() + timeout)
        except KafkaException as error:
            raise KafkaUnavailableError(f"reading {topic} from {bootstrap}: {error.args[0].str()}") from error


def commit_for_lag(bootstrap: str, offsets: Sequence[TopicOffset]) -> str:
    """Commit offsets to the broker for lag dashboards only; return '' or why it refused."""
    if not offsets:
        return ""
    shared = _consumer(bootstrap, offsets[0].topic)
    wanted = [TopicPartition(o.topic, o.partition, o.next_offset) for o in offsets]
    with shared.lock:
        try:
            shared.consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            log.warning("lag commit for %s refused: %s", offsets[0].topic, error.args[0].str())
            return str(error.args[0].str())
    return ""


def close_readers() -> None:
    """Close every consumer of this process."""
    with _lock:
        shared = list(_consumers.values())
        _consumers.clear()
    for each in shared:
        with each.lock:
            each.consumer.close()


def _read(
    consumer: Consumer, topic: str, offsets: Sequence[TopicOffset], max_messages: int, deadline: float
) -> ReadBatch:
    run = Run(topic)
    _find_starts(consumer, run, {o.partition: o.next_offset for o in offsets if o.topic == topic})
    wanted = [TopicPartition(topic, p, run.position[p]) for p in run.open_partitions()]
    if not wanted:
        return run.result()
    consumer.assign(wanted)
    try:
        while _wants_more(run, max_messages, deadline):
            take(run, consumer.poll(POLL_S))
    finally:
        consumer.unassign()
    return run.result()


def _wants_more(run: Run, max_messages: int, deadline: float) -> bool:
    if len(run.messages) >= max_messages or run.size >= MAX_BATCH_BYTES:
        return False
    return bool(run.open_partitions()) and time.monotonic() < deadline


def _find_starts(consumer: Consumer, run: Run, stored: dict[int, int]) -> None:
    for partition in _partitions(consumer, run):
        low, high = consumer.get_watermark_offsets(
            TopicPartition(run.topic, partition), timeout=METADATA_TIMEOUT_S
        )
        start, events = start_of(run.topic, partition, stored.get(partition), Watermarks(low, high))
        run.position[partition], run.end[partition] = start, high
        run.events.extend(events)
        for event in events:
            log.error("%s[%d]: %s", run.topic, partition, event.detail)


def _partitions(consumer: Consumer, run: Run) -> list[int]:
    found = consumer.list_topics(run.topic, timeout=METADATA_TIMEOUT_S).topics[run.topic]
    if found.error is not None and found.error.code() not in _UNKNOWN:
        raise KafkaException(found.error)
    if found.error is not None or not found.partitions:
        run.events.append(ReadEvent(EventKind.UNKNOWN_TOPIC, run.topic, detail="no such topic yet"))
        return []
    return sorted(found.partitions)


def _consumer(bootstrap: str, topic: str) -> SharedConsumer:
    key = (os.getpid(), bootstrap, topic)
    with _lock:
        if key not in _consumers:
            _consumers[key] = SharedConsumer(Consumer(_configuration(bootstrap)))
        return _consumers[key]


def _configuration(bootstrap: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": GROUP,
        "client.id": "lakerunner",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 50,
        "queued.max.messages.kbytes": 16 * 1024,
        "allow.auto.create.topics": False,
        "logger": log,
    }
