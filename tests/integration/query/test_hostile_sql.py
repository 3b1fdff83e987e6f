"""Hostile statements through HTTP end in a sentence or an answer within bounds, and the next query works."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import httpx
import psutil
import pytest
from litestar.testing import TestClient

from lakerunner_query.app import create_app
from tests.support.patience import PATIENCE_S
from tests.support.query import hostile_sql
from tests.support.query.lake import Stack, start_workers
from tests.support.query.signals_lake import END_NS, START_NS, SignalsLake

pytestmark = pytest.mark.integration
TIMEOUT_S = 0.5
MOST_CPU_S = 8.0
"""A statement has two threads for its time; what is left is for slow machines."""
MOST_GROWTH = 1_500 << 20
"""Bytes by which the process of the API grows in all: twice the memory of its DuckDB, and what fragments."""
ENDS = {200, 400, 422, 504}
LEAKS = ("SECRET", "Traceback", "site-packages", "/coordinator/", "INTERNAL Error", "Binder Error")
Http = TestClient  # type: ignore[type-arg]


@pytest.fixture(scope="module")
def signals(tmp_path_factory: pytest.TempPathFactory) -> SignalsLake:
    return SignalsLake(tmp_path_factory.mktemp("signals") / "lake")


@pytest.fixture(scope="module")
def workers(signals: SignalsLake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    yield from start_workers(tmp_path_factory.mktemp("data"), signals.folder, 1)


@pytest.fixture(scope="module")
def door(signals: SignalsLake, workers: Stack) -> Iterator[Http]:
    app = create_app(workers.settings, signals.index)
    with TestClient(app, raise_server_exceptions=False) as http:
        assert count(http) == 420
        yield http


@pytest.fixture(scope="module")
def first_bytes(door: Http) -> int:
    del door  # it is warm
    return resident()


def resident() -> int:
    return int(psutil.Process(os.getpid()).memory_info().rss)


def ask(http: Http, q: str, **more: object) -> httpx.Response:
    headers = {"x-cardinalhq-api-key": "key-acme", "Accept": "application/json"}
    body = {"q": q, "s": str(START_NS), "e": str(END_NS), **more}
    return http.post("/api/v1/query", json=body, headers=headers)


def count(http: Http) -> object:
    return ask(http, "SELECT count(*) FROM logs").json()["rows"][0][0]


def spent(workers: Stack) -> float:
    """CPU seconds of this process, which is the API, and of the workers."""
    roots = [psutil.Process(os.getpid()), *(psutil.Process(one.process.pid) for one in workers.workers)]
    found = {each.pid: each for root in roots for each in (root, *root.children(recursive=True))}
    return sum(sum(each.cpu_times()[:2]) for each in found.values() if each.is_running())


@pytest.mark.parametrize("q", hostile_sql.REFUSED)
def test_refused(door: Http, q: str) -> None:
    found = ask(door, q, timeout=TIMEOUT_S)
    assert found.status_code == 400, found.text[:300]
    problem = found.json()
    assert len(problem["message"]) > 10
    assert "\n" not in problem["message"]
    assert not any(leak in problem["message"] for leak in LEAKS)


@pytest.mark.parametrize("q", hostile_sql.SYNTAX, ids=range(len(hostile_sql.SYNTAX)))
def test_syntax(door: Http, workers: Stack, q: str) -> None:
    before = spent(workers)
    found = ask(door, q, timeout=TIMEOUT_S)
    assert found.status_code in ENDS, found.text[:300]
    assert not any(leak in found.text for leak in LEAKS)
    assert spent(workers) - before < MOST_CPU_S
    assert count(door) == 420


@pytest.mark.parametrize("q", hostile_sql.TWISTED)
def test_twisted(door: Http, q: str) -> None:
    found = ask(door, q, timeout=PATIENCE_S)
    assert found.status_code == 200, found.text[:300]
    assert not any(leak in json.dumps(found.json()["rows"]) for leak in LEAKS)


@pytest.mark.parametrize("q", hostile_sql.HEAVY, ids=range(len(hostile_sql.HEAVY)))
def test_heavy(door: Http, workers: Stack, first_bytes: int, q: str) -> None:
    before = spent(workers)
    found = ask(door, q, timeout=TIMEOUT_S)
    is_cut = found.status_code == 500 and not found.text  # so the test client says that an answer broke off
    assert is_cut or found.status_code in ENDS, found.text[:300]
    assert spent(workers) - before < MOST_CPU_S
    assert resident() - first_bytes < MOST_GROWTH
    assert count(door) == 420


@pytest.mark.parametrize(
    "value", ["x' OR 1=1 --", "'; DROP TABLE logs; --", "$1", "\\", "\x00", "é" * 10_000]
)
def test_parameters_are_values(door: Http, value: str) -> None:
    found = ask(door, "SELECT count(*), $1 FROM logs WHERE message = $1", parameters=[value])
    assert found.status_code in {200, 400}, found.text[:300]
    if found.status_code == 200:
        assert found.json()["rows"] == [[0, value]]


def test_an_answer_that_grows_for_ever_is_cut(door: Http) -> None:
    found = ask(door, "SELECT a.message FROM logs a, logs b, logs c, logs d", timeout=TIMEOUT_S)
    if found.status_code == 504:  # the time was up before the first rows
        assert found.json()["code"] == "query_timeout"
    else:
        with pytest.raises(ValueError, match=r"Expecting|Unterminated|Extra"):
            found.json()  # what was sent is no whole answer
    assert count(door) == 420


@pytest.mark.parametrize(
    ("q", "timeout", "code"),
    [
        (
            "SELECT CASE WHEN n = 900000 THEN ('x' || n)::BIGINT ELSE n END FROM range(1000000) t(n)",
            60,
            "parse_error",
        ),
        ("SELECT a.message FROM logs a, logs b, logs c, logs d", 2, "query_timeout"),
    ],
)
def test_an_error_behind_the_first_rows_is_told(door: Http, q: str, timeout: int, code: str) -> None:
    headers = {"x-cardinalhq-api-key": "key-acme", "Accept": "text/event-stream"}
    body = {"q": q, "s": str(START_NS), "e": str(END_NS), "timeout": timeout}
    found = door.post("/api/v1/query", json=body, headers=headers)
    *_, error, done = [json.loads(line[6:]) for line in found.text.split("\n") if line.startswith("data: ")]
    assert (error["type"], error["data"]["code"]) == ("error", code)
    assert done["data"]["status"] == "error"
    assert count(door) == 420


def test_there_are_enough_statements() -> None:
    assert len({*hostile_sql.REFUSED, *hostile_sql.SYNTAX, *hostile_sql.HEAVY, *hostile_sql.TWISTED}) > 200
