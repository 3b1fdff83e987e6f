"""promql(), logql() and traceql() say what the APIs of Prometheus, Loki and Tempo of the same stack say."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import httpx
import pyarrow as pa
import pytest
from litestar.testing import TestClient

from lakerunner_query.app import create_app
from lakerunner_query.coordinator import lakeql_traces
from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.logql.lang.parser import parse_cached
from lakerunner_query.traceql.lang.ast import Pipeline
from lakerunner_query.traceql.lang.parser import parse
from resources.lake.layout import Signal
from resources.lake.timecut import SECOND_NS
from tests.support.cooking_lake import HOUR, lake_in
from tests.support.query.jaeger_shop import shop
from tests.support.query.lake import BASE, Client, Lake, start_workers
from tests.support.query.two_doors import MINUTES, expressions, write_lines, write_samples

pytestmark = pytest.mark.integration
PROMQL, LOGQL, TRACEQL = expressions("promql"), expressions("logql"), expressions("traceql")
SEARCHES = [text for text in TRACEQL if isinstance(parse(text).body, Pipeline)]
LINES = [text for text in LOGQL if isinstance(parse_cached(text), LogQuery)]
STEP_S = 150
BASE_S = BASE // SECOND_NS
START_S, END_S = BASE_S + 300, BASE_S + MINUTES * 60 + 600
"""Both are multiples of the step; the end lies where the samples are stale."""
US = pa.timestamp("us")
Sample = tuple[frozenset[tuple[str, str]], int, str]
"""Labels, microseconds, and a number's bits or a histogram's JSON."""


@pytest.fixture(scope="module")
def asked(lake: Lake, client: Client) -> Client:
    write_samples(lake, "acme")
    write_lines(lake, "acme")
    return client


def post(client: Client, sql: str, **more: object) -> httpx.Response:
    headers = {**client.headers, "Accept": "application/vnd.apache.arrow.stream"}
    return client.http.post("/api/v1/query", json={"q": sql, **more}, headers=headers)


def table(client: Client, sql: str, **more: object) -> pa.Table:
    answer = post(client, sql, **more)
    assert answer.status_code == 200, answer.text
    return pa.ipc.open_stream(answer.content).read_all()


def between(first_s: int, last_s: int) -> str:
    first, last = (datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S") for at in (first_s, last_s))
    return f"timestamp BETWEEN '{first}' AND '{last}'"


def function(language: str, text: str, *step: str) -> str:
    return f"{language}({', '.join(quoted(one) for one in (text, *step))})"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def samples_of_sql(
    client: Client, language: str, text: str, first_s: int = START_S, last_s: int = END_S
) -> Counter[Sample]:
    source = function(language, text, f"{STEP_S}s")
    rows = table(client, f"SELECT * FROM {source} WHERE {between(first_s, last_s)}")
    assert rows.schema.names == ["timestamp", "value", "labels", "metric_name", "histogram"]
    found: Counter[Sample] = Counter()
    for row, at in zip(rows.to_pylist(), rows["timestamp"].cast(pa.int64()).to_pylist(), strict=True):
        assert (row["value"] is None) != (row["histogram"] is None)
        labels = [*row["labels"], *([("__name__", row["metric_name"])] if row["metric_name"] else [])]
        shown = bits(row["value"]) if row["histogram"] is None else in_order(json.loads(row["histogram"]))
        found[frozenset(labels), at, shown] += 1
    return found


def samples_of_api(series: Iterable[Mapping[str, Any]]) -> Counter[Sample]:
    found: Counter[Sample] = Counter()
    for one in series:
        labels = frozenset(one["metric"].items())
        for at, text in one.get("values", ()):
            found[labels, round(at * 1e6), bits(float(text))] += 1
        for at, histogram in one.get("histograms", ()):
            found[labels, round(at * 1e6), in_order(histogram)] += 1
    return found


def bits(number: float) -> str:
    return "NaN" if math.isnan(number) else struct.pack(">d", number).hex()


def in_order(histogram: Mapping[str, Any]) -> str:
    return json.dumps(histogram, sort_keys=True)


def prometheus(client: Client, text: str) -> httpx.Response:
    asked = {"query": text, "start": START_S, "end": END_S, "step": STEP_S}
    return client.http.get("/prometheus/api/v1/query_range", params=asked, headers=client.headers)  # type: ignore[arg-type]


def loki(client: Client, text: str, **more: object) -> dict[str, Any]:
    asked = {"query": text, "start": START_S * SECOND_NS, "end": END_S * SECOND_NS, **more}
    headers = {**client.headers, "x-loki-response-encoding-flags": "categorize-labels"}
    answer = client.http.get("/loki/api/v1/query_range", params=asked, headers=headers)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["data"]
    return found


def assert_same(mine: Counter[Sample], theirs: Counter[Sample]) -> None:
    assert not mine - theirs, f"only the table function has {list((mine - theirs).items())[:3]}"
    assert not theirs - mine, f"only the API has {list((theirs - mine).items())[:3]}"


@pytest.mark.parametrize("text", PROMQL)
def test_promql(asked: Client, text: str) -> None:
    answer = prometheus(asked, text)
    assert answer.status_code == 200, answer.text
    theirs = samples_of_api(answer.json()["data"]["result"])
    assert theirs or text.startswith(("nothing", "histogram_fraction")), "nothing was compared"
    assert_same(samples_of_sql(asked, "promql", text), theirs)


@pytest.mark.parametrize("text", [text for text in LOGQL if text not in LINES])
def test_logql_samples(asked: Client, text: str) -> None:
    theirs = samples_of_api(loki(asked, text, step=STEP_S)["result"])
    assert theirs or "> 600" in text, "nothing was compared"
    assert_same(samples_of_sql(asked, "logql", text), theirs)


@pytest.mark.parametrize("text", LINES)
def test_logql_lines(asked: Client, text: str) -> None:
    theirs: Counter[Any] = Counter()
    for stream in loki(asked, text, limit=5000)["result"]:
        for at, line, rest in stream["values"]:
            kinds = [in_order(rest.get(kind, {})) for kind in ("structuredMetadata", "parsed")]
            theirs[in_order(stream["stream"]), int(at), line, *kinds] += 1
    bounds = f"{between(START_S, END_S)} AND tsns < {END_S * SECOND_NS}"
    rows = table(asked, f"SELECT * FROM {function('logql', text)} WHERE {bounds}")
    assert rows.schema.names == ["timestamp", "tsns", "message", "labels", "metadata", "parsed"]
    assert rows["timestamp"].cast(pa.int64()).to_pylist() == [one // 1000 for one in rows["tsns"].to_pylist()]
    mine: Counter[Any] = Counter()
    for row in rows.to_pylist():
        kinds = [dict(row[name]) for name in ("labels", "metadata", "parsed")]
        key = in_order(merged(*kinds)), row["tsns"], row["message"], *map(in_order, kinds[1:])
        mine[key] += 1
    assert theirs or "nobody" in text, "nothing was compared"
    assert_same(mine, theirs)


def merged(own: dict[str, str], metadata: dict[str, str], parsed: dict[str, str]) -> dict[str, str]:
    """All labels as Loki shows them: its own come first, and rename metadata of the same name."""
    named = {f"{name}_extracted" if name in own else name: value for name, value in metadata.items()}
    return {**named, **parsed, **own}


def test_there_are_enough_questions() -> None:
    assert len(PROMQL) >= 60
    assert len(LINES) >= 20
    assert len(LOGQL) - len(LINES) >= 20
    assert len(set(PROMQL + LOGQL)) == len(PROMQL + LOGQL)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("promql", "temp"),
        ("promql", "sum(rate(requests_total[5m]))"),
        ("promql", "rate(size[10m])"),
        ("logql", 'sum by (app) (count_over_time({app=~".+"}[5m]))'),
        ("logql", 'approx_topk(1, sum by (app) (count_over_time({app=~".+"}[5m])))'),
    ],
)
def test_one_time_is_an_instant_query(asked: Client, language: str, text: str) -> None:
    path = "/prometheus/api/v1/query" if language == "promql" else "/loki/api/v1/query"
    at_s = START_S + STEP_S
    answer = asked.http.get(path, params={"query": text, "time": at_s}, headers=asked.headers)
    assert answer.status_code == 200, answer.text
    series = [
        {"metric": one["metric"], f"{kind}s": [one[kind]]}
        for one in answer.json()["data"]["result"]
        for kind in ("value", "histogram")
        if kind in one
    ]
    assert series, "nothing was compared"
    assert_same(samples_of_sql(asked, language, text, at_s, at_s), samples_of_api(series))


@pytest.mark.parametrize("text", ["quantile(2, temp)", "rate(temp[2h])", "rate(mixed[10m])", "sum(size) + 1"])
def test_annotations_are_notices(asked: Client, text: str) -> None:
    answer = prometheus(asked, text).json()
    theirs = [*answer.get("warnings", ()), *answer.get("infos", ())]
    source = function("promql", text, f"{STEP_S}s")
    found = post(asked, f"SELECT * FROM {source} WHERE {between(START_S, END_S)}")
    assert sorted(json.loads(found.headers["X-Lakerunner-Notices"])) == sorted(theirs)
    assert theirs


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('"text"', "found a string"),
        ("temp[5m]", "found a range vector"),
        ("label_replace(temp, 'job', '', '', '')", "vector cannot contain metrics with the same labelset"),
        ("sum(", "unclosed left parenthesis"),
    ],
)
def test_what_the_api_refuses_is_refused(asked: Client, text: str, reason: str) -> None:
    answer = post(asked, f"SELECT * FROM {function('promql', text, '1m')} WHERE {between(START_S, END_S)}")
    assert prometheus(asked, text).status_code == answer.status_code
    assert answer.status_code in {400, 422}
    assert reason in answer.json()["message"]


def test_the_interval_without_bounds_is_told(asked: Client) -> None:
    answer = post(asked, "SELECT * FROM promql('temp', '1m')", s=str(BASE), e=str(BASE + SECOND_NS))
    assert json.loads(answer.headers["X-Lakerunner-Notices"]) == [
        "promql() has no lower bound on timestamp: it is read from 2026-01-01T00:00:00Z on"
    ]


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a stack over the spans of a shop."""
    folder = tmp_path_factory.mktemp("spans")
    lake = lake_in(folder)
    lake.index.create_api_key("acme", "read", "k", hashlib.sha256(b"key-acme").digest(), None)
    lake.arrive("shop", shop().SerializeToString(), HOUR, signal=Signal.TRACES, org="acme")
    lake.cook(Signal.TRACES)
    (folder / "data").mkdir()
    for stack in start_workers(folder / "data", folder / "lake", 1):
        with TestClient(create_app(stack.settings, lake.index)) as http:
            yield Client(http, "key-acme")


SPANS_S = {"s": str(HOUR // SECOND_NS), "e": str(HOUR // SECOND_NS + 3600)}


def tempo(client: Client, path: str, **params: object) -> Any:
    asked = {"start": SPANS_S["s"], "end": SPANS_S["e"], **params}
    answer = client.http.get(f"/tempo/api{path}", params=asked, headers=client.headers)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    return answer.json()


def texts(attributes: Iterable[Mapping[str, Any]]) -> str:
    """Return attributes of Tempo's answer as texts by name, the last one of a name."""
    return in_order({one["key"]: shown(one["value"]) for one in attributes})


def shown(value: Mapping[str, Any]) -> str:
    ((kind, found),) = value.items()
    if kind == "arrayValue":
        return json.dumps([shown(one) for one in found["values"]], separators=(",", ":"), ensure_ascii=False)
    if kind == "boolValue":
        return str(found).lower()
    return repr(found).removesuffix(".0") if kind == "doubleValue" else str(found)


@pytest.mark.parametrize("text", SEARCHES)
def test_traceql_spans(traced: Client, text: str) -> None:
    theirs: Counter[Any] = Counter()
    named = f"{text} | select(name, resource.service.name)"
    for trace in tempo(traced, "/search", q=named, limit=1000, spss=0)["traces"]:
        roots = trace["rootServiceName"], trace.get("rootTraceName", "")
        about = trace["traceID"].rjust(32, "0"), *roots, int(trace["startTimeUnixNano"])
        for number, one in enumerate(trace["spanSets"]):
            for span in one["spans"]:
                times = int(span["startTimeUnixNano"]), int(span["durationNanos"])
                facts = span["spanID"], span["name"], *times
                sets = texts(span["attributes"]), texts(one.get("attributes", ()))
                theirs[*about, number, *facts, *sets] += 1
    rows = table(traced, f"SELECT * FROM {function('traceql', text)}", **SPANS_S)
    assert rows["timestamp"].cast(pa.int64()).to_pylist() == [one // 1000 for one in rows["tsns"].to_pylist()]
    mine: Counter[Any] = Counter()
    for row in rows.to_pylist():
        about = row["trace_id"], row["root_service_name"], row["root_name"], row["trace_tsns"]
        facts = row["span_id"], row["name"], row["tsns"], row["duration_ns"]
        sets = in_order(dict(row["attributes"])), in_order(dict(row["set_attributes"]))
        mine[*about, row["span_set"], *facts, *sets] += 1
    assert theirs or "nobody" in text, "nothing was compared"
    assert_same(mine, theirs)


@pytest.mark.parametrize("text", [text for text in TRACEQL if text not in SEARCHES])
def test_traceql_samples(traced: Client, text: str) -> None:
    theirs: Counter[Any] = Counter()
    for one in tempo(traced, "/metrics/query_range", q=text, step="60s")["series"]:
        for sample in one["samples"]:
            found = float(sample.get("value", 0.0))
            theirs[texts(one.get("labels", ())), int(sample["timestampMs"]) * 1000, bits(found)] += 1
    rows = table(traced, f"SELECT * FROM {function('traceql', text, '1m')}", **SPANS_S)
    assert rows.schema.names == ["timestamp", "value", "labels", "metric_name", "histogram"]
    times = rows["timestamp"].cast(pa.int64()).to_pylist()
    mine = Counter(
        (in_order(dict(row["labels"])), at, bits(row["value"]))
        for row, at in zip(rows.to_pylist(), times, strict=True)
    )
    assert theirs, "nothing was compared"
    assert_same(mine, theirs)


def test_spans_of_traceql_join_the_tables(traced: Client) -> None:
    sql = """SELECT t.name, s.kind, t.attributes['http.status_code'] AS code
             FROM traceql('{ span.http.status_code >= 500 }') t JOIN spans s USING (trace_id, span_id)"""
    expected = [{"name": "GET /", "kind": "server", "code": "500"}]
    assert table(traced, sql, **SPANS_S).to_pylist() == expected
    bare = table(traced, "{ status = error }", **SPANS_S)
    assert bare["name"].to_pylist() == ["GET /"]
    assert (
        "traceql('{ status = error }')"
        in post(traced, "EXPLAIN SELECT * FROM traceql('{ status = error }')").text
    )


@pytest.mark.parametrize("text", ["{ foo", "{ status > error }", "{} | nothing()", "up"])
def test_what_is_no_traceql_is_refused_with_its_place(traced: Client, text: str) -> None:
    answer = post(traced, f"SELECT * FROM {function('traceql', text)}", **SPANS_S)
    assert (answer.status_code, answer.json()["position"]) == (400, {"line": 1, "column": 15})


def test_more_spans_than_can_be_held_are_refused(traced: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lakeql_traces, "MOST_SPANS", 3)
    answer = post(traced, "SELECT count(*) FROM traceql('{}')", **SPANS_S)
    assert (answer.status_code, answer.json()["code"]) == (422, "limit_exceeded")
    assert "more than 3 spans" in answer.json()["message"]
