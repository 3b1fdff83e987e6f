"""A newcomer's first mistakes: each is answered with a sentence that names the right address or field."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from lakerunner_query.app import create_app
from resources.index.memory import MemoryIndex
from resources.settings import Settings

KEY = {"Api-Key": "key-acme"}
THERE = "this port answers queries, the ingress (port 4380 by the settings) takes pushes: POST {} there"


@pytest.fixture(scope="module")
def http() -> Iterator[TestClient[Any]]:
    index = MemoryIndex()
    index.create_organisation("acme")
    index.create_api_key("acme", "read", "k", hashlib.sha256(b"key-acme").digest(), None)
    with TestClient(create_app(Settings(internal_token="t"), index)) as found:
        yield found


@pytest.mark.parametrize(
    ("method", "path", "right"),
    [
        ("POST", "/api/v1/query_range", "/prometheus/api/v1/query_range"),
        ("GET", "/api/v1/label/job/values", "/prometheus/api/v1/label/job/values"),
        ("GET", "/api/v1/status/buildinfo", "/prometheus/api/v1/status/buildinfo"),
        ("GET", "/federate", "/prometheus/federate"),
    ],
)
def test_prometheus_without_its_prefix(http: TestClient[Any], method: str, path: str, right: str) -> None:
    answer = http.request(method, path)
    expected = f"Prometheus' API lies under /prometheus here: ask {method} {right}"
    assert (answer.status_code, answer.json()) == (
        404, {"status": "error", "errorType": "not_found", "error": expected},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("/api/traces", "Jaeger's API lies under /jaeger here: ask GET /jaeger/api/traces"),
        ("/api/services", "Jaeger's API lies under /jaeger here: ask GET /jaeger/api/services"),
        (
            "/api/services/a/operations",
            "Jaeger's API lies under /jaeger here: ask GET /jaeger/api/services/a/operations",
        ),
        ("/api/dependencies", "Jaeger's API lies under /jaeger here: ask GET /jaeger/api/dependencies"),
        (
            "/api/traces/ab",
            "traces lie under /tempo and /jaeger here: ask GET /tempo/api/traces/ab or /jaeger/api/traces/ab",
        ),
    ],
)
def test_jaeger_without_its_prefix(http: TestClient[Any], path: str, right: str) -> None:
    answer = http.get(path)
    assert (answer.status_code, answer.json()["message"]) == (404, right)


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("/v1/logs", "/v1/logs"), ("/v1/metrics", "/v1/metrics"), ("/v1/traces/", "/v1/traces"),
        ("/otlp/v1/logs", "/otlp/v1/logs"), ("/api/v1/write", "/api/v1/write"),
        ("/api/v1/push", "/api/v1/write"),
    ],
)  # fmt: skip
def test_a_push_to_the_port_of_queries(http: TestClient[Any], path: str, right: str) -> None:
    answer = http.post(path, content=b"\0", headers=KEY)
    assert (answer.status_code, answer.json()["message"]) == (404, THERE.format(right))


@pytest.mark.parametrize("path", ["/loki/api/v1/push", "/api/prom/push", "/loki//api/v1/push"])
def test_a_loki_push_is_answered_in_lokis_form(http: TestClient[Any], path: str) -> None:
    answer = http.post(path, content=b"\0", headers=KEY)
    assert (answer.status_code, answer.text) == (404, THERE.format("/loki/api/v1/push"))


def test_a_remote_write_is_answered_in_prometheus_form(http: TestClient[Any]) -> None:
    assert http.post("/prometheus/api/v1/write").json()["error"] == THERE.format("/api/v1/write")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/v1/log", "no /v1/log here: the ingress (port 4380 by the settings) has /v1/logs"),
        ("/loki/api/v1/query_rang", "no /loki/api/v1/query_rang here: there is /loki/api/v1/query_range"),
        ("/loki/api/v1/lables/", "no /loki/api/v1/lables here: there is /loki/api/v1/labels"),
        ("/api/v1/log/query", "no /api/v1/log/query here: there is /api/v1/logs/query"),
        ("/api/prom/query", "Loki's API lies under /loki/api/v1 here: ask GET /loki/api/v1/query_range"),
        (
            "/api/prom/label/a/values",
            "Loki's API lies under /loki/api/v1 here: ask GET /loki/api/v1/label/a/values",
        ),
        ("/what", "no /what here: the addresses are listed at /schema and in docs/reference/http-api.md"),
    ],
)  # fmt: skip
def test_misspellings(http: TestClient[Any], path: str, says: str) -> None:
    answer = http.get(path)
    found = answer.json()["message"] if answer.headers["content-type"] == "application/json" else answer.text
    assert (answer.status_code, found) == (404, says)


def test_a_long_path_is_not_repeated(http: TestClient[Any]) -> None:
    answer = http.get("/" + "x/" * 20_000)
    assert answer.status_code == 404
    assert len(answer.text) < 500


@pytest.mark.parametrize("path", ["/api/v1/ping/", "/loki/api/v1/labels/", "/prometheus/api/v1/labels/"])
def test_a_slash_at_the_end_does_no_harm(http: TestClient[Any], path: str) -> None:
    assert http.get(path, headers=KEY).status_code == 200


def test_another_method(http: TestClient[Any]) -> None:
    answer = http.get("/api/v1/logs/explain", headers=KEY)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["message"] == "GET is not taken here: POST is"
    answer = http.delete("/prometheus/api/v1/label/job/values", headers=KEY)
    assert (answer.status_code, answer.json()["error"]) == (405, "DELETE is not taken here: GET is")


@pytest.mark.parametrize(
    ("field", "nearest"),
    [("query", "`q`"), ("start", "`s`"), ("to", "`e`"), ("limits", "`limit`"), ("Q", "`q`")],
)
def test_an_unknown_field_names_the_nearest(http: TestClient[Any], field: str, nearest: str) -> None:
    for path in ("/api/v1/logs/query", "/api/v1/metrics/query"):
        answer = http.post(path, json={"q": "up", field: "1"}, headers=KEY)
        assert answer.status_code == 400
        assert answer.json()["message"].endswith(f"unknown field `{field}`; did you mean {nearest}?"), (
            answer.text
        )
    answer = http.get("/api/v1/metrics/tags", params={field: "1"}, headers=KEY)
    assert answer.json()["message"].endswith(f"did you mean {nearest}?"), answer.text


def test_a_field_like_none_lists_all(http: TestClient[Any]) -> None:
    answer = http.post("/api/v1/logs/query", json={"q": "up", "zzzzz": 1}, headers=KEY)
    assert "there are q, s, e, limit" in answer.json()["message"]


@pytest.mark.parametrize("path", ["/api/v1/ping", "/loki/api/v1/labels", "/prometheus/api/v1/labels"])
def test_a_key_is_of_one_organisation(http: TestClient[Any], path: str) -> None:
    for tenant, status in (("acme", 200), ("", 200), ("beta", 403), ("Acme", 403)):
        answer = http.get(path, headers=KEY | {"X-Scope-OrgID": tenant})
        assert answer.status_code == status
    assert "X-Scope-OrgID is 'Acme', but this API key is of 'acme'" in answer.text
    assert http.get(path, headers={"Api-Key": "?", "X-Scope-OrgID": "acme"}).status_code == 401
