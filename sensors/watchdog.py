"""The watchdog reports dead runs as failed, from a process of its own.

One at a time, by an advisory lock. A run that was wrongly reported keeps working and publishes under its
claim, or loses the claim and publishes nothing; either way the tables stay right.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psycopg
from dagster import DagsterInstance, DagsterRunStatus, RunRecord, RunsFilter

from resources.index.postgres import PostgresIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.settings import Settings


@dataclass(frozen=True, slots=True)
class RunState:
    run_id: str
    age_s: float
    """Age since its launch."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Times that a run may be silent."""

    silent_s: float
    """Time since its last heartbeat."""
    first_beat_s: float
    """Time from launch to the first heartbeat: the process starts, imports, opens the index."""


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
        elif silent is None and run.age_s > patience.first_beat_s:
            found[run.run_id] = f"launched {run.age_s:.0f} s ago and never gave a sign of life"
    return found


LOG = logging.getLogger(__name__)
LOCK_KEY = 4_380_002
INTERVAL_S = 5.0


def serve(settings: Settings) -> int:
    """Look every few seconds until SIGTERM; the `lakerunner watchdog` command."""
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with PostgresIndex(settings.require("index_dsn")) as index, DagsterInstance.get() as instance:
        LOG.info("watching runs")
        while not stop.wait(INTERVAL_S):
            try:
                with psycopg.connect(settings.index_dsn, connect_timeout=5) as connection:
                    if _holds_lock(connection):
                        bury(instance, index, Patience(settings.lease_s, settings.run_start_s))
            except (IndexUnavailableError, psycopg.OperationalError) as error:
                LOG.warning("cannot look: %s", error)
    return 0


def bury(instance: DagsterInstance, index: PostgresIndex, patience: Patience) -> list[str]:
    """Report every dead run as failed; return their ids."""
    filters = RunsFilter(statuses=[DagsterRunStatus.STARTED, DagsterRunStatus.STARTING])
    records = {record.dagster_run.run_id: record for record in instance.get_run_records(filters)}
    now = time.time()
    states = [RunState(run_id, now - launched_at(record)) for run_id, record in records.items()]
    beats = index.run_heartbeats()
    dead = dead_runs(states, beats, patience)
    for run_id, reason in dead.items():
        LOG.warning("run %s is dead: %s", run_id, reason)
        message = f"The run's process is gone: {reason}. What it had claimed is cooked by another run."
        instance.report_run_failed(records[run_id].dagster_run, message)
        index.forget_run(run_id)
    for run_id in [r for r, silent in beats.items() if r not in records and silent > patience.silent_s]:
        index.forget_run(run_id)  # it ended without a chance to say so
    return sorted(dead)


def launched_at(record: RunRecord) -> float:
    """Return when its status last changed; a run that waited in the queue was not silent."""
    return record.start_time or record.update_timestamp.timestamp()


def _holds_lock(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    row = connection.execute("SELECT pg_try_advisory_lock(%s)", (LOCK_KEY,)).fetchone()
    return row is not None and bool(row[0])
