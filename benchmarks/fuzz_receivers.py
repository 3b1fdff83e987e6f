"""Mutated payloads of every receiver go through the ingress in this process, over a store in memory.

`python -m benchmarks.fuzz_receivers [--quick] [--cases N] [--seed S] [--resume FILE]`. A case is a good
request with a few changes to its body, before or after compression, and now and then to its headers. Every
answer must be one that the documentation names: an exception, or a status of 500 and above but 501, is a
failure and is written to the file with its seed. A batch is a line of the file, so a run continues where it
ended.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gc
import gzip
import json
import random
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import zstandard
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.report import Record, tell
from lakerunner_ingress.app import create_app
from resources.proto.loki import PushRequest
from resources.proto.prometheus import RequestV2, WriteRequest
from resources.settings import Settings
from tests.support.ingress import payloads
from tests.support.ingress.doubles import FakeProducer, accounts

BATCH, AT_ONCE = 5_000, 50
PROTOBUF, JSON = "application/x-protobuf", "application/json"
T = 1_767_323_045_000_000_000
TOKEN = "hook"  # noqa: S105 - of the doubles
Body = Callable[[bytes], bytes]
ENCODERS: dict[str, Body] = {
    "": bytes,
    "gzip": lambda data: gzip.compress(data, 1),
    "deflate": lambda data: zlib.compress(data, 1),
    "zstd": zstandard.ZstdCompressor(level=1).compress,
    "snappy": lambda data: bytes(pa.compress(data, codec="snappy", asbytes=True)),
}


@dataclass(frozen=True, slots=True)
class Good:
    """A request that is taken."""

    path: str
    media: str
    body: bytes
    encodings: tuple[str, ...]
    key: str = "acme-write"


@dataclass(slots=True)
class Case:
    """A request that may be anything."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Found:
    """The answers of a batch."""

    statuses: Counter[int] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)


def otlp_logs() -> Any:
    request = ExportLogsServiceRequest()
    resource = request.resource_logs.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "shop"
    scope = resource.scope_logs.add()
    for number in range(3):
        record = scope.log_records.add(time_unix_nano=T + number, severity_number=9, flags=1)
        record.body.kvlist_value.values.add(key="n").value.int_value = number - 1
        record.attributes.add(key="list").value.array_value.values.add().double_value = 0.5
        record.attributes.add(key="raw").value.bytes_value = b"\x00\xff"
        record.trace_id, record.span_id = b"0123456789abcdef", b"01234567"
    return request


def otlp_metrics() -> Any:
    request = ExportMetricsServiceRequest()
    metrics = request.resource_metrics.add().scope_metrics.add().metrics
    metrics.add(name="gauge", unit="s").gauge.data_points.add(time_unix_nano=T, as_double=1.5)
    total = metrics.add(name="sum").sum
    total.aggregation_temporality, total.is_monotonic = 2, True
    point = total.data_points.add(time_unix_nano=T, as_int=-7)
    point.exemplars.add(time_unix_nano=T, as_double=1.0).filtered_attributes.add(key="k")
    metrics.add(name="h").histogram.data_points.add(
        time_unix_nano=T, count=3, sum=1.0, bucket_counts=[1, 2], explicit_bounds=[0.5]
    )
    exponential = metrics.add(name="e").exponential_histogram.data_points.add(
        time_unix_nano=T, count=3, scale=2
    )
    exponential.positive.offset = -1
    exponential.positive.bucket_counts.extend([1, 2])
    metrics.add(name="q").summary.data_points.add(time_unix_nano=T, count=1).quantile_values.add(
        quantile=0.5, value=1.0
    )
    return request


def otlp_traces() -> Any:
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name="step", kind=2)
    span.trace_id, span.span_id, span.parent_span_id = b"0123456789abcdef", b"01234567", b"76543210"
    span.start_time_unix_nano, span.end_time_unix_nano = T, T + 5
    span.events.add(time_unix_nano=T, name="retry").attributes.add(key="n").value.int_value = 1
    span.links.add(trace_id=b"0123456789abcdef", span_id=b"01234567")
    span.status.code = 2
    return request


def remote_write() -> Any:
    request = WriteRequest()
    series = request.timeseries.add()
    for name, value in (("__name__", "up"), ("job", "shop")):
        series.labels.add(name=name, value=value)
    series.samples.add(value=1.0, timestamp=T // 10**6)
    series.exemplars.add(value=1.0, timestamp=5).labels.add(name="trace_id", value="1")
    series.histograms.add(count_int=3, schema=2, positive_deltas=[1, -1], timestamp=5)
    request.metadata.add(metric_family_name="up", type=2, help="Whether it answers.")
    return request


def remote_write_2() -> Any:
    request = RequestV2(symbols=["", "__name__", "up", "job", "shop", "Whether it answers."])
    series = request.timeseries.add(labels_refs=[1, 2, 3, 4])
    series.samples.add(value=1.0, timestamp=T // 10**6)
    series.exemplars.add(value=1.0, timestamp=5, labels_refs=[3, 4])
    series.metadata.type, series.metadata.help_ref = 2, 5
    return request


def loki_push() -> Any:
    request = PushRequest()
    for app in ("shop", "web"):
        entry = request.streams.add(labels=f'{{app="{app}", level="info"}}').entries.add(line="a line")
        entry.timestamp.seconds = T // 10**9
        entry.structured_metadata.add(name="trace_id", value="1")
    return request


def good_requests() -> list[Good]:
    """Return a request of every receiver in every form."""
    otlp_encodings = ("", "gzip", "deflate", "zstd", "snappy")
    found = []
    for name, message in (("logs", otlp_logs()), ("metrics", otlp_metrics()), ("traces", otlp_traces())):
        text = json.dumps(_hexadecimal(MessageToDict(message))).encode()
        found.append(Good(f"/v1/{name}", PROTOBUF, message.SerializeToString(), otlp_encodings))
        found.append(Good(f"/v1/{name}", JSON, text, otlp_encodings))
    found.append(Good("/api/v1/write", PROTOBUF, remote_write().SerializeToString(), ("snappy",)))
    message_2 = f"{PROTOBUF};proto=io.prometheus.write.v2.Request"
    found.append(Good("/api/v1/write", message_2, remote_write_2().SerializeToString(), ("snappy",)))
    found.append(Good("/loki/api/v1/push", PROTOBUF, loki_push().SerializeToString(), ("snappy",)))
    values = [[str(T), "a line", {"trace_id": "1"}], [str(T + 1), "another"]]
    body = {"streams": [{"stream": {"app": "shop", "level": "info"}, "values": values}]}
    found.append(Good("/loki/api/v1/push", JSON, json.dumps(body).encode(), ("", "gzip", "deflate", "zstd")))
    key = "otel-raw/acme/eu/logs/2026/01/02/03/a.binpb.gz"
    for where, event in (
        ("s3", payloads.s3(key)), ("s3", payloads.minio(key)), ("s3", payloads.sns(payloads.s3(key))),
        ("s3", payloads.eventbridge(key)), ("gcs", payloads.gcs_push(key)), ("azure", [payloads.blob(key)]),
        ("azure", payloads.cloud_event(key)), ("azure", [payloads.validation("code")]),
    ):  # fmt: skip
        path = f"/api/v1/notifications/{where}"
        found.append(Good(path, JSON, json.dumps(event).encode(), ("",), TOKEN))
    return found


def _hexadecimal(value: Any) -> Any:
    """Write ids as OTLP does, which is not as protobuf's JSON does."""
    if isinstance(value, list):
        return [_hexadecimal(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: base64.b64decode(each).hex()
        if name in {"traceId", "spanId", "parentSpanId"}
        else _hexadecimal(each)
        for name, each in value.items()
    }


TOKENS = (
    b"null", b"true", b"-1", b"1e999", b"99999999999999999999999", b"[]", b"{}", b'""', b'"\\ud800"',
    b'"\\u0000"',
    b"[" * 120, b'{"a":' * 120, b"NaN", b"0.1", b'"1767323045"', b"\xff\xfe", b'"__name__"', b"\xef\xbb\xbf",
)  # fmt: skip
WIRE = (
    b"\x00", b"\xff" * 10, b"\x80" * 11, b"\x0a\x00", b"\x0a\x00" * 50, b"\x0b", b"\x0c", b"\x7a\x7f",
    b"\xc2\xa9\x07",
    b"\xff\xff\xff\xff\x0f", b"\x0a\xff\xff\xff\xff\x07", b"\x09" + b"\xff" * 8, b"\x15\x00\x00\xc0\x7f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
)  # fmt: skip
HEADERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "content-type",
        ("", "text/plain", JSON, PROTOBUF, "application/grpc", f"{PROTOBUF};proto=x", "\xff;;;"),
    ),
    ("content-encoding", ("", "identity", "gzip", "zstd", "deflate", "snappy", "br", "\xe9")),
    ("authorization", ("", "Bearer wrong", "Basic !!!", "Basic YTpiOmM=", "Bearer acme-read", "x" * 5000)),
    ("x-lakerunner-collector", ("Bad Name", "eu-1", "\xe9", "a" * 300)),
    ("x-scope-orgid", ("acme", "beta", "a|b", "\xff")),
    ("x-lakerunner-signature", ("sha256=00", "\xe9")),
    ("x-amz-sns-message-type", ("SubscriptionConfirmation",)),
    ("webhook-request-origin", ("eventgrid.azure.net", "\xe9")),
)


def mutate(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Change a few places of `data`."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(changed) + 1)
        end = min(len(changed), at + rng.choice((1, 1, 2, 4, 16, 64)))
        kind = rng.randrange(9)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(changed):
            changed[at] = rng.randrange(256)
        elif kind == 2:
            del changed[at:end]
        elif kind == 3:
            changed[at:at] = changed[at:end] * rng.choice((1, 2, 50))
        elif kind == 4:
            changed[at:end] = rng.randbytes(end - at)
        elif kind == 5:
            changed[at:at] = rng.choice(WIRE)
        elif kind == 6:
            changed[at:end] = rng.choice(TOKENS)
        elif kind == 7:
            other = rng.choice(others)
            cut = rng.randrange(len(other) + 1)
            changed[at:] = other[cut:]
        else:
            del changed[at:]
    return bytes(changed[: 1 << 20])


def make_case(
    goods: Sequence[Good], others: Sequence[bytes], rng: random.Random, plain: bool = False
) -> Case:
    """Make a case from a random good request; a `plain` one has its path and headers."""
    good = rng.choice(goods)
    encoding = rng.choice(good.encodings)
    body = mutate(good.body, others, rng) if rng.random() < 0.8 else good.body
    body = ENCODERS[encoding](body)
    if rng.random() < 0.2:
        body = mutate(body, others, rng)
    headers = {"authorization": f"Bearer {good.key}", "content-type": good.media}
    if encoding:
        headers["content-encoding"] = encoding
    if plain:
        return Case(good.path, headers, body)
    if rng.random() < 0.1:
        name, values = rng.choice(HEADERS)
        headers[name] = rng.choice(values)
    path = good.path if rng.random() < 0.97 else rng.choice(goods).path
    return Case(path, headers, body)


class MemoryStore:
    """A store that takes everything."""

    def put_new(self, _key: str, _data: bytes) -> str:
        return "etag"


class Runner:
    """The ingress in this process."""

    def __init__(self) -> None:
        self._goods = good_requests()
        self._bodies = [good.body for good in self._goods]
        settings = Settings(webhook_token=TOKEN, receiver_puts_per_minute=60_000)
        self._index = accounts()
        self._producer = FakeProducer()
        self._app = create_app(settings, self._index, self._producer)  # type: ignore[arg-type]

    async def check_good(self) -> None:
        """Fail unless every good request is taken."""
        for good in self._goods:
            for encoding in good.encodings:
                headers = {"authorization": f"Bearer {good.key}", "content-type": good.media}
                if encoding:
                    headers["content-encoding"] = encoding
                status, text = await self.send(Case(good.path, headers, ENCODERS[encoding](good.body)))
                assert status < 300, (good.path, good.media, encoding, status, text)

    async def run(self, seed: int, batch: int, cases: int) -> Found:
        """Send the cases of a batch, several at a time."""
        rng, found = random.Random(f"{seed}/{batch}"), Found()
        for start in range(0, cases, AT_ONCE):
            group = [make_case(self._goods, self._bodies, rng) for _ in range(min(AT_ONCE, cases - start))]
            answers = await asyncio.gather(*(self.send(case) for case in group), return_exceptions=True)
            for case, answer in zip(group, answers, strict=True):
                if isinstance(answer, BaseException):
                    found.failures.append(_failure(case, 0, repr(answer)))
                    continue
                status, text = answer
                if status == 503:  # a busy machine: senders send it again
                    status, text = await self.send(case)
                found.statuses[status] += 1
                if status >= 500 and status != 501:
                    found.failures.append(_failure(case, status, text))
            self._forget()
        return found

    async def send(self, case: Case) -> tuple[int, str]:
        """Send one request; return status and text of the answer."""
        headers = [(name.encode(), value.encode("latin-1")) for name, value in case.headers.items()]
        headers.append((b"content-length", str(len(case.body)).encode()))
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST",
            "scheme": "http", "path": case.path, "raw_path": case.path.encode(), "root_path": "",
            "query_string": b"", "headers": headers, "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 4380), "state": {},
        }  # fmt: skip
        sent = [{"type": "http.request", "body": case.body, "more_body": False}]
        status, parts = 0, []

        async def receive() -> dict[str, Any]:
            if sent:
                return sent.pop()
            await asyncio.sleep(3600)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                parts.append(message.get("body", b""))

        await self._app(scope, receive, send)  # type: ignore[arg-type]
        return status, b"".join(parts)[:500].decode(errors="replace")

    async def close(self) -> None:
        await self._app.state.receivers.close()

    def _forget(self) -> None:
        """Empty what the doubles remember."""
        self._producer.sent.clear()
        self._index._state.dead.clear()  # noqa: SLF001 - a double
        self._index._state.metadata.clear()  # noqa: SLF001 - a double


def _failure(case: Case, status: int, text: str) -> dict[str, Any]:
    body = base64.b64encode(case.body).decode()
    return {"path": case.path, "headers": case.headers, "body": body, "status": status, "text": text}


def done_batches(resume: Path | None, seed: int) -> list[dict[str, Any]]:
    lines = resume.read_text().splitlines() if resume and resume.exists() else []
    return [line for line in map(json.loads, lines) if line["seed"] == seed]


def append(resume: Path, line: dict[str, Any]) -> None:
    with resume.open("a") as file:
        file.write(json.dumps(line) + "\n")


async def fuzz(seed: int, cases: int, resume: Path | None) -> list[Record]:
    """Run batches until there are as many cases as asked for; return what they found."""
    done = done_batches(resume, seed)
    total, failures, statuses = sum(line["cases"] for line in done), 0, Counter[str]()
    for line in done:
        failures += len(line["failures"])
        statuses.update(line["statuses"])
    runner, began, batch = Runner(), time.monotonic(), len(done)
    with patch("lakerunner_ingress.receivers.writing.open_store", lambda *_: MemoryStore()):
        await runner.check_good()
        while total < cases:
            size = min(BATCH, cases - total)
            found = await runner.run(seed, batch, size)
            known = {str(status): count for status, count in sorted(found.statuses.items())}
            line = {
                "seed": seed,
                "batch": batch,
                "cases": size,
                "statuses": known,
                "failures": found.failures,
            }
            if resume:
                await asyncio.to_thread(append, resume, line)
            total, batch, failures = total + size, batch + 1, failures + len(found.failures)
            statuses.update(known)
            for failure in found.failures[:3]:
                print(f"FAILURE {failure['status']} {failure['path']}: {failure['text'][:300]}", flush=True)
            gc.collect()
        await runner.close()
    counters: dict[str, Any] = dict(sorted(statuses.items())) | {"cases": total, "seed": seed}
    counters["seconds of this run"] = round(time.monotonic() - began)
    return [Record("fuzz", "failures", failures, "cases", must=0, ok=failures == 0, counters=counters)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20,000 cases")
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", type=Path, help="file of batches that are done, and of failures")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    import logging

    logging.disable(logging.CRITICAL)
    records = asyncio.run(fuzz(args.seed, 20_000 if args.quick else args.cases, args.resume))
    tell("fuzz_receivers", records, args.json)
    raise SystemExit(not all(record.ok for record in records))


if __name__ == "__main__":
    main()
