"""CardinalHQ's command line client: requests as it sends them, answers read as it reads them.

It takes every line `data: …` for a row until the one that is `{"type":"done"}` to the byte, and prints of
each row the tags message, level and service_name, with `timestamp_ns` or else `timestamp` as the time.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from lakerunner_query.api.lakerunner import tagged
from lakerunner_query.serving import Failure
from resources.lake.timecut import SECOND_NS
from tests.support.query.lake import BASE, Client, Lake, Line

pytestmark = pytest.mark.integration
HEADERS = {
    "Accept": "text/event-stream",
    "User-Agent": "lakerunner-cli/1.0",
    "Content-Type": "application/json",
}
MS = BASE // 1_000_000
S = SECOND_NS
LINES = (
    Line(1 * S + 7, "GET /checkout 200", attributes={"user": "ann"}),
    Line(2 * S, "GET /cart 500", level=17, trace=bytes(range(16))),
    Line(3 * S, "payment refused", "payments", 13, {"user": "bob"}),
    Line(4 * S, "payment lost", "payments", 17, resource={"k8s.pod.name": "p-1"}),
)


@pytest.fixture(scope="module", autouse=True)
def rows(lake: Lake, client: Client) -> None:
    lake.write("acme", LINES)


def post(client: Client, path: str, body: dict[str, Any]) -> httpx.Response:
    return client.http.post(path, json=body, headers=client.headers | HEADERS)


def read(response: httpx.Response) -> list[dict[str, Any]]:
    """Events that the client takes for rows."""
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = []
    for line in response.text.split("\n"):
        if line.startswith("data: "):
            text = line.removeprefix("data: ").strip()
            if text == '{"type":"done"}':
                return found
            found.append(json.loads(text))
    raise AssertionError("the stream ended without the line that ends it")


def get(client: Client, query: str, **more: Any) -> list[dict[str, Any]]:
    body = {"q": query, "s": str(MS), "e": str(MS + 60_000), "limit": 1000, "reverse": True, **more}
    found = read(post(client, "/api/v1/logs/query", body))
    assert {one["type"] for one in found} <= {"result"}
    return [one["data"] for one in found]


def messages(client: Client, query: str, **more: Any) -> list[str]:
    return [one["tags"]["message"] for one in get(client, query, **more)]


def test_columns(client: Client) -> None:
    """`logs get`: newest first, with the columns it prints."""
    newest, *_, oldest = get(client, '{service_name=~".+"}')
    assert newest["tags"] | {"level": "ERROR", "service": "payments", "k8s_pod_name": "p-1"} == newest["tags"]
    assert newest["tags"]["service_name"] == "payments"
    assert (oldest["timestamp"], oldest["timestamp_ns"]) == (MS + 1000, BASE + S + 7)
    assert (oldest["tags"]["level"], oldest["tags"]["user"]) == ("INFO", "ann")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ('{service=~".+"}', ["payment lost", "payment refused", "GET /cart 500", "GET /checkout 200"]),
        ('{level="ERROR"}', ["payment lost", "GET /cart 500"]),
        ('{service_name="payments", level="ERROR"}', ["payment lost"]),
        ('{service="payments", level!="error"}', ["payment refused"]),
        ('{resource_service_name="web", log_level=~"ERR.*|INFO"} |= "cart"', ["GET /cart 500"]),
        ('{user="bob"}', ["payment refused"]),
        (
            '{service_name=~"web|payments", user!=""} |~ "GET|refused"',
            ["payment refused", "GET /checkout 200"],
        ),
        ('{level="FATAL"}', []),
    ],
)
def test_filters(client: Client, query: str, found: list[str]) -> None:
    assert messages(client, query) == found


def test_columns_that_are_asked_for(client: Client) -> None:
    """`-c timestamp,user` sends the columns that it does not know as fields."""
    found = get(client, '{service="payments"}', fields=["user"], reverse=False)
    assert [set(one["tags"]) - tagged.BASE for one in found] == [{"user"}, set()]
    assert messages(client, '{service="payments"}', limit=1) == ["payment lost"]


@pytest.mark.parametrize(
    ("tag", "values"),
    [
        ("service", ["payments", "web"]), ("service_name", ["payments", "web"]),
        ("level", ["error", "info", "warn"]),
        ("user", ["ann", "bob"]), ("nothing", []),
    ],
)  # fmt: skip
def test_values(client: Client, tag: str, values: list[str]) -> None:
    """`logs get-values`: the tag in the address, the times in the body, events as the answer."""
    times = {"s": str(MS), "e": str(MS + 60_000)}
    found = read(post(client, f"/api/v1/logs/tagvalues?tagName={tag}", times))
    assert [one["data"]["value"] for one in found] == values
    within = read(post(client, f"/api/v1/logs/tagvalues?tagName={tag}", times | {"q": '{service="web"}'}))
    assert {one["data"]["value"] for one in within} <= set(values) - {"payments", "bob", "warn"}


def test_names(client: Client) -> None:
    """`logs get-attr` reads a plain object."""
    found = post(client, "/api/v1/logs/tags", {"s": str(MS), "e": str(MS + 60_000)})
    assert "service_name" in found.json()["tags"]


def test_refusals_keep_their_status(client: Client) -> None:
    refused = post(client, "/api/v1/logs/query", {"q": "{", "s": str(MS), "e": str(MS + 1)})
    assert (refused.status_code, refused.json()["code"]) == (400, "parse_error")


def test_failures_behind_the_first_byte_are_printed() -> None:
    event = json.loads(
        tagged.failure_event(Failure(504, "query_timeout", "no answer")).removeprefix(b"data: ")
    )
    assert event["data"]["tags"] == {"level": "ERROR", "message": "no answer"}


def test_our_own_shape_stays_for_everybody_else(client: Client) -> None:
    (row, *_), done = client.ask('{service_name="payments"}')
    assert row.keys() == {"timestamp", "labels", "metadata", "parsed", "id", "message"}
    assert done["status"] == "complete"
    body = {"q": '{service_name="payments"}', "s": str(BASE), "e": str(BASE + 60 * S)}
    sent = client.headers | {"X-Lakerunner-Shape": "tags"}
    assert read(client.http.post("/api/v1/logs/query", json=body, headers=sent))[0]["data"]["tags"]
    listed = client.http.get(
        "/api/v1/logs/tagvalues", params={"tagName": "service_name"}, headers=client.headers
    )
    assert listed.json()["status"] == "complete"
