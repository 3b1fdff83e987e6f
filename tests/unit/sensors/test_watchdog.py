"""Runs that start slowly are given longer each time; runs that never start are found all the same."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any, cast

import dagster as dg
import pytest
from dagster import RunRecord
from dagster._core.storage.tags import GRPC_INFO_TAG

from sensors.watchdog import (
    LONGEST_DOUBLINGS,
    WITH_PROCESS,
    Patience,
    RunState,
    bury,
    dead_runs,
    has_process,
    launched_at,
)

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


PATIENCE = Patience(silent_s=30.0, first_beat_s=120.0)


class Beats:
    """The part of the index that the watchdog asks."""

    def __init__(self) -> None:
        self.silent: dict[str, float] = {}

    def run_heartbeats(self) -> dict[str, float]:
        return self.silent

    def forget_run(self, run_id: str) -> None:
        self.silent.pop(run_id, None)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as opened:
        yield opened


@dg.job
def cook() -> None:
    """Nothing: its runs never execute here."""


@dg.job
def merge() -> None:
    """As above."""


def launch(instance: dg.DagsterInstance, job: dg.JobDefinition = cook) -> str:
    return instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTING).run_id


def look(
    instance: dg.DagsterInstance,
    run_id: str,
    after_s: float,
    beats: Beats | None = None,
    *,
    process: bool = False,
) -> bool:
    """Look so long after the launch; return True if the run was condemned."""
    record = instance.get_run_record_by_id(run_id)
    assert record is not None
    now = launched_at(record) + after_s
    return run_id in bury(instance, cast("Any", beats or Beats()), PATIENCE, now, lambda _run: process)


def attempts_until_one_starts(instance: dg.DagsterInstance, start_takes_s: float) -> int:
    """Launch anew whenever the watchdog gives up before the first heartbeat."""
    for attempt in range(1, 9):
        run_id = launch(instance)
        moments = (59.0 * n for n in range(1, int(start_takes_s / 59) + 1))
        if not any(look(instance, run_id, after_s) for after_s in moments):
            instance.report_run_failed(cast("Any", instance.get_run_by_id(run_id)))  # it ended in its own way
            return attempt
    pytest.fail("every start was condemned")


def test_a_machine_on_which_starts_take_ten_minutes_gets_there(instance: dg.DagsterInstance) -> None:
    assert attempts_until_one_starts(instance, 600.0) == 4  # 120, 240, 480, 960 s
    assert attempts_until_one_starts(instance, 60.0) == 1


def test_a_start_whose_process_lives_is_not_given_up(instance: dg.DagsterInstance) -> None:
    run_id = launch(instance)
    assert not look(instance, run_id, 1000.0, process=True)
    assert look(instance, run_id, PATIENCE.first_beat_s * WITH_PROCESS + 1, process=True)


def test_without_a_server_to_ask_there_is_no_process(instance: dg.DagsterInstance) -> None:
    run = instance.get_run_by_id(launch(instance))
    assert run is not None
    assert not has_process(run)
    nobody = {GRPC_INFO_TAG: json.dumps({"host": "localhost", "socket": "/nowhere/code_server.sock"})}
    assert not has_process(run.with_tags(nobody))


def test_a_start_that_succeeds_ends_the_longer_patience(instance: dg.DagsterInstance) -> None:
    attempts_until_one_starts(instance, 600.0)
    assert look(instance, launch(instance), 125.0)


def test_slow_starts_of_one_job_give_no_patience_to_another(instance: dg.DagsterInstance) -> None:
    assert look(instance, launch(instance), 125.0)
    assert not look(instance, launch(instance), 125.0)
    assert look(instance, launch(instance, merge), 125.0)


def test_a_run_that_never_starts_is_found_however_often_that_happened(instance: dg.DagsterInstance) -> None:
    longest = PATIENCE.first_beat_s * 2**LONGEST_DOUBLINGS
    for _ in range(LONGEST_DOUBLINGS + 3):
        assert look(instance, launch(instance), longest + 1)


def test_events_are_signs_of_life(instance: dg.DagsterInstance) -> None:
    """A run that reports its steps is being started, however long its first heartbeat takes."""
    run_id = launch(instance)
    instance.report_engine_event("loading", cast("Any", instance.get_run_by_id(run_id)))
    record = instance.get_run_record_by_id(run_id)
    assert record is not None
    state = RunState(run_id, age_s=500.0, quiet_s=100.0)
    assert dead_runs([state], {}, PATIENCE) == {}
    assert dead_runs([RunState(run_id, age_s=500.0, quiet_s=121.0)], {}, PATIENCE).keys() == {run_id}


def test_a_run_that_stops_beating_is_dead_whatever_its_job_did_before(instance: dg.DagsterInstance) -> None:
    assert look(instance, launch(instance), 125.0)
    run_id, beats = launch(instance), Beats()
    beats.silent[run_id] = 31.0
    assert look(instance, run_id, 40.0, beats)
    assert look(instance, launch(instance), 125.0)  # it had started in time
