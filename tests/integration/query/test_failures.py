"""What happens when parts go missing: workers, segments, clients."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
import uvicorn
from litestar.testing import TestClient

from lakerunner_query.app import create_app
from lakerunner_query.coordinator.dispatch import Dispatcher
from resources.lake.timecut import SECOND_NS
from tests.support.exposition_parser import parse
from tests.support.patience import PATIENCE_S, wait_for
from tests.support.query.lake import BASE, TOKEN, Client, Lake, Line, Stack, free_port, start_workers

pytestmark = pytest.mark.integration
S = SECOND_NS


@pytest.fixture
def two(lake: Lake, tmp_path: Path) -> Iterator[Stack]:
    yield from start_workers(tmp_path, lake.folder, 2)


@contextlib.contextmanager
def asking(stack: Stack, lake: Lake, key: str) -> Iterator[Client]:
    with TestClient(create_app(stack.settings, lake.index)) as http:
        yield Client(http, key)


def test_a_worker_killed_in_the_middle_is_replaced(
    lake: Lake, two: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both workers are frozen; the one with the unit in hand is killed, the other one thawed."""
    monkeypatch.setattr("lakerunner_query.coordinator.dispatch.ASK_ALIVE_S", PATIENCE_S)
    lake.add_org("kill", "key-kill")
    lake.write("kill", [Line(i * S, f"line {i}") for i in range(1, 50)])
    with asking(two, lake, "key-kill") as client:
        for worker in two.workers:
            os.kill(worker.process.pid, signal.SIGSTOP)
        found: list[list[str]] = []
        query = '{service_name="web"}'
        thread = threading.Thread(target=lambda: found.append(client.lines(query, reverse=False)))
        thread.start()
        (holder,) = wait_for(lambda: _holders(two), "a unit at a worker")
        two.workers[holder].kill()
        os.kill(two.workers[1 - holder].process.pid, signal.SIGCONT)
        thread.join(PATIENCE_S)
    assert found == [[f"line {i}" for i in range(1, 50)]]


def _holders(stack: Stack) -> list[int]:
    """The workers in whose socket a connection of the query is."""
    ports = [int(worker.url.rsplit(":", 1)[1]) for worker in stack.workers]
    peers = {c.raddr.port for c in psutil.Process().net_connections() if c.raddr}
    return [i for i, port in enumerate(ports) if port in peers]


def test_a_worker_that_goes_silent_is_replaced(
    lake: Lake, two: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakerunner_query.coordinator.dispatch.ASK_ALIVE_S", 0.3)
    lake.add_org("hang", "key-hang")
    lake.write("hang", [Line(S, "x")])
    with asking(two, lake, "key-hang") as client:
        for worker in two.workers:
            os.kill(worker.process.pid, signal.SIGSTOP)
            assert client.lines('{service_name="web"}') == ["x"]
            os.kill(worker.process.pid, signal.SIGCONT)


def test_no_worker_at_all_is_a_clear_error(lake: Lake, two: Stack) -> None:
    lake.add_org("none", "key-none")
    lake.write("none", [Line(S, "x")])
    for worker in two.workers:
        worker.kill()
    with asking(two, lake, "key-none") as client:
        response = client.loki('{service_name="web"}')
    assert response.status_code == 503
    assert response.text.startswith("no query worker finished a unit of work; tried http://127.0.0.1:")


def test_workers_refuse_strangers(stack: Stack) -> None:
    for headers in ({}, {"x-lakerunner-internal-token": "guess"}):
        response = httpx.post(f"{stack.workers[0].url}/work", content=b"{}", headers=headers)
        assert (response.status_code, response.json()["code"]) == (401, "unauthorized")
    response = httpx.post(
        f"{stack.workers[0].url}/work", content=b"{}", headers={"x-lakerunner-internal-token": TOKEN}
    )
    assert response.status_code == 400


@pytest.mark.parametrize("damage", ["missing", "truncated", "garbage", "pages"])
def test_an_unreadable_segment_makes_the_answer_partial(lake: Lake, stack: Stack, damage: str) -> None:
    org = f"partial-{damage}"
    lake.add_org(org, org)
    lake.write(org, [Line(S, "good")])
    bad = lake.write(org, [Line(2 * S + i, f"bad {i} " + "x" * 50) for i in range(500)])
    _damage(lake.folder / bad.key, damage)
    with asking(stack, lake, org) as client:
        rows, done = client.ask('{service_name="web"}')
        response = client.loki('{service_name="web"}')
    assert [row["message"] for row in rows] == ["good"]
    assert done["status"] == "partial"
    assert [lost["segment_id"] for lost in done["missing"]] == [bad.segment_id]
    assert response.status_code == 200
    assert response.headers["x-lakerunner-partial"] == "true"
    assert response.json()["warnings"][0].startswith("partial: 1 segments unreadable")


def _damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "truncated":
        path.write_bytes(content[:-10])
    elif how == "garbage":
        path.write_bytes(os.urandom(len(content)))
    else:
        path.write_bytes(content[:8] + os.urandom(len(content) // 3) + content[8 + len(content) // 3 :])


@pytest.fixture(scope="module")
def slow(lake: Lake) -> str:
    """A query that takes many seconds: many rows, many regexes that never match."""
    lake.add_org("slow", "key-slow")
    words = "lorem ipsum dolor sit amet qwerty 7123 " * 10
    lake.write_again(lake.write("slow", [Line(i * 1000, f"{i} {words}") for i in range(10_000)]), 100)
    never = " or ".join(f'"(?i)q[a-z]+ [0-9]{{3}}[a-z ]*z{i}x"' for i in range(10))
    return '{service_name="web"} |~ ' + never


@contextlib.contextmanager
def served(stack: Stack, lake: Lake) -> Iterator[str]:
    port = free_port()
    server = uvicorn.Server(
        uvicorn.Config(create_app(stack.settings, lake.index), port=port, log_level="warning")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)


def _counted(stack: Stack, name: str) -> int:
    found = parse(httpx.get(f"{stack.workers[0].url}/metrics", timeout=PATIENCE_S).text)
    return int(found.get((name, frozenset()), 0))


@pytest.mark.parametrize("path", ["/api/v1/logs/query", "/loki/api/v1/query_range"])
def test_a_client_that_leaves_cancels_its_work(lake: Lake, stack: Stack, slow: str, path: str) -> None:
    before = _counted(stack, "lakerunner_worker_cancelled_total")
    with served(stack, lake) as url:
        data = {"q": slow, "s": str(BASE), "e": str(BASE + 3600 * S)}
        form = {"query": slow, "start": str(BASE), "end": str(BASE + 3600 * S)}
        sent = {"json": data} if path.startswith("/api") else {"data": form}
        request = httpx.Request("POST", url + path, headers={"Api-Key": "key-slow"}, **sent)  # type: ignore[arg-type]
        leaving = http.client.HTTPConnection(request.url.host, request.url.port)
        leaving.request("POST", path, request.content, dict(request.headers))
        wait_for(lambda: _counted(stack, "lakerunner_worker_units_running"), "a unit at the worker")
        leaving.close()
        wait_for(lambda: _counted(stack, "lakerunner_worker_cancelled_total") > before, "the end of the unit")


def test_a_query_over_its_time_says_what_to_narrow(lake: Lake, stack: Stack, slow: str) -> None:
    from dataclasses import replace

    hurried = Stack(replace(stack.settings, query_timeout_s=0.5), stack.workers)
    with asking(hurried, lake, "key-slow") as client:
        response = client.loki(slow)
        assert response.status_code == 504
        assert "narrow the time range" in response.text
        body = {"q": slow, "s": str(BASE), "e": str(BASE + 3600 * S)}
        events = client.http.post("/api/v1/logs/query", json=body, headers=client.headers).text.split("\n\n")
        error, done = (json.loads(event[6:]) for event in events if event)
    assert (error["type"], error["data"]["code"]) == ("error", "query_timeout")
    assert done == {"type": "done", "data": {"status": "error"}}


def test_a_dead_index_connection_is_tried_again_and_then_503(lake: Lake, stack: Stack) -> None:
    from resources.index.postgres.connections import IndexUnavailableError

    class Flaky:
        failures = 0

        def __getattr__(self, name: str) -> object:
            def call(*args: object) -> object:
                if self.failures:
                    self.failures -= 1
                    raise IndexUnavailableError("server closed the connection unexpectedly")
                return getattr(lake.index, name)(*args)

            return call

    lake.add_org("flaky", "key-flaky")
    index = Flaky()
    with TestClient(create_app(stack.settings, index)) as http:  # type: ignore[arg-type]
        index.failures = 1
        assert http.get("/api/v1/ping", headers={"Api-Key": "key-flaky"}).status_code == 200
        index.failures = 2
        known = http.get("/api/v1/ping", headers={"Api-Key": "key-flaky"})
        answer = http.get("/api/v1/ping", headers={"Api-Key": "key-not-seen-before"})
    assert known.status_code == 200, "it was good a moment ago"
    assert (answer.status_code, answer.json()["code"]) == (503, "index_unavailable")


def test_affinity_moves_only_the_units_of_a_lost_worker() -> None:
    async def chosen(workers: tuple[str, ...]) -> list[str]:
        dispatcher = Dispatcher(workers, "t")
        try:
            return [dispatcher._choose(f"acme/logs/{hour}", 0) for hour in range(300)]
        finally:
            await dispatcher.close()

    three, two = asyncio.run(chosen(("a", "b", "c"))), asyncio.run(chosen(("a", "b")))
    assert all(was == now for was, now in zip(three, two, strict=True) if was != "c")
    assert min(three.count(worker) for worker in "abc") > 60
