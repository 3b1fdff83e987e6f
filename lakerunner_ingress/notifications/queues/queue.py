"""What the loop needs of a queue, and how a queue says that it cannot.

A received message is hidden from others for `hold_s` seconds. It then comes back by itself, unless it was
acknowledged; `release` brings it back at once. Receiving a message twice does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lakerunner_ingress.notifications.shapes import Shape


class QueueUnavailableError(Exception):
    """The queue did not answer, or refused; trying again later may help. Never names a secret."""


class RefusedError(QueueUnavailableError):
    """It answered, with a status that is not success."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class QueueSetupError(Exception):
    """Something a person has to put right: a package, an address, credentials."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message; `handle` is what this one delivery of it is acknowledged by."""

    id: str
    handle: str
    body: bytes


class Queue(Protocol):
    name: str
    """Of the kind of queue, for metrics and dead letters: `sqs`."""
    shape: Shape
    hold_s: float
    idle_s: float
    """How long to wait after an empty answer: 0 for a queue that itself waits for messages."""

    def receive(self) -> list[Received]:
        """A bounded number of messages, none if there are none for a while."""

    def acknowledge(self, messages: Sequence[Received]) -> None:
        """They are done with and never come back."""

    def release(self, messages: Sequence[Received]) -> None:
        """They go back, for anyone to receive."""

    def close(self) -> None: ...
