"""The webhook over the index in memory: what is accepted, refused, kept and said."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from lakerunner_ingress.app import create_app
from lakerunner_ingress.notifications.pipeline import NOT_YOURS
from resources.notifications.references import decode_message
from resources.settings import Settings
from tests.support.exposition_parser import parse
from tests.support.ingress.doubles import GOOD, TOKEN, FakeProducer, FlakyIndex, accounts
from tests.support.patience import PATIENCE_S

PATH = "/api/v1/notifications/s3"


@pytest.fixture
def index() -> FlakyIndex:
    return accounts()


@pytest.fixture
def producer() -> FakeProducer:
    return FakeProducer()


@pytest.fixture
def client(index: FlakyIndex, producer: FakeProducer) -> Iterator[TestClient[Any]]:
    with TestClient(create_app(Settings(webhook_token=TOKEN), index, producer)) as found:  # type: ignore[arg-type]
        yield found


Post = Callable[..., Any]


@pytest.fixture
def post(client: TestClient[Any]) -> Post:
    def send(*keys: str, token: str = TOKEN, bucket: str = "raw", name: str = "ObjectCreated:Put") -> Any:
        body = event(*keys, bucket=bucket, name=name)
        return client.post(PATH, content=body, headers={"Authorization": f"Bearer {token}"})

    return send


def event(*keys: str, bucket: str = "raw", name: str = "ObjectCreated:Put") -> bytes:
    records = [
        {
            "eventName": name,
            "eventTime": "2026-01-02T03:04:05.000Z",
            "s3": {"bucket": {"name": bucket}, "object": {"key": key, "size": 9, "eTag": "e"}},
        }
        for key in keys
    ]
    return json.dumps({"Records": records}).encode()


def test_an_accepted_record_is_in_kafka_under_its_signal(post: Post, producer: FakeProducer) -> None:
    answer = post(GOOD, "metrics-raw/beta/a%20b.json")
    assert (answer.status_code, answer.json()) == (202, {"accepted": 2, "ignored": 0, "rejected": []})
    assert [m.topic for m in producer.sent] == ["objstore.ingest.logs", "objstore.ingest.metrics"]
    (record,) = decode_message(producer.sent[1].payload)
    assert (record.key, record.size, record.source) == ("metrics-raw/beta/a b.json", 9, "webhook")


def test_one_bad_record_does_no_harm_and_is_kept(
    post: Post, producer: FakeProducer, index: FlakyIndex
) -> None:
    answer = post(GOOD, "otel-raw/acme/../beta/logs/x", "nowhere/x", "db/acme/x")
    assert answer.status_code == 202
    body = answer.json()
    assert (body["accepted"], body["ignored"]) == (1, 1)
    assert [(r["index"], r["key"]) for r in body["rejected"]] == [
        (1, "otel-raw/acme/../beta/logs/x"),
        (2, "nowhere/x"),
    ]
    assert len(producer.sent) == 1
    assert [(d.source, d.reason) for d in index.dead_letters()] == [
        ("webhook", r["reason"]) for r in body["rejected"]
    ]


def test_a_record_that_is_not_utf8_does_no_harm_to_its_neighbours(
    client: TestClient[Any], producer: FakeProducer, index: FlakyIndex
) -> None:
    body = event(GOOD, "odd").replace(b"odd", b"logs-raw/acme/\xff")
    answer = client.post(PATH, content=body, headers={"Authorization": f"Bearer {TOKEN}"})
    assert (answer.status_code, answer.json()["accepted"]) == (202, 1)
    assert [rejected["index"] for rejected in answer.json()["rejected"]] == [1]
    assert len(producer.sent) == 1
    assert b"\xff" in index.dead_letters()[0].payload


@pytest.mark.parametrize(
    ("key", "bucket", "reason"),
    [
        (GOOD, "strange", "bucket 'strange' is not registered"),
        (GOOD.replace("acme", "nobody"), "raw", "organisation 'nobody' is not registered"),
        (GOOD.replace("acme", "%2e%2e"), "raw", "'..' path part"),
    ],
)
def test_all_rejected_is_400_with_the_same_body(post: Post, key: str, bucket: str, reason: str) -> None:
    answer = post(key, bucket=bucket)
    assert answer.status_code == 400
    assert answer.json()["accepted"] == 0
    assert reason in answer.json()["rejected"][0]["reason"]


def test_deletes_and_test_events_are_ignored(
    post: Post, client: TestClient[Any], producer: FakeProducer
) -> None:
    assert post(GOOD, name="ObjectRemoved:Delete").json() == {"accepted": 0, "ignored": 1, "rejected": []}
    probe = client.post(
        PATH, content=b'{"Event":"s3:TestEvent"}', headers={"Authorization": f"Bearer {TOKEN}"}
    )
    assert (probe.status_code, probe.json()["ignored"]) == (202, 1)
    assert producer.sent == []


def test_a_new_organisation_works_at_once(post: Post, index: FlakyIndex) -> None:
    key = GOOD.replace("acme", "newcomer")
    assert post(key).status_code == 400
    index.create_organisation("newcomer")
    assert post(key).status_code == 202


@pytest.mark.parametrize("header", ["x-cardinalhq-api-key", "Api-Key", "Authorization"])
def test_a_writing_key_may_announce_its_own(client: TestClient[Any], header: str) -> None:
    assert client.post(PATH, content=event(GOOD), headers={header: "acme-write"}).status_code == 202


@pytest.mark.parametrize("key", [GOOD, "edge/logs_a.json", "unmapped/a.json", GOOD.replace("acme", "nobody")])
def test_a_key_learns_nothing_about_what_is_not_its_own(post: Post, producer: FakeProducer, key: str) -> None:
    answer = post(key, token="beta-write")
    assert answer.status_code == 400
    assert answer.json()["rejected"][0]["reason"] == NOT_YOURS
    assert producer.sent == []


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 401, "unauthorized"),
        ({"Authorization": "Bearer wrong"}, 401, "unauthorized"),
        ({"Authorization": "Bearer "}, 401, "unauthorized"),
        ({"Authorization": "Basic webhook-secret"}, 401, "unauthorized"),
        ({"x-cardinalhq-api-key": "acme-read"}, 403, "forbidden"),
    ],
)
def test_who_may_not(client: TestClient[Any], headers: dict[str, str], status: int, code: str) -> None:
    answer = client.post(PATH, content=event(GOOD), headers=headers)
    assert (answer.status_code, answer.json()["status"], answer.json()["code"]) == (status, status, code)


def test_without_a_configured_token_nobody_is_the_webhook(index: FlakyIndex, producer: FakeProducer) -> None:
    with TestClient(create_app(Settings(), index, producer)) as client:  # type: ignore[arg-type]
        for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer webhook-secret"}):
            assert client.post(PATH, content=event(GOOD), headers=headers).status_code == 401


def test_kafka_down_goes_to_the_outbox(post: Post, producer: FakeProducer, index: FlakyIndex) -> None:
    producer.down = True
    assert post(GOOD).status_code == 202
    assert [m.topic for _, m in index._state.outbox] == ["objstore.ingest.logs"]


def test_postgres_down_goes_on_with_the_last_registry(
    post: Post, producer: FakeProducer, index: FlakyIndex
) -> None:
    assert post(GOOD).status_code == 202
    index.down = True
    assert post(GOOD).status_code == 202
    assert len(producer.sent) == 2
    refused = post(GOOD.replace("acme", "nobody"))  # cannot be judged and cannot be kept: to be sent again
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")


def test_both_down_is_503(post: Post, producer: FakeProducer, index: FlakyIndex) -> None:
    assert post(GOOD).status_code == 202
    producer.down = index.down = True
    answer = post(GOOD)
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")


@pytest.mark.parametrize("body", [b"", b"nonsense", b"{}", b"[" * 9000, b'{"Records": 1}'])
def test_what_is_not_an_event_is_400_and_kept(
    client: TestClient[Any], index: FlakyIndex, body: bytes
) -> None:
    answer = client.post(PATH, content=body, headers={"Authorization": f"Bearer {TOKEN}"})
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert [d.payload for d in index.dead_letters()] == [body]


def test_a_body_beyond_the_limit_is_413(client: TestClient[Any]) -> None:
    answer = client.post(PATH, content=b" " * 1_048_577, headers={"Authorization": f"Bearer {TOKEN}"})
    assert (answer.status_code, answer.json()["code"]) == (413, "request_entity_too_large")


def test_other_paths_and_methods_answer_with_the_envelope(client: TestClient[Any]) -> None:
    assert client.get("/nope").json()["code"] == "not_found"
    assert client.get(PATH).json()["status"] == 405


def test_readiness_tells_degraded_from_down(
    client: TestClient[Any], producer: FakeProducer, index: FlakyIndex
) -> None:
    assert client.get("/livez").text == "ok"
    assert client.get("/readyz").json() == {"status": "ready", "kafka": "ok", "postgres": "ok"}
    producer.down = True
    degraded = client.get("/readyz")
    assert (degraded.status_code, degraded.json()["status"]) == (200, "degraded")
    index.down = True
    assert client.get("/healthz").status_code == 503
    assert client.get("/livez").status_code == 200


def test_metrics_count_records_by_outcome(post: Post, client: TestClient[Any]) -> None:
    post(GOOD, "nowhere/x", "db/x")
    text = client.get("/metrics").text
    parse(text)
    assert "lakerunner_index_up 1" in text
    for outcome in ("kafka", "rejected", "ignored"):
        assert f'lakerunner_ingress_records_total{{outcome="{outcome}"}} 1' in text
    assert 'lakerunner_ingress_step_seconds_count{operation="produce",outcome="ok"} 1' in text


def test_an_index_that_never_answers_does_not_stop_what_can_be_placed(
    post: Post, client: TestClient[Any], index: FlakyIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering = threading.Event()
    assert post(GOOD).status_code == 202
    for name, value in (("MAX_AGE_S", 0.0), ("WAIT_S", 0.05), ("WAIT_ON_MISS_S", 0.05)):
        monkeypatch.setattr(f"lakerunner_ingress.registry.{name}", value)
    monkeypatch.setattr(index, "storage_profiles", lambda: answering.wait(PATIENCE_S) and {})
    try:
        assert post(GOOD).status_code == 202
        assert post(GOOD.replace("acme", "nobody")).status_code == 503
        assert not answering.is_set(), "nobody waited for the index"
    finally:
        answering.set()
