"""Statements on Spark, over HTTP and PostgreSQL: state, rows, cancellation. The test stands in for Spark."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import httpx
import msgspec
import psycopg
import pyarrow as pa
import pytest
import uvicorn
from psycopg import errors

from lakerunner_query.app import create_app
from lakerunner_query.handover.tasks import Place, WriteAnswer
from lakerunner_query.protocol.handover import Handover, HandoverResult, ResultPart
from resources.index.job_types import JobLimits, JobState, QueryJob
from resources.lake.layout import query_attempt_prefix, query_plan_key
from resources.objects.store import open_store
from resources.settings import Settings
from tests.support.patience import PATIENCE_S, wait_for
from tests.support.query.lake import BASE, Lake, Line, Stack, free_port

pytestmark = pytest.mark.integration
LIMITS = JobLimits(lease_s=600.0)
STATEMENT = "SELECT message, timestamp, tsns, labels, attr_bytes FROM logs ORDER BY tsns"
ROWS: dict[str, list[Any]] = {
    "message": ['a "quoted", line', None, "ünï"],
    "timestamp": [datetime(2026, 1, 1, 0, 0, n, 7) for n in range(3)],  # noqa: DTZ001 - of a column without a zone
    "tsns": [BASE + 7_001, BASE + 1, 5],
    "labels": [[("service_name", "web")], [], [("a", "b")]],
    "attr_bytes": [1, None, 3],
}


@dataclass
class Door:
    """The API on a port of its own, and the index with which a driver of Spark would work."""

    url: str
    lake: Lake
    settings: Settings

    def http(self, key: str = "key-acme", **headers: str) -> httpx.Client:
        return httpx.Client(
            base_url=self.url, headers={"Api-Key": key, **headers}, timeout=httpx.Timeout(PATIENCE_S)
        )

    def postgres(self, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(
            host="127.0.0.1", port=self.settings.query_postgres_port, user="ann", dbname="lake",
            password="key-acme", autocommit=True, **options,
        )  # fmt: skip

    def claim(self) -> QueryJob:
        return wait_for(lambda: self.lake.index.claim_query_job(LIMITS), "a job that is due")

    def finish(self, job: QueryJob) -> None:
        """Write two parts of an answer as Spark's tasks do."""
        store = open_store(self.settings.lake_url, self.settings)
        plan = msgspec.json.decode(store.get_bytes(query_plan_key(job.org, job.job_id)), type=Handover)
        schema = pa.ipc.read_schema(pa.py_buffer(plan.schema))
        assert schema.names == list(ROWS)
        rows = pa.table(ROWS, schema).to_batches()[0]
        place = Place(self.settings.lake_url, query_attempt_prefix(job.org, job.job_id, job.attempt))
        write = WriteAnswer(place, schema)
        receipts = [
            one
            for number, piece in enumerate((rows.slice(0, 2), rows.slice(2)))
            for batch in write(number, iter([piece]))
            for one in batch.to_pylist()
        ]
        parts = tuple(
            ResultPart(number, one["key"], one["rows"], one["bytes"]) for number, one in enumerate(receipts)
        )
        result = HandoverResult(parts, rows.num_rows, sum(one.bytes for one in parts), (), {"units": 1})
        assert self.lake.index.finish_query_job(job, msgspec.to_builtins(result), {"tasks": 2}, LIMITS)


@pytest.fixture(scope="module")
def door(lake: Lake, stack: Stack) -> Iterator[Door]:
    for org in ("acme", "globex"):
        lake.add_org(org, f"key-{org}")
    lake.add_org("acme", "key-writer", "write")
    lake.write("acme", [Line(n * 10**9, f"line {n}", attributes={"bytes": n}) for n in range(3)])
    settings = replace(
        stack.settings,
        spark_remote="sc://127.0.0.1:1",
        lake_url=lake.folder.as_uri(),
        query_postgres_port=free_port(),
    )
    port = free_port()
    options = uvicorn.Config(create_app(settings, lake.index), port=port, log_level="warning")
    server = uvicorn.Server(options)
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_for(lambda: server.started, "the API")
    yield Door(f"http://127.0.0.1:{port}", lake, settings)
    server.should_exit = True
    thread.join()


def send(door: Door, *, keep: bool = True) -> str:
    """Hand a statement over, leave as soon as its id is known, and return that."""
    with listening(door, keep=keep) as job:
        return str(job["id"])


@contextlib.contextmanager
def listening(door: Door, *, keep: bool) -> Iterator[dict[str, Any]]:
    """Ask for events, and stay connected while the block runs."""
    body = {"q": STATEMENT, "s": str(BASE), "e": str(BASE + 3600 * 10**9), "engine": "spark", "keep": keep}
    with door.http() as http, http.stream("POST", "/api/v1/query", json=body) as answer:
        assert answer.status_code == 200
        first = next(line for line in answer.iter_lines() if line.startswith("data: "))
        event = json.loads(first[6:])
        assert event["type"] == "job"
        yield event["data"]


@pytest.fixture(scope="module")
def done(door: Door) -> str:
    """The id of a statement whose result is there."""
    query_id = send(door)
    door.finish(door.claim())
    return query_id


def test_state_and_progress_are_told_until_the_rows_are_there(door: Door) -> None:
    query_id = send(door)
    path = f"/api/v1/query/{query_id}"
    with door.http() as http:
        assert http.get(path).json() == {
            "id": query_id, "state": "due", "engine": "spark", "attempt": 0, "progress": {},
        }  # fmt: skip
        early = http.get(f"{path}/result")
        assert (early.status_code, early.json()["code"]) == (409, "not_ready")
        assert "is due: its result is not there yet" in early.json()["message"]
        job = door.claim()
        assert door.lake.index.beat_query_job(job, {"tasks": 9, "tasks_done": 4}, LIMITS)
        running = http.get(path).json()
        assert (running["state"], running["attempt"]) == ("running", 1)
        assert running["progress"] == {"tasks": 9, "tasks_done": 4}
        door.finish(job)
        found = http.get(path).json()
        assert (found["state"], found["rows"]) == ("done", 3)
        assert 0 < found["expires_s"] <= LIMITS.keep_s
        again = http.delete(path)
        assert (again.status_code, again.json()["state"]) == (200, "done")  # one that has ended stays
        assert http.get(f"{path}/result", headers={"Accept": "text/csv"}).status_code == 200


def test_json(door: Door, done: str) -> None:
    with door.http(Accept="application/json") as http:
        answer = http.get(f"/api/v1/query/{done}/result")
    assert answer.headers.get_list("content-type") == ["application/json"]
    assert answer.headers["X-Lakerunner-Query-Id"] == done
    found = answer.json()
    assert [one["name"] for one in found["columns"]] == list(ROWS)
    assert found["status"] == "complete"
    assert [row[0] for row in found["rows"]] == ROWS["message"]
    assert [row[2] for row in found["rows"]] == [str(BASE + 7_001), str(BASE + 1), 5]
    assert [row[4] for row in found["rows"]] == ROWS["attr_bytes"]
    assert found["stats"] == {"rows": 3, "units": 1}


def test_csv(door: Door, done: str) -> None:
    with door.http(Accept="text/csv") as http:
        answer = http.get(f"/api/v1/query/{done}/result")
    assert answer.headers.get_list("content-type") == ["text/csv; charset=utf-8"]
    lines = answer.text.splitlines()
    assert lines[0] == ",".join(f'"{name}"' for name in ROWS)
    assert lines[1].startswith('"a ""quoted"", line",2026-01-01 00:00:00.000007,')
    assert len(lines) == 4


def test_arrow(door: Door, done: str) -> None:
    with door.http(Accept="application/vnd.apache.arrow.stream") as http:
        answer = http.get(f"/api/v1/query/{done}/result")
    assert answer.headers.get_list("content-type") == ["application/vnd.apache.arrow.stream"]
    table = pa.ipc.open_stream(answer.content).read_all()
    assert table.to_pydict() == ROWS
    assert table.schema.field("timestamp").type == pa.timestamp("us")
    assert table.schema.field("labels").type == pa.map_(pa.string(), pa.string())


def test_events(door: Door, done: str) -> None:
    with door.http() as http:
        answer = http.get(f"/api/v1/query/{done}/result")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in answer.text.split("\n") if line.startswith("data: ")]
    kinds = [one["type"] for one in events]
    assert kinds[:2] == ["job", "schema"]
    assert kinds[-1] == "done"
    assert (events[-1]["data"]["status"], events[-1]["data"]["rows"]) == ("complete", 3)
    rows = [row for one in events if one["type"] == "result" for row in one["data"]["rows"]]
    assert [row[0] for row in rows] == ROWS["message"]


def test_an_id_of_another_organisation_does_not_exist(door: Door, done: str) -> None:
    waiting = send(door)
    with door.http("key-globex") as http, door.http() as own:
        for query_id in (done, waiting, "0" * 32, "../acme", "x" * 200):
            for method, path in (("GET", ""), ("GET", "/result"), ("DELETE", "")):
                answer = http.request(method, f"/api/v1/query/{query_id}{path}")
                assert answer.status_code == 404, (query_id, method, path)
                if ".." not in query_id:
                    assert answer.json()["code"] == "not_found"
                    assert "results are kept for an hour" in answer.json()["message"]
                assert "SELECT" not in answer.text
        assert own.get(f"/api/v1/query/{waiting}").json()["state"] == "due"
        assert own.get("/api/v1/query/unknown").status_code == 404
        assert own.delete(f"/api/v1/query/{waiting}").json()["state"] == "cancelled"


@pytest.mark.parametrize(("key", "status"), [("key-nobody", 401), ("key-writer", 403)])
def test_keys_that_may_not_read_are_refused(door: Door, done: str, key: str, status: int) -> None:
    with door.http(key) as http:
        for method, path in (("GET", ""), ("GET", "/result"), ("DELETE", "")):
            assert http.request(method, f"/api/v1/query/{done}{path}").status_code == status


def test_a_cancelled_statement_says_so(door: Door) -> None:
    query_id = send(door)
    job, path = door.claim(), f"/api/v1/query/{query_id}"
    with door.http() as http:
        assert http.delete(path).json()["state"] == "cancelled"
        assert http.get(path).json()["state"] == "cancelled"
        gone = http.get(f"{path}/result")
        assert (gone.status_code, gone.json()["code"]) == (410, "cancelled")
        assert gone.json()["message"] == "the query was cancelled"
    assert not door.lake.index.beat_query_job(job, {}, LIMITS), "its driver goes on"


def test_somebody_who_listens_hears_of_the_cancellation(door: Door) -> None:
    body = {"q": STATEMENT, "s": str(BASE), "e": str(BASE + 3600 * 10**9), "engine": "spark"}
    with door.http() as http, http.stream("POST", "/api/v1/query", json=body) as answer:
        lines = (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: "))
        query_id = next(lines)["data"]["id"]
        with door.http() as other:
            assert other.delete(f"/api/v1/query/{query_id}").status_code == 200
        *_, error, last = lines
    assert (error["type"], error["data"]["code"]) == ("error", "cancelled")
    assert last == {"type": "done", "data": {"status": "error"}}


@pytest.mark.parametrize("keep", [False, True])
def test_who_leaves_cancels_unless_the_result_is_kept(door: Door, keep: bool) -> None:
    query_id = send(door, keep=keep)
    if keep:
        job = door.claim()
        door.finish(job)
        assert state(door, query_id) is JobState.DONE
    else:
        wait_for(lambda: state(door, query_id) is JobState.CANCELLED, "the cancellation")


def state(door: Door, query_id: str) -> JobState:
    found = door.lake.index.query_job("acme", query_id)
    assert found is not None
    return found.state


def test_a_statement_that_failed_gives_its_reason(door: Door) -> None:
    query_id = send(door)
    assert door.lake.index.fail_query_job(door.claim(), "Could not convert 'x'", "execution", LIMITS)
    with door.http() as http:
        told = http.get(f"/api/v1/query/{query_id}").json()
        assert told["state"] == "failed"
        assert told["error"] == {"code": "execution", "message": "Could not convert 'x'"}
        answer = http.get(f"/api/v1/query/{query_id}/result")
        assert (answer.status_code, answer.json()["code"]) == (422, "execution")


def test_a_result_past_its_hour_is_gone(door: Door) -> None:
    query_id = send(door)
    job = door.claim()
    door.finish(job)
    with door.http() as http:
        assert http.get(f"/api/v1/query/{query_id}").json()["state"] == "done"
        later = door.lake.index._clock() + LIMITS.keep_s + 1  # type: ignore[union-attr]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(door.lake.index, "_clock", lambda: later)
            for path in ("", "/result"):
                answer = http.get(f"/api/v1/query/{query_id}{path}")
                assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
                assert "results are kept for an hour" in answer.json()["message"]


@pytest.mark.parametrize("name", ["plan.json", "part"])
def test_a_result_whose_files_were_swept_is_gone(door: Door, name: str) -> None:
    """The sweep may run between the look at the row and that at the files."""
    query_id = send(door)
    job = door.claim()
    door.finish(job)
    for path in door.lake.folder.rglob(f"{query_id}/**/{name}*"):
        path.unlink()
    with door.http(Accept="application/json") as http:
        answer = http.get(f"/api/v1/query/{query_id}/result")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "was removed" in answer.json()["message"]


def test_a_statement_that_spark_cannot_take_is_refused_at_once(door: Door) -> None:
    body = {"q": "SELECT string_agg(message, ',') FROM logs", "engine": "spark"}
    with door.http() as http:
        answer = http.post("/api/v1/query", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "not_for_spark")
    assert door.lake.index.claim_query_job(LIMITS) is None


HOUR = "WHERE timestamp BETWEEN '2026-01-01' AND '2026-01-01 01:00'"


def test_a_session_of_postgresql_sends_its_statements_to_spark(door: Door) -> None:
    sql = STATEMENT.replace("ORDER", f"{HOUR} AND attr_bytes >= %s ORDER")
    with door.postgres() as pg, ThreadPoolExecutor(1) as threads:
        assert pg.execute("SHOW engine").fetchone() == ("auto",)
        pg.execute("SET engine = 'spark'")
        assert pg.execute("SHOW engine").fetchone() == ("spark",)
        for prepare in (False, True):
            coming = threads.submit(lambda: pg.execute(sql, (0,), prepare=prepare).fetchall())  # noqa: B023
            job = door.claim()
            assert "attr_bytes >=" in job.statement
            door.finish(job)
            rows = coming.result(PATIENCE_S)
            assert [row[0] for row in rows] == ROWS["message"]
            assert [row[1] for row in rows] == ROWS["timestamp"]
            assert [row[2] for row in rows] == ROWS["tsns"]
        with pytest.raises(errors.FeatureNotSupported, match="not handed over to Spark"):
            pg.execute(f"SELECT string_agg(message, ',') FROM logs {HOUR}")  # type: ignore[call-overload]
        pg.execute("RESET engine")
        assert pg.execute("SHOW engine").fetchone() == ("auto",)
        counted = pg.execute(f"SELECT count(*) FROM logs {HOUR}")  # type: ignore[call-overload]
        assert counted.fetchone() == (3,)
        assert door.lake.index.claim_query_job(LIMITS) is None


def test_the_engine_is_an_option_of_the_connection_and_no_other_word(door: Door) -> None:
    with door.postgres(options="-c engine=local") as pg:
        assert pg.execute("SHOW engine").fetchone() == ("local",)
        with pytest.raises(errors.InvalidParameterValue):
            pg.execute("SET engine = 'duckdb'")
        assert pg.execute("SHOW engine").fetchone() == ("local",)


def test_a_cancel_over_postgresql_ends_the_job(door: Door) -> None:
    with door.postgres(options="-c engine=spark") as pg, ThreadPoolExecutor(1) as threads:
        coming = threads.submit(lambda: pg.execute(f"SELECT count(*) FROM logs {HOUR}"))  # type: ignore[call-overload]
        job = door.claim()
        pg.cancel_safe()
        with pytest.raises(errors.QueryCanceled):
            coming.result(PATIENCE_S)
        wait_for(lambda: state(door, job.job_id) is JobState.CANCELLED, "the cancellation of the job")
        assert pg.execute("SHOW engine").fetchone() == ("spark",)
