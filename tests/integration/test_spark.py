"""Tasks on a real Spark: results in order, deaths told apart from a server that went away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from resources.settings import Settings
from resources.spark import SparkTasks, SparkUnavailableError, TaskCrashError
from tests.support.stack_fixture import stack_state, start_stack, stop_stack

pytestmark = [pytest.mark.integration, pytest.mark.slow]
CLASSIC = """
from resources.settings import Settings
from resources.spark import SparkTasks
def twice(payload): return payload * 2
print(SparkTasks(Settings()).run(twice, [b"a", b"b", b"c"], ["tag"]))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    data_dir = tmp_path_factory.mktemp("spark")
    yield start_stack(data_dir, ("spark",))
    stop_stack(data_dir)


def test_results_come_back_in_the_order_of_the_payloads(server: Settings) -> None:
    def work(payload: bytes) -> bytes:
        return payload + b"!"

    payloads = [str(number).encode() for number in range(7)]
    assert SparkTasks(server).run(work, payloads, ["order"]) == [work(p) for p in payloads]
    assert SparkTasks(server).run(work, [], ["nothing"]) == []


def test_a_task_that_dies_or_raises_is_a_crash_and_the_next_job_works(server: Settings) -> None:
    def work(payload: bytes) -> bytes:
        if payload == b"die":
            os._exit(1)
        if payload == b"raise":
            raise ValueError("bad input")
        return payload

    tasks = SparkTasks(server)
    for deadly in (b"die", b"raise"):
        with pytest.raises(TaskCrashError):
            tasks.run(work, [b"fine", deadly], ["crash"])
    assert tasks.run(work, [b"fine"], ["after"]) == [b"fine"]


def test_a_task_that_never_ends_is_interrupted_and_blamed(server: Settings) -> None:
    def work(payload: bytes) -> bytes:
        if payload == b"hang":
            time.sleep(600)
        return payload

    impatient = SparkTasks(replace(server, cook_job_max_s=3.0))
    with pytest.raises(TaskCrashError, match="no result within 3 s"):
        impatient.run(work, [b"hang"], ["hang"])
    assert SparkTasks(server).run(work, [b"fine"], ["after the hang"]) == [b"fine"]


def test_a_server_that_is_killed_is_unavailable_and_nobody_is_blamed(server: Settings) -> None:
    def work(payload: bytes) -> bytes:
        return payload

    tasks = SparkTasks(server)
    assert tasks.run(work, [b"x"], ["before"]) == [b"x"]
    state = stack_state(server.data_dir)
    process = state.components["spark"].process
    assert process is not None
    os.kill(state.supervisor.pid, signal.SIGKILL)  # or it would start another within the client's patience
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(SparkUnavailableError):
        tasks.run(work, [b"x"], ["during"])


def test_an_unreachable_server_is_said_at_once() -> None:
    with pytest.raises(SparkUnavailableError, match="no Spark Connect server"):
        SparkTasks(Settings(spark_remote="sc://127.0.0.1:9")).connect()


def test_without_a_remote_a_classic_session_does_the_same(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CLASSIC],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**_without_spark(), "PYSPARK_PYTHON": sys.executable},
        check=False,
    )
    assert "[b'aa', b'bb', b'cc']" in done.stdout, done.stderr[-2000:]


def _without_spark() -> dict[str, str]:
    """A Connect client marks its own environment, and children would inherit the mark."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
