"""The loop over a queue: receive, notify, acknowledge; until told to stop.

A message is acknowledged when it is durable, or kept as a dead letter because nothing in it can be read. When
neither Kafka nor Postgres takes anything, messages go back, and nothing more is received until one of them
answers, so that an outage does not wear out a queue's limit of receives. Told to stop, the loop finishes the
message in hand and gives the others back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from lakerunner_ingress.auth import Caller
from lakerunner_ingress.errors import UnavailableError
from lakerunner_ingress.health import check_kafka, check_postgres, judge
from lakerunner_ingress.notifications.pipeline import Pipeline
from lakerunner_ingress.notifications.queues.queue import (
    Queue,
    QueueTelemetry,
    QueueUnavailableError,
    Received,
)
from resources.index.postgres.connections import IndexUnavailableError
from resources.notifications.events import MalformedMessageError

log = logging.getLogger(__name__)
PAUSE_S, MAX_PAUSE_S = 0.5, 30.0


class Fate(StrEnum):
    """What became of a message; the first two leave the queue."""

    DONE = "done"
    MALFORMED = "malformed"
    RETURNED = "returned"
    """Not begun, because the loop was told to stop or the round took too long: released."""
    REFUSED = "refused"
    """Neither Kafka nor Postgres takes anything: released."""
    POSTPONED = "postponed"
    """It needs the index, which is away, while others may not: stays hidden for its time."""
    FAILED = "failed"
    """An error nobody foresaw, told in the log: stays hidden for its time."""


FINAL = frozenset({Fate.DONE, Fate.MALFORMED})
RELEASED = frozenset({Fate.RETURNED, Fate.REFUSED})
OUTAGES = frozenset({Fate.REFUSED, Fate.POSTPONED})


@dataclass(slots=True)
class Round:
    """One answer of the queue, and what became of the messages in it."""

    fates: list[tuple[Received, Fate]] = field(default_factory=list)
    queue_away: bool = False

    @property
    def went_well(self) -> bool:
        return not self.queue_away and not any(fate in OUTAGES for _, fate in self.fates)

    @property
    def left_behind(self) -> bool:
        return self.queue_away or any(fate not in FINAL for _, fate in self.fates)

    def those(self, fates: frozenset[Fate]) -> list[Received]:
        return [message for message, fate in self.fates if fate in fates]


def poll(queue: Queue, pipeline: Pipeline, telemetry: QueueTelemetry, stop: threading.Event) -> None:
    """Until `stop` is set."""
    failures = 0
    while not stop.is_set():
        done = take(queue, pipeline, telemetry, stop)
        failures = 0 if done.went_well else failures + 1
        if failures:
            _wait_until_able(pipeline, stop, failures)
        elif not done.fates:
            stop.wait(queue.idle_s)
        telemetry.flush()
    telemetry.flush(now=True)


def take(queue: Queue, pipeline: Pipeline, telemetry: QueueTelemetry, stop: threading.Event) -> Round:
    """One round."""
    done = Round()
    try:
        messages = telemetry.steps.timed("receive", queue.receive)
        done.fates = _judge(queue, messages, pipeline, stop)
        for fate in Fate:
            telemetry.message(fate.value, sum(found is fate for _, found in done.fates))
        # Acknowledged first: what is not released comes back by itself, only later.
        _tell(telemetry, "acknowledge", queue.acknowledge, done.those(FINAL))
        _tell(telemetry, "release", queue.release, done.those(RELEASED))
    except QueueUnavailableError as error:
        log.warning("%s: %s", queue.name, error)
        done.queue_away = True
    return done


def _judge(
    queue: Queue, messages: Sequence[Received], pipeline: Pipeline, stop: threading.Event
) -> list[tuple[Received, Fate]]:
    # Half of the time for the messages, the other half for telling the queue before it hands them out again.
    deadline = time.monotonic() + queue.hold_s / 2
    caller = Caller(via=queue.name)
    fates: list[tuple[Received, Fate]] = []
    refused = False
    for message in messages:
        if refused:
            fate = Fate.REFUSED
        elif stop.is_set() or time.monotonic() >= deadline:
            fate = Fate.RETURNED
        else:
            fate = _notify(queue, message, pipeline, caller)
        refused = fate is Fate.REFUSED
        fates.append((message, fate))
    return fates


def _notify(queue: Queue, message: Received, pipeline: Pipeline, caller: Caller) -> Fate:
    try:
        pipeline.notify(message.body, caller, queue.shape)
    except MalformedMessageError as error:  # kept as a dead letter by the pipeline
        log.warning("%s: message %s is not a notification: %s", queue.name, message.id, error)
        return Fate.MALFORMED
    except UnavailableError as error:
        log.warning("%s: %s", queue.name, error)
        return Fate.REFUSED
    except IndexUnavailableError as error:
        log.warning("%s: message %s needs the index: %s", queue.name, message.id, error)
        return Fate.POSTPONED
    except Exception:
        # It stays in the queue: one message that trips over a mistake of ours must not stop its neighbours.
        log.exception("%s: message %s", queue.name, message.id)
        return Fate.FAILED
    return Fate.DONE


def _tell(
    telemetry: QueueTelemetry, step: str, call: Callable[[list[Received]], None], messages: list[Received]
) -> None:
    if messages:
        telemetry.steps.timed(step, lambda: call(messages))


def _wait_until_able(pipeline: Pipeline, stop: threading.Event, failures: int) -> None:
    pause = min(MAX_PAUSE_S, PAUSE_S * 2 ** min(failures, 10))
    while not stop.wait(pause) and not _able(pipeline):
        pause = min(MAX_PAUSE_S, 2 * pause)


def _able(pipeline: Pipeline) -> bool:
    return judge(check_kafka(pipeline.producer), check_postgres(pipeline.index)).status != "down"
