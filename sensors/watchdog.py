"""The watchdog reports dead runs as failed, from a process of its own.

One at a time, by an advisory lock. A run that was wrongly reported keeps working and publishes under its
claim, or loses the claim and publishes nothing; either way the tables stay right. Starts that were slow make
the watchdog more patient: else it would condemn every start on a machine that is slower than it expects.
"""

from __future__ import annotations

import json
import logging
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import psycopg
from dagster import DagsterInstance, DagsterRun, DagsterRunStatus, RunRecord, RunsFilter
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._grpc.client import DagsterGrpcClient
from dagster._grpc.types import CanCancelExecutionRequest, CanCancelExecutionResult
from dagster._serdes import deserialize_value

from resources.index.postgres import PostgresIndex
from resources.index.postgres.connections import Connection, IndexUnavailableError
from resources.settings import Settings

LONGEST_DOUBLINGS = 3
"""A run without a process is found after eight times the patience, a quarter of an hour by default."""
WITH_PROCESS = 32
"""A run whose process hangs before its first heartbeat is found after so many times the patience."""


@dataclass(frozen=True, slots=True)
class RunState:
    run_id: str
    age_s: float
    """Age since its launch."""
    quiet_s: float
    """Time since its last event, or since its launch."""
    slow_starts: int = 0
    """Runs of its job in a row, just before it, that were given up before their first heartbeat."""
    has_process: bool = False
    """The code server that launched it says that its process lives."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Times that a run may be silent."""

    silent_s: float
    """Time since its last heartbeat."""
    first_beat_s: float
    """Time without an event before the first heartbeat: the process starts, imports, opens the index."""

    def before_first_beat(self, run: RunState) -> float:
        """Double with every slow start, so that one gets through however slow the machine is.

        >>> [Patience(30, 120).before_first_beat(RunState("", 0, 0, n)) for n in (0, 1, 2, 3, 9)]
        [120, 240, 480, 960, 960]
        """
        if run.has_process:
            return self.first_beat_s * WITH_PROCESS
        return self.first_beat_s * (1 << min(run.slow_starts, LONGEST_DOUBLINGS))


def dead_runs(runs: Sequence[RunState], beats: Mapping[str, float], patience: Patience) -> dict[str, str]:
    """Return run id → why it is believed dead, as a pure decision.

    kill -9 of a run's process (or of the code server that started it) leaves the run STARTED or STARTING for
    ever, because the launcher on one machine has no health check.
    """
    found: dict[str, str] = {}
    for run in runs:
        silent = beats.get(run.run_id)
        if silent is not None and silent > patience.silent_s:
            found[run.run_id] = f"no heartbeat for {silent:.0f} s"
        elif silent is None and run.quiet_s > (allowed := patience.before_first_beat(run)):
            found[run.run_id] = (
                f"launched {run.age_s:.0f} s ago, no sign of life for {run.quiet_s:.0f} s "
                f"({allowed:.0f} s are allowed after {run.slow_starts} slow starts)"
            )
    return found


LOG = logging.getLogger(__name__)
SLOW_START_TAG = "lakerunner/slow_start"
"""Marks runs that were given up before their first heartbeat."""
LOCK_KEY = 4_380_002
INTERVAL_S, ASK_S = 5.0, 5
ENDED = (DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED)


def serve(settings: Settings) -> int:
    """Look every few seconds until SIGTERM; the `lakerunner watchdog` command."""
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with PostgresIndex(settings.require("index_dsn")) as index, DagsterInstance.get() as instance:
        LOG.info("watching runs")
        _beat(settings)
        while not stop.wait(INTERVAL_S):
            try:
                with index.connect_alone() as connection:
                    if _holds_lock(connection):
                        bury(instance, index, Patience(settings.lease_s, settings.run_start_s))
            except (IndexUnavailableError, psycopg.OperationalError) as error:
                LOG.warning("cannot look: %s", error)
            _beat(settings)
    return 0


def _beat(settings: Settings) -> None:
    """Show the supervisor of a local stack that the loop goes on."""
    if settings.watchdog_beat.parent.is_dir():
        settings.watchdog_beat.touch()


def has_process(run: DagsterRun) -> bool:
    """Ask the code server that launched a run; it reports a process that died by itself."""
    server = json.loads(run.tags.get(GRPC_INFO_TAG, "null"))
    if server is None:
        return False
    try:
        client = DagsterGrpcClient(server.get("port"), server.get("socket"), server.get("host"))
        answer = client.can_cancel_execution(CanCancelExecutionRequest(run_id=run.run_id), timeout=ASK_S)
    except DagsterUserCodeUnreachableError as error:
        LOG.info("the code server does not say whether run %s lives: %s", run.run_id, error)
        return False
    return deserialize_value(answer, CanCancelExecutionResult).can_cancel


def bury(
    instance: DagsterInstance,
    index: PostgresIndex,
    patience: Patience,
    now: float | None = None,
    has_process: Callable[[DagsterRun], bool] = has_process,
) -> list[str]:
    """Report every dead run as failed; return their ids."""
    now = time.time() if now is None else now
    filters = RunsFilter(statuses=[DagsterRunStatus.STARTED, DagsterRunStatus.STARTING])
    records = {record.dagster_run.run_id: record for record in instance.get_run_records(filters)}
    beats = index.run_heartbeats()
    states = [
        _starting(instance, record, now, patience, has_process)
        if run_id not in beats
        else RunState(run_id, now - launched_at(record), 0.0)
        for run_id, record in records.items()
    ]
    dead = dead_runs(states, beats, patience)
    for run_id, reason in dead.items():
        LOG.warning("run %s is dead: %s", run_id, reason)
        if run_id not in beats:
            instance.add_run_tags(run_id, {SLOW_START_TAG: "true"})
        message = f"The run's process is gone: {reason}. What it had claimed is cooked by another run."
        instance.report_run_failed(records[run_id].dagster_run, message)
        index.forget_run(run_id)
    for run_id in [r for r, silent in beats.items() if r not in records and silent > patience.silent_s]:
        index.forget_run(run_id)  # it ended without a chance to say so
    return sorted(dead)


def _starting(
    instance: DagsterInstance,
    record: RunRecord,
    now: float,
    patience: Patience,
    has_process: Callable[[DagsterRun], bool],
) -> RunState:
    """Look closer at a run before its first heartbeat once its patience is over."""
    run, age_s = record.dagster_run, now - launched_at(record)
    if age_s <= patience.first_beat_s:
        return RunState(run.run_id, age_s, age_s)
    newest = instance.get_records_for_run(run.run_id, limit=1, ascending=False).records
    quiet_s = min([age_s, *(now - event.timestamp for event in newest)])
    return RunState(run.run_id, age_s, quiet_s, slow_starts(instance, run.job_name), has_process(run))


def slow_starts(instance: DagsterInstance, job: str) -> int:
    """Count the newest ended runs of a job that were given up before their first heartbeat."""
    ended = RunsFilter(job_name=job, statuses=ENDED)
    newest = instance.get_runs(ended, limit=LONGEST_DOUBLINGS)
    return len(list(takewhile(lambda run: SLOW_START_TAG in run.tags, newest)))


def launched_at(record: RunRecord) -> float:
    """Return when its status last changed; a run that waited in the queue was not silent."""
    return record.start_time or record.update_timestamp.timestamp()


def _holds_lock(connection: Connection) -> bool:
    row = connection.execute("SELECT pg_try_advisory_lock(%s) AS held", (LOCK_KEY,)).fetchone()
    return row is not None and bool(row["held"])
