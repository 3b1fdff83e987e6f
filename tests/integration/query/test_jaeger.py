"""Jaeger's API over a small lake says what a Jaeger said of the same spans, as its clients ask for it."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from litestar.testing import TestClient

from lakerunner_assets.materialized.run import DeriveReport, derive_hours
from lakerunner_query.api.jaeger import queries
from lakerunner_query.api.jaeger.version3 import older
from lakerunner_query.app import create_app
from resources.index.types import SegmentQuery
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS
from resources.settings import Settings
from tests.support.cooking_lake import HOUR, Lake, lake_in
from tests.support.materialized.spans import plain_edges, request, traces
from tests.support.query.jaeger_shop import LARGE, MS, SMALL, US, add, recorded, shop, spans_of
from tests.support.query.lake import start_workers

pytestmark = pytest.mark.integration
RECORDED = recorded()
WINDOW = {"start": HOUR // US, "end": HOUR // US + 3_600_000_000}
DURING = {"endTs": HOUR // MS + 3_600_000, "lookback": 3_600_000}
CALLS = traces(random.Random(3), 40, HOUR)
LARGE_ID, SMALL_ID = LARGE.hex(), SMALL.hex()[16:]
OTHERS = (
    ("limit=0", "refused with 500 by that storage, with 400 by others and later versions"),
    ("limit=-1", "the same"),
    ("start=2&end=1", "later versions refuse it"),
    ("%22error%22", "that storage reads the text as false: it finds spans without errors"),
    ("tags=%7B%22a%22%3A1%7D", "the words about JSON are those of another parser"),
    ("tags=%7B", "the same"),
    ("dependencies?endTs=1767229200000&lookback=3600000", "that storage counts calls within a service"),
    ("lookback=3600000&service=db", "that storage counts spans of any kind below one of another service"),
)
"""Recorded requests that are answered otherwise, which other tests look at, by their last characters."""


@dataclass(frozen=True)
class Api:
    http: TestClient  # type: ignore[type-arg]
    lake: Lake
    org: str = "acme"

    def ask(self, path: str, **params: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer key-{self.org}"}
        return self.http.get(f"/jaeger/api{path}", params=params or None, headers=headers)

    def data(self, path: str, **params: Any) -> Any:
        answer = self.ask(path, **params)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def found(self, **params: Any) -> list[str]:
        return [one["traceID"] for one in self.data("/traces", **{**WINDOW, **params})]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("jaeger")
    lake = lake_in(folder)
    for org in ("other", "calling", "unasked"):
        lake.index.create_organisation(org)
    for org in ("acme", "other", "calling", "unasked"):
        raw = hashlib.sha256(f"key-{org}".encode()).digest()
        lake.index.create_api_key(org, "read", f"key-{org}", raw, None)
    lake.arrive("shop", shop().SerializeToString(), HOUR, signal=Signal.TRACES, org="acme")
    lake.cook(Signal.TRACES)
    few = shop()
    del few.resource_spans[:]
    add(spans_of(few, ""), SMALL, 1, 0, "nameless", 2, 5, 1)
    lake.arrive("few", few.SerializeToString(), HOUR, signal=Signal.TRACES, org="other")
    lake.cook(Signal.TRACES)
    for org in ("calling", "unasked"):
        lake.arrive(f"{org}-calls", request(CALLS), HOUR, signal=Signal.TRACES, org=org)
        lake.cook(Signal.TRACES)
    due = dict.fromkeys(("calling", "unasked"), (HOUR - HOUR_NS, HOUR, HOUR + HOUR_NS))
    assert list(derive_hours(lake.run_context(), Signal.TRACES, due, DeriveReport(), force=False))
    data = folder / "data"
    data.mkdir()
    for stack in start_workers(data, folder / "lake", 2):
        with TestClient(create_app(stack.settings, lake.index)) as http:
            yield Api(http, lake)


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists are of the last two days."""
    monkeypatch.setattr("lakerunner_query.api.jaeger.names.time.time_ns", lambda: HOUR + 3_600_000 * MS)


def is_compared(request: str) -> bool:
    return not any(request.endswith(text) or f"{text}%3A" in request for text, _ in OTHERS)


@pytest.mark.parametrize("request_", filter(is_compared, RECORDED))
def test_answers_are_those_of_a_jaeger(api: Api, request_: str) -> None:
    status, body = RECORDED[request_]
    answer = api.ask(request_.removeprefix("GET /api"))
    is_raw = "raw=true" in request_
    mine, theirs = canonical(answer.json(), is_raw=is_raw), canonical(body, is_raw=is_raw)
    assert (answer.status_code, mine) == (status, theirs)


def canonical(body: dict[str, Any], *, is_raw: bool = False) -> dict[str, Any]:
    """Leave out what a Jaeger answers in any order: services, operations, spans, numbers of processes.

    Tags of raw traces stand as they were sent, which is not stored.
    """
    data = body["data"]
    is_traces = bool(data) and isinstance(data[0], dict) and "spans" in data[0]
    if is_traces:
        data = [canonical_trace(one, is_sorted=is_raw) for one in data]
    elif data:
        data = sorted(data, key=json.dumps)
    return {**body, "data": data or []}


def canonical_trace(trace: dict[str, Any], *, is_sorted: bool) -> dict[str, Any]:
    spans = [
        {**one, "processID": trace["processes"][one["processID"]], "warnings": words(one["warnings"])}
        for one in trace["spans"]
    ]
    spans.sort(key=lambda one: (one["startTime"], one["spanID"], one["operationName"]))
    for span in spans:
        span["tags"] = [{**one, "value": spelled(one["value"])} for one in span["tags"]]
        lists = [span["tags"], span["processID"]["tags"], *(one["fields"] for one in span["logs"])]
        for tags in lists if is_sorted else ():
            tags.sort(key=lambda one: one["key"])
    return {**trace, "spans": spans, "processes": len(trace["processes"])}


def words(warnings: list[str] | None) -> list[str]:
    """Spell a warning as later versions do."""
    old, new = "invalid parent span IDs={}; ", "parent span ID={} is not in the trace; "
    parts = [*old.split("{}"), *new.split("{}")]
    return [
        text.replace(parts[0], parts[2]).replace(parts[1], parts[3], 1) if text.startswith(parts[0]) else text
        for text in warnings or ()
    ]


def spelled(value: object) -> object:
    """Read JSON within a tag: Go escapes more characters."""
    return json.loads(value) if isinstance(value, str) and value[:1] in {"[", "{"} else value


def test_enough_is_compared() -> None:
    assert len(list(filter(is_compared, RECORDED))) >= 50
    assert all(any(not is_compared(one) and text in one for one in RECORDED) for text, _ in OTHERS)


def test_grafana_s_data_source_gets_what_it_asks_for(api: Api) -> None:
    assert api.data("/services") == ["cart", "db", "mail/queue", "web"]
    assert api.data("/services/mail/queue/operations") == ["no kind", "receive", "send"]
    found = api.found(
        service="web", limit=20, tags=json.dumps({"http.status_code": "500"}), minDuration="1ms"
    )
    assert found == [LARGE_ID]
    (trace,) = api.data(f"/traces/{LARGE_ID}", **WINDOW)
    assert {one["processID"] for one in trace["spans"]} == set(trace["processes"])


def links_in(api: Api, **params: Any) -> dict[tuple[str, str], int]:
    found = api.data("/dependencies", **{**DURING, **params})
    links = {(one["parent"], one["child"]): one["callCount"] for one in found}
    assert list(links) == sorted(links)
    return links


def test_dependencies_are_the_edges_of_the_service_graph(api: Api) -> None:
    calling = Api(api.http, api.lake, "calling")
    expected: Counter[tuple[str, str]] = Counter()
    for (client, server, connection), count in plain_edges(CALLS, HOUR)[0].items():
        if (client, connection) != ("user", "virtual_node"):
            expected[client, server] += count
    found = links_in(calling)
    assert found == expected
    assert found
    name = next(iter(found))[1]
    assert links_in(calling, service=name) == {link: n for link, n in found.items() if name in link}
    assert links_in(calling, service="nobody") == {}
    assert links_in(calling, endTs=HOUR // MS - 86_400_000) == {}
    assert links_in(calling, endTs=2**62, lookback=10) == {}
    every = links_in(calling, endTs=HOUR // MS + 86_400_000, lookback=2**63 - 1)
    assert all(every[link] >= count for link, count in found.items())
    assert links_in(api) == {}, "spans of another organisation"


def test_an_empty_graph_says_that_none_is_derived(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings, "span_metrics", False)  # of a slot: that of every instance
    answer = api.ask("/dependencies", **DURING).json()
    assert answer["warnings"] == ["no service graph is derived from spans: LAKERUNNER_SPAN_METRICS is false"]


def test_jaeger_s_ui_gets_what_it_asks_for(api: Api) -> None:
    asked = {**WINDOW, "limit": 20, "lookback": "1h", "maxDuration": "", "minDuration": "", "service": "web"}
    assert api.found(**asked, operation="GET /") == [LARGE_ID]
    both = api.data("/traces", traceID=[SMALL_ID, LARGE_ID])
    assert [one["traceID"] for one in both] == [SMALL_ID, LARGE_ID]
    answer = api.ask("/metrics/calls", service="web", endTs=1, lookback=1, step=1, ratePer=1)
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (501, 501)


@pytest.mark.parametrize("is_old", [True, False])
def test_newer_versions_of_its_ui_get_summaries_and_otlp(api: Api, *, is_old: bool) -> None:
    assert api.ask("/v3/services").json() == {"services": ["cart", "db", "mail/queue", "web"]}
    assert api.ask("/v3/operations", service="mail/queue").json()["operations"][0] == {
        "name": "no kind", "spanKind": "internal",
    }  # fmt: skip
    asked = {
        "query.serviceName": "web", "query.operationName": "GET /", "query.attributes": '{"zone":"eu"}',
        "query.startTimeMin": "2026-01-01T00:00:00.000Z", "query.startTimeMax": "2026-01-01T01:00:00.000Z",
        "query.searchDepth": "20", "query.durationMin": "1ms",
    }  # fmt: skip
    (found,) = api.ask(
        "/v3/trace-summaries", **{older(k) if is_old else k: v for k, v in asked.items()}
    ).json()["summaries"]
    assert (found["traceId"], found["traceID"]) == (LARGE_ID, LARGE_ID)
    assert (found["rootServiceName"], found["rootOperationName"]) == ("web", "GET /")
    assert (found["spanCount"], found["errorSpanCount"]) == (6, 1)
    assert found["minStartTimeUnixNano"] == str(HOUR + int(1_000.5 * MS))
    assert [one["name"] for one in found["services"]] == ["cart", "mail/queue", "web"]
    (result,) = api.ask(f"/v3/traces/{LARGE_ID}").json().values()
    spans = [
        one for group in result["resourceSpans"] for part in group["scopeSpans"] for one in part["spans"]
    ]
    assert {one["traceId"] for one in spans} == {LARGE_ID}
    assert {one.get("parentSpanId", "") for one in spans} >= {"", f"{1:016x}"}
    assert spans[0]["links"][0]["traceId"] == SMALL.hex()
    assert api.ask("/v3/traces/77").status_code == 404
    assert api.ask("/v3/trace-summaries").status_code == 400


@pytest.mark.parametrize(
    ("tags", "service", "is_found"),
    [
        ({"error": "true"}, "web", True),
        ({"error": "true"}, "cart", False),
        ({"error": "false"}, "cart", True),
        ({"otel.status_code": "ERROR"}, "web", True),
        ({"otel.status_code": "OK"}, "web", False),
        ({"otel.status_description": "boom"}, "web", True),
        ({"span.kind": "server", "zone": "eu"}, "web", True),
        ({"span.kind": "client", "zone": "eu"}, "web", False),
        ({"otel.scope.name": "net/http"}, "web", True),
        ({"event": "exception"}, "web", True),
        ({'quoted"key`': "\\x`\n"}, "web", False),
        ({"": ""}, "web", False),
    ],
)
def test_tags_of_the_translation_find_spans(
    api: Api, tags: dict[str, str], service: str, is_found: bool
) -> None:
    assert api.found(service=service, tags=json.dumps(tags)) == ([LARGE_ID] if is_found else [])


@pytest.mark.parametrize(
    "params", [{"limit": "0"}, {"limit": "60000"}, {"tags": "{"}, {"tags": '{"a": 1}'}, {"tags": "[]"},
               {"start": 2, "end": 1}, {"lookback": "custom", "start": ""}, {"traceID": ""},
               {"traceID": [f"{number:x}" for number in range(1001)]}, {"tags": '{"a": "\\ud800"}'},
               {"tags": "[" * 10_000}],
)  # fmt: skip
def test_what_is_wrong_is_refused(api: Api, params: dict[str, Any]) -> None:
    answer = api.ask("/traces", **{**WINDOW, "service": "web", **params})
    body = answer.json()
    assert (answer.status_code, body["data"], body["errors"][0]["code"]) == (400, None, 400)
    assert body["errors"][0]["msg"]


def test_keys_and_paths_are_told_in_its_form(api: Api) -> None:
    refused = api.http.get("/jaeger/api/services")
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (401, 401)
    for path in ("/nothing", "/services/web", "/services/web/nothing"):
        assert api.ask(path).json()["errors"][0]["code"] == 404
    assert "expected one of" not in api.ask("/operations", service="web", spanKind="sideways").text


def test_organisations_see_their_own_spans(api: Api) -> None:
    other = Api(api.http, api.lake, "other")
    assert other.data("/services") == ["missing-service-name"]
    assert other.data("/services/missing-service-name/operations") == ["nameless"]
    (trace,) = other.data(f"/traces/{SMALL_ID}")
    assert trace["processes"]["p1"]["serviceName"] == "missing-service-name"
    assert other.found(service="missing-service-name") == [SMALL_ID]
    assert other.ask(f"/traces/{LARGE_ID}").status_code == 404


def test_what_bounds_leave_out_is_told(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "MOST_SPANS", 4)
    answer = api.ask("/traces", **WINDOW, service="mail/queue").json()
    assert [one["traceID"] for one in answer["data"]] == [SMALL_ID]
    assert answer["warnings"] == ["1 more traces match: an answer has at most 4 spans"]


def test_a_segment_that_is_gone_makes_answers_partial(api: Api) -> None:
    other = Api(api.http, api.lake, "other")
    key = next((api.lake.folder / "lake").rglob("*other*/**/*.parquet"))
    moved = key.rename(key.with_suffix(".gone"))
    try:
        for path, params in (
            ("/services", {}), ("/traces", {**WINDOW, "service": "a"}),
        ):  # fmt: skip
            answer = other.ask(path, **params)
            assert (answer.status_code, answer.headers["X-Lakerunner-Partial"]) == (200, "true")
            assert answer.json()["warnings"][0].startswith("partial: 1 segments unreadable")
        assert other.ask("/services", partial_response="false").status_code == 503
    finally:
        moved.rename(key)


def test_a_gap_of_the_graph_makes_dependencies_partial(api: Api) -> None:
    calling = Api(api.http, api.lake, "unasked")
    query = SegmentQuery("unasked", "metrics", 0, 0, 2**62)
    paths = [api.lake.folder / "lake" / one.key for one in api.lake.index.find_segments(query)]
    moved = [path.rename(path.with_suffix(".gone")) for path in paths]
    try:
        answer = calling.ask("/dependencies", **DURING)
        assert (answer.status_code, answer.headers["X-Lakerunner-Partial"]) == (200, "true")
        assert answer.json()["warnings"][0].startswith("partial: ")
    finally:
        for path in moved:
            path.rename(path.with_suffix(".parquet"))


def test_answers_are_indented_on_demand(api: Api) -> None:
    text = api.ask("/services", prettyPrint="true").text
    assert text.startswith('{\n    "data": [\n')
