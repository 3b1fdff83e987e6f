"""Prometheus' parameters over an empty lake: what is refused, and in which words."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from litestar.testing import TestClient

from lakerunner_query.api.prometheus.params import FOREVER_MS, duration_ns, time_ms, unescape_label
from lakerunner_query.app import create_app
from lakerunner_query.coordinator.locate import Locator, Lookup, RollupLookup, samples_query
from lakerunner_query.plan.promql import Reads
from resources.index.memory import MemoryIndex
from resources.index.types import SegmentQuery, Snapshot, TierQuery
from resources.settings import Settings

KEY = {"Api-Key": "key-acme"}
API = "/prometheus/api/v1/"


@pytest.fixture(scope="module")
def http() -> Iterator[TestClient[Any]]:
    settings = Settings(internal_token="t", worker_urls="http://127.0.0.1:1")
    with TestClient(create_app(settings, _index())) as found:
        yield found


def _index() -> MemoryIndex:
    """An empty lake."""
    index = MemoryIndex()
    index.create_organisation("acme")
    index.create_api_key("acme", "read", "k", hashlib.sha256(b"key-acme").digest(), None)
    return index


RANGE = {"query": "up", "start": "0", "end": "10", "step": "1"}
UNCLOSED = "1:5: parse error: unclosed left parenthesis"
STEP = "zero or negative query resolution step widths are not accepted. Try a positive integer"
RESOLUTION = (
    "exceeded maximum resolution of 11,000 points per timeseries. "
    "Try decreasing the query resolution (?step=XX)"
)
EMPTY = "match[] must contain at least one non-empty matcher"
OVERFLOW = 'cannot parse "1e10" to a valid duration. It overflows int64'
REFUSED: list[tuple[str, dict[str, str], str, str]] = [
    # path, parameters, the one that is wrong (where Prometheus names it), why
    ("query", {"query": "sum("}, "query", UNCLOSED),
    ("query", {}, "query", "unknown position: parse error: no expression found in input"),
    ("query", {"query": "1", "time": "x"}, "time",
     """invalid time value for 'time': cannot parse "x" to a valid timestamp"""),
    ("query", {"query": "1", "timeout": "5ps"}, "timeout", 'cannot parse "5ps" to a valid duration'),
    ("query", {"query": "1", "limit": "x"}, "limit", 'strconv.Atoi: parsing "x": invalid syntax'),
    ("query", {"query": "1", "limit": "-1"}, "limit", "limit must be non-negative"),
    ("query", {"query": "1", "limit": "9" * 30}, "limit",
     f'strconv.Atoi: parsing "{"9" * 30}": value out of range'),
    ("query", {"query": "1", "lookback_delta": "x"}, "",
     'error parsing lookback delta duration: cannot parse "x" to a valid duration'),
    ("query_range", RANGE | {"start": ""}, "start", 'cannot parse "" to a valid timestamp'),
    ("query_range", RANGE | {"end": "-1"}, "end", "end timestamp must not be before start time"),
    ("query_range", RANGE | {"step": "0"}, "step", STEP),
    ("query_range", RANGE | {"step": "-1m"}, "step", 'cannot parse "-1m" to a valid duration'),
    ("query_range", RANGE | {"step": "1e10"}, "step", OVERFLOW),
    ("query_range", RANGE | {"end": "11001"}, "", RESOLUTION),
    ("query_range", RANGE | {"query": "up[5m]"}, "query",
     'invalid expression type "range vector" for range query, must be Scalar or instant Vector'),
    ("query_range", RANGE | {"query": '"x"'}, "query",
     'invalid expression type "string" for range query, must be Scalar or instant Vector'),
    ("series", {}, "", "no match[] parameter provided"),
    ("series", {"match[]": "{}"}, "match[]", EMPTY),
    ("series", {"match[]": '{a=~".*",b!="x"}'}, "match[]", EMPTY),
    ("series", {"match[]": "up", "start": "now"}, "start",
     """invalid time value for 'start': cannot parse "now" to a valid timestamp"""),
    ("label/U__/values", {}, "", 'invalid label name: ""'),
    ("metadata", {"limit": "x"}, "", "limit must be a number"),
    ("query_exemplars", {"query": "up", "start": "2", "end": "1"}, "",
     "end timestamp must not be before start timestamp"),
    ("query_exemplars", {"query": "sum("}, "", UNCLOSED),
    ("format_query", {"query": "sum("}, "query", UNCLOSED),
    ("parse_query", {"query": "sum("}, "query", UNCLOSED),
]  # fmt: skip


@pytest.mark.parametrize(("path", "params", "name", "reason"), REFUSED)
def test_refused(http: TestClient[Any], path: str, params: dict[str, str], name: str, reason: str) -> None:
    response = http.get(API + path, params=params, headers=KEY)
    body = response.json()
    assert (response.status_code, body["status"], body["errorType"]) == (400, "error", "bad_data")
    assert body["error"] == (f'invalid parameter "{name}": {reason}' if name else reason)


def test_many_points_are_no_error_yet(http: TestClient[Any]) -> None:
    """They pass the check, and then nobody is there to answer."""
    response = http.get(API + "query_range", params=RANGE | {"end": "10999"}, headers=KEY)
    assert (response.status_code, response.json()["errorType"]) == (503, "unavailable")


def test_who_has_no_key_is_told_in_the_same_envelope(http: TestClient[Any]) -> None:
    response = http.get(API + "query", params={"query": "1"})
    assert (response.status_code, response.json()["status"]) == (401, "error")
    assert http.get("/prometheus/-/healthy").text == "Prometheus Server is Healthy.\n"
    assert http.get(API + "status/buildinfo").status_code == 401


def test_what_is_not_there(http: TestClient[Any]) -> None:
    response = http.get(API + "nothing", headers=KEY)
    assert (response.status_code, response.json()["errorType"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("labels", []), ("series?match[]=up", []), ("label/job/values", []), ("metadata", {}),
        ("query_exemplars?query=up", []), ("rules", {"groups": []}), ("alerts", {"alerts": []}),
        ("format_query?query=sum(a)by(b)", "sum by (b) (a)"),
    ],
)  # fmt: skip
def test_an_empty_lake(http: TestClient[Any], path: str, data: object) -> None:
    assert http.get(API + path, headers=KEY).json() == {"status": "success", "data": data}


@pytest.mark.parametrize("name", ["time", "timeout", "lookback_delta", "limit"])
def test_long_values_are_refused_at_once(http: TestClient[Any], name: str) -> None:
    began = time.process_time()
    answer = http.post(API + "query", data={"query": "1", name: "1" * 500_000 + "x"}, headers=KEY)
    assert answer.status_code == 400
    assert len(answer.text) < 1000
    assert time.process_time() - began < 1


def test_the_tree_of_a_query(http: TestClient[Any]) -> None:
    text = 'sum by (job) (rate(up{a!="b"}[5m] offset 1m)) > bool on (job) group_left () -x @ end()'
    found = http.get(API + "parse_query", params={"query": text}, headers=KEY).json()["data"]
    assert (found["type"], found["op"], found["bool"]) == ("binaryExpr", ">", True)
    assert found["matching"] == {
        "card": "many-to-one", "labels": ["job"], "on": True, "include": [], "fillValues": {},
    }  # fmt: skip
    assert found["rhs"]["type"] == "unaryExpr"
    assert found["rhs"]["expr"]["startOrEnd"] == "end"
    left = found["lhs"]
    assert (left["type"], left["op"], left["param"], left["grouping"]) == (
        "aggregation",
        "sum",
        None,
        ["job"],
    )
    assert left["expr"]["func"] == {
        "name": "rate",
        "argTypes": ["matrix"],
        "variadic": 0,
        "returnType": "vector",
    }
    (selector,) = left["expr"]["args"]
    assert (selector["type"], selector["range"], selector["offset"]) == ("matrixSelector", 300_000, 60_000)
    assert {"name": "a", "value": "b", "type": "!="} in selector["matchers"]


def test_validate(http: TestClient[Any]) -> None:
    def ask(q: str) -> dict[str, Any]:
        found: dict[str, Any] = http.post("/api/v1/promql/validate", json={"q": q}, headers=KEY).json()
        return found

    assert ask("sum(a)by(b)") == {
        "valid": True, "type": "instant vector", "formatted": "sum by (b) (a)", "selectors": ["a"],
    }  # fmt: skip
    wrong = ask("up\nup")
    assert wrong["valid"] is False
    assert wrong["error"]["code"] == "parse_error"
    assert wrong["error"]["position"]["line"] == 2


def test_features_that_are_switched_off_are_no_language(http: TestClient[Any]) -> None:
    text = "mad_over_time(up[5m])"
    with TestClient(create_app(Settings(internal_token="t", query_features=""), _index())) as plain:
        for path in ("query", "format_query", "parse_query", "query_exemplars"):
            refused = plain.get(API + path, params={"query": text}, headers=KEY)
            assert (refused.status_code, "is not enabled" in refused.text) == (400, True), path
        assert plain.get(API + "status/flags", headers=KEY).json()["data"]["enable-feature"] == ""
        verdict = plain.post("/api/v1/promql/validate", json={"q": text}, headers=KEY).json()
    assert verdict["valid"] is False
    assert http.get(API + "format_query", params={"query": text}, headers=KEY).json()["data"] == text


METRICS = [
    ({"q": "up", "step": "0s"}, "step must be at least a millisecond"),
    ({"q": "up", "s": "2000000000", "e": "1000000000"}, "s is after e"),
    ({"q": "up", "limit": -1}, "limit must not be negative"),
    ({"q": "sum("}, "1:5: parse error: unclosed left parenthesis"),
]


@pytest.mark.parametrize(("body", "message"), METRICS)
def test_streams_are_refused_before_they_begin(
    http: TestClient[Any], body: dict[str, object], message: str
) -> None:
    answer = http.post("/api/v1/metrics/query", json=body, headers=KEY)
    assert (answer.status_code, answer.json()["message"]) == (400, message)


@pytest.mark.parametrize("path", ["tags", "tagvalues", "metadata"])
def test_names_are_refused_in_words(http: TestClient[Any], path: str) -> None:
    for params in ({"unknown": "1"}, {"limit": "x"}, {"s": "x"}, {"tag": "a", "q": "up{"}):
        answer = http.get(f"/api/v1/metrics/{path}", params=params, headers=KEY)
        assert (answer.status_code, answer.json()["status"]) == (400, 400), params
    answer = http.post(f"/api/v1/metrics/{path}", content=b"[", headers=KEY)
    assert answer.status_code == 400


@given(st.integers(-(10**11), 10**11), st.integers(0, 999))
@settings(max_examples=100)
def test_times_are_exact_to_the_millisecond(seconds: int, ms: int) -> None:
    """A double holds these; the text may be cut nowhere else."""
    sign = -1 if seconds < 0 else 1
    assert time_ms(f"{seconds}.{ms:03d}") == seconds * 1000 + sign * ms


def test_times_and_durations() -> None:
    assert time_ms("2026-01-01T00:00:00Z") == 1_767_225_600_000
    assert time_ms("2026-01-01T02:00:00.9999+02:00") == 1_767_225_600_999
    assert time_ms("1.7672256e9") == 1_767_225_600_000
    assert duration_ns("1d") == 86_400 * 10**9
    assert duration_ns(".25") == 250_000_000
    for text in ("", "abc", "NaN", "Inf", "1_0", "2026-13-01T00:00:00Z", "2026-01-01"):
        with pytest.raises(ValueError, match="cannot parse"):
            time_ms(text)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12))
@settings(max_examples=100)
def test_escaped_names_come_back(name: str) -> None:
    """As Grafana writes them: letters and digits as they are, `__` for `_`, the rest in hexadecimal."""
    escaped = "".join(
        "__" if c == "_" else c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in name
    )
    assert unescape_label(f"U__{escaped}") == name


@pytest.mark.parametrize("name", ["U__a_", "U__a_zz_", "U__a_0000041_", "U___d800_", "U___110000_"])
def test_what_is_no_escape_stays(name: str) -> None:
    assert unescape_label(name) == name


def test_times_beyond_all_samples_are_no_question_the_index_cannot_hold() -> None:
    asked: list[int] = []

    class Index:
        def snapshot(self, questions: Sequence[SegmentQuery], tiers: TierQuery, _counted: object) -> Snapshot:
            for one in (*questions, tiers):
                asked.extend((one.start_ns, one.end_ns))
            return Snapshot(((),))

    question = samples_query("acme", Reads((), -FOREVER_MS, FOREVER_MS))
    lookup = Lookup((question,), RollupLookup("acme", (), -FOREVER_MS, FOREVER_MS))
    asyncio.run(Locator(Index()).look_up(lookup, deadline=1e9))  # type: ignore[arg-type]
    assert len(asked) == 4
    assert all(-(2**63) <= time < 2**63 for time in asked)
    assert asked[0] < -(2**62) < 2**62 < asked[1]
