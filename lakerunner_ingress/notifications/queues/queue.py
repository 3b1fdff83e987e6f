"""The protocol of a queue, with its errors, counters and REST client.

A received message is hidden from others for `hold_s` seconds. It then comes back by itself, unless it was
acknowledged; `release` brings it back at once. Receiving a message twice does no harm.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

from lakerunner_ingress.notifications.shapes import Shape
from lakerunner_ingress.telemetry import Telemetry
from resources.exposition import series
from resources.index.contract import IngressIndex
from resources.index.postgres.connections import IndexUnavailableError

MESSAGES = "lakerunner_notification_messages_total"
RECORDS = "lakerunner_notification_records_total"
FLUSH_S = 15.0


class QueueTelemetry(Telemetry):
    """Counts messages and records by outcome, for one thread.

    A poller serves nobody over HTTP, so its counters go to the index, and every ingress shows them at
    `/metrics`. Amounts that the index does not take are kept and added later.
    """

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

    def message(self, outcome: str, messages: int = 1) -> None:
        self._add(MESSAGES, outcome, messages)

    def flush(self, *, now: bool = False) -> None:
        """Write to the index, at most every `FLUSH_S` seconds unless `now`."""
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
    """The queue did not answer, or refused; a later try may help. The message names no secret."""


class RefusedError(QueueUnavailableError):
    """The queue answered with a status that is not success."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class QueueSetupError(Exception):
    """The setup is wrong: a package, an address, credentials."""


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A message; `handle` acknowledges this one delivery of it."""

    id: str
    handle: str
    body: bytes


class Queue(Protocol):
    """A queue of notifications."""

    name: str
    """Kind of queue, for metrics and dead letters, e.g. `sqs`."""
    shape: Shape
    hold_s: float
    idle_s: float
    """Pause after an empty answer; 0 for a queue that itself waits for messages."""

    def receive(self) -> list[QueueMessage]:
        """Return a bounded number of messages, none if none arrived for a while."""

    def acknowledge(self, messages: Sequence[QueueMessage]) -> None:
        """Remove messages from the queue."""

    def release(self, messages: Sequence[QueueMessage]) -> None:
        """Return messages to the queue, for anyone to receive."""

    def close(self) -> None: ...


CONNECT_S, ANSWER_S = 5.0, 30.0
MAX_TEXT = 300


def open_client() -> httpx.Client:
    """Open a client that logs no addresses: they may carry a secret, such as Azure's SAS token."""
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return httpx.Client(timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S))


def ask(client: httpx.Client, who: str, method: str, url: str, **arguments: Any) -> httpx.Response:
    """Send one request; return the answer if it is 2xx, else raise with the server's words.

    Redirects are not followed: they would carry the secret elsewhere.
    """
    try:
        answer = client.request(method, url, **arguments)
    except httpx.TransportError as error:
        raise QueueUnavailableError(f"{who}: {type(error).__name__}: {error}") from error
    if not answer.is_success:
        text = " ".join(answer.text.split())[:MAX_TEXT]
        raise RefusedError(f"{who} answered {answer.status_code}: {text}", answer.status_code)
    return answer
