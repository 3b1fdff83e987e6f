"""S3 event JSON, and the two envelopes AWS may put around it: an SNS notification, an EventBridge event.

Required fields distinguish the three, so that one webhook and one queue take all of them. Keys are
URL-encoded in S3 event JSON and plain in EventBridge.
"""

from __future__ import annotations

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
from resources.notifications.s3_event import parse_s3_event

CREATED = "Object Created"
MAX_URL = 2048


class _Envelope(msgspec.Struct):
    """The fields that distinguish the envelopes."""

    sns_type: str = msgspec.field(default="", name="Type")
    topic: str = msgspec.field(default="", name="TopicArn")
    message: str = msgspec.field(default="", name="Message")
    subscribe_url: str = msgspec.field(default="", name="SubscribeURL")
    detail_type: str = msgspec.field(default="", name="detail-type")
    detail: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    time: str = ""


class _Bucket(msgspec.Struct):
    name: str


class _Object(msgspec.Struct):
    key: str
    size: int = 0
    etag: str = ""
    version: str | None = msgspec.field(default=None, name="version-id")


class _Detail(msgspec.Struct):
    bucket: _Bucket
    object: _Object


def parse_aws(body: bytes, source: str) -> Event:
    """Read S3 event JSON, with or without an envelope.

    >>> parse_aws(b'{"Type":"UnsubscribeConfirmation","TopicArn":"arn:aws:sns:eu-west-1:1:t"}', "sqs").ignored
    1
    """
    envelope = _envelope(body)
    if envelope.sns_type and envelope.topic:
        return _from_sns(envelope, source)
    return _plain(envelope, body, source)


def _envelope(body: bytes) -> _Envelope:
    try:
        return msgspec.json.decode(body, type=_Envelope)
    except UNREADABLE:
        return _Envelope()  # not an envelope; the reader of S3 event JSON reports the fault


def _plain(envelope: _Envelope, body: bytes, source: str) -> Event:
    return _from_eventbridge(envelope, body, source) if envelope.detail_type else parse_s3_event(body, source)


def _from_sns(envelope: _Envelope, source: str) -> Event:
    if envelope.sns_type == "SubscriptionConfirmation":
        # fetching a URL from a message would let strangers choose the hosts this process connects to
        return Event(
            ignored=1,
            note=f"SNS topic {envelope.topic[:256]!r} waits for its subscription to be confirmed; it is not "
            f"confirmed by itself: open {envelope.subscribe_url[:MAX_URL]!r}",
        )
    if envelope.sns_type != "Notification":
        return Event(ignored=1)
    body = envelope.message.encode(errors="surrogatepass")
    return _plain(_envelope(body), body, source)


def _from_eventbridge(envelope: _Envelope, body: bytes, source: str) -> Event:
    if envelope.detail_type != CREATED:
        return Event(ignored=1)
    try:
        detail = msgspec.json.decode(envelope.detail, type=_Detail)
        record = check(
            NotifiedObject(
                bucket=detail.bucket.name,
                key=detail.object.key,
                size=detail.object.size,
                etag=detail.object.etag.strip('"'),
                version=detail.object.version or "",
                event_time_ns=nanoseconds("time", envelope.time) if envelope.time else time.time_ns(),
                source=source,
            )
        )
    except (*UNREADABLE, MalformedMessageError) as error:
        return Event(bad=(BadRecord(0, f"EventBridge: {error}", body),))
    return Event(((0, record),))
