"""Spans of a shop that Jaeger's translation treats in many ways, and what a Jaeger said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

from tests.support.cooking_lake import HOUR

RECORDED = Path(__file__).parents[2] / "golden" / "cases" / "jaeger" / "answers.jsonl"
"""Requests and answers of the query handler of Jaeger 1.76.0 (2.13.0) over its memory storage.

A Go program inside of that module wrote `otlp_json(shop())` into the storage and called `NewAPIHandler`, with
the standard adjusters and the disabled reader of metrics.
"""
INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = 1, 2, 3, 4, 5
MS, US = 1_000_000, 1_000
LARGE, SMALL = bytes(range(16, 32)), bytes(8) + bytes(range(1, 9))
"""Ids of the traces: of 128 bits, and of 64."""


def put(owner: Any, key: str, value: object) -> None:
    """Add an attribute of any kind."""
    target = owner.attributes.add(key=key).value
    match value:
        case bool():
            target.bool_value = value
        case int():
            target.int_value = value
        case float():
            target.double_value = value
        case str():
            target.string_value = value
        case bytes():
            target.bytes_value = value
        case list():
            for one in value:
                target.array_value.values.add(string_value=one)
        case dict():
            for name, one in value.items():
                target.kvlist_value.values.add(key=name).value.int_value = one


def spans_of(request: ExportTraceServiceRequest, service: str, **more: object) -> ResourceSpans:
    group = request.resource_spans.add()
    if service:
        put(group.resource, "service.name", service)
    for key, value in more.items():
        put(group.resource, key.replace("_", "."), value)
    return group


def add(
    group: ResourceSpans,
    trace: bytes,
    number: int,
    parent: int,
    name: str,
    kind: int,
    start_ms: float,
    ms: float,
) -> Span:
    """Add a span; times are milliseconds after the hour."""
    if not group.scope_spans:
        group.scope_spans.add()
    span = group.scope_spans[0].spans.add(trace_id=trace, span_id=number.to_bytes(8, "big"), name=name)
    span.kind = kind  # type: ignore[assignment]
    span.parent_span_id = parent.to_bytes(8, "big") if parent else b""
    span.start_time_unix_nano = HOUR + int(start_ms * MS)
    span.end_time_unix_nano = span.start_time_unix_nano + int(ms * MS)
    return span


def shop() -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    web = spans_of(request, "web", host_name="w1", telemetry_sdk_language="go")
    root = add(web, LARGE, 1, 0, "GET /", SERVER, 1_000.5, 900)
    web.scope_spans[0].scope.name, web.scope_spans[0].scope.version = "net/http", "1.2"
    for key, value in {
        "http.status_code": 500, "large": 2**60, "least": -(2**53), "ratio": 0.25, "whole": 3.0,
        "is.slow": True,
        "body": b"\x00\xff", "tags": ["a", "b\"<"], "sizes": {"z": 1, "a": 2}, "telemetry.sdk.name": "otel",
        "peer.ipv4": 0x7F000001, "zone": "eu", "text": "500",
    }.items():  # fmt: skip
        put(root, key, value)
    root.trace_state = "vendor=1"
    root.status.code = 2  # type: ignore[assignment]
    root.status.message = "boom"
    event = root.events.add(time_unix_nano=HOUR + 1_100 * MS, name="exception")
    put(event, "exception.type", "TimeoutError")
    put(event, "attempt", 2)
    named = root.events.add(time_unix_nano=HOUR + 1_050 * MS, name="other")
    put(named, "event", "sent with its name")
    root.links.add(trace_id=SMALL, span_id=bytes(7) + b"\x01")
    call = add(web, LARGE, 2, 1, "call cart", CLIENT, 1_100, 300)
    link = call.links.add(trace_id=LARGE, span_id=bytes(7) + b"\x01")
    put(link, "opentracing.ref_type", "follows_from")
    cart = spans_of(request, "cart", rack_name="c1", pod=7)
    add(cart, LARGE, 2, 1, "cart.get", SERVER, 1_150, 200)
    add(cart, LARGE, 3, 2, "select", CLIENT, 1_500, 20).status.code = 1  # type: ignore[assignment]
    add(cart, LARGE, 4, 99, "orphan", INTERNAL, 1_600, 10)
    queue = spans_of(request, "mail/queue")
    add(queue, LARGE, 5, 1, "send", PRODUCER, 1_700, 5)
    add(queue, SMALL, 1, 0, "receive", CONSUMER, 61_000, 50)
    add(queue, SMALL, 2, 1, "no kind", 0, 61_010, 0.0015)
    add(spans_of(request, "db"), SMALL, 3, 2, "insert", SERVER, 61_010, 0.001)
    return request


def otlp_json(request: ExportTraceServiceRequest) -> str:
    """Write OTLP's JSON, in which ids are hexadecimal: what a Jaeger was given."""
    body: dict[str, Any] = MessageToDict(request, use_integers_for_enums=True)
    for group, sent in zip(body["resourceSpans"], request.resource_spans, strict=True):
        for part, of in zip(group["scopeSpans"], sent.scope_spans, strict=True):
            for span, one in zip(part["spans"], of.spans, strict=True):
                span["traceId"], span["spanId"] = one.trace_id.hex(), one.span_id.hex()
                if one.parent_span_id:
                    span["parentSpanId"] = one.parent_span_id.hex()
                for link, to in zip(span.get("links", ()), one.links, strict=True):
                    link["traceId"], link["spanId"] = to.trace_id.hex(), to.span_id.hex()
    return json.dumps(body)


def recorded() -> dict[str, tuple[int, Any]]:
    """Return status and body of the recorded answers by request."""
    found = (json.loads(line) for line in RECORDED.read_text().splitlines())
    return {one["request"]: (one["status"], json.loads(one["body"])) for one in found}
