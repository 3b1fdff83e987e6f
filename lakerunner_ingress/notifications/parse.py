"""Step 1: from the bytes of a message to records, each with its place in the event."""

from __future__ import annotations

from lakerunner_ingress.notifications.shapes import Shape
from resources.notifications.announced import Event, MalformedMessageError

MAX_MESSAGE_BYTES = 1024 * 1024
"""As much as SQS or a webhook here takes; Pub/Sub would carry ten times that."""


def parse(body: bytes, source: str, shape: Shape) -> Event:
    """Raises `MalformedMessageError` when the whole is not an event; bad records only spoil themselves."""
    if len(body) > MAX_MESSAGE_BYTES:
        raise MalformedMessageError(f"message of {len(body)} bytes: expected at most {MAX_MESSAGE_BYTES}")
    return shape(body, source)
