"""S3 events are JSON that AWS, MinIO and look-alikes send over HTTP, SQS or Kafka.

Keys arrive URL-encoded (with `+` for a space) and are decoded only here. Records are parsed one by one: a
malformed one is reported with its index and does no harm to its neighbours.
"""

from __future__ import annotations

import time
from urllib.parse import unquote_plus

import msgspec

from resources.notifications.events import (
    UNREADABLE,
    Event,
    MalformedMessageError,
    NotifiedObject,
    check,
    nanoseconds,
    sort_out,
)

TEST_EVENT = "s3:TestEvent"
MAX_RECORDS = 5000


class _Bucket(msgspec.Struct):
    name: str


class _Object(msgspec.Struct):
    key: str
    size: int = 0
    etag: str = msgspec.field(default="", name="eTag")
    version: str | None = msgspec.field(default=None, name="versionId")


class _Entity(msgspec.Struct):
    bucket: _Bucket
    object: _Object


class _Record(msgspec.Struct):
    s3: _Entity
    name: str = msgspec.field(name="eventName")
    time: str = msgspec.field(default="", name="eventTime")


class _Event(msgspec.Struct):
    records: list[msgspec.Raw] | None = msgspec.field(default=None, name="Records")
    event: str = msgspec.field(default="", name="Event")


def parse_s3_event(data: bytes, source: str, received_ns: int | None = None) -> Event:
    """Parse the event in `data`; `received_ns` stands in for an event time that was not sent.

    >>> parse_s3_event(b'{"Event": "s3:TestEvent"}', "webhook").ignored
    1
    """
    try:
        event = msgspec.json.decode(data, type=_Event)
    except UNREADABLE as error:
        raise MalformedMessageError(f"not S3 event JSON: {error}") from error
    if event.records is None:
        if event.event == TEST_EVENT:
            return Event(ignored=1)
        raise MalformedMessageError("not S3 event JSON: no Records")
    if len(event.records) > MAX_RECORDS:
        raise MalformedMessageError(f"{len(event.records)} records: expected at most {MAX_RECORDS}")
    moment = received_ns or time.time_ns()
    return sort_out(map(bytes, event.records), lambda record: _created(record, source, moment))


def _created(raw: bytes, source: str, received_ns: int) -> NotifiedObject | None:
    try:
        record = msgspec.json.decode(raw, type=_Record)
    except UNREADABLE as error:
        raise MalformedMessageError(str(error)) from error
    if not record.name.removeprefix("s3:").startswith("ObjectCreated:"):
        return None
    thing = record.s3.object
    return check(
        NotifiedObject(
            bucket=record.s3.bucket.name,
            key=_decoded(thing.key),
            size=thing.size,
            etag=thing.etag.strip('"'),
            version=thing.version or "",
            event_time_ns=nanoseconds("eventTime", record.time) if record.time else received_ns,
            source=source,
        )
    )


def _decoded(key: str) -> str:
    try:
        return unquote_plus(key, errors="strict")
    except UnicodeDecodeError as error:
        raise MalformedMessageError(f"key {key[:200]!r}: not URL-encoded UTF-8") from error
