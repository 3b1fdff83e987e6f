"""Step 1: from the bytes of a request to records, each with its place in the event."""

from __future__ import annotations

from resources.lake.s3_event import S3Event, parse_s3_event


def parse(body: bytes, source: str) -> S3Event:
    """Raises `MalformedMessageError` when the whole is not an event; bad records only spoil themselves."""
    return parse_s3_event(body, source)
