"""A PostgreSQL that hangs instead of refusing: everybody is answered meanwhile, and it passes by itself.

What is asked while the server is frozen is answered before it thaws: that is all the time there is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from litestar.testing import TestClient

from lakerunner_query.app import create_app, open_index
from resources.index.postgres import IndexUnavailableError, PostgresIndex
from resources.index.types import SegmentQuery
from resources.lake.timecut import SECOND_NS
from resources.settings import Settings
from tests.support.frozen import black_hole, frozen
from tests.support.patience import wait_for
from tests.support.query.lake import BASE, Lake

pytestmark = pytest.mark.integration
HEADERS = {"Api-Key": "key-acme"}
LINES = f"/loki/api/v1/query_range?query=%7Bapp%3D%22web%22%7D&start={BASE}&end={BASE + 60 * SECOND_NS}"
SAMPLES = f"/prometheus/api/v1/query?query=up&time={BASE // SECOND_NS}&timeout=1.5s"


@pytest.fixture
def http(tmp_path: Path, index_dsn: str) -> Iterator[TestClient]:  # type: ignore[type-arg]
    settings = Settings(data_dir=tmp_path, index_dsn=index_dsn, internal_token="t", query_timeout_s=2)
    with open_index(settings) as index:
        Lake(tmp_path, index).add_org("acme", "key-acme")
        with TestClient(create_app(settings, index)) as found:
            yield found


def ask(http: TestClient, path: str = LINES) -> int:  # type: ignore[type-arg]
    """Return the status of a question that finds no segments: it needs nobody but the index."""
    return http.get(path, headers=HEADERS).status_code


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(IndexUnavailableError):
        call()


def until_well(http: TestClient) -> None:  # type: ignore[type-arg]
    wait_for(lambda: ask(http) == 200, "an answer while PostgreSQL is well")


def until_pinged(index: PostgresIndex) -> None:
    def is_well() -> bool:
        with suppress(IndexUnavailableError):
            index.ping()
            return True
        return False

    wait_for(is_well, "an answer to a ping while PostgreSQL is well")


def test_queries_of_a_frozen_index_are_answered_from_memory_and_say_so(
    http: TestClient,  # type: ignore[type-arg]
    index_dsn: str,
) -> None:
    """A minute of a frozen PostgreSQL, in short: known intervals are answered, others refused at once."""
    until_well(http)
    until_known(http)
    elsewhere = LINES.replace(str(BASE), str(BASE - 100_000 * SECOND_NS))
    with frozen(index_dsn):
        first = ask(http)
        with ThreadPoolExecutor(20) as clients:
            many = list(clients.map(lambda _: ask(http), range(50)))
        answer = http.get(LINES, headers=HEADERS)
        strict = http.get(LINES + "&partial_response=false", headers=HEADERS)
        unknown, ready = ask(http, elsewhere), http.get("/readyz")
        stranger = http.get("/api/v1/ping", headers={"Api-Key": "not seen before"})
    assert {first, *many} == {200}
    (warning,) = answer.json()["warnings"]
    assert warning.startswith("partial: the segment index has not answered for")
    assert answer.headers["X-Lakerunner-Partial"] == "true"
    assert (strict.status_code, unknown, stranger.status_code) == (503, 503, 503)
    assert "degraded" in ready.text
    until_fresh(http)


def until_fresh(http: TestClient) -> None:  # type: ignore[type-arg]
    """Wait until answers come from the index again: those from memory have status 200, too."""
    wait_for(lambda: "warnings" not in http.get(LINES, headers=HEADERS).json(), "an answer of the index")


def until_known(http: TestClient) -> None:  # type: ignore[type-arg]
    name = "lakerunner_query_index_replica_organisations 1"
    wait_for(lambda: name in http.get("/metrics").text, name)


def test_queries_of_a_frozen_index_are_refused_in_time_and_work_again_by_themselves(
    tmp_path: Path, index_dsn: str
) -> None:
    settings = Settings(
        data_dir=tmp_path, index_dsn=index_dsn, internal_token="t", query_timeout_s=2, query_index_max_age_s=0
    )
    with open_index(settings) as index:
        Lake(tmp_path, index).add_org("acme", "key-acme")
        with TestClient(create_app(settings, index)) as http:
            refuse_in_time(http, index_dsn)


def refuse_in_time(http: TestClient, index_dsn: str) -> None:  # type: ignore[type-arg]
    until_well(http)
    with frozen(index_dsn):
        known, samples = ask(http), ask(http, SAMPLES)
        with ThreadPoolExecutor(50) as clients:
            many = list(clients.map(lambda _: ask(http), range(50)))
        ready = http.get("/readyz")
        stranger = http.get("/api/v1/ping", headers={"Api-Key": "not seen before"})
    assert {known, samples, *many} <= {503, 504}
    assert (ready.status_code, stranger.status_code) == (503, 503)
    assert "the segment index" in ready.text
    until_well(http)


def test_a_long_freeze_leaves_no_pool_that_waits_for_its_next_attempt(
    index_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After minutes without a server a pool waits for minutes between two attempts; here, for 20 s."""
    monkeypatch.setattr("psycopg_pool.base.AttemptWithBackoff.INITIAL_DELAY", 20.0)
    with PostgresIndex(index_dsn, max_connections=1, wait_s=6.0, answer_s=1.0) as index:
        until_pinged(index)
        with frozen(index_dsn):
            refused(index.ping)  # the connection is lost, and the first attempt to replace it fails
        index.ping()


def test_calls_give_up_at_a_server_that_never_says_a_word() -> None:
    question = SegmentQuery("acme", "logs", 0, 0, 1)
    with (
        black_hole() as dsn,
        PostgresIndex(dsn, wait_s=1.0, answer_s=1.0) as index,
        ThreadPoolExecutor(16) as threads,
    ):
        calls = [lambda: index.snapshot([question]), lambda: index.find_api_key(b""), index.ping] * 4
        calls += [index.connect_alone] * 4
        list(threads.map(refused, calls))


def test_a_statement_that_waits_for_ever_is_given_up_by_server_and_client(index_dsn: str) -> None:
    with PostgresIndex(index_dsn, answer_s=1.0) as index, index._transaction() as connection:
        allowed = connection.execute(b"SHOW statement_timeout").fetchone()
        assert allowed == {"statement_timeout": "1s"}
    with PostgresIndex(index_dsn, wait_s=2.0, answer_s=1.0) as index:
        until_pinged(index)
        refused(lambda: index._rows(b"SELECT pg_sleep(3600)", {}))
        until_pinged(index)
        with frozen(index_dsn):
            refused(index.ping)
        until_pinged(index)


def test_an_address_that_names_its_own_timeouts_keeps_them(index_dsn: str) -> None:
    own = index_dsn + ("&" if "?" in index_dsn else "?") + "keepalives_idle=77&connect_timeout=9"
    with PostgresIndex(own) as index, index._transaction() as connection:
        parameters = connection.info.get_parameters()
    assert (parameters["keepalives_idle"], parameters["connect_timeout"]) == ("77", "9")
    assert parameters["tcp_user_timeout"] == "15000"


def test_pushes_and_webhooks_of_a_frozen_index_are_refused_in_time(index_dsn: str, tmp_path: Path) -> None:
    from lakerunner_ingress.app import create_app as create_ingress
    from lakerunner_ingress.app import open_index as open_ingress_index
    from tests.support.ingress.doubles import FakeProducer

    settings = Settings(
        data_dir=tmp_path, index_dsn=index_dsn, lake_url=(tmp_path / "lake").as_uri(), webhook_token="hook"
    )
    with open_ingress_index(settings) as index:
        Lake(tmp_path, index).add_org("acme", "key-acme", "write")
        with TestClient(create_ingress(settings, index, FakeProducer())) as http:
            until_pinged(index)
            with frozen(index_dsn), ThreadPoolExecutor(24) as clients:
                assert set(clients.map(lambda number: push(http, number), range(24))) == {503}


def push(http: TestClient, number: int) -> int:  # type: ignore[type-arg]
    answer: httpx.Response
    if number % 2:
        body = {"streams": [{"stream": {"app": "web"}, "values": [[str(time.time_ns()), "line"]]}]}
        answer = http.post("/loki/api/v1/push", json=body, headers=HEADERS)
    else:
        record = {
            "Records": [
                {
                    "eventName": "ObjectCreated:Put",
                    "s3": {"bucket": {"name": "raw"}, "object": {"key": "otel-raw/acme/c/logs/x", "size": 1}},
                }
            ]
        }
        answer = http.post("/api/v1/notifications/s3", json=record, headers={"Authorization": "Bearer hook"})
    return answer.status_code
