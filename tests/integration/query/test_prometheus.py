"""Prometheus' API over real segments, with answers worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from resources.index.account_types import MetricFamily
from resources.lake.timecut import SECOND_NS
from tests.support.query.lake import BASE, Client, Lake
from tests.support.query.metric_lake import BASE_MS, BASE_S, labels, write_otlp, write_samples

pytestmark = pytest.mark.integration
TRACE, SPAN = bytes(range(16)), bytes(range(8))
MINUTE = 60_000
BUCKET = {"__name__": "latency_seconds_bucket", "le": "0.5"}


@pytest.fixture(scope="module", autouse=True)
def data(lake: Lake, client: Client) -> None:
    """Two minutes' counters of two jobs, a second apart; a day later one more; and a histogram from OTLP."""
    write_samples(
        lake,
        "acme",
        {
            labels("hits_total", job="a"): [(n * MINUTE, 6.0 * n) for n in range(1, 21)],
            labels("hits_total", job="b"): [(n * MINUTE + 1, 12.0 * n) for n in range(1, 21)],
            labels("level", job="a"): [(MINUTE, 1.0), (2 * MINUTE, 2.0)],
            labels("http.status", job="a", **{"k8s.pod": "p"}): [(MINUTE, 200.0)],
        },
    )
    write_samples(lake, "acme", {labels("late", job="c"): [(24 * 60 * MINUTE, 1.0)]})
    write_otlp(lake, "acme", _otlp(), BASE + 60 * SECOND_NS)
    lake.add_org("other", "key-other-metrics")
    write_samples(lake, "other", {labels("secret", job="other"): [(MINUTE, 1.0)]})


def _otlp() -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    group = request.resource_metrics.add()
    group.resource.attributes.add(key="service.name").value.string_value = "shop"
    metrics = group.scope_metrics.add().metrics
    latency = metrics.add(name="latency", unit="s", description="Time to answer.")
    latency.histogram.aggregation_temporality = 2
    point = latency.histogram.data_points.add(
        time_unix_nano=BASE + 60 * SECOND_NS, count=3, sum=2.3, bucket_counts=[1, 1, 1]
    )
    point.explicit_bounds.extend([0.1, 0.5])
    exemplar = point.exemplars.add(
        time_unix_nano=BASE + 50 * SECOND_NS + 5_000_000, as_double=0.25, trace_id=TRACE, span_id=SPAN
    )
    exemplar.filtered_attributes.add(key="user").value.string_value = "ann"
    orders = metrics.add(name="orders", description="Orders taken.")
    orders.sum.aggregation_temporality, orders.sum.is_monotonic = 2, True
    orders.sum.data_points.add(time_unix_nano=BASE + 60 * SECOND_NS, as_int=7)
    return request


def get(client: Client, path: str, **params: object) -> httpx.Response:
    sent = {name.replace("match", "match[]"): value for name, value in params.items()}
    return client.http.get(f"/prometheus/api/v1/{path}", params=sent, headers=client.headers)  # type: ignore[arg-type]


def data_of(response: httpx.Response) -> Any:
    body = response.json()
    assert (response.status_code, body["status"]) == (200, "success"), body
    return body["data"]


def test_an_instant_vector(client: Client) -> None:
    found = data_of(get(client, "query", query="hits_total", time=BASE_S + 600.5))
    assert found == {
        "resultType": "vector",
        "result": [
            {"metric": {"__name__": "hits_total", "job": "a"}, "value": [BASE_S + 600.5, "60"]},
            {"metric": {"__name__": "hits_total", "job": "b"}, "value": [BASE_S + 600.5, "120"]},
        ],
    }


def test_a_range_of_rates(client: Client) -> None:
    asked = {"start": BASE_S + 600, "end": BASE_S + 720, "step": "1m"}
    found = data_of(get(client, "query_range", query='rate(hits_total{job="a"}[5m])', **asked))
    times = [BASE_S + 600, BASE_S + 660, BASE_S + 720]
    assert found == {
        "resultType": "matrix",
        "result": [{"metric": {"job": "a"}, "values": [[t, "0.1"] for t in times]}],
    }


def test_a_form_and_an_address_together(client: Client) -> None:
    response = client.http.post(
        "/prometheus/api/v1/query?query=2&time=7", data={"query": "1+1"}, headers=client.headers
    )
    assert data_of(response) == {"resultType": "scalar", "result": [7, "2"]}


@pytest.mark.parametrize(
    ("query", "kind", "result"),
    [
        ("1/0", "scalar", [BASE_S, "+Inf"]),
        ("vector(NaN)", "vector", [{"metric": {}, "value": [BASE_S, "NaN"]}]),
        ('"é\\n"', "string", [BASE_S, "é\n"]),
        ("nothing", "vector", []),
        ("nothing[5m]", "matrix", []),
        (f"hits_total{{job='a'}}[2m] @ {BASE_S + 180}", "matrix", [
            {"metric": {"__name__": "hits_total", "job": "a"},
             "values": [[BASE_S + 120, "12"], [BASE_S + 180, "18"]]}]),
    ],
)  # fmt: skip
def test_kinds_of_results(client: Client, query: str, kind: str, result: object) -> None:
    assert data_of(get(client, "query", query=query, time=BASE_S)) == {"resultType": kind, "result": result}


def test_a_scalar_over_a_range_is_a_matrix(client: Client) -> None:
    found = data_of(get(client, "query_range", query="time()", start=1, end=2.5, step=0.5))
    values = [[1, "1"], [1.5, "1.5"], [2, "2"], [2.5, "2.5"]]
    assert found == {"resultType": "matrix", "result": [{"metric": {}, "values": values}]}


def test_histograms_have_keys_of_their_own(client: Client) -> None:
    (one,) = data_of(get(client, "query", query="latency_seconds", time=BASE_S + 60))["result"]
    assert one["histogram"][0] == BASE_S + 60
    assert one["histogram"][1] == {
        "count": "3",
        "sum": "2.3",
        "buckets": [[3, "-Inf", "0.1", "1"], [0, "0.1", "0.5", "1"], [0, "0.5", "+Inf", "1"]],
    }
    asked = {"start": BASE_S + 60, "end": BASE_S + 120, "step": 60}
    (one,) = data_of(get(client, "query_range", query="latency_seconds", **asked))["result"]
    assert [time for time, _ in one["histograms"]] == [BASE_S + 60, BASE_S + 120]
    assert "values" not in one


def test_annotations_are_told_with_their_places(client: Client) -> None:
    body = get(client, "query", query="quantile(2, hits_total)", time=BASE_S + 600).json()
    assert body["warnings"] == ["PromQL warning: quantile value should be between 0 and 1, got 2 (1:10)"]
    body = get(client, "query", query="rate(level[2h])", time=BASE_S + 600).json()
    assert body["infos"] == [
        "PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "
        '"level" (1:6)'
    ]


def test_the_limit_is_told(client: Client) -> None:
    body = get(client, "query", query="hits_total", time=BASE_S + 600, limit=1).json()
    assert [one["metric"]["job"] for one in body["data"]["result"]] == ["a"]
    assert body["warnings"] == ["results truncated due to limit"]
    assert "warnings" not in get(client, "query", query="hits_total", time=BASE_S + 600, limit=2).json()


def test_statistics_only_when_asked(client: Client) -> None:
    found = data_of(get(client, "query", query="hits_total", time=BASE_S + 600, stats="all"))
    assert found["stats"]["samples"]["totalQueryableSamples"] >= 2
    assert set(found["stats"]) == {"timings", "samples", "objectStore"}


def test_the_look_back_is_honoured(client: Client) -> None:
    asked = {"query": "late", "time": BASE_S + 86_400 + 200}
    assert len(data_of(get(client, "query", **asked))["result"]) == 1
    assert data_of(get(client, "query", **asked, lookback_delta="100s"))["result"] == []
    assert (
        len(data_of(get(client, "query", **asked | {"time": BASE_S + 90_000}, lookback_delta="2h"))["result"])
        == 1
    )


def test_what_fails_while_evaluating_is_422(client: Client) -> None:
    response = get(client, "query", query='label_replace(hits_total,"job","","","")', time=BASE_S + 600)
    assert response.status_code == 422
    assert response.json() == {
        "status": "error",
        "errorType": "execution",
        "error": "vector cannot contain metrics with the same labelset",
    }


def test_series(client: Client) -> None:
    day = {"start": BASE_S, "end": BASE_S + 3600}
    found = data_of(
        get(client, "series", match=['hits_total{job="b"}', "http.status", '{"http.status"}'][::2], **day)
    )
    assert found == [
        {"__name__": "hits_total", "job": "b"},
        {"__name__": "http.status", "job": "a", "k8s.pod": "p"},
    ]
    body = get(client, "series", match="hits_total", limit=1, **day).json()
    assert body["data"] == [{"__name__": "hits_total", "job": "a"}]
    assert body["warnings"] == ["results truncated due to limit"]
    assert data_of(get(client, "series", match="late", **day)) == []
    assert data_of(get(client, "series", match="late")) == [{"__name__": "late", "job": "c"}]
    assert data_of(get(client, "series", match='secret{job="other"}')) == []


def test_ends_of_the_range_are_included(client: Client) -> None:
    at = BASE_S + 86_400
    assert len(data_of(get(client, "series", match="late", start=at, end=at))) == 1
    assert data_of(get(client, "series", match="late", start=at + 0.001, end=at + 9)) == []


def test_labels(client: Client) -> None:
    found = data_of(get(client, "labels"))
    assert {"__name__", "job", "k8s.pod", "le"} <= set(found)
    assert found == sorted(found)
    assert data_of(get(client, "labels", match='{job="a"}')) == ["__name__", "job", "k8s.pod"]
    assert get(client, "labels", limit=1).json()["data"] == ["__name__"]


def test_label_values(client: Client) -> None:
    assert {"a", "b", "c"} <= set(data_of(get(client, "label/job/values")))
    assert data_of(get(client, "label/job/values", match="hits_total")) == ["a", "b"]
    assert data_of(get(client, "label/U__k8s_2e_pod/values")) == ["p"]
    assert data_of(get(client, "label/__name__/values", match='{job="shop"}', end=BASE_S + 3600)) == [
        "latency_seconds_bucket", "latency_seconds_count", "latency_seconds_sum", "orders_total",
    ]  # fmt: skip
    assert data_of(get(client, "label/nothing/values")) == []


def test_metadata(client: Client) -> None:
    day = {"start": BASE_S, "end": BASE_S + 86_400}
    response = get(client, "metadata", **day)
    assert "x-lakerunner-partial" not in response.headers
    found = data_of(response)
    assert found["latency_seconds"] == [{"type": "histogram", "help": "Time to answer.", "unit": "s"}]
    assert found["orders_total"] == [{"type": "counter", "help": "Orders taken.", "unit": ""}]
    assert found["hits_total"] == [{"type": "gauge", "help": "", "unit": ""}]
    assert list(data_of(get(client, "metadata", metric="orders_total", **day))) == ["orders_total"]
    assert len(data_of(get(client, "metadata", limit=2, **day))) == 2
    assert data_of(get(client, "metadata")) == {}  # nothing came within the last day
    assert "secret" not in found


def test_metadata_that_remote_write_told_apart_from_samples(client: Client, lake: Lake) -> None:
    requests = MetricFamily("http_requests_total", "counter", "", "Requests.")
    lake.index.put_metric_metadata("acme", [requests, MetricFamily("rtt", "summary", "", "Round trip.")])
    try:
        entry = {"type": "counter", "help": "Requests.", "unit": ""}
        assert data_of(get(client, "metadata"))["http_requests_total"] == [entry]
        assert list(data_of(get(client, "metadata", metric="http_requests_total"))) == ["http_requests_total"]
        (part,) = data_of(get(client, "metadata", metric="rtt_count"))["rtt_count"]
        assert part == {"type": "summary", "help": "Round trip.", "unit": ""}
        assert data_of(get(client, "metadata", metric="rtt_bucket")) == {}
    finally:
        lake.index._state.metadata.clear()  # the lake is shared by the tests of this module


@pytest.mark.parametrize(
    ("query", "series"),
    [
        ("histogram_quantile(0.9, rate(latency_seconds_bucket[5m]))", BUCKET),
        ('latency_seconds_bucket{le="0.5"}', BUCKET),
        ("latency_seconds", {"__name__": "latency_seconds"}),
    ],
)  # fmt: skip
def test_exemplars(client: Client, query: str, series: dict[str, str]) -> None:
    (found,) = data_of(get(client, "query_exemplars", query=query, start=BASE_S, end=BASE_S + 59))
    assert series.items() <= found["seriesLabels"].items()
    assert found["seriesLabels"]["job"] == "shop"
    assert found["exemplars"] == [
        {
            "labels": {"span_id": SPAN.hex(), "trace_id": TRACE.hex(), "user": "ann"},
            "value": "0.25",
            "timestamp": BASE_S + 50.005,
        }
    ]


def test_no_exemplars(client: Client) -> None:
    range_ = {"start": BASE_S, "end": BASE_S + 3600}
    assert data_of(get(client, "query_exemplars", query='latency_seconds_bucket{le="0.1"}', **range_)) == []
    assert data_of(get(client, "query_exemplars", query="hits_total", **range_)) == []
    assert data_of(get(client, "query_exemplars", query="latency_seconds", start=BASE_S + 51)) == []
    assert get(client, "query_exemplars", query="1", **range_).json() == {"status": "success"}


def test_answers_are_compressed_for_who_takes_it(client: Client) -> None:
    asked = {"query": "time()", "start": BASE_S, "end": BASE_S + 1000, "step": 1}
    packed = client.http.get(
        "/prometheus/api/v1/query_range", params=asked, headers={**client.headers, "Accept-Encoding": "gzip"}
    )
    plain = client.http.get(
        "/prometheus/api/v1/query_range",
        params=asked,
        headers={**client.headers, "Accept-Encoding": "identity"},
    )
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) * 2 < int(plain.headers["content-length"])
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json()


def test_missing_segments_are_said(client: Client, lake: Lake) -> None:
    """In an organisation of its own, since a lost segment stays lost."""
    lake.add_org("holey", "key-holey")
    write_samples(lake, "holey", {labels("up", job="good"): [(MINUTE, 1.0)]})
    lost = write_samples(lake, "holey", {labels("up", job="bad"): [(MINUTE, 1.0)]})
    (lake.folder / lost.key).unlink()
    mine = Client(client.http, "key-holey")
    for path, params in (
        ("query", {"query": "up", "time": BASE_S + 60}),
        ("series", {"match": "up"}),
        ("label/job/values", {}),
        ("query_range", {"query": "up", "start": BASE_S + 60, "end": BASE_S + 90, "step": 30}),
    ):
        response = get(mine, path, **params)
        assert response.headers["x-lakerunner-partial"] == "true", path
        assert response.json()["warnings"][0].startswith("partial: 1 segments unreadable"), path
        assert "good" in response.text
        refused = get(mine, path, **params, partial_response="false")
        assert (refused.status_code, refused.json()["errorType"]) == (503, "unavailable"), path
    events = sse(mine, q="up", s=str(BASE_S + 60), e=str(BASE_S + 60), step="30s")
    assert events[-1]["data"]["status"] == "partial"
    assert [one["segment_id"] for one in events[-1]["data"]["missing"]] == [lost.segment_id]


def sse(client: Client, **body: object) -> list[dict[str, Any]]:
    response = client.http.post("/api/v1/metrics/query", json=body, headers=client.headers)
    assert response.status_code == 200, response.text
    return [json.loads(line[6:]) for line in response.text.split("\n") if line.startswith("data: ")]


def test_a_stream_of_events(client: Client) -> None:
    events = sse(
        client, q="hits_total", s=str(BASE_MS + 601_500), e=str(BASE_MS + 665_000), step="1m", summary=True
    )
    kinds = [event["type"] for event in events]
    assert kinds == ["result", "result", "summary", "done"]
    assert events[0]["data"] == {
        "labels": {"__name__": "hits_total", "job": "a"},
        "values": [[BASE_S + 600, "60"], [BASE_S + 660, "66"]],
    }
    assert events[2]["data"]["series"][0] == {
        "labels": {"__name__": "hits_total", "job": "a"},
        "points": 2, "min": 60.0, "max": 66.0, "sum": 126.0, "avg": 63.0, "last": 66.0,
    }  # fmt: skip
    done = events[-1]["data"]
    assert (done["status"], done["series"], done["points"]) == ("complete", 2, 4)
    assert (done["s"], done["e"], done["step"]) == (str(BASE_MS + 600_000), str(BASE_MS + 660_000), 60_000)


def test_a_stream_with_a_limit_and_without_names(client: Client) -> None:
    events = sse(client, q="rate(hits_total[5m])", s=str(BASE_S + 600), e=str(BASE_S + 600), step=60, limit=1)
    (result,) = [event["data"] for event in events if event["type"] == "result"]
    assert result == {"labels": {"job": "a"}, "values": [[BASE_S + 600, "0.1"]]}
    assert events[-1]["data"]["truncated"] is True


def test_a_stream_that_fails_says_so(client: Client) -> None:
    events = sse(
        client,
        q='label_replace(hits_total,"job","","","")',
        s=str(BASE_S + 600),
        e=str(BASE_S + 600),
        step=60,
    )
    assert [event["type"] for event in events] == ["error", "done"]
    assert events[0]["data"] == {
        "status": 422, "code": "execution", "message": "vector cannot contain metrics with the same labelset",
    }  # fmt: skip
    assert events[1]["data"] == {"status": "error"}


def test_explain(client: Client) -> None:
    body = {
        "q": 'sum(rate(hits_total{job="a"}[5m]))',
        "s": str(BASE_S + 600),
        "e": str(BASE_S + 660),
        "step": "30s",
    }
    text = client.http.post("/api/v1/metrics/explain", json=body, headers=client.headers).text
    low, high = BASE_MS + 300_000, BASE_MS + 660_000
    assert f'Read {{__name__="hits_total",job="a"}} in ({low}, {high}], terms 2: 1 segments, 43 rows' in text
    assert "segments: 3 live, 2 pruned by time and terms, 1 may match" in text
    assert "slices: 1" in text


def test_names_of_metrics(client: Client) -> None:
    range_ = {"s": str(BASE_S), "e": str(BASE_S + 3600)}

    def ask(path: str, **more: object) -> dict[str, Any]:
        response = client.http.post(f"/api/v1/metrics/{path}", json=range_ | more, headers=client.headers)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    assert ask("tags", metric="hits_total")["tags"] == ["__name__", "job"]
    assert ask("tagvalues", tag="job", q='{__name__=~"hits.*"}')["values"] == ["a", "b"]
    assert ask("tagvalues", tag="job", limit=1) == {
        "status": "complete", "values": ["a"], "truncated": True, "missing": [],
    }  # fmt: skip
    (orders,) = ask("metadata", metric="orders_total")["metrics"]
    assert orders == {
        "name": "orders_total", "type": "counter", "unit": "", "description": "Orders taken.",
        "temporality": "cumulative",
    }  # fmt: skip
    response = client.http.get(
        "/api/v1/metrics/tagvalues", params={**range_, "tag": "job", "limit": "2"}, headers=client.headers
    )
    assert response.json()["values"] == ["a", "b"]
