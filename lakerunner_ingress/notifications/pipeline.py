"""The steps for one message of a webhook or a queue: parse, validate, produce, acknowledge.

Nothing is acknowledged before it is durable, in Kafka or else in the outbox; rejected records become dead
letters. A sender that repeats a message after an error does no harm, because raw objects are unique by bucket
and key. The steps block and run in a worker thread.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import UNSET, UnsetType

from lakerunner_ingress.auth import Caller
from lakerunner_ingress.errors import UnavailableError
from lakerunner_ingress.notifications.shapes import Shape
from lakerunner_ingress.registry import RegistryCache
from lakerunner_ingress.telemetry import Telemetry
from resources.index.contract import IngressIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.index.types import DeadLetter, ObjectNotice, OutboxMessage
from resources.kafka.producer import Producer, ingest_topic
from resources.kafka.reader import KafkaUnavailableError
from resources.lake.layout import IgnoredKeyError, InvalidKeyError, parse_raw_key, raw_prefixes
from resources.notifications.events import Event, MalformedMessageError, NotifiedObject
from resources.notifications.references import (
    Registry,
    UnknownBucketError,
    UnknownOrganisationError,
    encode_message,
    resolve,
)

MAX_MESSAGE_BYTES = 1024 * 1024
"""Limit of SQS and of the webhooks; Pub/Sub would carry ten times that."""


def parse(body: bytes, source: str, shape: Shape) -> Event:
    """Read the records of a message; a bad record spoils only itself.

    Raises `MalformedMessageError` when the whole is not an event.
    """
    if len(body) > MAX_MESSAGE_BYTES:
        raise MalformedMessageError(f"message of {len(body)} bytes: expected at most {MAX_MESSAGE_BYTES}")
    return shape(body, source)


NOT_YOURS = "not under a prefix of this API key's organisation"


@dataclass(frozen=True, slots=True)
class AcceptedRecord:
    """A record and the place of its object."""

    record: NotifiedObject
    notice: ObjectNotice


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that becomes a dead letter."""

    index: int
    key: str
    reason: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Validation:
    """The records of a message after validation."""

    accepted: tuple[AcceptedRecord, ...]
    rejected: tuple[RejectedRecord, ...]
    ignored: int
    is_retryable: bool = False
    """A newer registry might accept more."""


class NotOwnedError(ValueError):
    """The record belongs to another organisation than the caller's, or to none."""


def validate(event: Event, caller: Caller, registry: Registry) -> Validation:
    """Find the owner of each record, and check that this caller may announce it.

    An organisation's key gets the same message for a prefix of another organisation and for one of nobody.
    """
    accepted: list[AcceptedRecord] = []
    rejected = [RejectedRecord(bad.index, "", bad.reason, bad.payload) for bad in event.bad]
    ignored, is_retryable = event.ignored, False
    for index, record in event.created:
        try:
            accepted.append(AcceptedRecord(record, _place(record, caller, registry)))
        except IgnoredKeyError:
            ignored += 1
        except (InvalidKeyError, NotOwnedError, UnknownBucketError, UnknownOrganisationError) as error:
            is_retryable = True
            rejected.append(RejectedRecord(index, record.key, str(error), encode_message(record)))
    rejected.sort(key=lambda each: each.index)
    return Validation(tuple(accepted), tuple(rejected), ignored, is_retryable)


def _place(record: NotifiedObject, caller: Caller, registry: Registry) -> ObjectNotice:
    if caller.org:
        _check_owner(record, caller.org, registry)
    return resolve(record, registry)


def _check_owner(record: NotifiedObject, org: str, registry: Registry) -> None:
    try:
        owner = parse_raw_key(record.bucket, record.key, registry.mappings).org
    except InvalidKeyError as error:
        if record.key.startswith(raw_prefixes(org)):
            raise
        raise NotOwnedError(NOT_YOURS) from error
    if owner != org:
        raise NotOwnedError(NOT_YOURS)


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejected record as the sender sees it."""

    index: int
    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The answer to a sender, record by record."""

    accepted: int
    ignored: int
    rejected: tuple[Rejection, ...]
    note: str | UnsetType = UNSET
    """Remark; absent from the answer if there is none."""

    @property
    def http_status(self) -> int:
        """HTTP status: 400 only if every record was rejected, since senders retry the whole message on it."""
        return 400 if self.rejected and not (self.accepted or self.ignored) else 202


def acknowledge(validation: Validation, note: str = "") -> Acknowledgement:
    rejections = tuple(Rejection(r.index, r.key, r.reason) for r in validation.rejected)
    return Acknowledgement(len(validation.accepted), validation.ignored, rejections, note or UNSET)


log = logging.getLogger(__name__)


def produce(accepted: Sequence[AcceptedRecord], producer: Producer, index: IngressIndex) -> str:
    """Send references to Kafka, else to the outbox; return which, or raise `UnavailableError`."""
    messages = [_message(each) for each in accepted]
    try:
        producer.send(messages)
    except KafkaUnavailableError as error:
        log.warning("Kafka does not answer, %d references go to the outbox: %s", len(messages), error)
        _to_outbox(messages, index)
        return "outbox"
    return "kafka"


def append_dead_letters(rejected: Sequence[RejectedRecord], caller: Caller, index: IngressIndex) -> None:
    """Append dead letters; a failure here fails the request, since nothing may disappear unseen."""
    if rejected:
        index.append_dead_letters([DeadLetter(caller.name, r.reason, r.payload) for r in rejected])


def _message(each: AcceptedRecord) -> OutboxMessage:
    return OutboxMessage(ingest_topic(each.notice.signal.value), each.record.key, encode_message(each.record))


def _to_outbox(messages: Sequence[OutboxMessage], index: IngressIndex) -> None:
    try:
        index.append_outbox(messages)
    except IndexUnavailableError as error:
        raise UnavailableError("neither Kafka nor Postgres takes notifications; send this again") from error


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The pipeline of a process."""

    index: IngressIndex
    producer: Producer
    registry: RegistryCache
    telemetry: Telemetry = field(default_factory=Telemetry)

    def notify(self, body: bytes, caller: Caller, shape: Shape) -> Acknowledgement:
        """Run all steps; return when everything is durable.

        Raises `MalformedMessageError` when nothing in `body` can be read; it is a dead letter by then.
        """
        event = self._parse(body, caller, shape)
        if event.note:
            log.warning("%s: %s", caller.name, event.note)
        validation = self._validate(event, caller)
        self._produce(validation)
        self._keep(validation.rejected, caller)
        self.telemetry.count("ignored", validation.ignored)
        return acknowledge(validation, event.note)

    def _parse(self, body: bytes, caller: Caller, shape: Shape) -> Event:
        try:
            return self.telemetry.steps.timed("parse", lambda: parse(body, caller.name, shape))
        except MalformedMessageError as error:
            self._keep((RejectedRecord(0, "", str(error), body[:MAX_MESSAGE_BYTES]),), caller)
            raise

    def _validate(self, event: Event, caller: Caller) -> Validation:
        began = self.registry.now()
        validation = validate(event, caller, self.registry.current())
        if validation.is_retryable:
            validation = validate(event, caller, self.registry.load_after(began))
        return validation

    def _produce(self, validation: Validation) -> None:
        accepted = validation.accepted
        if accepted:
            where = self.telemetry.steps.timed(
                "produce", lambda: produce(accepted, self.producer, self.index)
            )
            self.telemetry.count(where, len(accepted))

    def _keep(self, rejected: tuple[RejectedRecord, ...], caller: Caller) -> None:
        self.telemetry.steps.timed("keep", lambda: append_dead_letters(rejected, caller, self.index))
        self.telemetry.count("rejected", len(rejected))
