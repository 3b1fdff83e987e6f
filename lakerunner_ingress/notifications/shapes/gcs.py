"""Cloud Storage notifications: a Pub/Sub message (pushed in an envelope, or pulled), or the object alone.

The message's attributes name the event and the object; its data, when the notification was set up
with `--payload-format=json`, adds the size. The etag of the JSON API differs from the one the store client
sees, and a comparison would report every object as overwritten: it is left out, the generation is kept.
"""

from __future__ import annotations

import base64
import binascii
import time

import msgspec

from resources.notifications.events import (
    UNREADABLE,
    BadRecord,
    Event,
    MalformedMessageError,
    NotifiedObject,
    check,
    nanoseconds,
)

CREATED = "OBJECT_FINALIZE"
RESOURCE = "storage#object"


class _Message(msgspec.Struct):
    data: str = ""
    attributes: dict[str, str] = {}
    publish_time: str = msgspec.field(default="", name="publishTime")


class _Body(msgspec.Struct):
    message: _Message | None = None
    kind: str = ""


class _Resource(msgspec.Struct):
    """The object as the JSON API describes it (its 64-bit integers are text)."""

    bucket: str = ""
    name: str = ""
    size: str | int = 0
    generation: str | int = ""
    updated: str = ""
    created: str = msgspec.field(default="", name="timeCreated")
    deleted: str = msgspec.field(default="", name="timeDeleted")


def parse_gcs(body: bytes, source: str) -> Event:
    """Read a notification of Cloud Storage.

    >>> parse_gcs(b'{"message":{"attributes":{"eventType":"OBJECT_DELETE"}}}', "pubsub").ignored
    1
    """
    try:
        found = msgspec.json.decode(body, type=_Body)
    except UNREADABLE as error:
        raise MalformedMessageError(f"not a Pub/Sub message: {error}") from error
    try:
        record = _read(found, body, source)
    except MalformedMessageError as error:
        return Event(bad=(BadRecord(0, str(error), body),))
    return Event(((0, record),)) if record else Event(ignored=1)


def _read(found: _Body, body: bytes, source: str) -> NotifiedObject | None:
    if found.message is None:
        if found.kind != RESOURCE:
            raise MalformedMessageError(f"neither a Pub/Sub message nor a {RESOURCE}")
        resource = _resource(body)
        # a deletion leaves a time; other events look alike, and announcing twice does no harm
        return None if resource.deleted else _object({}, resource, "", source)
    attributes = found.message.attributes
    event = attributes.get("eventType", "")
    if not event:
        raise MalformedMessageError("no attribute eventType: not a notification of Cloud Storage")
    if event != CREATED:
        return None
    resource = _resource(_decode(found.message.data)) if found.message.data else _Resource()
    return _object(attributes, resource, found.message.publish_time, source)


def _object(attributes: dict[str, str], resource: _Resource, published: str, source: str) -> NotifiedObject:
    moment = attributes.get("eventTime") or resource.updated or resource.created or published
    return check(
        NotifiedObject(
            bucket=attributes.get("bucketId") or resource.bucket,
            key=attributes.get("objectId") or resource.name,
            size=_size(resource.size),
            version=attributes.get("objectGeneration") or str(resource.generation),
            event_time_ns=nanoseconds("eventTime", moment) if moment else time.time_ns(),
            source=source,
        )
    )


def _resource(data: bytes) -> _Resource:
    try:
        return msgspec.json.decode(data, type=_Resource)
    except UNREADABLE as error:
        raise MalformedMessageError(f"not a {RESOURCE}: {error}") from error


def _decode(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedMessageError(f"message.data: {error}") from error


def _size(size: str | int) -> int:
    if isinstance(size, int):
        return size
    if not (size.isascii() and size.isdigit() and len(size) < 20):
        raise MalformedMessageError(f"size {size[:64]!r}: expected a number")
    return int(size)
