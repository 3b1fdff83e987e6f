"""What the loop needs of a queue, and how a queue says that it cannot.

A received message is hidden from others for `hold_s` seconds. It then comes back by itself, unless it was
acknowledged; `release` brings it back at once. Receiving a message twice does no harm.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakerunner_ingress.notifications.shapes import Shape
from lakerunner_ingress.telemetry import Telemetry
from resources.exposition import series
from resources.index.contract import IngressIndex
from resources.index.postgres.connections import IndexUnavailableError

# << What a poller counts. It serves nobody over HTTP, so its counters go where runs leave theirs: to the
# << index.
# <<
# << Every ingress shows them at `/metrics`. Amounts that the index does not take are kept and added later.

MESSAGES = "lakerunner_notification_messages_total"
RECORDS = "lakerunner_notification_records_total"
FLUSH_S = 15.0


class QueueTelemetry(Telemetry):
    """Messages by their fate, and the pipeline's records by what became of them. For one thread."""

    def __init__(self, queue: str, index: IngressIndex, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._queue = queue
        self._index = index
        self._clock = clock
        self._waiting: Counter[str] = Counter()
        self._flushed = clock()

    def count(self, outcome: str, records: int) -> None:
        super().count(outcome, records)
        self._add(RECORDS, outcome, records)

    def message(self, fate: str, messages: int = 1) -> None:
        self._add(MESSAGES, fate, messages)

    def flush(self, *, now: bool = False) -> None:
        """To the index, at most every `FLUSH_S` seconds unless `now`."""
        if not self._waiting or not (now or self._clock() - self._flushed >= FLUSH_S):
            return
        self._flushed = self._clock()
        try:
            self._index.add_counters(dict(self._waiting))
        except IndexUnavailableError:
            return  # what waits is added with the next flush
        self._waiting.clear()

    def _add(self, name: str, outcome: str, amount: int) -> None:
        if amount:
            self._waiting[series(name, queue=self._queue, outcome=outcome)] += amount


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
