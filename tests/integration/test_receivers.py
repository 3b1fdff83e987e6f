"""The push receivers as a process of their own, driven by the clients people have.

A real PostgreSQL, a real Kafka protocol (librdkafka's own broker), a directory as bucket; OpenTelemetry's SDK
exporters as clients, and small clients for remote write and Loki push.
"""

from __future__ import annotations

import gzip
import json
import signal
import statistics
import threading
import time
import uuid
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
import requests
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from resources.lake.label_text import parse_labels
from resources.proto.loki import PushRequest
from resources.proto.prometheus import WriteRequest
from tests.support.ingress_process import Ingress, SlowStore, create_organisation, running
from tests.support.otlp_logs import otlp_logs
from tests.support.patience import PATIENCE_S, wait_for

pytestmark = pytest.mark.integration
PROTOBUF = {"content-type": "application/x-protobuf"}


class Recording(requests.Session):
    """What an exporter posted, opened."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []
        self.statuses: list[int] = []
        self.hooks["response"] = [self._note]

    def _note(self, response: requests.Response, *_: Any, **__: Any) -> None:
        body = response.request.body
        assert isinstance(body, bytes)
        encoding = response.request.headers.get("Content-Encoding", "")
        opened = {"gzip": gzip.decompress, "deflate": zlib.decompress}.get(encoding, bytes)(body)
        self.bodies.append(opened)
        self.statuses.append(response.status_code)


@pytest.fixture(params=["none", "gzip", "deflate"])
def exporting(request: pytest.FixtureRequest, ingress: Ingress) -> dict[str, Any]:
    from opentelemetry.exporter.otlp.proto.http import Compression

    return {"compression": Compression(request.param), "session": Recording(), "headers": ingress.key}


def check_same(message: Any, field_name: str, ingress: Ingress, name: str, session: Recording) -> Any:
    """The objects hold exactly the resources that were posted; returns them as one message."""
    kept = message.FromString(b"".join(ingress.objects(name).values()))
    posted = message.FromString(b"".join(session.bodies))
    assert set(session.statuses) == {200}
    assert Counter(r.SerializeToString() for r in getattr(kept, field_name)) == Counter(
        r.SerializeToString() for r in getattr(posted, field_name)
    )
    ingress.check_notices()
    return kept


def test_logs_of_the_sdk(ingress: Ingress, exporting: dict[str, Any]) -> None:
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.resources import Resource

    provider = LoggerProvider(resource=Resource.create({"service.name": "shop"}))
    exporter = OTLPLogExporter(f"{ingress.url}/v1/logs", **exporting)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter, max_export_batch_size=100))
    logger = provider.get_logger("test")
    for n in range(250):
        logger.emit(
            LogRecord(
                timestamp=1_700_000_000_000_000_000 + n,
                severity_number=SeverityNumber.WARN,
                body=f"line {n} é",
                attributes={"n": n, "list": ["a", "b"]},
            )
        )
    provider.shutdown()
    kept = check_same(ExportLogsServiceRequest, "resource_logs", ingress, "logs", exporting["session"])
    records = [r for x in kept.resource_logs for s in x.scope_logs for r in s.log_records]
    assert sorted((r.time_unix_nano, r.body.string_value) for r in records) == [
        (1_700_000_000_000_000_000 + n, f"line {n} é") for n in range(250)
    ]


def test_an_sdk_with_default_settings_loses_nothing(ingress: Ingress) -> None:
    """It exports 512 records, waits for the answer, and drops what its queue cannot hold meanwhile.

    2,000 records come in a second, or on a slower machine twice as many as are answered one export after
    the other; the queue holds four exports.
    """
    from opentelemetry._logs import LogRecord
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    provider = LoggerProvider()
    exporter = OTLPLogExporter(f"{ingress.url}/v1/logs", headers=ingress.key)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    logger = provider.get_logger("test")
    exports, pause_s = [], 0.0
    for step in range(325):  # the first 500 in five exports of their own
        for number in range(20):
            logger.emit(LogRecord(timestamp=1_700_000_000_000_000_000, body=f"line {step}/{number}"))
        if step < 25 and step % 5 == 4:
            began = time.monotonic()
            provider.force_flush()
            exports.append(time.monotonic() - began)
            pause_s = max(0.01, statistics.median(exports) / 50)
        time.sleep(pause_s)
    provider.shutdown()
    assert sum(lines_of(ingress.objects("logs")).values()) == 6500


def test_metrics_of_the_sdk(ingress: Ingress, exporting: dict[str, Any]) -> None:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{ingress.url}/otlp/v1/metrics", **exporting))
    provider = MeterProvider([reader])
    meter = provider.get_meter("test")
    meter.create_counter("orders").add(3, {"shop": "a"})
    meter.create_histogram("seconds").record(0.25, {"shop": "a"})
    provider.shutdown()
    session = exporting["session"]
    kept = check_same(ExportMetricsServiceRequest, "resource_metrics", ingress, "metrics", session)
    metrics = {m.name: m for x in kept.resource_metrics for s in x.scope_metrics for m in s.metrics}
    assert metrics["orders"].sum.data_points[0].as_int == 3
    assert metrics["seconds"].histogram.data_points[0].sum == 0.25


def test_traces_of_the_sdk(ingress: Ingress, exporting: dict[str, Any]) -> None:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{ingress.url}/v1/traces", **exporting)))
    tracer = provider.get_tracer("test")
    made = set()
    for n in range(50):
        with tracer.start_as_current_span(f"outer {n}"), tracer.start_as_current_span("inner") as inner:
            made.add(inner.get_span_context().span_id.to_bytes(8, "big"))
    provider.shutdown()
    kept = check_same(ExportTraceServiceRequest, "resource_spans", ingress, "traces", exporting["session"])
    spans = [s for x in kept.resource_spans for scope in x.scope_spans for s in scope.spans]
    assert {s.span_id for s in spans if s.name == "inner"} == made
    assert len(spans) == 100


def behind_marker(data: bytes, name: bytes) -> bytes:
    head = b"\xc2\xa9\x07" + bytes([len(name)]) + name
    assert data.startswith(head)
    return data[len(head) :]


def snappy(message: Any) -> bytes:
    return bytes(pa.compress(message.SerializeToString(), codec="snappy", asbytes=True))


def test_remote_write(ingress: Ingress) -> None:
    requests_sent = []
    for n in range(20):
        request = WriteRequest()
        series = request.timeseries.add()
        series.labels.add(name="__name__", value="up")
        series.labels.add(name="instance", value=f"host-{n}")
        series.samples.add(value=n / 7, timestamp=1_700_000_000_000 + n)
        series.histograms.add(count_int=n, schema=3, positive_deltas=[1, -1], timestamp=5)
        requests_sent.append(request)
    headers = (
        ingress.key | PROTOBUF | {"content-encoding": "snappy", "x-prometheus-remote-write-version": "0.1.0"}
    )
    with httpx.Client(base_url=ingress.url, headers=headers) as client:
        answers = [client.post("/api/v1/write", content=snappy(request)) for request in requests_sent]
    assert [(a.status_code, a.content) for a in answers] == [(204, b"")] * 20
    merged = b"".join(
        behind_marker(d, b"prometheus.WriteRequest") for d in ingress.objects("metrics").values()
    )
    kept = WriteRequest.FromString(merged)
    assert sorted(s.SerializeToString() for s in kept.timeseries) == sorted(
        r.timeseries[0].SerializeToString() for r in requests_sent
    )
    ingress.check_notices()


def test_loki_push_in_both_forms(ingress: Ingress) -> None:
    push = PushRequest()
    entry = push.streams.add(labels='{app="shop"}').entries.add(line="protobuf")
    entry.timestamp.seconds, entry.timestamp.nanos = 1_700_000_000, 1
    body = {
        "streams": [{"stream": {"app": "web"}, "values": [["1700000000000000002", "json", {"trace": "t"}]]}]
    }
    tenant = ingress.key | {"X-Scope-OrgID": ingress.org}
    packed = {"content-type": "application/json", "content-encoding": "gzip"}
    with httpx.Client(base_url=ingress.url, headers=tenant) as client:
        path = "/loki/api/v1/push"
        assert client.post(path, content=snappy(push), headers=PROTOBUF).status_code == 204
        assert (
            client.post(path, content=gzip.compress(json.dumps(body).encode()), headers=packed).status_code
            == 204
        )
    merged = b"".join(behind_marker(d, b"logproto.PushRequest") for d in ingress.objects("logs").values())
    lines = {
        (
            parse_labels(s.labels)["app"],
            e.timestamp.seconds,
            e.timestamp.nanos,
            e.line,
            len(e.structured_metadata),
        )
        for s in PushRequest.FromString(merged).streams
        for e in s.entries
    }
    assert lines == {
        ("shop", 1_700_000_000, 1, "protobuf", 0),
        ("web", 1_700_000_000, 2, "json", 1),
    }
    ingress.check_notices()


# --- endings -----------------------------------------------------------------------------------------


@dataclass
class Load:
    """Senders that push numbered lines until told to stop, each over a connection of its own."""

    ingress: Ingress
    accepted: list[str] = field(default_factory=list)
    refused: Counter[int] = field(default_factory=Counter)
    broken: int = 0

    def run(self, senders: int, stop: threading.Event) -> list[threading.Thread]:
        threads = [threading.Thread(target=self._send, args=(n, stop)) for n in range(senders)]
        for thread in threads:
            thread.start()
        return threads

    def _send(self, sender: int, stop: threading.Event) -> None:
        number = 0
        with httpx.Client(
            base_url=self.ingress.url, headers=self.ingress.key | PROTOBUF, timeout=PATIENCE_S
        ) as client:
            while not stop.is_set():
                number += 1
                line = f"{sender}/{number}"
                try:
                    status = client.post("/v1/logs", content=otlp_logs([(number, line)])).status_code
                except httpx.TransportError:
                    self.broken += 1
                    time.sleep(0.01)
                    continue
                if status == 200:
                    self.accepted.append(line)
                else:
                    self.refused[status] += 1


def lines_of(objects: dict[str, bytes]) -> Counter[str]:
    merged = ExportLogsServiceRequest.FromString(b"".join(objects.values()))
    records = [r for x in merged.resource_logs for s in x.scope_logs for r in s.log_records]
    return Counter(record.body.string_value for record in records)


def under_load(ingress: Ingress, ending: signal.Signals) -> Load:
    load, stop = Load(ingress), threading.Event()
    threads = load.run(32, stop)
    wait_for(lambda: len(load.accepted) >= 100, "a hundred answers")
    ingress.end(ending)
    stop.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    return load


@pytest.fixture
def slow_store(tmp_path: Path) -> Iterator[str]:
    handler = type("Handler", (SlowStore,), {"folder": tmp_path / "bucket"})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def mortal(index_dsn: str, broker: str, tmp_path: Path, slow_store: str, age_s: float) -> Iterator[Ingress]:
    """A process of the test's own, to be ended, over a slow store."""
    org = f"o{uuid.uuid4().hex[:12]}"
    create_organisation(index_dsn, org)
    store = {"s3_endpoint": slow_store, "s3_access_key_id": "a", "s3_secret_access_key": "b"}
    gather = {"receiver_batch_age_s": age_s, "receiver_puts_per_minute": 0 if age_s > 10 else 1500}
    with running(index_dsn, broker, tmp_path, "s3://raw", **gather, **store) as found:
        found.org = org
        yield found


@pytest.mark.parametrize("age_s", [0.1])
def test_sigterm_under_load_loses_nothing_and_keeps_nothing_it_refused(mortal: Ingress) -> None:
    load = under_load(mortal, signal.SIGTERM)
    assert lines_of(mortal.objects()) == Counter(load.accepted)
    assert set(load.refused) <= {503}
    mortal.check_notices()


@pytest.mark.parametrize("age_s", [0.1])
def test_kill_under_load_loses_nothing_that_was_answered(mortal: Ingress) -> None:
    load = under_load(mortal, signal.SIGKILL)
    kept = lines_of(mortal.objects())
    assert not Counter(load.accepted) - kept
    assert set(kept.values()) == {1}
    announced = {record.key for record in mortal.notices()}
    told = lines_of({key: data for key, data in mortal.objects().items() if key in announced})
    assert not Counter(load.accepted) - told
    assert load.refused == Counter()


@pytest.mark.parametrize("age_s", [3600.0])
def test_sigterm_writes_a_young_batch_at_once(mortal: Ingress) -> None:
    """The age of a batch may be long; nobody waits for it when the process is told to end."""
    load, stop = Load(mortal), threading.Event()
    threads = load.run(3, stop)
    held = f"lakerunner_push_memory_bytes {3 * len(otlp_logs([(1, '0/1')]))}"
    wait_for(lambda: held in httpx.get(f"{mortal.url}/metrics", timeout=PATIENCE_S).text, held)
    assert load.accepted == []
    mortal.end(signal.SIGTERM)
    stop.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(load.accepted) == ["0/1", "1/1", "2/1"]
    assert lines_of(mortal.objects()) == Counter(load.accepted)
    mortal.check_notices()
