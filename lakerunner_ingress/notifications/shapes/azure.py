"""Blob storage events of Azure Event Grid, in its own schema or as CloudEvents 1.0; one event or an array.

The bucket is the container, the key is the blob's name, both from the event's subject, which is not
URL-encoded. An event sent before the blob has its content is ignored: another one follows.
"""

from __future__ import annotations

import re
import time
from typing import TypeVar

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
from resources.notifications.s3_event import MAX_RECORDS

Found = TypeVar("Found")
CREATED = "Microsoft.Storage.BlobCreated"
VALIDATION = "Microsoft.EventGrid.SubscriptionValidationEvent"
UNFINISHED = frozenset({"CreateFile", "SftpCreate", "SftpWrite"})
"""Calls that make an empty or partial blob; `FlushWithClose` or `SftpCommit` follows."""
_SUBJECT = re.compile(r"/blobServices/default/containers/([^/]+)/blobs/(.+)", re.DOTALL)


class _Event(msgspec.Struct):
    event_type: str = msgspec.field(default="", name="eventType")
    type: str = ""
    event_time: str = msgspec.field(default="", name="eventTime")
    time: str = ""
    subject: str = ""
    data: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class _Blob(msgspec.Struct):
    api: str = ""
    etag: str = msgspec.field(default="", name="eTag")
    size: int = msgspec.field(default=0, name="contentLength")


class _Validation(msgspec.Struct):
    code: str = msgspec.field(name="validationCode")


def parse_azure(body: bytes, source: str) -> Event:
    """Read events of Event Grid.

    >>> parse_azure(b'[{"eventType":"Microsoft.Storage.BlobDeleted"}]', "azure-queue").ignored
    1
    """
    moment = time.time_ns()
    return sort_out(_events(body), lambda event: _read_created(event, source, moment))


def validation_code(body: bytes) -> str:
    """Return the code that Event Grid wants back before it delivers; empty for every other message."""
    if VALIDATION.encode() not in body:
        return ""
    for raw in _events(body):
        event = _read(raw, _Event)
        if event.event_type == VALIDATION:
            return _read(event.data, _Validation).code
    return ""


def _events(body: bytes) -> list[bytes]:
    if not body.lstrip().startswith(b"["):
        return [bytes(_read(body, msgspec.Raw))]
    events = _read(body, list[msgspec.Raw])
    if len(events) > MAX_RECORDS:
        raise MalformedMessageError(f"{len(events)} events: expected at most {MAX_RECORDS}")
    return [bytes(event) for event in events]


def _read_created(raw: bytes, source: str, received_ns: int) -> NotifiedObject | None:
    event = _read(raw, _Event)
    kind = event.event_type or event.type
    if not kind:
        raise MalformedMessageError("neither eventType nor type: not an event of Event Grid")
    if kind != CREATED:
        return None
    blob, moment = _read(event.data, _Blob), event.event_time or event.time
    if blob.api in UNFINISHED:
        return None
    found = _SUBJECT.fullmatch(event.subject)
    if found is None:
        raise MalformedMessageError(
            f"subject {event.subject[:200]!r}: expected /blobServices/default/containers/NAME/blobs/NAME"
        )
    return check(
        NotifiedObject(
            bucket=found[1],
            key=found[2],
            size=blob.size,
            etag=blob.etag.strip('"'),
            event_time_ns=nanoseconds("time", moment) if moment else received_ns,
            source=source,
        )
    )


def _read(data: bytes | msgspec.Raw, kind: type[Found]) -> Found:
    try:
        return msgspec.json.decode(data, type=kind)
    except UNREADABLE as error:
        raise MalformedMessageError(f"not an event of Event Grid: {error}") from error
