"""The receivers over HTTP, with the index in memory: statuses, bodies, headers, and what is in the bucket."""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import zstandard
from litestar.testing import TestClient
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from lakerunner_ingress.app import create_app
from resources.proto.loki import PushRequest
from resources.proto.prometheus import WriteRequest
from resources.proto.status import Status
from resources.settings import Settings
from tests.support.exposition_parser import parse
from tests.support.ingress.doubles import FakeProducer, FlakyIndex
from tests.support.ingress.push_fakes import KEY, announced, index_with, objects
from tests.support.otlp_logs import otlp_logs

PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}
BODY = otlp_logs([(1, "a"), (2, "b")])
NOW = {"seconds": int(time.time())}
Client = TestClient[Any]


@pytest.fixture
def index(tmp_path: Path) -> FlakyIndex:
    return index_with(tmp_path)


@pytest.fixture
def producer() -> FakeProducer:
    return FakeProducer()


@contextmanager
def serving(index: FlakyIndex, producer: FakeProducer, **settings: Any) -> Iterator[Client]:
    known = Settings(**{"receiver_batch_age_s": 0.02, "webhook_token": "hook", **settings})
    with TestClient(create_app(known, index, producer)) as client:  # type: ignore[arg-type]
        yield client


@pytest.fixture
def client(index: FlakyIndex, producer: FakeProducer) -> Iterator[Client]:
    with serving(index, producer) as found:
        yield found


def snappy(message: Any) -> bytes:
    return bytes(pa.compress(message.SerializeToString(), codec="snappy", asbytes=True))


def write_request() -> Any:
    request = WriteRequest()
    series = request.timeseries.add()
    series.labels.add(name="__name__", value="up")
    series.samples.add(value=1.0, timestamp=1)
    return request


@pytest.mark.parametrize("prefix", ["", "/otlp"])
@pytest.mark.parametrize(
    ("encoding", "pack"), [("", bytes), ("gzip", gzip.compress), ("zstd", zstandard.compress)]
)
def test_otlp_protobuf_is_in_the_bucket_and_announced_when_it_is_answered(
    client: Client,
    producer: FakeProducer,
    tmp_path: Path,
    prefix: str,
    encoding: str,
    pack: Callable[[bytes], bytes],
) -> None:
    headers = KEY | PROTOBUF | ({"content-encoding": encoding} if encoding else {})
    answer = client.post(f"{prefix}/v1/logs", content=pack(BODY), headers=headers)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == "application/x-protobuf"
    ((key, data),) = objects(tmp_path).items()
    assert data == BODY
    assert key.startswith("otel-raw/acme/push/logs/")
    assert [record.key for record in announced(producer)] == [key]


def test_an_empty_push_is_a_success_without_an_object(
    client: Client, producer: FakeProducer, tmp_path: Path
) -> None:
    assert client.post("/v1/traces", content=b"", headers=KEY | PROTOBUF).status_code == 200
    assert client.post("/v1/metrics", content=b"{}", headers=KEY | JSON).json() == {}
    assert (objects(tmp_path), producer.sent) == ({}, [])


def test_remote_write_and_loki_answer_204(client: Client, tmp_path: Path) -> None:
    written = client.post("/api/v1/write", content=snappy(write_request()), headers=KEY | PROTOBUF)
    push = PushRequest()
    push.streams.add(labels='{a="b"}').entries.add(line="x", timestamp=NOW)
    loki = client.post("/loki/api/v1/push", content=snappy(push), headers=KEY | PROTOBUF)
    assert [(a.status_code, a.content) for a in (written, loki)] == [(204, b"")] * 2
    contents = {data[3:].split(b"\n", 1)[0][1:] for data in objects(tmp_path).values()}
    assert contents == {b"prometheus.WriteRequest", b"logproto.PushRequest"}


def test_a_push_that_is_kept_in_part_is_told_so(client: Client, tmp_path: Path) -> None:
    push = PushRequest()
    push.streams.add(labels='{a="b"}').entries.add(line="x", timestamp=NOW)
    push.streams.add(labels="{a=b}").entries.add(line="y", timestamp=NOW)
    answer = client.post("/loki/api/v1/push", content=snappy(push), headers=KEY | PROTOBUF)
    assert answer.status_code == 400
    assert "streams[1]: label text, character 3" in answer.text
    (data,) = objects(tmp_path).values()
    del push.streams[1]
    assert data.endswith(push.SerializeToString())
    body = {"resourceLogs": [{}, {"scopeLogs": 1}]}
    answer = client.post("/v1/logs", content=json.dumps(body).encode(), headers=KEY | JSON)
    assert answer.status_code == 200
    assert answer.json()["partialSuccess"]["rejectedLogRecords"] == "1"


def basic(text: str) -> dict[str, str]:
    return {"authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


@pytest.mark.parametrize(
    "headers",
    [
        {"x-cardinalhq-api-key": "acme-write"},
        {"api-key": "acme-write"},
        basic("anybody:acme-write"),
        KEY | {"X-Scope-OrgID": "acme"},
    ],
)
def test_who_may_push(client: Client, tmp_path: Path, headers: dict[str, str]) -> None:
    assert client.post("/v1/logs", content=BODY, headers=headers | PROTOBUF).status_code == 200
    assert all(key.startswith("otel-raw/acme/") for key in objects(tmp_path))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Bearer hook"}, 401),  # the webhook's token is no organisation's
        (basic("acme-write:wrong"), 401),
        ({"authorization": "Basic ***"}, 401),
        ({"api-key": "acme-read"}, 403),
        (KEY | {"X-Scope-OrgID": "beta"}, 403),
    ],
)
@pytest.mark.parametrize("path", ["/v1/logs", "/api/v1/write", "/loki/api/v1/push"])
def test_who_may_not(client: Client, tmp_path: Path, path: str, headers: dict[str, str], status: int) -> None:
    answer = client.post(path, content=BODY, headers=headers | PROTOBUF)
    assert answer.status_code == status
    assert answer.content
    assert objects(tmp_path) == {}


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/logs", {"content-type": "text/plain"}, 415),
        ("/v1/logs", PROTOBUF | {"content-encoding": "br"}, 415),
        ("/v1/logs", PROTOBUF | {"content-encoding": "gzip"}, 400),
        ("/v1/logs", JSON, 400),
        ("/v1/logs", PROTOBUF | {"x-lakerunner-collector": "Bad Name"}, 400),
        ("/api/v1/write", JSON, 415),
        ("/api/v1/write", PROTOBUF | {"content-encoding": "gzip"}, 415),
        ("/api/v1/write", PROTOBUF, 400),
        ("/loki/api/v1/push", {"content-type": "text/plain"}, 415),
        ("/loki/api/v1/push", JSON, 400),
    ],
)
def test_what_is_refused(
    client: Client, tmp_path: Path, path: str, headers: dict[str, str], status: int
) -> None:
    assert client.post(path, content=BODY, headers=KEY | headers).status_code == status
    assert objects(tmp_path) == {}


def test_a_loki_push_broken_inside_a_stream_is_400(client: Client) -> None:
    body = pa.compress(b"\x0a\x05\x0a\x0aabc", codec="snappy", asbytes=True)
    answer = client.post("/loki/api/v1/push", content=body, headers=KEY | PROTOBUF)
    assert (answer.status_code, answer.text) == (400, "byte 2: cut short, in PushRequest.streams.labels\n")


def loki_json(*times: object) -> bytes:
    values = [[str(each), "x"] for each in times]
    return json.dumps({"streams": [{"stream": {"a": "b"}, "values": values}]}).encode()


@pytest.mark.parametrize("unit", [1, 1_000, 1_000_000])
def test_a_loki_push_in_another_unit_than_nanoseconds_is_400(
    client: Client, tmp_path: Path, unit: int
) -> None:
    answer = client.post("/loki/api/v1/push", content=loki_json(int(time.time() * unit)), headers=KEY | JSON)
    assert answer.status_code == 400
    assert answer.text.startswith("streams[0].values[0]: time 1970-01-")
    assert "times are nanoseconds since 1970" in answer.text
    assert objects(tmp_path) == {}


def test_lines_of_far_times_are_left_out_and_the_others_kept(client: Client, tmp_path: Path) -> None:
    now = time.time_ns()
    body = loki_json(now, now // 1000, now + 1, 2**63 - 1)
    answer = client.post("/loki/api/v1/push", content=body, headers=KEY | JSON)
    assert answer.status_code == 400
    assert "2 lines were refused, the others were kept" in answer.text
    (data,) = objects(tmp_path).values()
    (stream,) = PushRequest.FromString(data[24:]).streams
    assert len(stream.entries) == 2


def test_lines_that_go_to_quarantine_are_named_in_a_header(client: Client, tmp_path: Path) -> None:
    now = time.time_ns()
    old = 1_700_000_000 * 10**9
    answer = client.post("/loki/api/v1/push", content=loki_json(now, old, old), headers=KEY | JSON)
    assert answer.status_code == 204
    warning = answer.headers["x-lakerunner-warnings"]
    assert warning.startswith("2 lines are outside of 2025-01-01T00:00:00Z (LAKERUNNER_HORIZON) to ")
    assert "the first is of 2023-11-14T22:13:20Z" in warning
    assert len(objects(tmp_path)) == 1
    late = client.post("/loki/api/v1/push", content=loki_json(now + 86_400 * 10**9), headers=KEY | JSON)
    assert (late.status_code, late.headers["x-lakerunner-warnings"][:7]) == (204, "1 lines")
    good = client.post("/loki/api/v1/push", content=loki_json(now), headers=KEY | JSON)
    assert "x-lakerunner-warnings" not in good.headers


def test_an_otlp_error_is_a_status_in_the_encoding_of_the_request(client: Client) -> None:
    answer = client.post("/v1/logs", content=b"\x00", headers=KEY | PROTOBUF)
    status = Status.FromString(answer.content)
    assert (answer.status_code, status.code) == (400, 3)
    assert "byte 0" in status.message
    assert client.post("/v1/logs", content=b"", headers=JSON).json()["code"] == 16


def test_a_header_names_the_collector(client: Client, tmp_path: Path) -> None:
    headers = KEY | PROTOBUF | {"X-Lakerunner-Collector": "eu-1"}
    assert client.post("/v1/logs", content=BODY, headers=headers).status_code == 200
    assert next(iter(objects(tmp_path))).startswith("otel-raw/acme/eu-1/logs/")


def test_a_body_beyond_the_limit_is_413_with_and_without_a_length(
    index: FlakyIndex, producer: FakeProducer
) -> None:
    with serving(index, producer, receiver_body_max_bytes=1000) as client:
        for content in (b"x" * 1001, (b"x" * 100 for _ in range(11))):
            answer = client.post("/v1/logs", content=content, headers=KEY | PROTOBUF)
            assert answer.status_code == 413
        bomb = gzip.compress(b"\0" * 100_000)
        headers = KEY | PROTOBUF | {"content-encoding": "gzip"}
        assert client.post("/v1/logs", content=bomb, headers=headers).status_code == 413


def test_a_body_of_many_megabytes_is_taken(client: Client, tmp_path: Path) -> None:
    body = otlp_logs([(n, "x" * 100_000) for n in range(150)])
    assert client.post("/v1/logs", content=body, headers=KEY | PROTOBUF).status_code == 200
    assert list(objects(tmp_path).values()) == [body]


def test_beyond_the_memory_it_is_429_and_later_again(index: FlakyIndex, producer: FakeProducer) -> None:
    with serving(index, producer, receiver_memory_bytes=4 * len(BODY)) as client:
        with client.app.state.receivers._memory.hold() as other:
            other.grow(3 * len(BODY))
            refused = client.post("/v1/logs", content=BODY, headers=KEY | PROTOBUF)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert client.post("/v1/logs", content=BODY, headers=KEY | PROTOBUF).status_code == 200


def test_a_quota_is_429_with_the_time_to_wait(index: FlakyIndex, producer: FakeProducer) -> None:
    index.put_org_setting("acme", "push_bytes_per_second", 10)
    with serving(index, producer) as client:
        limits = client.app.state.receivers._quota._limit_of
        assert limits("acme") in {None, 10}
        limits.settle()
        client.post("/v1/logs", content=BODY * 2, headers=KEY | PROTOBUF)
        refused = client.post("/v1/logs", content=BODY, headers=KEY | PROTOBUF)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 1
        other = {"api-key": "beta-write"} | PROTOBUF
        assert client.post("/v1/logs", content=BODY, headers=other).status_code == 200


def test_postgres_down_goes_on_with_the_keys_and_buckets_that_are_known(
    client: Client, index: FlakyIndex, producer: FakeProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.post("/v1/logs", content=BODY, headers=KEY | PROTOBUF).status_code == 200
    index.down = True
    monkeypatch.setattr("lakerunner_ingress.auth.FRESH_S", 0.0)
    assert client.post("/v1/logs", content=BODY, headers=KEY | PROTOBUF).status_code == 200
    assert len(producer.sent) == 2
    unknown = client.post("/v1/logs", content=BODY, headers={"api-key": "beta-write"} | PROTOBUF)
    assert (unknown.status_code, unknown.headers["retry-after"]) == (503, "5")


def test_a_revoked_key_is_refused_once_its_answer_is_old(
    client: Client, index: FlakyIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.post("/v1/logs", content=BODY, headers=KEY | PROTOBUF).status_code == 200
    index.revoke_api_key("acme", "write")
    monkeypatch.setattr("lakerunner_ingress.auth.FRESH_S", 0.0)
    assert client.post("/v1/logs", content=BODY, headers=KEY | PROTOBUF).status_code == 401
    index.down = True
    assert client.post("/v1/logs", content=BODY, headers=KEY | PROTOBUF).status_code == 503


def test_kafka_and_postgres_down_accepts_what_is_durable_and_then_refuses_at_the_door(
    client: Client, index: FlakyIndex, producer: FakeProducer, tmp_path: Path
) -> None:
    assert client.post("/v1/logs", content=BODY, headers=KEY | PROTOBUF).status_code == 200
    producer.down = index.down = True
    assert client.post("/v1/logs", content=BODY, headers=KEY | PROTOBUF).status_code == 200
    refused = client.post("/v1/logs", content=BODY, headers=KEY | PROTOBUF)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert len(objects(tmp_path)) == 2
    producer.down = index.down = False
    client.app.state.receivers._writer.announcements.close()
    assert sorted(record.key for record in announced(producer)) == sorted(objects(tmp_path))
    assert client.post("/v1/logs", content=BODY, headers=KEY | PROTOBUF).status_code == 200


def test_a_bucket_that_cannot_be_written_is_503_and_leaves_nothing(
    index: FlakyIndex, producer: FakeProducer, tmp_path: Path
) -> None:
    (tmp_path / "otel-raw").write_text("a file where a folder should be")
    with serving(index, producer) as client:
        refused = client.post("/v1/logs", content=BODY, headers=KEY | PROTOBUF)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert "nothing was stored" in Status.FromString(refused.content).message
    assert producer.sent == []


def test_requests_that_come_together_share_an_object(
    index: FlakyIndex, producer: FakeProducer, tmp_path: Path
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    bodies = [otlp_logs([(n, f"line {n}")]) for n in range(20)]
    with (
        serving(index, producer, receiver_batch_age_s=0.5, receiver_puts_per_minute=0) as client,
        ThreadPoolExecutor(20) as pool,
    ):

        def send(body: bytes) -> int:
            return int(client.post("/v1/logs", content=body, headers=KEY | PROTOBUF).status_code)

        assert set(pool.map(send, bodies)) == {200}
    found = objects(tmp_path)
    assert len(found) < 10
    merged = ExportLogsServiceRequest.FromString(b"".join(found.values()))
    lines = {r.scope_logs[0].log_records[0].body.string_value for r in merged.resource_logs}
    assert lines == {f"line {n}" for n in range(20)}
    assert len(merged.resource_logs) == 20


def test_metrics_tell_what_was_kept_refused_and_written(client: Client) -> None:
    client.post("/v1/logs", content=BODY, headers=KEY | PROTOBUF)
    client.post("/api/v1/write", content=b"", headers=KEY | PROTOBUF)
    client.post("/v1/logs", content=BODY, headers=PROTOBUF)
    text = client.get("/metrics").text
    parse(text)
    for line in (
        'lakerunner_push_requests_total{protocol="otlp",status="200"} 1',
        'lakerunner_push_requests_total{protocol="remote_write",status="400"} 1',
        'lakerunner_push_refused_total{protocol="remote_write",reason="malformed"} 1',
        'lakerunner_push_refused_total{protocol="otlp",reason="unauthorized"} 1',
        f'lakerunner_push_bytes_total{{protocol="otlp"}} {len(BODY)}',
        'lakerunner_push_objects_total{signal="logs"} 1',
        "lakerunner_push_memory_bytes 0",
        "lakerunner_push_announcements_waiting 0",
        'lakerunner_ingress_step_seconds_count{operation="push_put",outcome="ok"} 1',
    ):
        assert line in text
