"""From Kafka messages to an `Intake`: a message becomes a notice, a dead letter, or is known to be nothing.

Pure: the registry says what exists, the result says what to write. Only keys that are deliberately not
telemetry (folders, our own segments) leave no trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from resources.index.types import DeadLetter, Intake, ObjectNotice, TopicOffset
from resources.kafka.reader import Message
from resources.lake.layout import IgnoredKeyError, InvalidKeyError, Signal
from resources.notifications.announced import MalformedMessageError
from resources.notifications.references import (
    Registry,
    UnknownBucketError,
    UnknownOrganisationError,
    decode_message,
    resolve,
)

MAX_REASON = 4000


def sort_messages(
    cluster: str, messages: Sequence[Message], offsets: Sequence[TopicOffset], registry: Registry
) -> Intake:
    """One transaction's worth of effects. A record that is refused keeps its message, not its neighbours."""
    notices: list[ObjectNotice] = []
    dead: list[DeadLetter] = []
    for message in messages:
        found, refused = _sorted(message, registry)
        notices += found
        if refused:
            dead.append(_dead(message, "; ".join(refused)[:MAX_REASON]))
    return Intake(cluster, tuple(notices), tuple(dead), tuple(offsets))


def arrivals(notices: Iterable[ObjectNotice]) -> dict[tuple[str, Signal, int], list[ObjectNotice]]:
    """Newly registered objects by (organisation, signal, arrival hour), for Dagster's log."""
    found: dict[tuple[str, Signal, int], list[ObjectNotice]] = {}
    for notice in notices:
        found.setdefault((notice.org, notice.signal, notice.arrival_hour_ns), []).append(notice)
    return found


def _sorted(message: Message, registry: Registry) -> tuple[list[ObjectNotice], list[str]]:
    """What a message announces, and why some of it cannot be placed."""
    try:
        records = decode_message(message.value, message.timestamp_ms * 1_000_000)
    except MalformedMessageError as error:
        return [], [str(error)]
    found: list[ObjectNotice] = []
    refused: list[str] = []
    for record in records:
        try:
            found.append(resolve(record, registry))
        except IgnoredKeyError:
            continue
        except (InvalidKeyError, UnknownBucketError, UnknownOrganisationError) as error:
            refused.append(str(error))
    return found, refused


def _dead(message: Message, reason: str) -> DeadLetter:
    return DeadLetter("kafka", reason, message.value, message.topic, message.partition, message.offset)
