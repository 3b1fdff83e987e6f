"""What one call of the reader has read so far, and what each answer of the consumer does to it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError

from resources.index.types import TopicOffset
from resources.stream.values import EventKind, Message, ReadBatch, ReadEvent

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Run:
    """What one call has read so far; `position` and `end` are by partition."""

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
