"""What is read from Kafka, and what there is to tell about the reading."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from resources.index.types import TopicOffset


class KafkaUnavailableError(RuntimeError):
    """The broker did not answer or did not take a message in time; nothing is known to be lost."""


class EventKind(StrEnum):
    BROKER_RESET = "broker_reset"  # our offset lies above the end: the broker was recreated, start over
    GAP = "gap"  # messages we never read were dropped by retention
    UNKNOWN_TOPIC = "unknown_topic"
    READ_ERROR = "read_error"  # some partition could not be read this time


@dataclass(frozen=True, slots=True)
class ReadEvent:
    """Something a person should see. For a gap the messages `[start, end)` were never read."""

    kind: EventKind
    topic: str
    partition: int = -1
    start: int = -1
    end: int = -1
    detail: str = ""

    @property
    def lost(self) -> int:
        """How many messages were never read."""
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
