"""OTLP over gRPC: the same rows as over HTTP, every status, and clients that do harm or nothing at all."""

from __future__ import annotations

import base64
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import grpc
import httpx
import pytest
import zstandard
from grpc_health.v1 import health_pb2, health_pb2_grpc
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, TrailersReceived
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

from resources.grpc import connection as grpc_connection
from resources.proto.status import RetryInfo, Status
from tests.support.ingress.grpc_door import EXPORTS, KEY, Door, connect, open_door, status_of
from tests.support.ingress.push_fakes import announced, objects
from tests.support.otlp_logs import otlp_logs
from tests.support.patience import wait_for

pytestmark = pytest.mark.integration
BODY = otlp_logs([(1, "a"), (2, "b")])
GZIP = grpc.Compression.Gzip


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with open_door(tmp_path_factory.mktemp("bucket"), receiver_body_max_bytes=4 << 20) as found:
        yield found


@pytest.fixture
def door(shared: Door) -> Door:
    """The shared ingress, with nothing in its bucket."""
    for path in shared.bucket.rglob("*.zst"):
        path.unlink()
    shared.producer.sent.clear()
    return shared


@pytest.fixture(autouse=True)
def _closed_clients() -> Iterator[None]:
    yield
    while RawClient.opened:
        RawClient.opened.pop().socket.close()


def refused(door: Door, body: bytes = BODY, **call: Any) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as caught:
        door.export(body, **call)
    return status_of(caught.value)


# --- what is kept ------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [None, GZIP, grpc.Compression.Deflate])
@pytest.mark.parametrize("is_http_port", [False, True])
def test_a_call_is_answered_when_its_object_is_in_the_bucket_and_announced(
    door: Door, compression: grpc.Compression | None, is_http_port: bool
) -> None:
    with door.channel(door.http_port if is_http_port else door.port) as channel:
        answer = channel.unary_unary(EXPORTS["logs"])(BODY, metadata=KEY, compression=compression)
    assert ExportLogsServiceResponse.FromString(answer) == ExportLogsServiceResponse()
    ((key, data),) = objects(door.bucket).items()
    assert data == BODY
    assert key.startswith("otel-raw/acme/push/logs/")
    assert [record.key for record in announced(door.producer)] == [key]


@pytest.mark.parametrize("name", ["logs", "metrics", "trace"])
def test_the_object_of_a_call_equals_that_of_the_same_request_over_http(door: Door, name: str) -> None:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    metrics, traces = ExportMetricsServiceRequest(), ExportTraceServiceRequest()
    metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="m").gauge.data_points.add(as_int=1)
    traces.resource_spans.add().scope_spans.add().spans.add(name="s", trace_id=b"t" * 16, span_id=b"s" * 8)
    body = {"logs": BODY, "metrics": metrics.SerializeToString(), "trace": traces.SerializeToString()}[name]
    path = {"trace": "traces"}.get(name, name)
    headers = dict(KEY) | {"content-type": "application/x-protobuf", "x-lakerunner-collector": "eu-1"}
    httpx.post(
        f"http://127.0.0.1:{door.http_port}/v1/{path}", content=body, headers=headers
    ).raise_for_status()
    over_http = objects(door.bucket)
    door.export(body, name, metadata=(*KEY, ("x-lakerunner-collector", "eu-1")))
    over_grpc = {k: v for k, v in objects(door.bucket).items() if k not in over_http}
    assert list(over_grpc.values()) == list(over_http.values()) == [body]
    assert {k.rsplit("/", 1)[0] for k in over_grpc} == {k.rsplit("/", 1)[0] for k in over_http}


def test_an_empty_request_is_a_success_without_an_object(door: Door) -> None:
    assert door.export(b"") == b""
    assert objects(door.bucket) == {}


def test_many_calls_over_one_connection_are_all_kept(door: Door) -> None:
    bodies = [otlp_logs([(n, f"line {n} " + "x" * (n * 997 % 200_000))]) for n in range(300)]
    with door.channel() as channel:
        export = channel.unary_unary(EXPORTS["logs"])
        for future in [export.future(body, metadata=KEY, compression=GZIP) for body in bodies]:
            assert future.result() == b""
    kept = b"".join(objects(door.bucket).values())
    assert len(kept) == sum(map(len, bodies))
    assert all(body in kept for body in bodies)


# --- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "code", "text"),
    [
        ((), "UNAUTHENTICATED", "Bearer TOKEN"),
        ((("authorization", "Bearer wrong"),), "UNAUTHENTICATED", "unknown token"),
        ((("api-key", "acme-read"),), "PERMISSION_DENIED", "may only read"),
        ((*KEY, ("x-scope-orgid", "beta")), "PERMISSION_DENIED", "this API key is of 'acme'"),
        ((*KEY, ("x-lakerunner-collector", "../x")), "INVALID_ARGUMENT", "collector '../x'"),
    ],
)
def test_who_may_not_export(door: Door, metadata: Any, code: str, text: str) -> None:
    found = refused(door, metadata=metadata)
    assert found[0] == code
    assert text in found[1]
    assert objects(door.bucket) == {}


@pytest.mark.parametrize("header", ["x-cardinalhq-api-key", "api-key"])
def test_keys_in_other_headers(door: Door, header: str) -> None:
    basic = base64.b64encode(b"anybody:acme-write").decode()
    assert door.export(BODY, metadata=((header, "acme-write"),)) == b""
    assert door.export(BODY, metadata=(("authorization", f"Basic {basic}"),)) == b""


@pytest.mark.parametrize(
    ("body", "call", "code", "text"),
    [
        (b"\xff" * 50, {}, "INVALID_ARGUMENT", "byte 0"),
        (b"\x18\x01", {"name": "metrics"}, "INVALID_ARGUMENT", "2 bytes without resource_metrics"),
        (os.urandom(5 << 20), {}, "INVALID_ARGUMENT", "a message of 5242880 bytes: at most 4194304"),
        (bytes(200 << 20), {"compression": GZIP}, "INVALID_ARGUMENT", "more than 4194304 bytes once opened"),
    ],
)
def test_bodies_that_are_refused(door: Door, body: bytes, call: Any, code: str, text: str) -> None:
    found = refused(door, body, **call)
    assert found[0] == code
    assert text in found[1]
    assert objects(door.bucket) == {}
    assert door.export(BODY) == b""


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
            "profiles are not stored",
        ),
        ("/opentelemetry.proto.collector.logs.v1.LogsService/Import", "Export of the version v1"),
        ("/tempopb.StreamingQuerier/Search", "queries go to the query API (port 4381)"),
    ],
)
def test_other_methods_are_told_where_to_go(door: Door, path: str, text: str) -> None:
    with door.channel() as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(path)(BODY, metadata=KEY)
    code, message = status_of(caught.value)
    assert code == "UNIMPLEMENTED"
    assert text in message


def retry_delay(error: Any) -> float:
    """The pause of a refusal, as an exporter reads it."""
    (packed,) = (value for key, value in error.trailing_metadata() if key == "grpc-status-details-bin")
    (detail,) = Status.FromString(packed).details
    delay = RetryInfo.FromString(detail.value).retry_delay
    assert detail.type_url == "type.googleapis.com/google.rpc.RetryInfo"
    return float(delay.seconds + delay.nanos / 1e9)


def test_an_index_and_kafka_that_are_away_say_when_to_send_again(tmp_path: Path) -> None:
    with open_door(tmp_path) as door:
        door.index.down = door.producer.down = True
        with pytest.raises(grpc.RpcError) as caught:
            door.export(BODY)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert retry_delay(caught.value) == 5.0
        assert objects(tmp_path) == {}


def test_a_quota_says_when_to_send_again(tmp_path: Path) -> None:
    with open_door(tmp_path) as door:
        door.index.put_org_setting("acme", "push_bytes_per_second", 1)

        def first_refusal() -> Any:
            try:
                while True:
                    door.export(BODY)
            except grpc.RpcError as error:
                return error

        error = first_refusal()
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "acme pushes more than it may" in error.details()
        assert retry_delay(error) >= 1.0


# --- hostile clients ---------------------------------------------------------------------------------


class RawClient:
    """A client of HTTP/2 that does as it likes."""

    opened: ClassVar[list[RawClient]] = []

    def __init__(self, port: int) -> None:
        self.socket = connect(port)
        self.opened.append(self)
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def call(self, stream: int, path: str = EXPORTS["logs"], **more: str) -> None:
        head = {":method": "POST", ":path": path, ":scheme": "http", ":authority": "localhost"}
        fields = head | {"content-type": "application/grpc", "te": "trailers"} | dict(KEY)
        fields |= {name.replace("_", "-"): value for name, value in more.items()}
        self.h2.send_headers(stream, list(fields.items()))
        self.flush()

    def events(self) -> Iterator[Any]:
        """Events up to the end of the connection."""
        while data := self.socket.recv(65_536):
            yield from self.h2.receive_data(data)

    def status(self) -> dict[str, str]:
        """Headers and trailers of the first answer."""
        found: dict[str, str] = {}
        for event in self.events():
            if isinstance(event, ResponseReceived | TrailersReceived):
                found |= dict(event.headers)
            if "grpc-status" in found:
                break
        return found


def framed(message: bytes, flag: int = 0) -> bytes:
    return bytes((flag,)) + len(message).to_bytes(4, "big") + message


@pytest.mark.parametrize(
    ("data", "encoding", "code", "text"),
    [
        (framed(b"\x1f\x8bjunk", 1), "gzip", "3", "gzip: damaged"),
        (framed(gzip.compress(BODY)[:-9], 1), "gzip", "3", "gzip: cut short"),
        (framed(BODY, 1), "snappy", "12", "expected gzip, deflate, zstd"),
        (framed(BODY, 7), "gzip", "3", "found 7"),
        (framed(BODY)[:-1], "identity", "3", "expected one message of"),
        (framed(BODY) + framed(BODY), "identity", "3", "found more"),
        (b"\0\0", "identity", "3", "ends after 2 bytes"),
        (b"", "identity", "3", "ends after 0 bytes"),
    ],
)
def test_broken_messages_are_refused(door: Door, data: bytes, encoding: str, code: str, text: str) -> None:
    client = RawClient(door.port)
    client.call(1, grpc_encoding=encoding)
    client.h2.send_data(1, data, end_stream=True)
    client.flush()
    found = client.status()
    assert found["grpc-status"] == code
    assert text in found["grpc-message"]
    assert objects(door.bucket) == {}


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("zstd", zstandard.compress), ("identity", bytes)],
)
def test_every_encoding_is_opened(door: Door, encoding: str, pack: Callable[[bytes], bytes]) -> None:
    client = RawClient(door.port)
    client.call(1, grpc_encoding=encoding)
    for n, byte in enumerate(data := framed(pack(BODY), 1)):
        client.h2.send_data(1, bytes((byte,)), end_stream=n == len(data) - 1)
    client.flush()
    assert client.status()["grpc-status"] == "0"
    assert list(objects(door.bucket).values()) == [BODY]


def test_a_large_message_is_refused_before_it_is_sent(door: Door) -> None:
    client = RawClient(door.port)
    client.call(1)
    client.h2.send_data(1, b"\0" + (3 << 30).to_bytes(4, "big"))
    client.flush()
    assert "at most 4194304" in client.status()["grpc-message"]


def test_a_body_waits_in_the_client_until_its_sender_is_known(door: Door) -> None:
    """Without a key nothing is read: what a client may send is what the window of one stream holds."""
    client = RawClient(door.port)
    client.call(1, authorization="Bearer wrong")
    client.h2.send_data(1, b"\0" + (4 << 20).to_bytes(4, "big"))
    client.flush()
    assert client.status()["grpc-status"] == "16"
    assert door.app.state.receivers._memory.used == 0


def test_memory_of_calls_that_go_away_is_returned(door: Door) -> None:
    client = RawClient(door.port)
    memory = door.app.state.receivers._memory
    for stream in range(1, 41, 2):
        client.call(stream)
        client.h2.send_data(stream, b"\0" + (1 << 20).to_bytes(4, "big") + bytes(3000))
    client.flush()
    wait_for(lambda: memory.used == 20 * 3000, "every byte that was sent is held")
    client.h2.reset_stream(1)
    client.flush()
    wait_for(lambda: memory.used == 19 * 3000, "one less")
    client.socket.close()
    wait_for(lambda: memory.used == 0, "nothing is held")
    assert objects(door.bucket) == {}


def test_a_client_that_resets_its_calls_is_disconnected(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_connection, "SPARE_RESETS", 100)
    client = RawClient(door.port)
    for stream in range(1, 401, 2):
        client.call(stream)
        client.h2.reset_stream(stream)
    try:
        client.flush()
        end = next(event for event in client.events() if isinstance(event, ConnectionTerminated))
        assert end.error_code == ErrorCodes.ENHANCE_YOUR_CALM
    except ConnectionError:
        pass  # the server closed with bytes unread: TCP's reset overtook its farewell
    assert door.export(BODY) == b""


def test_a_client_that_reads_no_answers_to_its_pings_is_disconnected(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_connection, "MAX_UNSENT", 64 << 10)
    client = RawClient(door.port)

    def ping() -> None:
        while True:
            for _ in range(1000):
                client.h2.ping(b"12345678")
            client.flush()

    with pytest.raises(ConnectionError):
        ping()
    assert door.export(BODY) == b""


@pytest.mark.parametrize(
    "junk",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 70_000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01" + bytes(500),
    ],
)
@pytest.mark.parametrize("is_http_port", [False, True])
def test_junk_does_no_harm(door: Door, junk: bytes, is_http_port: bool) -> None:
    with connect(door.http_port if is_http_port else door.port) as client:
        client.sendall(junk)
        client.settimeout(0.2)
        try:
            while client.recv(4096):
                pass
        except OSError:
            pass
    assert door.export(BODY) == b""


def test_another_client_of_http_2_gets_505_and_a_sentence(door: Door) -> None:
    client = RawClient(door.http_port)
    client.h2.send_headers(
        1, [(":method", "GET"), (":path", "/livez"), (":scheme", "http"), (":authority", "localhost")], True
    )
    client.flush()
    answer, data = None, b""
    for event in client.events():
        if isinstance(event, ResponseReceived):
            answer = dict(event.headers)
        if isinstance(event, DataReceived):
            data = event.data
            break
    assert answer is not None
    assert answer[":status"] == "505"
    assert b"speaks gRPC over HTTP/2" in data


def test_another_host_is_refused_like_over_http(door: Door) -> None:
    found = refused_host(door, "evil.example")
    assert found["grpc-status"] == "7"
    assert "LAKERUNNER_ALLOWED_HOSTS" in found["grpc-message"]
    assert refused_host(door, "localhost:4317")["grpc-status"] == "3"


def refused_host(door: Door, authority: str) -> dict[str, str]:
    client = RawClient(door.port)
    client.call(1, **{":authority": authority})
    client.h2.end_stream(1)
    client.flush()
    return client.status()


# --- health and the end ------------------------------------------------------------------------------


def test_the_health_service(door: Door) -> None:
    with door.channel() as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", "opentelemetry.proto.collector.trace.v1.TraceService"):
            answer = health.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as caught:
            health.Check(health_pb2.HealthCheckRequest(service="other"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        first = next(health.Watch(health_pb2.HealthCheckRequest(service="other")))
        assert first.status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


def test_an_end_writes_what_is_in_memory_and_answers_it(tmp_path: Path) -> None:
    """The age of a batch may be long; nobody waits for it when the process is told to end."""
    settings = {"receiver_batch_age_s": 3600.0, "receiver_puts_per_minute": 0}
    with open_door(tmp_path, **settings) as door, door.channel() as channel:
        future = channel.unary_unary(EXPORTS["logs"]).future(BODY, metadata=KEY)
        wait_for(lambda: door.app.state.receivers._memory.used == len(BODY), "the push is held")
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        assert not future.done()
        door.server.should_exit = True
        assert future.result() == b""
    assert list(objects(tmp_path).values()) == [BODY]


def test_a_call_during_the_end_may_be_sent_again(tmp_path: Path) -> None:
    with open_door(tmp_path, receiver_batch_age_s=3600.0, receiver_puts_per_minute=0) as door:
        client = RawClient(door.port)
        client.call(1)
        door.server.should_exit = True
        ends = []
        for event in client.events():
            if isinstance(event, ConnectionTerminated):
                ends.append(event)
                break
        assert ends[0].error_code == ErrorCodes.NO_ERROR
        assert ends[0].last_stream_id == 1
        client.socket.close()
