"""Lakerunner's own endpoints for traces: searches and series as events, names, whole traces assembled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.support.query.traced_shop import BEGIN, BROWSE, CHECKOUT, END, MS, Shop, open_shop

pytestmark = pytest.mark.integration
RANGE = {"s": BEGIN, "e": END}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(tmp_path_factory.mktemp("shop")) as found:
        yield found


def events(shop: Shop, q: str, **fields: object) -> list[tuple[str, Any]]:
    answer = shop.http.post("/api/v1/spans/query", json={"q": q, **RANGE, **fields}, headers=shop.headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    found = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line]
    return [(one["type"], one["data"]) for one in found]


def get(shop: Shop, path: str, **params: object) -> dict[str, Any]:
    answer = shop.http.get(f"/api/v1{path}", params=params, headers=shop.headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def trace(shop: Shop, trace_id: str = CHECKOUT, **params: object) -> dict[str, Any]:
    return get(shop, f"/traces/{trace_id}", **params)


def test_a_search_streams_traces_newest_first(shop: Shop) -> None:
    found = events(shop, "{} | select(span.width)")
    assert [kind for kind, _ in found] == ["result", "result", "done"]
    (_, newest), (_, oldest), (_, done) = found
    assert [newest["trace_id"], oldest["trace_id"]] == [BROWSE, CHECKOUT]
    assert (newest["root_service"], newest["root_name"], newest["duration_ns"]) == ("web", "GET /", 50 * MS)
    assert oldest["services"]["db"] == {"spans": 1, "errors": 1}
    assert [one["attributes"]["width"] for one in newest["sets"][0]["spans"]] == [50, 20]
    assert (done["status"], done["traces"], done["stats"]["spans_read"] > 0) == ("complete", 2, True)


def test_a_limit_keeps_the_newest(shop: Shop) -> None:
    found = events(shop, "{}", limit=1, spans=1)
    assert [one["trace_id"] for kind, one in found if kind == "result"] == [BROWSE]
    assert len(found[0][1]["sets"][0]["spans"]) == 1


def test_a_metrics_query_gives_series(shop: Shop) -> None:
    found = events(shop, "{} | count_over_time() by (resource.service.name)", step="60s", e=BEGIN + 90)
    counts = {
        one["labels"]["resource.service.name"]: one["values"] for kind, one in found if kind == "result"
    }
    assert counts["web"] == [[BEGIN, "0"], [BEGIN + 60, "2"], [BEGIN + 120, "1"]]
    assert counts["db"][1] == [BEGIN + 60, "1"]
    exemplars = [each["trace_id"] for _, one in found[:-1] for each in one["exemplars"]]
    assert {CHECKOUT, BROWSE} == {*exemplars}
    kind, done = found[-1]
    assert (kind, done["status"], done["step"], done["e"]) == (
        "done",
        "complete",
        60_000,
        f"{BEGIN + 120}000",
    )
    cut = events(shop, "{} | rate() by (resource.service.name)", limit=2)[-1][1]
    assert (cut["series"], cut["truncated"]) == (2, True)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"q": "{ foo"}, "line 1"),
        ({"q": "{}", "step": "5s"}, "step is of queries for series"),
        ({"q": "{} | rate()", "spans": 5}, "spans is of searches"),
        ({"q": "{}", "limit": 0}, "limit must be positive"),
        ({"q": "{}", "query": 1}, "did you mean `q`?"),
        ({"q": "{} | rate()", "step": "1ms"}, "steps"),
    ],
)
def test_wrong_requests_are_refused(shop: Shop, fields: dict[str, object], said: str) -> None:
    answer = shop.http.post("/api/v1/spans/query", json={**RANGE, **fields}, headers=shop.headers)
    failure = answer.json()
    assert answer.status_code == 400, answer.text
    assert said in failure["message"] + f" line {failure.get('position', {}).get('line')}"


@pytest.mark.parametrize(
    ("q", "spelled"),
    [
        ('{service_name="web"} |= "paid"', "{ resource.service.name = `web` }"),
        ('{app="web", zone!~"eu.*"}', "{ (.app = `web`) && (.zone !~ `eu.*`) }"),
        ('sum by (app) (rate({app="web"}[5m]))', "{ .app = `web` }"),
    ],
)
def test_logql_is_refused_with_the_spelling_for_spans(shop: Shop, q: str, spelled: str) -> None:
    for path in ("query", "explain"):
        answer = shop.http.post(f"/api/v1/spans/{path}", json={"q": q, **RANGE}, headers=shop.headers)
        failure = answer.json()
        assert (answer.status_code, failure["code"]) == (400, "parse_error"), answer.text
        advice = f"this is LogQL: for spans write {spelled}, for log lines ask /api/v1/logs/query"
        assert failure["message"].endswith(advice)
        assert failure["position"]["line"] == 1
    checked = shop.http.post("/api/v1/traceql/validate", json={"q": q}, headers=shop.headers).json()
    assert spelled in checked["error"]["message"]
    assert events(shop, spelled)[-1][1]["status"] == "complete"


def test_streams_of_spans_do_not_go_on(shop: Shop) -> None:
    answer = shop.http.post(
        "/api/v1/spans/query", json={"q": "{}"}, headers={**shop.headers, "Last-Event-ID": "x"}
    )
    assert (answer.status_code, answer.json()["code"]) == (409, "cannot_resume")


def test_names_and_values_are_spelled_as_traceql_spells_them(shop: Shop) -> None:
    found = get(shop, "/spans/tags", **RANGE)
    assert {"resource.service.name", "span.owner", "span.width", "event.exception.message"} <= {
        *found["tags"]
    }
    assert "duration" in found["intrinsics"]
    services = get(shop, "/spans/tagvalues", tag="resource.service.name", q="{ status = error }", **RANGE)
    assert (services["values"], set(services["types"])) == (["db", "payments", "web"], {"string"})
    refused = shop.http.get("/api/v1/spans/tagvalues", params={"tag": "{"}, headers=shop.headers)
    assert refused.status_code == 400


def test_a_query_is_validated_and_explained(shop: Shop) -> None:
    checked = shop.http.post(
        "/api/v1/traceql/validate", json={"q": "{status=error}|rate()"}, headers=shop.headers
    )
    assert checked.json() == {"valid": True, "type": "series", "formatted": "{ status = error } | rate()"}
    wrong = shop.http.post("/api/v1/traceql/validate", json={"q": "{"}, headers=shop.headers).json()
    assert (wrong["valid"], wrong["error"]["position"]["line"]) == (False, 1)
    plan = shop.http.post("/api/v1/spans/explain", json={"q": "{}", **RANGE}, headers=shop.headers)
    assert "segments: 3 live" in plan.text


def test_a_trace_is_assembled_from_all_its_objects(shop: Shop) -> None:
    found = trace(shop)
    spans = {one["name"]: one for one in found["spans"]}
    assert [one["name"] for one in found["spans"]] == [
        "POST /checkout", "render", "charge", "send", "INSERT", "write",
    ]  # fmt: skip
    assert [one["depth"] for one in found["spans"]] == [0, 1, 1, 2, 2, 0]
    assert (found["status"], found["root"], found["duration_ns"]) == ("complete", 0, 1_000 * MS)
    assert found["counts"] == {
        "spans": 6, "errors": 3, "roots": 1, "orphans": 1, "duplicates": 1, "services": 5
    }  # fmt: skip
    assert spans["POST /checkout"]["self_ns"] == (1_000 - 40 - 800) * MS
    assert spans["charge"]["self_ns"] == (800 - 25 - 600) * MS
    assert spans["charge"]["attributes"] == {"owner": "acme", "width": 800}
    assert spans["charge"]["events"][0]["attributes"] == {"exception.message": "duplicate key"}
    assert found["resources"][spans["INSERT"]["resource"]] == {"service.name": "db"}


def test_the_critical_path_fills_the_trace(shop: Shop) -> None:
    found = trace(shop)
    names = [found["spans"][one["span"]]["name"] for one in found["critical_path"]]
    assert names == [
        "POST /checkout", "render", "POST /checkout", "send", "charge", "INSERT", "charge", "POST /checkout",
    ]  # fmt: skip
    assert sum(one["duration_ns"] for one in found["critical_path"]) == 1_000 * MS
    assert found["services"][0]["name"] == "db"
    assert found["services"][0]["critical_ns"] == 600 * MS


def test_what_is_wrong_is_named(shop: Shop) -> None:
    found = trace(shop)
    findings = {one["kind"]: one for one in found["findings"]}
    assert findings.keys() == {"missing_parents", "clock_skew", "duplicates"}
    assert [found["spans"][place]["name"] for place in findings["clock_skew"]["spans"]] == ["send"]
    assert "mail below payments" in findings["clock_skew"]["text"]
    assert next(one for one in found["spans"] if one["name"] == "send")["before_parent_ns"] == 5 * MS
    path = [found["spans"][place]["name"] for place in found["errors"]["path"]]
    assert path == ["POST /checkout", "charge", "INSERT"]
    assert found["gaps"][0] == {"span": 2, "offset_ns": 750 * MS, "duration_ns": 150 * MS}


def test_lines_and_exemplars_belong_to_their_spans(shop: Shop) -> None:
    found = trace(shop)
    lines = [(one["span_id"][-2:], one["message"]) for one in found["logs"]["lines"]]
    assert lines == [
        ("01", "acme: checkout began"),
        ("04", "acme: duplicate key value violates unique constraint"),
        ("63", "acme: a line of a span that is not stored"),
    ]
    assert [one["lines"] for one in found["spans"]] == [1, 0, 0, 0, 1, 0]
    by_field = {(one["span_id"], one["value"], one["series"]["__name__"]) for one in found["exemplars"]}
    assert (f"{1:016x}", 1.0, "http_server_duration_seconds_bucket") in by_field
    by_label = trace(shop, BROWSE)["exemplars"]
    assert {one["value"] for one in by_label} == {0.05}
    bare = trace(shop, logs=0, exemplars="false")
    assert (bare["logs"]["lines"], bare["exemplars"]) == ([], [])
    assert trace(shop, logs=2)["logs"]["truncated"]


def test_a_limit_cuts_what_is_shown_and_says_so(shop: Shop) -> None:
    found = trace(shop, limit=2)
    assert ([one["name"] for one in found["spans"]], found["truncated"]) == (
        ["POST /checkout", "render"],
        True,
    )
    assert found["counts"]["spans"] == 6


@pytest.mark.parametrize(
    ("trace_id", "status", "said"),
    [
        ("9" * 32, 404, "there is no span of trace"),
        ("xyz", 400, "hexadecimal"),
        ("1" * 33, 400, "hexadecimal"),
    ],
)
def test_unknown_and_wrong_ids(shop: Shop, trace_id: str, status: int, said: str) -> None:
    answer = shop.http.get(f"/api/v1/traces/{trace_id}", headers=shop.headers)
    assert (answer.status_code, said in answer.json()["message"]) == (status, True)


def test_a_trace_outside_the_bounds_is_not_found(shop: Shop) -> None:
    answer = shop.http.get(
        f"/api/v1/traces/{CHECKOUT}", params={"s": BEGIN + 90_000, "e": END + 90_000}, headers=shop.headers
    )
    assert answer.status_code == 404
    assert "leave out s and e" in answer.json()["message"]
    assert trace(shop, "1", **RANGE)["counts"]["spans"] == 6


def test_organisations_see_their_own_traces_lines_and_exemplars(shop: Shop) -> None:
    other = trace(replace(shop, org="other"))
    assert {one["attributes"]["owner"] for one in other["spans"]} == {"other"}
    assert all(one["message"].startswith("other: ") for one in other["logs"]["lines"])
    assert {one["series"]["org"] for one in other["exemplars"]} == {"other"}
    assert get(replace(shop, org="other"), "/spans/tagvalues", tag="span.owner", **RANGE)["values"] == [
        "other"
    ]
    found = events(replace(shop, org="other"), '{ span.owner = "acme" }')
    assert [kind for kind, _ in found] == ["done"]
    refused = shop.http.get(f"/api/v1/traces/{CHECKOUT}", headers={"x-cardinalhq-api-key": "key-nobody"})
    assert refused.status_code == 401


@pytest.mark.parametrize("dataset", ["traces", "logs", "metrics"])
def test_a_part_that_is_gone_makes_the_answer_partial(shop: Shop, dataset: str) -> None:
    other = replace(shop, org="other")
    folder = shop.lake.folder / "lake"
    keys = [
        path for path in folder.rglob("*.parquet") if "other" in str(path) and f"/{dataset}/" in str(path)
    ]
    moved = keys[0].rename(keys[0].with_suffix(".gone"))
    try:
        found = trace(other)
        assert (found["status"], len(found["missing"])) == ("partial", 1)
        assert found["warnings"][0].startswith("partial: 1 segments unreadable")
        if dataset == "traces":
            assert events(other, "{}")[-1][1]["status"] == "partial"
    finally:
        moved.rename(keys[0])
    assert trace(other)["status"] == "complete"
