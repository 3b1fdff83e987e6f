"""Requests to the wrong address, and the description of the right ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from lakerunner_ingress.addresses import PROFILES_ANSWER
from lakerunner_ingress.app import create_app
from resources.proto.status import Status
from resources.settings import Settings
from tests.support.ingress.doubles import FakeProducer, accounts


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient[Any]]:
    with TestClient(create_app(Settings(query_port=4999), accounts(), FakeProducer())) as found:  # type: ignore[arg-type]
        yield found


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/v1/log", "OTLP logs go to /v1/logs"),
        ("/v1/trace", "OTLP traces go to /v1/traces"),
        ("/metrics/v1/metrics", "OTLP metrics go to /v1/metrics"),
        ("/loki/api/v1/pus", "Loki push goes to /loki/api/v1/push"),
        ("/api/prom/push", "Loki push goes to /loki/api/v1/push"),
        ("/prometheus/api/v1/write", "Prometheus remote write goes to /api/v1/write"),
        ("/api/v1/query", "queries go to the query API (port 4999)"),
        ("/prometheus/api/v1/query_range", "queries go to the query API (port 4999)"),
        ("/loki/api/v1/query_range", "queries go to the query API (port 4999)"),
        ("/opentelemetry.proto.collector.logs.v1.LogsService/Export", "gRPC needs HTTP/2"),
        ("/", "OTLP logs go to /v1/logs, OTLP metrics go to"),
    ],
)
def test_a_wrong_path_is_told_the_right_one(client: TestClient[Any], path: str, text: str) -> None:
    answer = client.post(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert text in answer.json()["message"]


def test_a_push_address_answers_no_queries(client: TestClient[Any]) -> None:
    answer = client.get("/v1/logs")
    assert (answer.status_code, set(answer.headers["allow"].split(", "))) == (405, {"OPTIONS", "POST"})
    assert "telemetry comes by POST" in answer.json()["message"]


@pytest.mark.parametrize("path", ["/v1development/profiles", "/v1/profiles", "/otlp/v1development/profiles"])
def test_profiles_are_refused_for_good(client: TestClient[Any], path: str) -> None:
    assert client.post(path, json={}).json() == {"code": 12, "message": PROFILES_ANSWER}
    answer = client.post(path, content=b"", headers={"content-type": "application/x-protobuf"})
    assert answer.status_code == 501
    assert Status.FromString(answer.content).message == PROFILES_ANSWER


def test_grpc_over_http_1_is_told_where_to_go(client: TestClient[Any]) -> None:
    answer = client.post("/v1/logs", content=b"", headers={"content-type": "application/grpc"})
    assert answer.status_code == 415
    assert "gRPC needs HTTP/2" in answer.json()["message"]


def test_the_description_names_every_push_with_its_bodies_answers_and_keys(client: TestClient[Any]) -> None:
    found = client.get("/schema/openapi.json").json()
    push = found["paths"]["/loki/api/v1/push"]["post"]
    assert set(push["requestBody"]["content"]) == {"application/x-protobuf", "application/json"}
    assert {"204", "400", "429", "503"} <= set(push["responses"])
    assert {"bearer": []} in push["security"]
    assert set(found["components"]["securitySchemes"]) == {"bearer", "basic", "apiKey", "cardinalhqApiKey"}
    paths = {route.path for route in client.app.routes if not route.path.startswith("/schema")}
    assert set(found["paths"]) == paths
