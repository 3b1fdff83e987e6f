"""Lakerunner's own endpoints for LogQL: lines and samples as events, which streams there are, verdicts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from resources.lake.timecut import SECOND_NS
from tests.support.query.lake import BASE, Client, Lake, Line

pytestmark = pytest.mark.integration
RANGE = {"s": str(BASE), "e": str(BASE + 600 * SECOND_NS)}


@pytest.fixture(scope="module", autouse=True)
def rows(lake: Lake, client: Client) -> None:
    """A line a second for ten minutes, of two services, one of which speaks JSON."""
    web = [Line(n * SECOND_NS, f'{{"status":{200 + n % 2 * 300},"took":"{n}ms"}}') for n in range(600)]
    lake.write("acme", web)
    lake.write("acme", [Line(n * SECOND_NS, "paid", "payments", 17) for n in range(0, 600, 10)])


def events(client: Client, **body: object) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    response = client.http.post("/api/v1/logs/query", json={**RANGE, **body}, headers=client.headers)
    assert response.status_code == 200, response.text
    found = [json.loads(line[6:]) for line in response.text.split("\n") if line.startswith("data: ")]
    assert found[-1]["type"] == "done", found[-1]
    return found[:-1], found[-1]["data"]


def test_a_line_tells_what_stages_made_of_it(client: Client) -> None:
    (row,) = client.ask('{service_name="web"} | json | took="7ms"', **RANGE)[0]
    assert row["parsed"] == {"status": "500", "took": "7ms"}
    assert row["labels"] == {"service_name": "web"}
    (narrow,) = client.ask('{service_name="web"} | json | took="7ms"', **RANGE, fields=["status"])[0]
    assert (narrow["labels"], narrow["metadata"], narrow["parsed"]) == ({}, {}, {"status": "500"})


def test_samples_come_as_series(client: Client) -> None:
    text = "sum by (service_name) (count_over_time({service_name=~`.+`}[1m]))"
    found, done = events(client, q=text, step="1m", summary=True)
    series = {
        one["data"]["labels"]["service_name"]: one["data"]["values"]
        for one in found
        if "labels" in one["data"]
    }
    assert series["payments"][1] == [BASE // SECOND_NS + 60, "6"]
    assert [value for _, value in series["web"]] == ["1", *["60"] * 9, "59"]
    assert (done["status"], done["step"], done["series"], done["s"]) == (
        "complete",
        60_000,
        2,
        str(BASE // 10**6),
    )
    sums = {one["labels"]["service_name"]: one["sum"] for one in found[-1]["data"]["series"]}
    assert sums == {"payments": 60.0, "web": 600.0}


def test_a_limit_of_samples_is_on_series(client: Client) -> None:
    text = "count_over_time({service_name=~`.+`} | keep service_name [1m])"
    _, done = events(client, q=text, step="1m", limit=1)
    assert (done["series"], done["truncated"]) == (1, True)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"q": '{a="b"}', "step": "1m"}, "step and summary are of queries for samples"),
        ({"q": '{a="b"}', "summary": True}, "step and summary are of queries for samples"),
        ({"q": 'rate({a="b"}[1m])', "fields": ["x"]}, "fields are of queries for lines"),
        ({"q": 'rate({a="b"}[1m])', "limit": -1}, "limit must not be negative"),
    ],
)
def test_what_belongs_to_the_other_kind_is_refused(client: Client, body: dict[str, Any], said: str) -> None:
    response = client.http.post("/api/v1/logs/query", json=body, headers=client.headers)
    assert response.status_code == 400
    assert response.json()["message"].startswith(said)


def test_samples_are_explained(client: Client) -> None:
    body = {"q": 'rate({service_name="web"}[1m])', **RANGE, "step": "1m"}
    text = client.http.post("/api/v1/logs/explain", json=body, headers=client.headers).text
    assert 'rate({service_name="web"}' in text
    assert "segments: 2 live" in text


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_tags_values_and_series(client: Client, method: str) -> None:
    def asked(path: str, **more: object) -> dict[str, Any]:
        given = {**RANGE, **more}
        sent: dict[str, Any] = {"params": given} if method == "GET" else {"json": given}
        return client.http.request(method, f"/api/v1/logs/{path}", headers=client.headers, **sent).json()

    whole = {"status": "complete", "truncated": False, "missing": []}
    assert asked("tags") == {**whole, "tags": ["service_name"]}
    assert asked("tagvalues", tag="service_name") == {**whole, "values": ["payments", "web"]}
    assert asked("tagvalues", tag="service_name", q='{service_name=~"p.*"}')["values"] == ["payments"]
    assert asked("series", limit=1) == {**whole, "truncated": True, "series": [{"service_name": "payments"}]}
    assert asked("tags", e=str(BASE - 1), s=str(BASE - 2))["tags"] == []
    assert asked("tagvalues")["message"] == "tag says which label's values; it is missing"


def test_verdicts(client: Client) -> None:
    def verdict(text: str) -> dict[str, Any]:
        found: dict[str, Any] = client.http.post(
            "/api/v1/logql/validate", json={"q": text}, headers=client.headers
        ).json()
        return found

    selector = '{a="b"}'
    assert verdict('{a="b"}|json') == {
        "valid": True, "type": "streams", "formatted": '{a="b"} | json', "selectors": [selector],
    }  # fmt: skip
    assert verdict('sum(rate({a="b"}[1m])) / sum(rate({a="b"}|="x"[1m]))')["selectors"] == [selector]
    assert (verdict("1+1")["type"], verdict("vector(1)")["type"]) == ("scalar", "vector")
    refused = verdict('{a="b"} | json |')
    assert not refused["valid"]
    assert refused["error"]["position"] == {"line": 1, "column": 17}
