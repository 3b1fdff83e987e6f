"""How long a run has been under way."""

from __future__ import annotations

import datetime as dt

import dagster as dg
from dagster import RunRecord

from sensors.watchdog import launched_at

CREATED = dt.datetime(2026, 1, 2, 12, 0, tzinfo=dt.UTC)
LAUNCHED = CREATED + dt.timedelta(minutes=10)


def record(status: dg.DagsterRunStatus, start_time: float | None) -> RunRecord:
    return RunRecord(
        storage_id=1,
        dagster_run=dg.DagsterRun(job_name="cook_logs", run_id="1", status=status),
        create_timestamp=CREATED,
        update_timestamp=LAUNCHED,
        start_time=start_time,
    )


def test_time_in_the_queue_is_not_counted() -> None:
    assert launched_at(record(dg.DagsterRunStatus.STARTING, None)) == LAUNCHED.timestamp()


def test_a_started_run_counts_from_its_start() -> None:
    started = LAUNCHED.timestamp() + 5
    assert launched_at(record(dg.DagsterRunStatus.STARTED, started)) == started
