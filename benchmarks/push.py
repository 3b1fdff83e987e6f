"""Push receivers under stock clients: SDKs with default settings, telemetrygen, senders that wait.

`python -m benchmarks.push [--quick] [--json OUT] [--telemetrygen PATH]`. One ingress process over a
directory and librdkafka's own broker; every client counts what it made, and the bucket is counted afterwards.
telemetrygen runs unbatched: its batching drops on its own side what it makes faster than it can send.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import httpx
import zstandard
from confluent_kafka import Producer as NativeProducer
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.report import Record, tell
from lakerunner_cli.stack.ports import any_free
from resources.settings import Settings
from tests.support.ingress.grpc_door import EXPORTS
from tests.support.ingress.push_fakes import KEY, index_with

RATE = 10_000
SPAWN = multiprocessing.get_context("spawn")


def serve(port: int, folder: str, broker: str) -> None:
    """Run an ingress process with organisations in memory."""
    import uvicorn

    from lakerunner_ingress.app import DrainingServer, create_app
    from resources.http_server import server_options
    from resources.kafka.producer import Producer

    settings = Settings(data_dir=Path(folder), log_level="WARNING")
    app = create_app(settings, index_with(Path(folder)), Producer(broker))
    config = uvicorn.Config(app, host="127.0.0.1", port=port, **server_options(settings, app.state.grpc))
    DrainingServer(config, app.state.receivers, app.state.grpc).run()


@contextmanager
def ingress(folder: Path) -> Iterator[str]:
    """Yield the address of a running ingress that writes to `folder`."""
    mock = NativeProducer({"test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(mock.list_topics(timeout=5).brokers.values()))
    port = any_free()
    process = SPAWN.Process(target=serve, args=(port, str(folder), f"{broker.host}:{broker.port}"))
    process.start()
    url = f"http://127.0.0.1:{port}"
    try:
        while True:
            try:
                httpx.get(f"{url}/readyz").raise_for_status()
                break
            except httpx.TransportError:
                assert process.is_alive()
                time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.join(20)


def opened(folder: Path) -> list[bytes]:
    return [zstandard.decompress(path.read_bytes()) for path in folder.rglob("*.zst")]


def log_records(folder: Path) -> int:
    found = ExportLogsServiceRequest.FromString(b"".join(opened(folder)))
    return sum(len(s.log_records) for r in found.resource_logs for s in r.scope_logs)


def spans(folder: Path) -> int:
    found = ExportTraceServiceRequest.FromString(b"".join(opened(folder)))
    return sum(len(s.spans) for r in found.resource_spans for s in r.scope_spans)


def log_exporter(url: str, over: str) -> Any:
    """Return the SDK's exporter over `http` or `grpc`."""
    from opentelemetry.exporter.otlp.proto.grpc import _log_exporter as by_grpc
    from opentelemetry.exporter.otlp.proto.http import _log_exporter as by_http

    if over == "grpc":
        return by_grpc.OTLPLogExporter(url, headers={name.lower(): value for name, value in KEY.items()})
    return by_http.OTLPLogExporter(f"{url}/v1/logs", headers=KEY)


def span_exporter(url: str, over: str) -> Any:
    from opentelemetry.exporter.otlp.proto.grpc import trace_exporter as by_grpc
    from opentelemetry.exporter.otlp.proto.http import trace_exporter as by_http

    if over == "grpc":
        return by_grpc.OTLPSpanExporter(url, headers={name.lower(): value for name, value in KEY.items()})
    return by_http.OTLPSpanExporter(f"{url}/v1/traces", headers=KEY)


def sdk_logs(url: str, seconds: float, over: str = "http") -> int:
    """Emit log records through the SDK's defaults; return their number."""
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    provider = LoggerProvider()
    provider.add_log_record_processor(BatchLogRecordProcessor(log_exporter(url, over)))
    logger = provider.get_logger("bench")

    def emit(number: int) -> None:
        logger.emit(
            LogRecord(severity_number=SeverityNumber.INFO, body=f"order {number} took {number % 97} ms")
        )

    made = paced(emit, seconds)
    provider.shutdown()
    return made


def sdk_spans(url: str, seconds: float, over: str = "http") -> int:
    """Make spans through the SDK's defaults; return their number."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(span_exporter(url, over)))
    tracer = provider.get_tracer("bench")
    made = paced(lambda number: tracer.start_span(f"step {number % 50}").end(), seconds)
    provider.shutdown()
    return made


def paced(emit: Callable[[int], None], seconds: float) -> int:
    """Call `emit` at `RATE`, in steps of five milliseconds; a delay is not made good by a burst."""
    began, made, step = time.monotonic(), 0, RATE // 200
    due = began
    while (now := time.monotonic()) - began < seconds:
        if now < due:
            time.sleep(due - now)
            continue
        for number in range(made, made + step):
            emit(number)
        made += step
        due = max(due + 0.005, now)
    return made


def latencies(url: str, pushes: int, pause_s: float) -> list[float]:
    """Push one line at a time over Loki's protocol; return the seconds that each took."""
    found = []
    with httpx.Client(base_url=url, headers=KEY) as client:
        for number in range(pushes):
            values = [[str(time.time_ns()), f"line {number}"]]
            began = time.monotonic()
            client.post(
                "/loki/api/v1/push", json={"streams": [{"stream": {"app": "x"}, "values": values}]}
            ).raise_for_status()
            found.append(time.monotonic() - began)
            time.sleep(pause_s)
    return found


def sender(
    name: str, send: Callable[[str, float], int], count: Callable[[Path], int], seconds: float
) -> Record:
    """Compare what a client made with what lies in the bucket."""
    with tempfile.TemporaryDirectory(prefix="lakerunner-push-") as place:
        folder = Path(place)
        with ingress(folder) as url:
            began = time.monotonic()
            made = send(url, seconds)
            elapsed = time.monotonic() - began
        arrived, objects = count(folder), len(list(folder.rglob("*.zst")))
    lost = made - arrived
    counters = {"made": made, "records/s": round(arrived / elapsed)}
    counters["objects per minute"] = round(objects * 60 / elapsed)
    return Record(name, "records lost", lost, "records", must=0, ok=lost == 0, counters=counters)


def idle(pushes: int) -> list[Record]:
    """Measure an otherwise idle receiver: with pauses, and one push right after the other."""
    records = []
    with tempfile.TemporaryDirectory(prefix="lakerunner-push-") as place, ingress(Path(place)) as url:
        latencies(url, 20, 0.0)
        for name, pause_s in (("idle", 0.05), ("serial", 0.0)):
            found = latencies(url, pushes, pause_s)
            cuts = [cut * 1000 for cut in statistics.quantiles(found, n=100)]
            rate = {"pushes/s": round(len(found) / sum(found))}
            records.append(
                Record(name, "p50 of a push", cuts[49], "ms", 50, ok=cuts[49] <= 50, counters=rate)
            )
            records.append(Record(name, "p99 of a push", cuts[98], "ms", 250, ok=cuts[98] <= 250))
    return records


def capacity(over: str, seconds: float) -> Record:
    """Measure the exports per second that 16 senders get through, 512 spans each."""
    body = ExportTraceServiceRequest()
    scope = body.resource_spans.add().scope_spans.add()
    for number in range(512):
        scope.spans.add(trace_id=bytes(16), span_id=bytes(8), name=f"step {number % 50}", kind=2)
    data, key = body.SerializeToString(), KEY | {"content-type": "application/x-protobuf"}
    with tempfile.TemporaryDirectory(prefix="lakerunner-push-") as place, ingress(Path(place)) as url:
        stop, made = threading.Event(), []

        def send_by_http() -> None:
            with httpx.Client(base_url=url, headers=key) as client:
                while not stop.is_set():
                    client.post("/v1/traces", content=data).raise_for_status()
                    made.append(1)

        def send_by_grpc() -> None:
            options = (("grpc.use_local_subchannel_pool", 1),)
            with grpc.insecure_channel(url.removeprefix("http://"), options) as channel:
                export = channel.unary_unary(EXPORTS["trace"])
                while not stop.is_set():
                    export(data, metadata=[("authorization", KEY["Authorization"])])
                    made.append(1)

        send = send_by_grpc if over == "grpc" else send_by_http
        threads = [threading.Thread(target=send) for _ in range(16)]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        stop.set()
        for thread in threads:
            thread.join()
    rate = round(len(made) / seconds)
    return Record(f"capacity-{over}", "exports per second", rate, "1/s", counters={"bytes": len(data)})


def telemetrygen(program: Path) -> Callable[[str, float], int]:
    """Return a sender that runs telemetrygen at full speed."""

    def send(url: str, seconds: float) -> int:
        host = url.removeprefix("http://")
        key = 'Authorization="' + KEY["Authorization"] + '"'
        command: list[Any] = [program, "traces", "--otlp-http", "--otlp-insecure", "--otlp-endpoint", host]
        command += [
            "--otlp-header",
            key,
            "--rate",
            "0",
            "--duration",
            f"{seconds:.0f}s",
            "--workers",
            "8",
            "--batch=false",
        ]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        lines = [
            line for line in result.stderr.splitlines() + result.stdout.splitlines() if '"traces"' in line
        ]
        return sum(2 * int(line.split('"traces":')[1].split("}")[0].split(",")[0]) for line in lines)

    return send


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5 s instead of 30")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--telemetrygen", type=Path, help="the program of that name")
    args = parser.parse_args()
    seconds = 5.0 if args.quick else 30.0
    records = idle(60 if args.quick else 300)
    for over in ("http", "grpc"):
        records.append(sender(f"sdk-logs-{over}", partial(sdk_logs, over=over), log_records, seconds))
        records.append(sender(f"sdk-spans-{over}", partial(sdk_spans, over=over), spans, seconds))
        records.append(capacity(over, seconds))
    if args.telemetrygen:
        records.append(sender("telemetrygen", telemetrygen(args.telemetrygen), spans, seconds))
    tell("push", records, args.json)


if __name__ == "__main__":
    main()
