"""What Loki's API tells of streams and of the shape of lines: stream tables, samples and fingerprints."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from resources.lake.timecut import SECOND_NS
from tests.support.query.lake import BASE, Client, Entry, Lake

pytestmark = pytest.mark.integration
MINUTE = 60 * SECOND_NS
EVERY = '{service_name=~".+"}'


@pytest.fixture(scope="module", autouse=True)
def rows(lake: Lake, client: Client) -> None:
    """Two hours: of web a line every 10 s, of db one a minute in the first; and somebody else's."""
    for hour in range(2):
        begin = BASE + hour * 60 * MINUTE
        web: list[Entry] = [
            (begin + n * 10 * SECOND_NS, f"GET /u/{n} took {n}ms", {"user": f"u{n % 3}"}) for n in range(360)
        ]
        db: list[Entry] = [
            (begin + n * MINUTE, json.dumps({"rows": n, "at": {"ms": n / 2}, "app": "x"}), {})
            for n in range(60)
        ]
        streams = [({"service_name": "web", "app": "shop", "pod": f"w{hour}"}, web)]
        lake.push("acme", streams + ([({"service_name": "db", "app": "shop"}, db)] if not hour else []))
    lake.add_org("other", "key-other")
    lake.push("other", [({"service_name": "secret"}, [(BASE, "x", {})])])


def asked(client: Client, path: str, method: str = "GET", **more: object) -> httpx.Response:
    given = {"start": BASE, "end": BASE + 120 * MINUTE, **more}
    sent: dict[str, Any] = {"params": given} if method == "GET" else {"data": given}
    return client.http.request(method, f"/loki/api/v1/{path}", headers=client.headers, **sent)


def data(client: Client, path: str, method: str = "GET", **more: object) -> Any:
    response = asked(client, path, method, **more)
    assert response.status_code == 200, response.text
    assert response.json()["status"] == "success"
    return response.json()["data"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_labels_and_series(client: Client, method: str) -> None:
    assert data(client, "labels", method) == ["app", "pod", "service_name"]
    assert data(client, "labels", method, query='{service_name="db"}') == ["app", "service_name"]
    assert data(client, "series", method, **{"match[]": '{service_name="db"}'}) == [
        {"app": "shop", "service_name": "db"}
    ]
    assert len(data(client, "series", method)) == 3
    both = data(client, "series", method, **{"match[]": ['{pod="w0"}', '{service_name="db"}']})
    assert [one.get("pod") for one in both] == ["w0", None]


def test_values_are_of_the_range(client: Client) -> None:
    assert data(client, "label/pod/values") == ["w0", "w1"]
    assert data(client, "label/pod/values", end=BASE + 60 * MINUTE) == ["w0"]
    assert data(client, "label/service_name/values", query='{pod=~"w.", app!="y"}') == ["web"]
    assert data(client, "label/nobody/values") == []


def test_an_organisation_sees_only_its_own_streams(client: Client) -> None:
    other = Client(client.http, "key-other")
    assert data(other, "label/service_name/values") == ["secret"]
    assert data(other, "series") == [{"service_name": "secret"}]
    assert asked(other, "index/stats", query='{service_name="web"}').json()["entries"] == 0
    assert data(other, "patterns", query='{service_name="web"}') == []


def test_sizes_are_shares_of_segments(client: Client, lake: Lake) -> None:
    whole = asked(client, "index/stats", query=EVERY).json()
    assert list(whole) == ["streams", "chunks", "bytes", "entries"]
    assert (whole["streams"], whole["chunks"], whole["entries"]) == (3, 3, 780)
    stored = sum(path.stat().st_size for path in (lake.folder / "db" / "acme").rglob("*.parquet"))
    assert whole["bytes"] == pytest.approx(stored, abs=2)
    half = asked(client, "index/stats", query='{pod="w0"}', end=BASE + 30 * MINUTE).json()
    assert half["entries"] == pytest.approx(180, abs=1)  # evenly spread


def test_volumes_by_series_and_by_label(client: Client) -> None:
    def volumes(**more: object) -> list[dict[str, str]]:
        found = data(client, "index/volume", query=EVERY, **more)
        assert found["resultType"] == "vector"
        sizes = [int(one["value"][1]) for one in found["result"]]
        assert sizes == sorted(sizes, reverse=True)
        return [one["metric"] for one in found["result"]]

    assert volumes() == [{"service_name": "web"}, {"service_name": "db"}]
    assert volumes(limit=1) == [{"service_name": "web"}]
    assert sorted(map(str, volumes(targetLabels="app,pod"))) == [
        "{'app': 'shop', 'pod': 'w0'}", "{'app': 'shop', 'pod': 'w1'}",
    ]  # fmt: skip
    assert {name for one in volumes(aggregateBy="labels") for name in one} == {"app", "pod", "service_name"}
    assert volumes(aggregateBy="labels", targetLabels="pod") == [{"pod": ""}]


def test_volumes_over_time_add_up(client: Client) -> None:
    found = data(client, "index/volume_range", query='{service_name="web"}', step="30m")
    (series,) = found["result"]
    assert found["resultType"] == "matrix"
    begin = BASE // SECOND_NS
    assert [at for at, _ in series["values"]] == [begin + n * 1800 - 0.001 for n in (1, 2, 3, 4)]
    (whole,) = data(client, "index/volume", query='{service_name="web"}')["result"]
    assert sum(int(size) for _, size in series["values"]) == pytest.approx(int(whole["value"][1]), abs=3)


def test_detected_labels(client: Client) -> None:
    found = asked(client, "detected_labels", query='{service_name="web"}').json()
    assert found == {
        "detectedLabels": [
            {"label": "app", "cardinality": 1}, {"label": "pod", "cardinality": 2},
            {"label": "service_name", "cardinality": 1},
        ]
    }  # fmt: skip


def test_detected_fields_are_of_a_sample(client: Client) -> None:
    response = asked(client, "detected_fields", query='{service_name="db"}', line_limit=10)
    assert response.headers["x-lakerunner-sampled-lines"] == "10"
    fields = {one["label"]: one for one in response.json()["fields"]}
    assert fields["rows"] == {
        "label": "rows", "type": "int", "cardinality": 10, "parsers": ["json"], "jsonPath": ["rows"],
    }  # fmt: skip
    assert (fields["at_ms"]["type"], fields["at_ms"]["jsonPath"]) == ("float", ["at", "ms"])
    assert "app_extracted" in fields  # as a query calls it: app is a label of the stream
    assert "app" not in fields
    assert asked(client, "detected_fields", query=EVERY, line_limit=5001).status_code == 400


def test_fields_of_metadata_and_of_the_querys_own_stages(client: Client) -> None:
    found = asked(client, "detected_fields", query='{pod="w0"} | pattern "GET <path> took <took>"').json()
    fields = {one["label"]: (one["type"], one["parsers"]) for one in found["fields"]}
    assert fields["user"] == ("string", None)
    assert fields["took"] == ("duration", ["pattern"])
    values = asked(client, "detected_field/user/values", query='{pod="w0"}', limit=2).json()
    assert (values["limit"], len(values["values"])) == (2, 2)
    assert asked(client, "detected_field/nobody/values", query=EVERY).json()["values"] == []


def test_patterns_count_every_line_and_find_them(client: Client) -> None:
    (found,) = data(client, "patterns", query='{service_name="web"}', step="600s")
    assert found["pattern"] == "GET /u/<_> took <_>"
    begin = BASE // SECOND_NS
    assert found["samples"] == [[begin + n * 600, 60] for n in range(12)]
    query = f'{{service_name="web"}} |> "{found["pattern"]}"'
    counted = data(client, "query", query=f"sum(count_over_time({query} [3h]))", time=BASE + 120 * MINUTE)
    assert counted["result"][0]["value"][1] == "720"


@pytest.mark.parametrize(
    ("path", "params", "text"),
    [
        ("index/stats", {}, "parse error : syntax error: unexpected $end"),
        ("index/stats", {"query": '{a="b"} |= "x"'}, "only label matchers are supported"),
        ("index/volume", {"query": EVERY, "aggregateBy": "x"}, "invalid aggregation option"),
        ("labels", {"query": '{a="b"} | json'}, "only label matchers are supported"),
        ("series", {"match[]": "{a="},
         "parse error at line 1, col 4: syntax error: unexpected $end, expecting STRING"),
        ("detected_fields", {"query": 'rate({a="b"}[1m])'}, "only log selector is supported"),
        ("patterns", {"query": EVERY, "step": "x"}, 'cannot parse "x" to a valid duration'),
        ("query_range", {"query": '{a="b"}', "interval": "-1"}, "interval must be >= 0"),
        ("query_range", {"query": '{a="b"}', "step": "0.5"},
         "exceeded maximum resolution of 11,000 points per time series. "
         "Try increasing the value of the step parameter"),
    ],
)  # fmt: skip
def test_mistakes_are_told_as_loki_tells_them(
    client: Client, path: str, params: dict[str, str], text: str
) -> None:
    response = asked(client, path, **params)
    assert (response.status_code, response.text) == (400, text)
    assert response.headers["content-type"] == "text/plain; charset=utf-8"


def test_a_mistake_in_a_query_to_format(client: Client) -> None:
    assert data(client, "format_query", query='{a="b"}|json') == '{a="b"} | json'
    response = asked(client, "format_query", query="sum(")
    assert response.status_code == 400
    assert response.json() == {
        "status": "invalid-query", "error": "parse error at line 1, col 5: syntax error: unexpected $end",
    }  # fmt: skip


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_lines_at_an_interval(client: Client, direction: str) -> None:
    found = data(
        client, "query_range", query='{pod="w0"} | keep pod', interval="60s", limit=20, direction=direction
    )
    times = sorted((int(at) - BASE) // SECOND_NS for one in found["result"] for at, _ in one["values"])
    # of 20 lines, ten seconds apart
    assert times == ([0, 60, 120, 180] if direction == "forward" else [3410, 3470, 3530, 3590])


def test_what_is_told_about_the_server(client: Client) -> None:
    limits = asked(client, "drilldown-limits").json()
    assert limits["limits"]["max_entries_limit_per_query"] == 50_000
    assert limits["limits"]["volume_enabled"] is True
    assert asked(client, "status/buildinfo").json()["version"] == "3.5.0"
    assert (asked(client, "rules").status_code, asked(client, "rules").text) == (
        404,
        "no rule groups found\n",
    )


def test_lines_that_are_no_objects_hold_no_fields(client: Client, lake: Lake) -> None:
    deep = '{"a":' * 5000 + "1" + "}" * 5000
    lines = ["{", "{}", '{"a":', "=", '"', deep, "\x00\x01", "a=b=c d", "x" * 100_000]
    entries: list[Entry] = [(BASE + n, line, {}) for n, line in enumerate(lines)]
    lake.push("acme", [({"service_name": "broken"}, entries)])
    found = asked(client, "detected_fields", query='{service_name="broken"}').json()["fields"]
    assert {one["label"] for one in found} <= {"a", "detected_level"}
    told = data(client, "patterns", query='{service_name="broken"}', step="3600s")
    assert sum(count for one in told for _, count in one["samples"]) == len(lines)


def test_health_check_of_grafana(client: Client) -> None:
    found = data(client, "query", query="vector(1)+vector(1)", time=BASE, direction="backward")
    assert found["resultType"] == "vector"
    assert found["result"] == [{"metric": {}, "value": [BASE // SECOND_NS, "2"]}]


def test_more_samples_of_patterns_than_anybody_looks_at(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakerunner_query.api.loki.detected.MAX_SAMPLES", 100)
    refused = asked(client, "patterns", query=EVERY, step="60s")
    assert (refused.status_code, refused.text[:39]) == (400, "the answer has more than 100 samples: u")
    assert asked(client, "patterns", query=EVERY, step="60s", limit=1, end=BASE + 100 * MINUTE).is_success


def test_a_segment_whose_pages_are_damaged_is_left_out_and_that_is_told(client: Client, lake: Lake) -> None:
    lake.add_org("hurt", "key-hurt")
    web = {"service_name": "web"}
    bad = lake.push("hurt", [(web, [(BASE + n, f"gone {n} of {n * n}", {}) for n in range(500)])])
    lake.push("hurt", [(web, [(BASE, "kept", {})])])
    path = lake.folder / bad.key
    content = bytearray(path.read_bytes())
    content[60:400] = (one ^ 0xFF for one in content[60:400])
    path.write_bytes(content)
    hurt = Client(client.http, "key-hurt")
    answers = [
        asked(hurt, "patterns", query=EVERY),
        asked(hurt, "query_range", query=EVERY),
        asked(hurt, "query_range", query=f'sum(count_over_time({EVERY} |= "e" [2h]))', step="2h"),
        asked(
            hurt, "query_range", query=f"sum(count_over_time({EVERY} | logfmt | never=`` [2h]))", step="2h"
        ),
    ]
    for answer in answers:
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-lakerunner-partial"] == "true"
        assert bad.segment_id in answer.json()["warnings"][0]
    found, lines, *counts = (answer.json()["data"] for answer in answers)
    assert [one["pattern"] for one in found] == ["kept"]
    assert [value[1] for one in lines["result"] for value in one["values"]] == ["kept"]
    assert [one["result"][0]["values"][-1][1] for one in counts] == ["1", "1"]
