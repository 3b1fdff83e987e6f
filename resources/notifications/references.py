"""Notifications are resolved to raw objects that can be placed in the lake.

The Kafka message in between is encoded and decoded here. The registry is what the index says about buckets,
prefixes and organisations; `resolve` is a pure decision over it. A record that cannot be placed is refused
with a reason and never repaired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from resources.index.account_types import StorageProfile
from resources.index.types import ObjectNotice
from resources.lake.layout import IgnoredKeyError, InvalidKeyError, PrefixMapping, parse_raw_key
from resources.lake.timecut import hour_start
from resources.notifications.events import UNREADABLE, MalformedMessageError, NotifiedObject, check
from resources.notifications.s3_event import parse_s3_event

__all__ = [
    "IgnoredKeyError",
    "InvalidKeyError",
    "MalformedMessageError",
    "NotifiedObject",
    "Registry",
    "UnknownBucketError",
    "UnknownOrganisationError",
    "decode_message",
    "encode_message",
    "resolve",
]

MAX_MESSAGE_BYTES = 1024 * 1024
VERSION = 1


class UnknownBucketError(ValueError):
    """Bucket without a storage profile: nothing could read the object."""


class UnknownOrganisationError(ValueError):
    """Organisation in the key that does not exist, or is disabled."""


@dataclass(frozen=True, slots=True)
class Registry:
    """Storage profiles, prefix mappings and organisations of the index."""

    profiles: Mapping[str, StorageProfile]
    mappings: tuple[PrefixMapping, ...] = ()
    organisations: frozenset[str] = frozenset()


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    v: int
    bucket: str
    key: str
    size: int
    event_time_ns: int
    etag: str = ""
    version: str = ""
    source: str = ""


class _Shape(msgspec.Struct):
    """Fields that tell our own messages from S3 events."""

    v: int | None = None


def resolve(record: NotifiedObject, registry: Registry) -> ObjectNotice:
    """Return organisation, signal and arrival hour of an object."""
    found = parse_raw_key(record.bucket, record.key, registry.mappings)
    if record.bucket not in registry.profiles:
        raise UnknownBucketError(
            f"bucket {record.bucket!r} is not registered (`lakerunner admin bucket add`)"
        )
    if found.org not in registry.organisations:
        raise UnknownOrganisationError(f"organisation {found.org!r} is not registered or is disabled")
    return ObjectNotice(
        bucket=record.bucket,
        key=record.key,
        org=found.org,
        collector=found.collector,
        signal=found.signal,
        arrival_hour_ns=hour_start(record.event_time_ns) if found.hour_ns is None else found.hour_ns,
        size=record.size,
        etag=record.etag,
        version=record.version,
    )


def encode_message(record: NotifiedObject | ObjectNotice) -> bytes:
    """Encode the Kafka value of an object; a notice keeps its arrival hour through `decode` and `resolve`."""
    if isinstance(record, ObjectNotice):
        # Hours are left-open: the first instant inside is one nanosecond after the start.
        moment, source = record.arrival_hour_ns + 1, "notice"
    else:
        moment, source = record.event_time_ns, record.source
    return msgspec.json.encode(
        _Message(
            v=VERSION,
            bucket=record.bucket,
            key=record.key,
            size=record.size,
            event_time_ns=moment,
            etag=record.etag,
            version=record.version,
            source=source,
        )
    )


def decode_message(value: bytes, received_ns: int | None = None) -> list[NotifiedObject]:
    """Return the objects a Kafka value announces: our own message, or an S3 event.

    One malformed record spoils its message: the whole of it is kept as a dead letter, nothing is lost.
    `received_ns` (the message's own time) stands in for an event time that was not sent.
    """
    if len(value) > MAX_MESSAGE_BYTES:
        raise MalformedMessageError(f"message of {len(value)} bytes: expected at most {MAX_MESSAGE_BYTES}")
    try:
        shape = msgspec.json.decode(value, type=_Shape)
    except UNREADABLE as error:
        raise MalformedMessageError(f"not a JSON object: {error}") from error
    return [_own(value, shape.v)] if shape.v is not None else _from_s3(value, received_ns)


def _own(value: bytes, version: int) -> NotifiedObject:
    if version != VERSION:
        raise MalformedMessageError(f"message version {version}: expected {VERSION}")
    try:
        message = msgspec.json.decode(value, type=_Message)
    except UNREADABLE as error:
        raise MalformedMessageError(str(error)) from error
    return check(
        NotifiedObject(
            message.bucket,
            message.key,
            message.size,
            message.etag,
            message.version,
            message.event_time_ns,
            message.source,
        )
    )


def _from_s3(value: bytes, received_ns: int | None) -> list[NotifiedObject]:
    event = parse_s3_event(value, "kafka", received_ns)
    if event.bad:
        raise MalformedMessageError(f"record {event.bad[0].index}: {event.bad[0].reason}")
    return [record for _, record in event.created]
