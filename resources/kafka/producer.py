"""The producer returns from `send` once every message is with the broker, or raises.

Idempotent and acks=all. After a failure the next sends fail at once for a short while, so that a receiver
facing a dead broker goes to its outbox without making each caller wait the whole timeout.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import Producer as NativeProducer

from resources.index.types import OutboxMessage
from resources.kafka.reader import (
    KafkaUnavailableError,
)

log = logging.getLogger(__name__)
COOL_DOWN_S = 2.0
POLL_S = 0.05


class Delivery:
    """State of one `send`: the number of messages still on their way, and the errors."""

    def __init__(self, expected: int) -> None:
        self.waiting = expected
        self.errors: list[str] = []
        self.settled = threading.Event()

    def report(self, error: Any, message: Any) -> None:
        """Take librdkafka's delivery report; always called by the connection's polling thread."""
        if error is not None:
            self.errors.append(f"{message.topic()}: {error.str()}")
        self.waiting -= 1
        if self.waiting == 0:
            self.settled.set()


class Connection:
    """Native producer and the thread that serves its callbacks.

    One thread polls for all senders: were each to poll for itself, it would often serve another's callback
    and sleep through its own.
    """

    def __init__(self, configuration: dict[str, Any]) -> None:
        self.native = NativeProducer(configuration)
        self._closing = threading.Event()
        self._poller = threading.Thread(target=self._poll, name="kafka-producer", daemon=True)
        self._poller.start()

    def close(self, timeout_s: float) -> None:
        self._closing.set()
        self._poller.join()  # from here on `flush` serves the callbacks, alone
        self.native.flush(timeout_s)

    def _poll(self) -> None:
        while not self._closing.is_set():
            self.native.poll(POLL_S)


class Producer:
    """Thread-safe producer that opens its connection with the first message."""

    def __init__(self, bootstrap: str, timeout_s: float = 5.0) -> None:
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._down_until = 0.0

    def send(self, messages: Sequence[OutboxMessage]) -> None:
        """Produce all messages and wait for the broker's answer to each."""
        if not messages:
            return
        if time.monotonic() < self._down_until:
            raise KafkaUnavailableError(f"Kafka at {self._bootstrap} failed a moment ago; next try shortly")
        try:
            self._deliver(messages)
        except (KafkaException, BufferError, KafkaUnavailableError) as error:
            self._down_until = time.monotonic() + COOL_DOWN_S
            self._forget_if_fatal(error)
            raise KafkaUnavailableError(f"Kafka at {self._bootstrap}: {_text(error)}") from error

    def check(self, timeout_s: float = 2.0) -> str:
        """Return '' when the broker answers, else the reason (for readiness)."""
        try:
            self._open().native.list_topics(timeout=timeout_s)
        except KafkaException as error:
            return _text(error)
        return ""

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(self._timeout_s)

    def _deliver(self, messages: Sequence[OutboxMessage]) -> None:
        native, delivery = self._open().native, Delivery(len(messages))
        deadline = time.monotonic() + self._timeout_s + 1.0
        for message in messages:
            _produce(native, message, delivery.report, deadline)
        delivery.settled.wait(max(0.0, deadline - time.monotonic()))
        if delivery.waiting or delivery.errors:
            first = delivery.errors[0] if delivery.errors else "no answer"
            failed = delivery.waiting + len(delivery.errors)
            raise KafkaUnavailableError(f"{failed} of {len(messages)} messages not delivered: {first}")

    def _open(self) -> Connection:
        with self._lock:
            if self._connection is None:
                self._connection = Connection(_configuration(self._bootstrap, self._timeout_s))
            return self._connection

    def _forget_if_fatal(self, error: Exception) -> None:
        # An idempotent producer that hit a fatal error never sends again (the broker forgot its sequence).
        if isinstance(error, KafkaException) and error.args[0].fatal():
            self.close()


def _produce(
    native: NativeProducer, message: OutboxMessage, report: Callable[..., None], deadline: float
) -> None:
    while True:
        try:
            native.produce(message.topic, value=message.payload, key=message.key, on_delivery=report)
        except BufferError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(POLL_S)  # the queue is full: the polling thread makes room
        else:
            return


def _configuration(bootstrap: str, timeout_s: float) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "client.id": "lakerunner",
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 2,
        "compression.type": "lz4",
        "message.timeout.ms": int(timeout_s * 1000),
        "socket.timeout.ms": int(timeout_s * 1000),
        "logger": log,
    }


def _text(error: Exception) -> str:
    native = error.args[0] if isinstance(error, KafkaException) else None
    return str(native.str() if native is not None else error)


def ingest_topic(signal: str) -> str:
    """Return the topic of references to raw objects of a signal."""
    return f"objstore.ingest.{signal}"
