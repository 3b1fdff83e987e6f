"""What somebody told us: "this object exists". Nothing is believed here beyond form and size.

Every text is bounded and free of control characters before it goes anywhere, since one bad value must not
make a whole transaction of good ones fail later.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

MAX_BUCKET_BYTES = 255
MAX_KEY_BYTES = 1024
MAX_TAG_BYTES = 1024
MAX_SIZE = 2**63 - 1
MAX_TIME_NS = 4_102_444_800 * 1_000_000_000  # 2100-01-01: later is a mistake in units

UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
"""What JSON of strangers raises: msgspec looks at depth and at UTF-8 only in the fields it decodes."""


class MalformedMessageError(ValueError):
    """The bytes are not a notification; the message says what was expected and what was found."""


@dataclass(frozen=True, slots=True)
class NotifiedObject:
    """One object as a notification names it; the key is decoded, the etag without quotes."""

    bucket: str
    key: str
    size: int
    etag: str = ""
    version: str = ""
    event_time_ns: int = 0
    source: str = ""


def checked(record: NotifiedObject) -> NotifiedObject:
    """`record`, or `MalformedMessageError` when a value is out of bounds."""
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
