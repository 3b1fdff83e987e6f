"""The role `query-jobs` in a stack: cancelled tasks end on Spark; a killed process is replaced."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import psutil
import pytest

from lakerunner_cli.stack.paths import StackPaths
from lakerunner_query.coordinator.lakeql_jobs import Jobs
from lakerunner_query.handover.process import limits_of
from resources.index.job_types import JobState, QueryJob
from resources.index.postgres import PostgresIndex
from resources.lake.timecut import SECOND_NS
from resources.objects.store import open_store
from resources.settings import Settings
from tests.support.patience import PATIENCE_S, wait_for
from tests.support.query.http_lakeql import http_lakeql
from tests.support.query.lake import BASE, Lake, Line
from tests.support.query.signals_lake import Asked
from tests.support.stack_fixture import stack_state, start_stack, stop_stack

pytestmark = [pytest.mark.integration, pytest.mark.slow]
ROWS = 400
ENDLESS = "SELECT count(*) FROM logs a, logs b, logs c, logs d WHERE a.tsns + b.tsns + d.tsns < c.tsns"
"""A statement that is still running whenever somebody looks, and whose rows fit into no memory."""
COUNTED = "SELECT severity, count(*) AS n FROM logs GROUP BY 1"
TASK = "org.apache.spark.executor.Executor$TaskRunner.run("


@dataclass
class Site:
    """A stack of PostgreSQL, Spark and `query-jobs`, and an API in this process."""

    data_dir: Path
    asked: Asked
    http: httpx.Client

    @property
    def jobs(self) -> Jobs:
        assert self.asked.lakeql.jobs is not None
        return self.asked.lakeql.jobs

    def send(self, sql: str) -> str:
        async def run() -> str:
            times = {"start_ns": BASE, "end_ns": BASE + 3600 * SECOND_NS}
            request = self.asked.request(engine="spark", keep=True, **times)
            async with await self.asked.lakeql.open(sql, request) as answer:
                assert answer.job is not None
                return answer.job.job_id

        return self.asked._runner.run(run())

    def look(self, job_id: str) -> QueryJob:
        return self.asked._runner.run(self.jobs.look("acme", job_id))

    def driver(self) -> int:
        process = stack_state(self.data_dir).components["query_jobs"].process
        assert process is not None
        return process.pid

    def spark(self) -> psutil.Process:
        process = stack_state(self.data_dir).components["spark"].process
        assert process is not None
        return psutil.Process(process.pid)

    def tasks(self) -> int:
        """The number of tasks that Spark runs now: threads of its own list of all threads."""
        log = StackPaths(self.data_dir).log("spark")
        spark, before = self.spark(), log.stat().st_size
        spark.send_signal(signal.SIGQUIT)

        def dump() -> str:
            assert spark.is_running(), "Spark ended"
            text = log.read_bytes()[before:].decode(errors="replace")
            return text if "Metaspace" in text else ""

        return wait_for(dump, "the list of threads of Spark").count(TASK)

    def python_works(self) -> bool:
        """True while a Python worker of Spark uses time."""
        return any(_works(one) for one in self.spark().children(recursive=True))

    def wait_until_it_works(self, job_id: str, attempt: int = 1) -> None:
        """Wait until an attempt has tasks at work."""

        def works() -> bool:
            job = self.look(job_id)
            assert job.is_under_way, job
            return job.attempt == attempt and job.progress.get("tasks_running", 0) > 0

        wait_for(works, f"tasks of attempt {attempt}")
        wait_for(self.tasks, "a task of Spark")

    def cancel(self, job_id: str) -> None:
        answer = self.http.delete(f"/api/v1/query/{job_id}")
        assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
        wait_for(lambda: self.tasks() == 0, "the end of Spark's tasks")
        wait_for(lambda: not self.python_works(), "the end of the work of Spark's Python workers")

    def rows(self, job_id: str) -> list[list[Any]]:
        found = self.http.get(f"/api/v1/query/{job_id}/result", headers={"Accept": "application/json"})
        assert found.status_code == 200, found.text
        rows: list[list[Any]] = sorted(found.json()["rows"])
        return rows


def _works(process: psutil.Process) -> bool:
    """True if a process is a Python that uses time; one that ends meanwhile does not."""
    try:
        return "python" in process.name() and process.cpu_percent(0.2) > 20
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    data_dir = tmp_path_factory.mktemp("stack")
    settings = start_stack(data_dir, ("query_jobs",), {"LAKERUNNER_QUERY_JOB_LEASE_S": "3"})
    try:
        with PostgresIndex(settings.require("index_dsn")) as index:
            yield from _opened(settings, index, tmp_path_factory.mktemp("scratch"), data_dir)
    finally:
        stop_stack(data_dir)


def _opened(settings: Settings, index: PostgresIndex, scratch: Path, data_dir: Path) -> Iterator[Site]:
    lake = Lake(Path(settings.lake_url.removeprefix("file://")), index)
    lake.add_org("acme", "key-acme")
    lake.write("acme", [Line(n * 10**9, f"line {n}", level=(9, 17)[n % 2]) for n in range(ROWS)])
    jobs = Jobs(
        index, lambda: open_store(settings.lake_url, settings), limits_of(settings), start_s=PATIENCE_S
    )
    asked = Asked(cast("Any", lake), scratch, jobs=jobs)
    try:
        door = cast("Any", SimpleNamespace(jobs=jobs))
        headers = {"Api-Key": "key-acme"}
        with (
            http_lakeql(door) as url,
            httpx.Client(base_url=url, headers=headers, timeout=PATIENCE_S) as http,
        ):
            yield Site(data_dir, asked, http)
    finally:
        asked.close()


def test_a_cancelled_statement_leaves_no_task_on_spark(site: Site) -> None:
    job_id = site.send(ENDLESS)
    site.wait_until_it_works(job_id)
    assert site.http.get(f"/api/v1/query/{job_id}").json()["progress"]["tasks_running"] > 0
    site.cancel(job_id)
    assert site.look(job_id).state is JobState.CANCELLED


def test_a_killed_driver_is_replaced_and_its_tasks_end(site: Site) -> None:
    """The next driver interrupts what the killed one left on Spark: else both would run side by side."""
    job_id = site.send(ENDLESS)
    site.wait_until_it_works(job_id)
    killed = site.driver()
    os.kill(killed, signal.SIGKILL)
    site.wait_until_it_works(job_id, attempt=2)
    assert site.driver() != killed
    site.cancel(job_id)
    assert site.look(job_id).attempt == 2


def test_the_answer_of_a_statement_whose_driver_was_killed_is_whole(site: Site) -> None:
    job_id = site.send(COUNTED)
    wait_for(lambda: site.look(job_id).state is JobState.RUNNING, "a claim", pause_s=0.005)
    os.kill(site.driver(), signal.SIGKILL)
    job = wait_for(lambda: one if not (one := site.look(job_id)).is_under_way else None, "the end of the job")
    assert (job.state, job.attempt, job.error) == (JobState.DONE, 2, "")
    assert site.rows(job_id) == [["ERROR", ROWS // 2], ["INFO", ROWS // 2]]
