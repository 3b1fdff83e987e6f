"""Tempo's API over a small lake: whole traces from several objects, each span once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from litestar.testing import TestClient
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from lakerunner_query.app import create_app
from resources.lake.layout import Signal
from tests.support.cooking_lake import HOUR, SECOND, Lake, lake_in
from tests.support.query.lake import start_workers
from tests.support.query.signals_lake import put

pytestmark = pytest.mark.integration
ORGS = ("acme", "other")
WINDOW = {"start": HOUR // SECOND, "end": HOUR // SECOND + 3600}


@dataclass(frozen=True)
class Sent:
    """A span that is sent; times in milliseconds after the hour, ids of one byte."""

    trace: int
    span: int
    parent: int
    service: str
    name: str
    start_ms: int
    width_ms: int
    is_error: bool = False


SHOP = (
    Sent(1, 1, 0, "web", "GET /", 1_000, 900),
    Sent(1, 2, 1, "cart", "cart.get", 1_100, 300),
    Sent(1, 3, 2, "db", "SELECT", 1_150, 200, is_error=True),
    Sent(2, 1, 0, "web", "GET /", 61_000, 50),
    Sent(2, 2, 1, "cart", "cart.get", 61_010, 20),
)
LATE = (Sent(1, 4, 3, "db", "fetch", 1_160, 100), Sent(2, 2, 1, "cart", "cart.get", 61_010, 20))
"""A late span, and one that was sent before."""


def otlp(spans: tuple[Sent, ...], org: str) -> bytes:
    request = ExportTraceServiceRequest()
    for one in spans:
        group = request.resource_spans.add()
        put(group.resource, "service.name", one.service)
        span = group.scope_spans.add().spans.add(name=one.name, kind=2)
        span.trace_id, span.span_id = bytes(15) + bytes([one.trace]), bytes(7) + bytes([one.span])
        span.parent_span_id = bytes(7) + bytes([one.parent]) if one.parent else b""
        span.start_time_unix_nano = HOUR + one.start_ms * 1_000_000
        span.end_time_unix_nano = span.start_time_unix_nano + one.width_ms * 1_000_000
        span.status.code = 2 if one.is_error else 0
        put(span, "owner", org)
        put(span, "width", one.width_ms)
    return request.SerializeToString()


@dataclass(frozen=True)
class Api:
    http: TestClient  # type: ignore[type-arg]
    lake: Lake
    org: str = "acme"

    def get(self, path: str, **params: object) -> dict:  # type: ignore[type-arg]
        answer = self.http.get(f"/tempo/api{path}", params={**WINDOW, **params}, headers=self.headers)
        assert answer.status_code == 200, answer.text
        found: dict = answer.json()  # type: ignore[type-arg]
        return found

    @property
    def headers(self) -> dict[str, str]:
        return {"x-cardinalhq-api-key": f"key-{self.org}"}

    def traces(self, q: str) -> list[tuple[str, int]]:
        return [(one["traceID"], one["spanSets"][0]["matched"]) for one in self.get("/search", q=q)["traces"]]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("tempo")
    lake = lake_in(folder)
    lake.index.create_organisation("other")
    for org in ORGS:
        raw = hashlib.sha256(f"key-{org}".encode()).digest()
        lake.index.create_api_key(org, "read", f"key-{org}", raw, None)
        for number, spans in enumerate((SHOP, LATE)):
            lake.arrive(f"{org}-{number}", otlp(spans, org), HOUR, signal=Signal.TRACES, org=org)
            lake.cook(Signal.TRACES)
    data = folder / "data"
    data.mkdir()
    for stack in start_workers(data, folder / "lake", 2):
        with TestClient(create_app(stack.settings, lake.index)) as http:
            yield Api(http, lake)


@pytest.mark.parametrize(
    ("q", "found"),
    [
        ("{}", [("2", 2), ("1", 4)]),
        ("{ status = error }", [("1", 1)]),
        ('{ name = "GET /" } >> { name = "fetch" }', [("1", 1)]),
        ('{ resource.service.name = "db" } && { resource.service.name = "web" }', [("1", 3)]),
        ("{} | count() = 2", [("2", 2)]),
        ("{ traceDuration > 800ms && nestedSetParent = -1 }", [("1", 1)]),
        ('{ span.owner = "other" }', []),
    ],
)
def test_searches_see_whole_traces_newest_first(api: Api, q: str, found: list[tuple[str, int]]) -> None:
    assert api.traces(q) == found


def test_a_found_trace_says_what_it_is(api: Api) -> None:
    (found,) = api.get("/search", q="{ status = error } | select(span.width)")["traces"]
    assert (found["rootServiceName"], found["rootTraceName"], found["durationMs"]) == ("web", "GET /", 900)
    assert found["serviceStats"]["db"] == {"spanCount": 2, "errorCount": 1}
    (span,) = found["spanSets"][0]["spans"]
    assert span["attributes"] == [
        {"key": "width", "value": {"intValue": "200"}}, {"key": "status", "value": {"stringValue": "error"}},
    ]  # fmt: skip


def test_series_have_exemplars_that_are_traces_of_theirs(api: Api) -> None:
    q = "{} | quantile_over_time(duration, .1, 1) by (resource.service.name)"
    series = api.get("/metrics/query_range", q=q, step="60s", end=WINDOW["start"] + 120)["series"]
    shown = {
        (one["labels"][0]["value"]["stringValue"], each["labels"][0]["value"]["stringValue"], each["value"])
        for one in series for each in one.get("exemplars", [])
    }  # fmt: skip
    assert shown >= {("web", "1", 0.9), ("web", "2", 0.05), ("db", "1", 0.2), ("cart", "1", 0.3)}
    assert all(len(one["labels"]) == 2 for one in series)
    q = "{} | rate()"
    (all_spans,) = api.get("/metrics/query_range", q=q, step="60s", exemplars=2)["series"]
    assert len(all_spans["exemplars"]) == 2
    (none,) = api.get("/metrics/query_range", q=q, step="60s", exemplars=0)["series"]
    assert "exemplars" not in none
    assert all(set(one) == {"labels", "value"} for one in api.get("/metrics/query", q=q)["series"])


def test_windows_without_a_term_are_not_read(api: Api) -> None:
    def jobs(q: str) -> int:
        return int(api.get("/search", q=q)["metrics"].get("totalJobs", 0))

    assert jobs('{ name = "GET /" } >> { name = "fetch" }') > 0
    assert jobs('{ name = "nowhere" }') == jobs('{} >> { resource.service.name = "nowhere" }') == 0
    (zero,) = api.get("/metrics/query_range", q='{ name = "nowhere" } | rate()', step="60s")["series"]
    assert {one["value"] for one in zero["samples"]} == {0}


def test_metrics_count_every_span_once(api: Api) -> None:
    q = "{} | count_over_time() by (resource.service.name)"
    series = api.get("/metrics/query_range", q=q, step="60s", end=WINDOW["start"] + 120)["series"]
    counts = {
        one["labels"][0]["value"]["stringValue"]: [sample["value"] for sample in one["samples"]]
        for one in series
    }
    assert counts == {"web": [0, 1, 1], "cart": [0, 1, 1], "db": [0, 2, 0]}
    (total,) = api.get("/metrics/query", q="{} | sum_over_time(span.width)")["series"]
    assert total["value"] == 900 + 300 + 200 + 100 + 50 + 20


def test_a_trace_by_id_is_what_was_sent(api: Api) -> None:
    path = f"/tempo/api/v2/traces/{1:032x}"
    answer = api.http.get(path, headers={**api.headers, "Accept": "application/protobuf"})
    assert answer.headers["Content-Type"] == "application/protobuf"
    assert api.get(f"/v2/traces/{1:032x}")["trace"]["resourceSpans"]
    plain = api.http.get(
        f"/tempo/api/traces/{2:032x}", headers={**api.headers, "Accept": "application/protobuf"}
    )
    spans = [
        span for group in TracesData.FromString(plain.content).resource_spans
        for scope in group.scope_spans for span in scope.spans
    ]  # fmt: skip
    assert sorted(span.name for span in spans) == ["GET /", "cart.get"]
    missing = api.http.get(f"/tempo/api/traces/{9:032x}", headers=api.headers)
    assert missing.status_code == 404


def test_names_and_values_of_fields(api: Api) -> None:
    scopes = {one["name"]: one["tags"] for one in api.get("/v2/search/tags")["scopes"]}
    assert scopes["span"] == ["owner", "width"]
    assert scopes["resource"] == ["service.name"]
    values = api.get("/v2/search/tag/resource.service.name/values", q="{ status = error }")["tagValues"]
    assert values == [{"type": "string", "value": "db"}]


def test_organisations_see_their_own_spans(api: Api) -> None:
    other = Api(api.http, api.lake, "other")
    assert other.traces('{ span.owner = "other" }') == [("2", 2), ("1", 4)]
    assert other.traces('{ span.owner = "acme" }') == []


@pytest.mark.parametrize("q", ["{ foo", "{ status > error }", "{} | nothing()", "{ name = 5 }"])
def test_what_is_no_query_is_refused_with_its_place(api: Api, q: str) -> None:
    answer = api.http.get("/tempo/api/search", params={**WINDOW, "q": q}, headers=api.headers)
    assert answer.status_code == 400
    assert "line 1" in answer.text


def test_a_segment_that_is_gone_makes_the_answer_partial(api: Api) -> None:
    key = next((api.lake.folder / "lake").rglob("*other*/**/*.parquet"))
    moved = key.rename(key.with_suffix(".gone"))
    other = Api(api.http, api.lake, "other")
    try:
        answer = api.http.get("/tempo/api/search", params={**WINDOW, "q": "{}"}, headers=other.headers)
        assert (answer.status_code, answer.headers["X-Lakerunner-Partial"]) == (200, "true")
        refused = api.http.get(
            "/tempo/api/search", params={**WINDOW, "q": "{}", "partial_response": "false"},
            headers=other.headers,
        )  # fmt: skip
        assert refused.status_code == 503
    finally:
        moved.rename(key)


def diffed(api: Api, **body: object) -> tuple[int, str]:
    answer = api.http.post("/tempo/api/v2/traces/diff", json=body, headers=api.headers)
    return answer.status_code, answer.text


def test_two_traces_are_compared(api: Api) -> None:
    first, second = {"traceId": f"{1:032x}"}, {"traceID": "2", **WINDOW}
    status, text = diffed(api, base=first, compare=second)
    found = json.loads(text)
    assert (status, found["version"]) == (200, "trace-patch-v0")
    assert (found["base"], found["compare"]["spanCount"]) == ({"traceId": f"{1:032x}", "spanCount": 4}, 2)
    assert [one["span"]["name"] for one in found["removed"]] == ["SELECT", "fetch"]
    assert found["added"] == []
    assert {one["span"]["name"] for one in found["modified"]} == {"GET /", "cart.get"}
    same = json.loads(diffed(api, base=first, compare=first)[1])
    assert (same["stats"]["matchedSpans"], same["modified"]) == (4, [])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"base": {"traceId": "1"}}, 400),
        ({"base": {"traceId": "1"}, "compare": {}}, 400),
        ({"base": {"traceId": "1"}, "compare": {"traceId": "x"}}, 400),
        ({"base": {"traceId": "1"}, "compare": {"traceId": "2", "start": 5, "end": 5}}, 400),
        ({"base": {"traceId": "1"}, "compare": {"traceId": "2"}, "format": "trace-summary-v0-native"}, 400),
        ({"base": {"traceId": "1"}, "compare": {"traceId": "9"}}, 404),
    ],
)
def test_what_cannot_be_compared_is_refused(api: Api, body: dict[str, object], status: int) -> None:
    assert diffed(api, **body)[0] == status


def test_a_trace_with_gaps_is_not_compared(api: Api) -> None:
    other = Api(api.http, api.lake, "other")
    key = next((api.lake.folder / "lake").rglob("*other*/**/*.parquet"))
    moved = key.rename(key.with_suffix(".gone"))
    try:
        status, text = diffed(other, base={"traceId": "1"}, compare={"traceId": "2"})
        assert (status, "partial traces cannot be diffed" in text) == (422, True)
    finally:
        moved.rename(key)
