"""A run works in a context: index, Spark, settings and a heartbeat beside the work.

A claim without a beat for the lease time is taken by another attempt, a run without one is reported dead by
the watchdog. If the index does not answer, beats are missed and both happen: that is their purpose.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from resources.index.contract import PipelineIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.index.types import Claim, PublishConflictError
from resources.settings import Settings
from resources.spark import SparkTasks

LOG = logging.getLogger(__name__)
BETWEEN_STEPS_S = 120.0
"""Rest between steps: Dagster stores an event per partition, which takes minutes for thousands."""


class Heartbeat:
    def __init__(self, index: PipelineIndex, run_id: str, interval_s: float) -> None:
        self._index = index
        self._run_id = run_id
        self._interval_s = interval_s
        self._tokens: set[str] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def hold(self, token: str) -> None:
        with self._lock:
            self._tokens.add(token)

    def release(self, token: str) -> None:
        with self._lock:
            self._tokens.discard(token)

    def beat(self) -> None:
        self._index.beat_run(self._run_id)
        with self._lock:
            held = sorted(self._tokens)
        if held:
            self._index.beat(held)

    def loop(self) -> None:
        while not self._stop.wait(self._interval_s):
            try:
                self.beat()
            except IndexUnavailableError as error:
                LOG.warning("missed a heartbeat: %s", error)

    def stop(self) -> None:
        self._stop.set()


@contextmanager
def heartbeat(index: PipelineIndex, run_id: str, settings: Settings) -> Iterator[Heartbeat]:
    """Beat while the block runs. A run may have another step: it is not dead because this one is over."""
    heart = Heartbeat(index, run_id, settings.heartbeat_s)
    heart.beat()
    thread = threading.Thread(target=heart.loop, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield heart
    finally:
        heart.stop()
        thread.join(timeout=settings.heartbeat_s)
        index.rest_run(run_id, BETWEEN_STEPS_S)


@dataclass(frozen=True, slots=True)
class RunContext:
    """Index, Spark, settings, heartbeat and log of a run, in any tier."""

    index: PipelineIndex
    spark: SparkTasks
    settings: Settings
    heart: Heartbeat
    log: Callable[[str], None]


def unless_lost(run: RunContext, claim: Claim, change: Callable[[], None]) -> None:
    """Apply a change unless another run has the claim, which must not end this one."""
    try:
        change()
    except PublishConflictError as lost:
        run.log(f"batch {claim.batch_id} has another holder already: {lost}")


def abandon(run: RunContext, claim: Claim, error: str) -> None:
    """Give up the claim; whoever looks next plans the work anew."""
    unless_lost(run, claim, lambda: run.index.abandon(claim, error))
