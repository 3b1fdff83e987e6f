"""The webhooks of other clouds, their handshakes, and how a sender proves itself."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from lakerunner_ingress.app import create_app
from lakerunner_ingress.auth import MAX_SKEW_S
from resources.settings import Settings
from tests.support.ingress import payloads
from tests.support.ingress.doubles import GOOD, TOKEN, FakeProducer, FlakyIndex, accounts

S3, GCS, AZURE = (f"/api/v1/notifications/{name}" for name in ("s3", "gcs", "azure"))
HMAC_KEY = "signing-secret"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def index() -> FlakyIndex:
    return accounts()


@pytest.fixture
def producer() -> FakeProducer:
    return FakeProducer()


@pytest.fixture
def client(index: FlakyIndex, producer: FakeProducer) -> Iterator[TestClient[Any]]:
    settings = Settings(webhook_token=TOKEN, webhook_hmac_key=HMAC_KEY)
    with TestClient(create_app(settings, index, producer)) as found:  # type: ignore[arg-type]
        yield found


def body(payload: object) -> bytes:
    return json.dumps(payload).encode()


@pytest.mark.parametrize(
    ("path", "payload"),
    [
        (S3, payloads.minio(GOOD.replace("/", "%2F"))),
        (S3, payloads.sns(payloads.s3(GOOD))),
        (S3, payloads.eventbridge(GOOD)),
        (GCS, payloads.gcs_push(GOOD)),
        (GCS, payloads.gcs_object(GOOD)),
        (AZURE, [payloads.blob(GOOD)]),
        (AZURE, payloads.cloud_event(GOOD)),
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", "text/plain; charset=UTF-8"])
def test_each_address_takes_its_shapes(
    client: TestClient[Any], producer: FakeProducer, path: str, payload: object, content_type: str
) -> None:
    answer = client.post(path, content=body(payload), headers=BEARER | {"Content-Type": content_type})
    assert (answer.status_code, answer.json()) == (202, {"accepted": 1, "ignored": 0, "rejected": []})
    assert producer.keys == [GOOD]


def test_a_refused_message_of_pubsub_is_kept_and_not_sent_again(
    client: TestClient[Any], index: FlakyIndex
) -> None:
    """Pub/Sub repeats what is not answered with 2xx: each time would be one more dead letter."""
    for sent in (body(payloads.gcs_push("nowhere/x")), b"nonsense"):
        answer = client.post(GCS, content=sent, headers=BEARER)
        assert (answer.status_code, len(answer.json()["rejected"])) == (202, 1)
    assert [letter.payload[:8] for letter in index.dead_letters()] == [b'{"v":1,"', b"nonsense"]


@pytest.mark.parametrize("path", [S3, GCS, AZURE])
def test_what_cannot_be_made_durable_is_to_be_sent_again(
    client: TestClient[Any], producer: FakeProducer, index: FlakyIndex, path: str
) -> None:
    given = {S3: payloads.s3(GOOD), GCS: payloads.gcs_push(GOOD), AZURE: payloads.blob(GOOD)}[path]
    assert client.post(path, content=body(given), headers=BEARER).status_code == 202
    producer.down = index.down = True
    assert client.post(path, content=body(given), headers=BEARER).status_code == 503


@pytest.mark.parametrize("path", [S3, GCS, AZURE])
def test_large_bodies_and_strangers_are_turned_away(client: TestClient[Any], path: str) -> None:
    assert client.post(path, content=b" " * 1_048_577, headers=BEARER).status_code == 413
    assert client.post(path, content=b"{}").status_code == 401
    assert client.post(path, content=b"{}", headers={"api-key": "acme-read"}).status_code == 403


def test_a_rejected_azure_event_leaves_its_neighbours_alone(
    client: TestClient[Any], producer: FakeProducer, index: FlakyIndex
) -> None:
    events = [payloads.blob("nowhere/x"), payloads.blob(GOOD), payloads.blob("x") | {"subject": "?"}]
    answer = client.post(AZURE, content=body(events), headers=BEARER)
    assert answer.status_code == 202
    assert [rejected["index"] for rejected in answer.json()["rejected"]] == [0, 2]
    assert producer.keys == [GOOD]
    assert len(index.dead_letters()) == 2


def test_event_grids_code_is_sent_back(client: TestClient[Any], producer: FakeProducer) -> None:
    sent = body([payloads.validation("a-code")])
    answer = client.post(f"{AZURE}?token={TOKEN}", content=sent)
    assert (answer.status_code, answer.json()) == (200, {"validationResponse": "a-code"})
    assert client.post(AZURE, content=sent).status_code == 401


def test_cloud_events_are_permitted_to_who_knows_the_secret(client: TestClient[Any]) -> None:
    asked = {"WebHook-Request-Origin": "eventgrid.azure.net", "WebHook-Request-Rate": "120"}
    answer = client.options(f"{AZURE}?token={TOKEN}", headers=asked)
    assert answer.status_code == 200
    assert answer.headers["webhook-allowed-origin"] == "eventgrid.azure.net"
    assert answer.headers["webhook-allowed-rate"] == "*"
    refused = client.options(AZURE, headers=asked)
    assert refused.status_code == 401
    assert "webhook-allowed-origin" not in refused.headers
    odd = client.options(f"{AZURE}?token={TOKEN}", headers={"WebHook-Request-Origin": "a b;c"})
    assert odd.status_code == 400
    assert client.options(AZURE).headers["allow"] == "OPTIONS, POST"


def test_a_subscription_of_sns_is_told_to_a_person_and_fetched_by_nobody(
    client: TestClient[Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: object) -> None:
        raise AssertionError("the ingress opened a connection")

    monkeypatch.setattr("socket.create_connection", connect)
    with caplog.at_level(logging.WARNING):
        sent = payloads.sns("You have chosen to subscribe", kind="SubscriptionConfirmation")
        answer = client.post(S3, content=body(sent), headers=BEARER)
    assert (answer.status_code, answer.json()["ignored"]) == (202, 1)
    assert sent["SubscribeURL"] in answer.json()["note"]
    assert sent["SubscribeURL"] in caplog.text


@pytest.mark.parametrize("path", [GCS, AZURE])
def test_a_token_may_be_in_the_address_where_senders_set_no_headers(
    client: TestClient[Any], producer: FakeProducer, path: str
) -> None:
    given = body(payloads.gcs_push(GOOD) if path == GCS else payloads.blob(GOOD))
    assert client.post(f"{path}?token={TOKEN}", content=given).status_code == 202
    assert client.post(f"{path}?token=acme-write", content=given).status_code == 202
    assert client.post(f"{path}?token=wrong", content=given).status_code == 401
    assert client.post(f"{path}?token={TOKEN}", content=given, headers={"api-key": "no"}).status_code == 401
    assert len(producer.sent) == 2


def test_an_address_proves_nothing_where_headers_can_be_set(client: TestClient[Any]) -> None:
    assert client.post(f"{S3}?token={TOKEN}", content=body(payloads.s3(GOOD))).status_code == 401


def test_a_token_in_the_address_is_not_logged(
    client: TestClient[Any],
    index: FlakyIndex,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index, "find_api_key", lambda _: 1 / 0)
    with caplog.at_level(logging.DEBUG):
        assert client.post(f"{GCS}?token=hidden-secret", content=b"{}").status_code == 500
    ours = [r for r in caplog.records if not r.name.startswith(("httpx", "httpcore", "asyncio"))]
    assert ours
    assert not [r for r in ours if "hidden-secret" in r.getMessage() + str(r.exc_text)]


@pytest.mark.parametrize("credentials", [f"sns:{TOKEN}", f"{TOKEN}:", "sns:acme-write"])
def test_basic_credentials_carry_a_token(client: TestClient[Any], credentials: str) -> None:
    """SNS can send nothing else: it takes them from the address it is given."""
    header = {"Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}"}
    assert client.post(S3, content=body(payloads.sns(payloads.s3(GOOD))), headers=header).status_code == 202


@pytest.mark.parametrize("value", ["sns:wrong", ":", ""])
def test_wrong_basic_credentials_are_refused(client: TestClient[Any], value: str) -> None:
    header = {"Authorization": f"Basic {base64.b64encode(value.encode()).decode()}"}
    assert client.post(S3, content=body(payloads.s3(GOOD)), headers=header).status_code == 401


def signed(content: bytes, at: float | str | None = None, key: str = HMAC_KEY) -> dict[str, str]:
    stamp = str(int(time.time()) if at is None else at)
    digest = hmac.new(key.encode(), f"{stamp}.".encode() + content, hashlib.sha256).hexdigest()
    return {"X-Lakerunner-Timestamp": stamp, "X-Lakerunner-Signature": f"sha256={digest}"}


@pytest.mark.parametrize("path", [S3, GCS, AZURE])
def test_a_signed_request_may_announce_for_all(
    client: TestClient[Any], producer: FakeProducer, path: str
) -> None:
    given = {S3: payloads.s3(GOOD), GCS: payloads.gcs_push(GOOD), AZURE: payloads.blob(GOOD)}[path]
    assert client.post(path, content=body(given), headers=signed(body(given))).status_code == 202
    assert producer.keys == [GOOD]


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        (lambda _: signed(b"another body"), "does not fit"),
        (lambda _: signed(body(payloads.s3(GOOD)), key="another key"), "does not fit"),
        (
            lambda now: signed(body(payloads.s3(GOOD))) | {"X-Lakerunner-Timestamp": str(now - 7)},
            "does not fit",
        ),
        (lambda now: signed(body(payloads.s3(GOOD)), at=now - MAX_SKEW_S - 60), "from this server's clock"),
        (lambda now: signed(body(payloads.s3(GOOD)), at=now + MAX_SKEW_S + 60), "from this server's clock"),
        (lambda _: signed(body(payloads.s3(GOOD)), at="now"), "expected Unix seconds"),
        (lambda _: signed(body(payloads.s3(GOOD)), at="9" * 400), "expected Unix seconds"),
        (lambda _: {"X-Lakerunner-Signature": "sha256=00"}, "expected Unix seconds"),
        (lambda _: signed(b"another body") | BEARER, "does not fit"),
    ],
)
def test_a_signature_that_is_wrong_or_old_is_refused(
    client: TestClient[Any],
    producer: FakeProducer,
    headers: Callable[[int], dict[str, str]],
    reason: str,
) -> None:
    """Signed when the test runs: minutes may pass between collecting tests and running them."""
    answer = client.post(S3, content=body(payloads.s3(GOOD)), headers=headers(int(time.time())))
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert reason in answer.json()["message"]
    assert producer.sent == []


def test_without_a_key_no_signature_is_right(index: FlakyIndex, producer: FakeProducer) -> None:
    content = body(payloads.s3(GOOD))
    with TestClient(create_app(Settings(webhook_token=TOKEN), index, producer)) as client:  # type: ignore[arg-type]
        answer = client.post(S3, content=content, headers=signed(content, key=""))
    assert answer.status_code == 401
