"""OpenTelemetry's SDK with its default protocol, gRPC, against the ingress as a process of its own."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.ingress.grpc_door import EXPORTS
from tests.support.ingress_process import Ingress, create_organisation, running
from tests.support.otlp_logs import otlp_logs
from tests.support.patience import wait_for

pytestmark = pytest.mark.integration


@pytest.fixture(params=["", "gzip"])
def exporting(request: pytest.FixtureRequest, ingress: Ingress, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment that names the ingress and the key; all else are the SDK's defaults."""
    endpoint = f"http://localhost:{ingress.settings.ingress_grpc_port}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"api-key=secret-{ingress.org}")
    if request.param:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", request.param)


def stored(ingress: Ingress, message: Any, name: str) -> Any:
    """All objects of the bucket as one message; each was announced."""
    ingress.check_notices()
    return message.FromString(b"".join(ingress.objects(name).values()))


@pytest.mark.usefixtures("exporting")
def test_every_span_arrives(ingress: Ingress) -> None:
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("test")
    made = set()
    for n in range(900):
        with tracer.start_as_current_span(f"outer {n}"), tracer.start_as_current_span("inner") as inner:
            made.add(inner.get_span_context().span_id.to_bytes(8, "big"))
    provider.shutdown()
    found = stored(ingress, ExportTraceServiceRequest, "traces")
    spans = [s for x in found.resource_spans for scope in x.scope_spans for s in scope.spans]
    assert {s.span_id for s in spans if s.name == "inner"} == made
    assert len(spans) == 1800


@pytest.mark.usefixtures("exporting")
def test_every_point_arrives(ingress: Ingress) -> None:
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    provider = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())])
    counter = provider.get_meter("test").create_counter("orders")
    for n in range(700):
        counter.add(n, {"shop": str(n)})
    provider.shutdown()
    found = stored(ingress, ExportMetricsServiceRequest, "metrics")
    metrics = [m for x in found.resource_metrics for s in x.scope_metrics for m in s.metrics]
    points = [point for metric in metrics if metric.name == "orders" for point in metric.sum.data_points]
    assert {int(p.attributes[0].value.string_value): p.as_int for p in points} == {n: n for n in range(700)}


@pytest.mark.usefixtures("exporting")
def test_every_record_arrives(ingress: Ingress) -> None:
    from opentelemetry._logs import LogRecord
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    provider = LoggerProvider()
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    logger = provider.get_logger("test")
    for n in range(1800):
        logger.emit(LogRecord(timestamp=1_700_000_000_000_000_000 + n, body=f"line {n} é"))
    provider.shutdown()
    assert lines_in(ingress) == Counter(f"line {n} é" for n in range(1800))


def lines_in(ingress: Ingress) -> Counter[str]:
    found = stored(ingress, ExportLogsServiceRequest, "logs")
    records = [r for x in found.resource_logs for s in x.scope_logs for r in s.log_records]
    return Counter(record.body.string_value for record in records)


class Load:
    """Senders of numbered lines, each over a connection of its own."""

    def __init__(self, ingress: Ingress) -> None:
        self.accepted: list[str] = []
        self.codes: Counter[str] = Counter()
        self._target = f"127.0.0.1:{ingress.settings.ingress_grpc_port}"
        self._key = tuple((name.lower(), value) for name, value in ingress.key.items())

    def send(self, sender: int, stop: threading.Event) -> None:
        options = (("grpc.use_local_subchannel_pool", 1),)
        with grpc.insecure_channel(self._target, options) as channel:
            export = channel.unary_unary(EXPORTS["logs"])
            number = 0
            while not stop.is_set():
                number += 1
                line = f"{sender}/{number}"
                try:
                    export(otlp_logs([(number, line)]), metadata=self._key)
                except grpc.RpcError as error:
                    self.codes[error.code().name] += 1
                    stop.wait(0.01)
                else:
                    self.accepted.append(line)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_end_under_load_loses_nothing_that_was_answered(
    shared: Ingress, broker: str, tmp_path: Path, how: signal.Signals
) -> None:
    """An end that is announced also keeps nothing that was refused: nothing is counted twice."""
    org = f"end-{how.name.lower()}"
    create_organisation(shared.settings.index_dsn, org)
    with running(shared.settings.index_dsn, broker, tmp_path) as mortal:
        mortal.org = org
        load, stop = Load(mortal), threading.Event()
        threads = [threading.Thread(target=load.send, args=(n, stop)) for n in range(16)]
        for thread in threads:
            thread.start()
        wait_for(lambda: len(load.accepted) >= 100, "a hundred answers")
        mortal.end(how)
        stop.set()
        for thread in threads:
            thread.join()
        found = lines_in(mortal) if how is signal.SIGTERM else kept_lines(mortal)
        assert not Counter(load.accepted) - found
        assert set(found.values()) == {1}
        if how is signal.SIGTERM:
            assert found == Counter(load.accepted)
            assert set(load.codes) <= {"UNAVAILABLE"}


def kept_lines(ingress: Ingress) -> Counter[str]:
    """Lines of what lies in the bucket, announced or not."""
    found = ExportLogsServiceRequest.FromString(b"".join(ingress.objects("logs").values()))
    records = [r for x in found.resource_logs for s in x.scope_logs for r in s.log_records]
    return Counter(record.body.string_value for record in records)
