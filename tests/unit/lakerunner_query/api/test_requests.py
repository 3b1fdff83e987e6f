"""Requests no honest client sends, and some that honest ones do: refused in words, never a 500."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from lakerunner_query.app import create_app
from lakerunner_query.rules.catalog import put_of
from lakerunner_query.rules.documents import DerivedMetric
from resources.index.memory import MemoryIndex
from resources.lake.layout import Signal
from resources.settings import Settings

LOKI = "/loki/api/v1/query_range"
LOGS = "/api/v1/logs/query"
KEY = {"Api-Key": "key-acme"}
FORM = {**KEY, "Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def http() -> Iterator[TestClient[Any]]:
    """An empty lake: whatever is valid finds nothing."""
    index = MemoryIndex()
    index.create_organisation("acme")
    index.create_api_key("acme", "read", "k", hashlib.sha256(b"key-acme").digest(), None)
    with TestClient(create_app(Settings(internal_token="t"), index)) as found:
        yield found


@pytest.mark.parametrize("value", ["Basic é", "Basic ü:p", "Bearer é", "Basic /w=="])
def test_an_odd_key_is_just_not_a_key(http: TestClient[Any], value: str) -> None:
    headers = {"Authorization": value.encode("latin-1")}
    assert http.get("/api/v1/ping", headers=headers).status_code == 401  # type: ignore[arg-type]


def test_a_form_is_utf8_whether_escaped_or_not(http: TestClient[Any]) -> None:
    """`curl -d 'query={a="é"}'` escapes nothing."""
    for body in ("query={a=é}", "query=%7Ba%3D%C3%A9%7D"):
        answer = http.post(LOKI, headers=FORM, content=body.encode())
        assert (
            answer.text
            == "parse error at line 1, col 4: syntax error: unexpected IDENTIFIER, expecting STRING"
        )
    answer = http.post(LOKI, headers=FORM, content=b'query={a="\xff"}')
    assert (answer.status_code, answer.text) == (400, "parse error at line 1, col 4: invalid UTF-8 encoding")


def test_the_first_of_repeated_parameters_counts(http: TestClient[Any]) -> None:
    answer = http.post(LOKI, headers=FORM, content=b'query={a="b"}&query={&limit=x&limit=1')
    assert answer.text == 'strconv.Atoi: parsing "x": invalid syntax'


def test_a_form_wins_over_the_address(http: TestClient[Any]) -> None:
    answer = http.post(LOKI + "?limit=y", headers=FORM, content=b'query={a="b"}&limit=x')
    assert answer.text == 'strconv.Atoi: parsing "x": invalid syntax'


@pytest.mark.parametrize("files", [{"query": ("f.txt", b'{a="b"}')}, {"query": (None, '{a="b"}')}])
def test_only_url_encoded_forms_are_read(http: TestClient[Any], files: dict[str, Any]) -> None:
    answer = http.post(LOKI, headers=KEY, files=files)
    assert (answer.status_code, answer.text) == (400, "parse error : syntax error: unexpected $end")


def test_a_form_of_too_many_fields(http: TestClient[Any]) -> None:
    answer = http.post(LOKI, headers=FORM, content=b"&".join(b"a%d=" % i for i in range(2000)))
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"q":"{}","fields":' + b"[" * 100_000, b'{"q":"{a=\\"\xff\\"}"}']
)
def test_json_that_cannot_be_read(http: TestClient[Any], body: bytes) -> None:
    answer = http.post(LOGS, headers=KEY, content=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


def test_a_regex_that_only_compiles_unanchored(http: TestClient[Any]) -> None:
    answer = http.get(LOKI, headers=KEY, params={"query": r'{a=~"\\Qx"}'})
    assert answer.status_code == 400
    assert answer.text.startswith("parse error : error parsing regexp: missing closing )")


@pytest.mark.parametrize("text", ["1" * 2_000_000, "now-" + "1" * 50_000 + "x", "now-" + "1h" * 50_000])
def test_a_long_time_is_refused_at_once(http: TestClient[Any], text: str) -> None:
    began = time.process_time()
    answer = http.post(LOGS, headers=KEY, json={"q": '{a="b"}', "s": text})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert len(answer.json()["message"]) < 200
    assert time.process_time() - began < 1


@pytest.mark.parametrize("name", ["since", "step", "interval"])
def test_a_long_duration_is_refused_at_once(http: TestClient[Any], name: str) -> None:
    began = time.process_time()
    answer = http.post(LOKI, headers=KEY, data={"query": '{a="b"}', name: "1" * 50_000 + "x"})
    assert answer.status_code == 400
    assert time.process_time() - began < 1


def test_a_since_before_all_time(http: TestClient[Any]) -> None:
    answer = http.get(LOKI, headers=KEY, params={"query": '{a="b"}', "since": "999999y"})
    assert answer.status_code == 400


@pytest.mark.parametrize("limit", ["1_0", " 5", "٣", "+5.0"])
def test_a_limit_is_plain_digits(http: TestClient[Any], limit: str) -> None:
    assert http.get(LOKI, headers=KEY, params={"query": '{a="b"}', "limit": limit}).status_code == 400


def test_ten_thousand_matchers_take_no_time(http: TestClient[Any]) -> None:
    query = "{" + ",".join(f'a{i}="b"' for i in range(12_000)) + "}"
    began = time.process_time()
    assert http.post(LOKI, headers=KEY, data={"query": query}).status_code == 200
    assert time.process_time() - began < 2


@pytest.mark.parametrize("endpoint", ["query_range", "index/volume_range", "patterns"])
def test_an_answer_of_more_steps_than_anybody_looks_at(http: TestClient[Any], endpoint: str) -> None:
    asked = {"query": '{a="b"}', "start": "0", "end": "1767225600", "step": "10s"}
    answer = http.get(f"/loki/api/v1/{endpoint}", headers=KEY, params=asked)
    assert answer.status_code == 400
    assert answer.text.startswith("exceeded maximum resolution of 11,000 points per time series.")


def test_a_wrong_interval_of_a_service_map_is_named(http: TestClient[Any]) -> None:
    answer = http.get("/api/v1/service-map?start=now&end=now-1h", headers=KEY)
    assert (answer.status_code, answer.json()["message"]) == (400, "start is not before end")
    assert http.get("/api/v1/service-map").status_code == 401


REWRITABLE = {
    LOKI: {"query": 'sum(count_over_time({a="b"}[1m]))', "step": "60"},
    "/prometheus/api/v1/query": {"query": "sum(sum_over_time(a[1m]))"},
    "/tempo/api/metrics/query_range": {"q": "{} | rate()", "step": "60s"},
}


@pytest.mark.parametrize("endpoint", REWRITABLE)
@pytest.mark.parametrize("text", ["false", "true", "maybe"])
def test_derived_metrics_are_switched_off_by_true_or_false(
    http: TestClient[Any], endpoint: str, text: str
) -> None:
    answer = http.get(endpoint, headers=KEY, params={**REWRITABLE[endpoint], "rewrite": text})
    is_refused = "rewrite is true or false, not 'maybe'" in answer.text
    assert (answer.status_code == 400) is is_refused is (text == "maybe")


def test_explain_says_why_a_rule_does_not_serve() -> None:
    index = MemoryIndex()
    index.create_organisation("acme")
    index.create_api_key("acme", "read", "k", hashlib.sha256(b"key-acme").digest(), None)
    index.change_rules("acme", [put_of(DerivedMetric("m", Signal.LOGS, '{a="b"} |= "x"'))], None)
    asked = {"q": 'sum(count_over_time({a="b"}[1m]))', "s": 0, "e": 600_000, "step": "1m"}
    with TestClient(create_app(Settings(internal_token="t"), index)) as http:
        told = http.post("/api/v1/logs/explain", headers=KEY, json=asked).text
        silent = http.post("/api/v1/logs/explain", headers=KEY, json={**asked, "rewrite": False}).text
    assert 'sum(count_over_time({a="b"}[1m])): from records (m, pipeline: their line filters differ)' in told
    assert "from records" not in silent
