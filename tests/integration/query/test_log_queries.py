"""Log queries over real segments, with results checked by hand."""

from __future__ import annotations

import json

import pytest

from resources.lake.timecut import SECOND_NS
from tests.support.exposition_parser import parse
from tests.support.query.lake import BASE, Client, Lake, Line

pytestmark = pytest.mark.integration

S = SECOND_NS
TRACE = bytes(range(16))
LINES = (
    Line(1 * S, "GET /checkout 200 took 12ms", attributes={"http.status_code": 200, "user": "ann"}),
    Line(2 * S, "GET /cart 500 took 7ms", level=17, attributes={"http.status_code": 500}, trace=TRACE),
    Line(3 * S, 'payment refused: card "expired"', "payments", 13, {"retry": True}),
    Line(3 * S + 1, "payment accepted", "payments", 9, {"amount": 12.5}),
    Line(4 * S, "multi\nline\nstack", "payments", 17),
    Line(5 * S, "100% done; a'b; DROP TABLE logs; --", "web", 5),
    Line(6 * S, "Ünïcode ✓ naïve", "web", resource={"k8s.pod.name": "web-1"}),
    Line(6 * S, "Ünïcode ✓ naïve", "web", resource={"k8s.pod.name": "web-1"}),
    Line(7 * S, "under_score and percent%sign and back\\slash", "web"),
    Line(8 * S + 123456789, "nanoseconds", "api"),
)


@pytest.fixture(scope="module", autouse=True)
def rows(lake: Lake, client: Client) -> None:
    """Two segments that overlap in time, and one of somebody else."""
    lake.write("acme", LINES[0::2])
    lake.write("acme", LINES[1::2])
    lake.add_org("other", "key-other")
    lake.write("other", [Line(2 * S, "secret of other", "web")])


GOLDEN = [
    ('{service_name="web"} |= "GET"', [0, 1]),
    ('{service_name="web"} |= "GET" != "500"', [0]),
    ('{service_name="web"} |~ "took 1?2?7?ms"', [0, 1]),
    ('{service_name="web"} |~ "took \\\\d+ms$"', [0, 1]),
    ('{service_name="web"} |~ "^took"', []),
    ('{service_name=~"web|payments"} |= "payment" or "cart"', [1, 2, 3]),
    ('{service_name=~"web|payments"} != "payment" or "GET" or "code"', [4, 5, 8]),
    ('{service_name!="web", service_name=~".+"}', [2, 3, 4, 9]),
    ('{service_name!~"web|api", service_name!=""}', [2, 3, 4]),
    ('{service_name=~"w.*"} |= "100%"', [5]),
    ('{service_name=~"we"}', []),  # label regexes are anchored
    ('{service_name=~"(?i)WEB"} |= "a\'b; DROP TABLE logs; --"', [5]),
    ('{service_name="payments"} |= `card "expired"`', [2]),
    ('{service_name="payments"} |~ "multi.line"', []),  # . is not a newline in a line regex
    ('{service_name="payments"} |~ "(?s)multi.line"', [4]),
    ('{service_name="payments"} |~ "(?P<outcome>re|acc)[ceptfusd]+$"', [3]),
    ('{service_name="payments"} |~ "(?<outcome>re|acc)[ceptfusd]+$"', [3]),  # Go and new RE2 only
    ('{service_name="payments"} !~ "(?<outcome>re|acc)[ceptfusd]+$"', [2, 4]),
    ('{service_name=~"(?<s>pay)ments"} |~ "(?<outcome>acc)"', [3]),
    ('{service_name="payments"} |~ "accept(?:)"', [3]),  # DuckDB alone: only at the end of the line
    ('{service_name="payments"} |~ "(?s:)accept"', [3]),
    ('{service_name="web"} |= "✓ naïve"', [6, 7]),
    ('{service_name="web"} |~ "(?i)ÜNÏCODE"', [6, 7]),
    ('{service_name="web"} |= "under_score" |= "%sign" |= `back\\slash`', [8]),
    ('{service_name="web"} |= "underXscore"', []),  # _ and % are not wildcards
    ('{service_name="web"} |= ""', [0, 1, 5, 6, 7, 8]),
    ('{service_name="web"} != ""', []),
    ('{service_name="web"} !~ "GET|code|under"', [5]),
    ('{service_name="nobody"}', []),
    ('{service_name=~".+", missing="x"}', []),
    ('{service_name=~".+", missing=""}', list(range(10))),
    ('{service_name=~".+", missing!="x"} |= "nano"', [9]),
    ('{service_name="web"} |= "1\' OR 1=1 --"', []),
    ('{service_name="web"} |= "$v0 ? $1 {}"', []),
]


@pytest.mark.parametrize(("query", "expected"), GOLDEN, ids=[query for query, _ in GOLDEN])
def test_golden(client: Client, query: str, expected: list[int]) -> None:
    assert client.lines(query, reverse=False) == [LINES[i].text for i in expected]


@pytest.mark.parametrize("query", [query for query, _ in GOLDEN])
def test_backward_is_forward_reversed(client: Client, query: str) -> None:
    forward, _ = client.ask(query, reverse=False)
    backward, _ = client.ask(query, reverse=True)
    assert backward == forward[::-1]


def test_range_is_start_inclusive_end_exclusive_to_the_nanosecond(client: Client) -> None:
    def between(start: int, end: int) -> list[str]:
        bounds = {"s": str(BASE + start), "e": str(BASE + end)}
        return client.lines('{service_name="payments"}', **bounds, reverse=False)

    assert between(3 * S, 3 * S + 1) == [LINES[2].text]
    assert between(3 * S + 1, 3 * S + 2) == [LINES[3].text]
    assert between(3 * S + 2, 4 * S) == []
    assert between(3 * S, 3 * S) == []


def test_paging_by_time_sees_every_row_once(client: Client) -> None:
    seen: list[str] = []
    end = BASE + 3600 * S
    while page := client.ask('{service_name=~".+"}', limit=3, e=str(end))[0]:
        boundary = int(page[-1]["timestamp"])
        whole = client.ask('{service_name=~".+"}', s=str(boundary), e=str(end))[0]
        seen += [row["id"] for row in whole]
        end = boundary
    assert len(seen) == len(set(seen)) == len(LINES)


def test_limit_takes_the_newest_or_the_oldest(client: Client) -> None:
    assert client.lines('{service_name=~".+"}', limit=2) == ["nanoseconds", LINES[8].text]
    assert client.lines('{service_name=~".+"}', limit=2, reverse=False) == [LINES[0].text, LINES[1].text]


def test_a_row_shows_labels_metadata_and_exact_time(client: Client) -> None:
    (row,), done = client.ask('{service_name="web"} |= "500"')
    assert row["timestamp"] == str(BASE + 2 * S)
    assert row["labels"] == {"service_name": "web"}
    assert row["metadata"] == {
        "detected_level": "error",
        "http_status_code": "500",
        "scope_name": "shop",
        "severity_number": "17",
        "trace_id": TRACE.hex(),
    }
    assert done["status"] == "complete"
    assert client.ask('{service_name="api"}')[0][0]["timestamp"] == str(BASE + 8 * S + 123456789)


def test_values_have_otel_text_form_and_absent_ones_are_absent(client: Client) -> None:
    refused, accepted, stack = client.ask('{service_name="payments"}', reverse=False)[0]
    assert refused["metadata"]["retry"] == "true"
    assert accepted["metadata"]["amount"] == "12.5"
    assert "amount" not in refused["metadata"]
    assert "http_status_code" not in stack["metadata"]


def test_fields_restrict_labels_and_metadata(client: Client) -> None:
    rows, _ = client.ask('{service_name="web"} |= "500"', fields=["http_status_code"])
    assert rows[0]["metadata"] == {"http_status_code": "500"}
    assert rows[0]["labels"] == {}


def test_loki_drops_identical_rows_and_the_own_api_keeps_them(client: Client) -> None:
    assert len(client.lines('{service_name="web"} |= "naïve"')) == 2
    streams = client.loki('{service_name="web"} |= "naïve"').json()["data"]["result"]
    assert [value for stream in streams for value in stream["values"]] == [[str(BASE + 6 * S), LINES[6].text]]


def test_loki_shape(client: Client) -> None:
    response = client.loki('{service_name="payments"}', direction="forward", limit=2)
    assert response.headers["content-type"] == "application/json; charset=UTF-8"
    body = response.json()
    assert list(body) == ["status", "data"]
    assert list(body["data"]) == ["resultType", "result", "stats"]
    assert body["data"]["resultType"] == "streams"
    assert [stream["values"] for stream in body["data"]["result"]] == [
        [[str(BASE + 3 * S + 1), "payment accepted"]],
        [[str(BASE + 3 * S), LINES[2].text]],
    ]  # streams by label text: amount= before detected_level=
    assert body["data"]["result"][1]["stream"] == {
        "detected_level": "warn", "retry": "true", "scope_name": "shop", "service_name": "payments",
        "severity_number": "13",
    }  # fmt: skip
    assert {"summary", "querier", "ingester", "cache", "index"} <= set(body["data"]["stats"])


def test_loki_categorizes_labels_when_asked(client: Client) -> None:
    flags = {"X-Loki-Response-Encoding-Flags": "categorize-labels"}
    data = client.loki('{service_name="web"} |= "500"', headers=flags).json()["data"]
    assert data["encodingFlags"] == ["categorize-labels"]
    (_, _, extra), *_ = data["result"][0]["values"]
    assert extra["structuredMetadata"]["trace_id"] == TRACE.hex()


def test_loki_post_form_and_unknown_parameters(client: Client) -> None:
    form = {"query": '{service_name="api"}', "start": str(BASE), "end": str(BASE + 60 * S), "x": "1"}
    body = client.http.post("/loki/api/v1/query_range", data=form, headers=client.headers).json()
    assert len(body["data"]["result"]) == 1
    assert body["warnings"] == ["parameter 'x' is unknown and was ignored"]


# what a real Loki answered (shared/corpora/http_shapes/loki_error_*.json)
RECORDED = {
    "parse": "parse error at line 1, col 11: syntax error: unexpected $end, expecting } or ,",
    "empty_matcher": "parse error : queries require at least one regexp or equality matcher that does not "
    'have an empty-compatible value. For instance, app=~".*" does not meet this requirement, but '
    'app=~".+" will',
}


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"query": '{app="web"'}, RECORDED["parse"]),
        ({"query": "{}"}, RECORDED["empty_matcher"]),
        ({"query": '{a="b"}', "direction": "up"}, "invalid direction 'up'"),
        ({"query": '{a="b"}', "limit": "0"}, "limit must be a positive value"),
        ({"query": '{a="b"}', "start": str(BASE + 9 * 3600 * S)},
         "end timestamp must not be before or equal to start time"),
    ],
)  # fmt: skip
def test_loki_errors_are_text_as_loki_has_them(client: Client, params: dict[str, str], text: str) -> None:
    response = client.loki(**params)
    assert response.status_code == 400
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.text == text


def test_a_loki_answer_too_large_for_one_piece_is_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakerunner_query.api.loki.queries.MAX_ANSWER_BYTES", 100)
    response = client.loki('{service_name=~".+"}')
    assert (response.status_code, response.text[:28]) == (400, "the answer is more than 0 Mi")
    assert client.loki('{service_name="nobody"}').status_code == 200


def test_envelope_of_a_parse_error(client: Client) -> None:
    body = {"q": '{a="b"} |= "x"\n | logfmt | | json'}
    response = client.http.post("/api/v1/logs/query", json=body, headers=client.headers)
    assert response.status_code == 400
    said = response.json()
    assert (said["status"], said["code"], said["position"]) == (400, "parse_error", {"line": 2, "column": 13})
    assert said["message"].startswith("parse error at line 2, col 13: syntax error: unexpected |")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"q": '{a="b"}', "unknown": 1}, 400),
        ({}, 400),
        ({"q": 5}, 400),
        ({"q": '{a="b"}', "limit": -1}, 400),
        ({"q": '{a="b"}', "limit": 50_001}, 422),
        ({"q": '{a="b"}', "s": "yesterday"}, 400),
        ({"q": '{a="b"}', "s": "1e40"}, 400),
    ],
)
def test_bad_requests(client: Client, body: dict[str, object], status: int) -> None:
    response = client.http.post("/api/v1/logs/query", json=body, headers=client.headers)
    assert response.status_code == status
    assert set(response.json()) == {"status", "code", "message"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-cardinalhq-api-key": "wrong"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic !!!"},
        {"Authorization": "Digest key-acme"},
        {"x-cardinalhq-api-key": "key-acme "[:-2]},
    ],
)
def test_no_or_wrong_key(client: Client, headers: dict[str, str]) -> None:
    for path in ("/api/v1/ping", "/loki/api/v1/query_range?query={a=%22b%22}"):
        assert client.http.get(path, headers=headers).status_code == 401
    answer = client.http.post("/api/v1/logs/query", json={"q": '{a="b"}'}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")


@pytest.mark.parametrize(
    "headers",
    [
        {"x-cardinalhq-api-key": "key-other"},
        {"Api-Key": "key-other"},
        {"Authorization": "Bearer key-other"},
        {"Authorization": "ApiKey key-other"},
        {"Authorization": "Basic a2V5LW90aGVyOg=="},  # key-other:
        {"Authorization": "Basic dTprZXktb3RoZXI="},  # u:key-other
        {"Authorization": "Basic dTprZXktb3RoZXI"},  # the same, as drivers of Flight SQL write it
    ],
)
def test_every_way_to_present_a_key(client: Client, headers: dict[str, str]) -> None:
    assert client.http.get("/api/v1/ping", headers=headers).json()["organization"] == "other"


def test_an_organisation_sees_only_its_own(client: Client) -> None:
    other = Client(client.http, "key-other")
    assert other.lines('{service_name=~".+"}') == ["secret of other"]
    other.headers["X-Scope-OrgID"] = "other"
    assert other.lines('{service_name=~".+"}') == ["secret of other"]
    other.headers["X-Scope-OrgID"] = "acme"
    assert client.http.post("/api/v1/logs/query", json={"q": "{}"}, headers=other.headers).status_code == 403
    assert client.lines('{service_name=~".+"} |= "secret"') == []


def test_write_keys_may_not_query(client: Client, lake: Lake) -> None:
    lake.add_org("acme", "key-write", "write")
    response = client.http.post("/api/v1/logs/query", json={"q": '{a="b"}'}, headers={"Api-Key": "key-write"})
    assert (response.status_code, response.json()["code"]) == (403, "forbidden")


def test_explain_shows_plan_rules_and_pruning(client: Client) -> None:
    body = {"q": '{service_name=~"api"} |~ "nano"', "s": str(BASE), "e": str(BASE + 60 * S)}
    text = client.http.post("/api/v1/logs/explain", json=body, headers=client.headers).text
    assert 'ReadStreams {service_name="api"}' in text
    assert 'SQL: |= "nano"' in text
    assert "rules: literal-label-regex, literal-line-regex, matcher-terms" in text
    assert "segments: 2 live, 1 pruned by time and terms, 1 may match" in text


def test_health_metrics_schema_and_page(client: Client) -> None:
    for path in ("/livez", "/healthz", "/readyz"):
        assert client.http.get(path).status_code == 200
    client.http.post("/api/v1/logs/query", json={"q": "{"}, headers=client.headers)
    client.http.post("/api/v1/logs/query", json={"q": '{service_name="api"}'}, headers=client.headers)
    numbers = parse(client.http.get("/metrics").text)
    for outcome in ("parse_error", "complete"):
        labels = frozenset({("api", "lakerunner"), ("outcome", outcome)})
        assert numbers["lakerunner_query_seconds_count", labels] >= 1
    labels = frozenset({("route", "/api/v1/logs/query"), ("status", "400")})
    assert numbers["lakerunner_http_request_seconds_count", labels] >= 1
    assert "/api/v1/logs/query" in json.dumps(client.http.get("/schema/openapi.json").json())
    assert "Explore" in client.http.get("/").text
    for name in ("explore.js", "explore.css"):
        assert client.http.get(f"/explore/{name}").status_code == 200
    assert client.http.get("/explore/../app.py").status_code == 404
