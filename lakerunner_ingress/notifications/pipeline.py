"""Step 2: whose object each record is, and whether this caller may announce it.

A pure decision over the registry. What an organisation's key is told about a prefix that is not its own is
always the same sentence, whether the prefix is another's or nobody's.
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

# << Step 1: from the bytes of a message to records, each with its place in the event.

MAX_MESSAGE_BYTES = 1024 * 1024
"""As much as SQS or a webhook here takes; Pub/Sub would carry ten times that."""


def parse(body: bytes, source: str, shape: Shape) -> Event:
    """Raises `MalformedMessageError` when the whole is not an event; bad records only spoil themselves."""
    if len(body) > MAX_MESSAGE_BYTES:
        raise MalformedMessageError(f"message of {len(body)} bytes: expected at most {MAX_MESSAGE_BYTES}")
    return shape(body, source)


NOT_YOURS = "not under a prefix of this API key's organisation"


@dataclass(frozen=True, slots=True)
class Accepted:
    record: NotifiedObject
    notice: ObjectNotice


@dataclass(frozen=True, slots=True)
class Rejected:
    index: int
    key: str
    reason: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Validated:
    accepted: tuple[Accepted, ...]
    rejected: tuple[Rejected, ...]
    ignored: int
    unknown: bool = False
    """Whether a newer registry might judge differently."""


class NotYoursError(ValueError):
    """The record belongs to another organisation than the caller's, or to none."""


def validate(event: Event, caller: Caller, registry: Registry) -> Validated:
    accepted: list[Accepted] = []
    rejected = [Rejected(bad.index, "", bad.reason, bad.payload) for bad in event.bad]
    ignored, unknown = event.ignored, False
    for index, record in event.created:
        try:
            accepted.append(Accepted(record, _place(record, caller, registry)))
        except IgnoredKeyError:
            ignored += 1
        except (InvalidKeyError, NotYoursError, UnknownBucketError, UnknownOrganisationError) as error:
            unknown = True
            rejected.append(Rejected(index, record.key, str(error), encode_message(record)))
    rejected.sort(key=lambda each: each.index)
    return Validated(tuple(accepted), tuple(rejected), ignored, unknown)


def _place(record: NotifiedObject, caller: Caller, registry: Registry) -> ObjectNotice:
    if caller.org:
        _only_own(record, caller.org, registry)
    return resolve(record, registry)


def _only_own(record: NotifiedObject, org: str, registry: Registry) -> None:
    try:
        owner = parse_raw_key(record.bucket, record.key, registry.mappings).org
    except InvalidKeyError as error:
        if record.key.startswith(raw_prefixes(org)):
            raise
        raise NotYoursError(NOT_YOURS) from error
    if owner != org:
        raise NotYoursError(NOT_YOURS)


# << Step 4: tell the sender what became of each record; only after everything is durable.


@dataclass(frozen=True, slots=True)
class Rejection:
    index: int
    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    accepted: int
    ignored: int
    rejected: tuple[Rejection, ...]
    note: str | UnsetType = UNSET
    """Left out of the answer unless there is something to say."""

    @property
    def http_status(self) -> int:
        """400 only if every record was rejected: a sender retries on it, and must not for one in many."""
        return 400 if self.rejected and not (self.accepted or self.ignored) else 202


def acknowledge(validated: Validated, note: str = "") -> Acknowledgement:
    rejections = tuple(Rejection(r.index, r.key, r.reason) for r in validated.rejected)
    return Acknowledgement(len(validated.accepted), validated.ignored, rejections, note or UNSET)


# << Step 3: make it durable, in Kafka or else in the outbox; and keep what was rejected.

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


# << The order of the steps for one message of a webhook or a queue, from bytes to acknowledgement.
# <<
# << Runs in a worker thread (everything here may block). Nothing is acknowledged before it is durable; a
# << sender
# << that repeats itself after an error does no harm, because raw objects are unique by bucket and key.


@dataclass(frozen=True, slots=True)
class Pipeline:
    index: IngressIndex
    producer: Producer
    registry: RegistryCache
    telemetry: Telemetry = field(default_factory=Telemetry)

    def notify(self, body: bytes, caller: Caller, shape: Shape) -> Acknowledgement:
        """Raises `MalformedMessageError` when nothing in `body` can be read; it is kept by then."""
        event = self._parse(body, caller, shape)
        if event.note:
            log.warning("%s: %s", caller.name, event.note)
        validated = self._validate(event, caller)
        self._produce(validated)
        self._keep(validated.rejected, caller)
        self.telemetry.count("ignored", validated.ignored)
        return acknowledge(validated, event.note)

    def _parse(self, body: bytes, caller: Caller, shape: Shape) -> Event:
        try:
            return self.telemetry.steps.timed("parse", lambda: parse(body, caller.name, shape))
        except MalformedMessageError as error:
            self._keep((Rejected(0, "", str(error), body[:MAX_MESSAGE_BYTES]),), caller)
            raise

    def _validate(self, event: Event, caller: Caller) -> Validated:
        began = self.registry.now()
        validated = validate(event, caller, self.registry.current())
        if validated.unknown:
            validated = validate(event, caller, self.registry.newer_than(began))
        return validated

    def _produce(self, validated: Validated) -> None:
        accepted = validated.accepted
        if accepted:
            where = self.telemetry.steps.timed(
                "produce", lambda: produce(accepted, self.producer, self.index)
            )
            self.telemetry.count(where, len(accepted))

    def _keep(self, rejected: tuple[Rejected, ...], caller: Caller) -> None:
        self.telemetry.steps.timed("keep", lambda: keep(rejected, caller, self.index))
        self.telemetry.count("rejected", len(rejected))
