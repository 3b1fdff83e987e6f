"""Step 3: make it durable, in Kafka or else in the outbox; and keep what was rejected."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lakerunner_ingress.auth import Caller
from lakerunner_ingress.errors import UnavailableError
from lakerunner_ingress.notifications.validate import Accepted, Rejected
from resources.index.contract import IngressIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.index.types import DeadLetter, OutboxMessage
from resources.kafka.producer import Producer, ingest_topic
from resources.kafka.reader import KafkaUnavailableError
from resources.notifications.references import encode_message

log = logging.getLogger(__name__)


def produce(accepted: Sequence[Accepted], producer: Producer, index: IngressIndex) -> str:
    """Where the references are now: `kafka` or `outbox`; `UnavailableError` when neither took them."""
    messages = [_message(each) for each in accepted]
    try:
        producer.send(messages)
    except KafkaUnavailableError as error:
        log.warning("%d references go to the outbox: %s", len(messages), error)
        _to_outbox(messages, index)
        return "outbox"
    return "kafka"


def keep(rejected: Sequence[Rejected], caller: Caller, index: IngressIndex) -> None:
    """Dead letters; a failure here fails the request, since nothing may disappear unseen."""
    if rejected:
        index.append_dead_letters([DeadLetter(caller.name, r.reason, r.payload) for r in rejected])


def _message(each: Accepted) -> OutboxMessage:
    return OutboxMessage(ingest_topic(each.notice.signal.value), each.record.key, encode_message(each.record))


def _to_outbox(messages: Sequence[OutboxMessage], index: IngressIndex) -> None:
    try:
        index.append_outbox(messages)
    except IndexUnavailableError as error:
        raise UnavailableError("neither Kafka nor Postgres takes notifications; send this again") from error
