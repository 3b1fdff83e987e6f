"""Reading a bounded run of messages from offsets the caller keeps.

`assign()` and no group join (which costs three seconds a tick); the consumer is kept between calls, because a
sensor's process lives on. Each call assigns anew: the caller's offsets are the truth, not the consumer's.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from resources.index.types import TopicOffset
from resources.stream.run import Run, take
from resources.stream.start import start_of
from resources.stream.values import (
    EventKind,
    KafkaUnavailableError,
    ReadBatch,
    ReadEvent,
    Watermarks,
)

log = logging.getLogger(__name__)
GROUP = "lakerunner"
MAX_BATCH_BYTES = 64 * 1024 * 1024
METADATA_TIMEOUT_S = 5.0
POLL_S = 0.1
_UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)  # noqa: SLF001 - librdkafka's own spelling


@dataclass(slots=True)
class Held:
    """A consumer and the lock that lets one reader at a time use it."""

    consumer: Consumer
    lock: threading.Lock = field(default_factory=threading.Lock)


_lock = threading.Lock()
_held: dict[tuple[int, str, str], Held] = {}


def read_batch(
    bootstrap: str,
    topic: str,
    offsets: Sequence[TopicOffset],
    max_messages: int = 5000,
    timeout: float = 5.0,
) -> ReadBatch:
    """Everything up to the present ends of `topic`, within the bounds; quick when there is nothing new."""
    held = _consumer(bootstrap, topic)
    with held.lock:
        try:
            return _read(held.consumer, topic, offsets, max_messages, time.monotonic() + timeout)
        except KafkaException as error:
            raise KafkaUnavailableError(f"reading {topic} from {bootstrap}: {error.args[0].str()}") from error


def commit_for_lag(bootstrap: str, offsets: Sequence[TopicOffset]) -> str:
    """Tell the broker how far we are, for lag dashboards only; empty when it took it, else why not."""
    if not offsets:
        return ""
    held = _consumer(bootstrap, offsets[0].topic)
    wanted = [TopicPartition(o.topic, o.partition, o.next_offset) for o in offsets]
    with held.lock:
        try:
            held.consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            log.warning("lag commit for %s refused: %s", offsets[0].topic, error.args[0].str())
            return str(error.args[0].str())
    return ""


def close_readers() -> None:
    """Close every consumer of this process."""
    with _lock:
        held = list(_held.values())
        _held.clear()
    for each in held:
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


def _consumer(bootstrap: str, topic: str) -> Held:
    key = (os.getpid(), bootstrap, topic)
    with _lock:
        if key not in _held:
            _held[key] = Held(Consumer(_configuration(bootstrap)))
        return _held[key]


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
