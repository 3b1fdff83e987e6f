"""Notified objects are checked for form and size, and nothing else is believed.

Every text is bounded and free of control characters before it goes anywhere, since one bad value must not
make a whole transaction of good ones fail later.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from resources.lake.timecut import from_datetime

MAX_BUCKET_BYTES = 255
MAX_KEY_BYTES = 1024
MAX_TAG_BYTES = 1024
MAX_SIZE = 2**43
"""Bytes of an object at most, more than any store holds; sums of many still fit into 64 bits."""
MAX_TIME_NS = 4_102_444_800 * 1_000_000_000  # 2100-01-01: later is a mistake in units

UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
"""Errors that JSON of strangers raises: msgspec looks at depth and at UTF-8 only in the fields it decodes."""


class MalformedMessageError(ValueError):
    """Bytes that are not a notification; the message says what was expected and what was found."""


@dataclass(frozen=True, slots=True)
class NotifiedObject:
    """Object named by a notification; the key is decoded, the etag without quotes."""

    bucket: str
    key: str
    size: int
    etag: str = ""
    version: str = ""
    event_time_ns: int = 0
    source: str = ""


@dataclass(frozen=True, slots=True)
class BadRecord:
    index: int
    reason: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Event:
    """Contents of one message, whoever sent it.

    New objects with their index in the message, records that could not be read, and the number of records
    that were of no interest.
    """

    created: tuple[tuple[int, NotifiedObject], ...] = ()
    bad: tuple[BadRecord, ...] = ()
    ignored: int = 0
    note: str = ""
    """Remark for a person, for the log and the answer."""


def sort_out(records: Iterable[bytes], read: Callable[[bytes], NotifiedObject | None]) -> Event:
    """Read every record by itself.

    `read` gives the new object, None if it is of no interest, or raises `MalformedMessageError`, which is
    kept with the record and does no harm to its neighbours.
    """
    created: list[tuple[int, NotifiedObject]] = []
    bad: list[BadRecord] = []
    ignored = 0
    for index, record in enumerate(records):
        try:
            found = read(record)
        except MalformedMessageError as error:
            bad.append(BadRecord(index, str(error), record))
        else:
            created += [(index, found)] if found else []
            ignored += found is None
    return Event(tuple(created), tuple(bad), ignored)


def nanoseconds(name: str, text: str) -> int:
    """Convert an ISO 8601 time to nanoseconds since 1970; `name` is the field it came in."""
    try:
        return from_datetime(dt.datetime.fromisoformat(text))
    except ValueError as error:
        raise MalformedMessageError(f"{name} {text[:64]!r}: {error}") from error


def check(record: NotifiedObject) -> NotifiedObject:
    """Return `record`, or raise `MalformedMessageError` when a value is out of bounds."""
    _text("bucket", record.bucket, 1, MAX_BUCKET_BYTES)
    _text("key", record.key, 1, MAX_KEY_BYTES)
    for name in ("etag", "version", "source"):
        _text(name, getattr(record, name), 0, MAX_TAG_BYTES)
    if not 0 <= record.size <= MAX_SIZE:
        raise MalformedMessageError(f"size {record.size}: expected 0 to {MAX_SIZE}")
    if not 0 < record.event_time_ns <= MAX_TIME_NS:
        raise MalformedMessageError(
            f"event time {record.event_time_ns} ns: expected a time between 1970 and 2100"
        )
    return record


def _text(name: str, text: str, least: int, most: int) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise MalformedMessageError(f"{name}: not valid Unicode text") from error
    if not least <= size <= most:
        raise MalformedMessageError(f"{name} of {size} bytes: expected {least} to {most}")
    if any(ord(c) < 32 or ord(c) == 127 for c in text):
        raise MalformedMessageError(f"{name} {text!r}: control character")
