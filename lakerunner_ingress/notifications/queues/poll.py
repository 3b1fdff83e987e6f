"""The process behind `lakerunner notifications`: a loop over one queue, in one thread.

The loop receives, notifies and acknowledges. A message is acknowledged when it is durable, or a dead letter
because nothing in it can be read. When neither Kafka nor Postgres takes anything, messages go back, and the
loop receives nothing until one of them answers, so that an outage does not wear out a queue's limit of
receives. On a signal to stop, the loop finishes the current message and gives the others back.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum

from lakerunner_ingress.auth import Caller
from lakerunner_ingress.errors import UnavailableError
from lakerunner_ingress.health import check_kafka, check_postgres, judge
from lakerunner_ingress.notifications.pipeline import Pipeline
from lakerunner_ingress.notifications.queues.azure_queue import open_azure_queue
from lakerunner_ingress.notifications.queues.pubsub import open_pubsub
from lakerunner_ingress.notifications.queues.queue import (
    Queue,
    QueueMessage,
    QueueTelemetry,
    QueueUnavailableError,
)
from lakerunner_ingress.notifications.queues.sqs import open_sqs
from lakerunner_ingress.registry import RegistryCache
from resources.index.contract import IngressIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.kafka.producer import Producer
from resources.notifications.events import MalformedMessageError
from resources.settings import Settings

log = logging.getLogger(__name__)
PAUSE_S, MAX_PAUSE_S = 0.5, 30.0


class Outcome(StrEnum):
    """The outcome for a message; the first two leave the queue."""

    DONE = "done"
    MALFORMED = "malformed"
    RETURNED = "returned"
    """Not begun, because of a signal to stop or the time of the round: released."""
    REFUSED = "refused"
    """Neither Kafka nor Postgres takes anything: released."""
    POSTPONED = "postponed"
    """The message needs the index, which is away, while others may not: stays hidden for its time."""
    FAILED = "failed"
    """An unexpected error, which is in the log: the message stays hidden for its time."""


FINAL = frozenset({Outcome.DONE, Outcome.MALFORMED})
RELEASED = frozenset({Outcome.RETURNED, Outcome.REFUSED})
OUTAGES = frozenset({Outcome.REFUSED, Outcome.POSTPONED})


@dataclass(slots=True)
class Round:
    """One answer of the queue, and the outcomes of its messages."""

    outcomes: list[tuple[QueueMessage, Outcome]] = field(default_factory=list)
    is_queue_down: bool = False

    @property
    def is_ok(self) -> bool:
        return not self.is_queue_down and not any(outcome in OUTAGES for _, outcome in self.outcomes)

    @property
    def has_leftovers(self) -> bool:
        return self.is_queue_down or any(outcome not in FINAL for _, outcome in self.outcomes)

    def with_outcome(self, outcomes: frozenset[Outcome]) -> list[QueueMessage]:
        return [message for message, outcome in self.outcomes if outcome in outcomes]


def poll(queue: Queue, pipeline: Pipeline, telemetry: QueueTelemetry, stop: threading.Event) -> None:
    """Run rounds until `stop` is set."""
    failures = 0
    while not stop.is_set():
        done = take(queue, pipeline, telemetry, stop)
        failures = 0 if done.is_ok else failures + 1
        if failures:
            _wait_for_recovery(pipeline, stop, failures)
        elif not done.outcomes:
            stop.wait(queue.idle_s)
        telemetry.flush()
    telemetry.flush(now=True)


def take(queue: Queue, pipeline: Pipeline, telemetry: QueueTelemetry, stop: threading.Event) -> Round:
    """Run one round."""
    done = Round()
    try:
        messages = telemetry.steps.timed("receive", queue.receive)
        done.outcomes = _judge(queue, messages, pipeline, stop)
        for outcome in Outcome:
            telemetry.message(outcome.value, sum(found is outcome for _, found in done.outcomes))
        # acknowledge first: messages that are not released come back by themselves, only later
        _update(telemetry, "acknowledge", queue.acknowledge, done.with_outcome(FINAL))
        _update(telemetry, "release", queue.release, done.with_outcome(RELEASED))
    except QueueUnavailableError as error:
        log.warning("%s: %s", queue.name, error)
        done.is_queue_down = True
    return done


def _judge(
    queue: Queue, messages: Sequence[QueueMessage], pipeline: Pipeline, stop: threading.Event
) -> list[tuple[QueueMessage, Outcome]]:
    # half of the time for the messages, the other half for updating the queue before it hands them out again
    deadline = time.monotonic() + queue.hold_s / 2
    caller = Caller(via=queue.name)
    outcomes: list[tuple[QueueMessage, Outcome]] = []
    refused = False
    for message in messages:
        if refused:
            outcome = Outcome.REFUSED
        elif stop.is_set() or time.monotonic() >= deadline:
            outcome = Outcome.RETURNED
        else:
            outcome = _notify(queue, message, pipeline, caller)
        refused = outcome is Outcome.REFUSED
        outcomes.append((message, outcome))
    return outcomes


def _notify(queue: Queue, message: QueueMessage, pipeline: Pipeline, caller: Caller) -> Outcome:
    try:
        pipeline.notify(message.body, caller, queue.shape)
    except MalformedMessageError as error:  # kept as a dead letter by the pipeline
        log.warning("%s: message %s is not a notification: %s", queue.name, message.id, error)
        return Outcome.MALFORMED
    except UnavailableError as error:
        log.warning("%s: %s", queue.name, error)
        return Outcome.REFUSED
    except IndexUnavailableError as error:
        log.warning("%s: message %s needs the index: %s", queue.name, message.id, error)
        return Outcome.POSTPONED
    except Exception:
        # the message stays in the queue: one that trips over a defect must not stop its neighbours
        log.exception("%s: message %s failed and stays in the queue", queue.name, message.id)
        return Outcome.FAILED
    return Outcome.DONE


def _update(
    telemetry: QueueTelemetry,
    step: str,
    call: Callable[[list[QueueMessage]], None],
    messages: list[QueueMessage],
) -> None:
    if messages:
        telemetry.steps.timed(step, lambda: call(messages))


def _wait_for_recovery(pipeline: Pipeline, stop: threading.Event, failures: int) -> None:
    pause = min(MAX_PAUSE_S, PAUSE_S * 2 ** min(failures, 10))
    while not stop.wait(pause) and not _can_accept(pipeline):
        pause = min(MAX_PAUSE_S, 2 * pause)


def _can_accept(pipeline: Pipeline) -> bool:
    return judge(check_kafka(pipeline.producer), check_postgres(pipeline.index)).status != "down"


OPENERS: dict[str, Callable[[Settings], Queue]] = {
    "sqs": open_sqs,
    "pubsub": open_pubsub,
    "azure-queue": open_azure_queue,
}


def serve(kind: str, settings: Settings, *, once: bool = False) -> int:
    """Run until SIGTERM or SIGINT, or for one round; return 1 if one of its messages is not durable."""
    from resources.index.postgres import PostgresIndex

    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with (
        closing(OPENERS[kind](settings)) as queue,
        PostgresIndex(settings.require("index_dsn"), max_connections=4, wait_s=3.0, answer_s=30.0) as index,
        closing(Producer(settings.require("kafka_bootstrap"))) as producer,
    ):
        log.info("taking notifications from %s", kind)
        return run(queue, index, producer, stop, once=once)


def run(queue: Queue, index: IngressIndex, producer: Producer, stop: threading.Event, *, once: bool) -> int:
    telemetry = QueueTelemetry(queue.name, index)
    pipeline = Pipeline(index, producer, RegistryCache(index), telemetry)
    if not once:
        poll(queue, pipeline, telemetry, stop)
        return 0
    done = take(queue, pipeline, telemetry, stop)
    telemetry.flush(now=True)
    log.info(
        "%d messages: %s", len(done.outcomes), dict(Counter(outcome.value for _, outcome in done.outcomes))
    )
    return 1 if done.has_leftovers else 0
