"""Packs the shop's telemetry as an OpenTelemetry collector does: OTLP protobuf, gzipped.

Every log line has a span of the same ids, so that one leads to the other. A call has two: the caller's, of
kind client, and below it the one of the service that is called.
"""

from __future__ import annotations

import gzip

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from lakerunner_cli.demo.calls import CALLERS, MS, took_ns
from lakerunner_cli.demo.shop import SERVICES, Line, by_service

NETWORK_NS = MS // 2
"""Time of a request, and of an answer, between two services."""
SEVERITY_NUMBERS = {
    "DEBUG": SeverityNumber.SEVERITY_NUMBER_DEBUG,
    "INFO": SeverityNumber.SEVERITY_NUMBER_INFO,
    "WARN": SeverityNumber.SEVERITY_NUMBER_WARN,
    "ERROR": SeverityNumber.SEVERITY_NUMBER_ERROR,
}


def pack(lines: list[Line]) -> bytes:
    """Pack one export request with a resource per service."""
    request = ExportLogsServiceRequest(
        resource_logs=[_resource(service, found) for service, found in by_service(lines) if found]
    )
    return compress(request.SerializeToString())


def pack_spans(lines: list[Line]) -> bytes:
    """Pack a span for every line, which ends when the line was written."""
    spans: dict[str, list[Span]] = {service: [] for service in SERVICES}
    for line in lines:
        spans[line.service].append(_span(line))
        if line.caller:
            spans[CALLERS[line.service]].append(_call(line))
    groups = [
        ResourceSpans(resource=resource_of(service), scope_spans=[ScopeSpans(spans=found)])
        for service, found in spans.items()
        if found
    ]
    return compress(ExportTraceServiceRequest(resource_spans=groups).SerializeToString())


def compress(data: bytes) -> bytes:
    return gzip.compress(data, compresslevel=5, mtime=0)


def resource_of(service: str) -> Resource:
    about = {
        "service.name": service,
        "service.namespace": "shop",
        "service.version": "1.4.2",
        "k8s.pod.name": f"{service}-7d9f-{len(service)}",
        "deployment.environment": "demo",
    }
    return Resource(attributes=[attribute(name, value) for name, value in about.items()])


def _resource(service: str, lines: list[Line]) -> ResourceLogs:
    return ResourceLogs(
        resource=resource_of(service), scope_logs=[ScopeLogs(log_records=[_record(line) for line in lines])]
    )


def _span(line: Line) -> Span:
    route = dict(line.attributes).get("http.route")
    return Span(
        trace_id=line.trace_id,
        span_id=line.span_id,
        parent_span_id=call_id(line) if line.caller else b"",
        name=f"GET {route}" if route else f"{line.service} handle",
        kind=Span.SpanKind.SPAN_KIND_SERVER,
        start_time_unix_nano=line.time_ns - took_ns(line),
        end_time_unix_nano=line.time_ns,
        attributes=[attribute(name, value) for name, value in line.attributes],
        status=_status(line),
    )


def _call(line: Line) -> Span:
    """Return the caller's span of a call, which is a little longer than the work."""
    return Span(
        trace_id=line.trace_id,
        span_id=call_id(line),
        parent_span_id=line.caller,
        name=f"call {line.service}",
        kind=Span.SpanKind.SPAN_KIND_CLIENT,
        start_time_unix_nano=line.time_ns - took_ns(line) - NETWORK_NS,
        end_time_unix_nano=line.time_ns + NETWORK_NS,
        attributes=[attribute("peer.service", line.service)],
        status=_status(line),
    )


def call_id(line: Line) -> bytes:
    """Return the id of the caller's span, made of that of the work."""
    return bytes(byte ^ 0xA5 for byte in line.span_id)


def _status(line: Line) -> Status:
    if line.severity != "ERROR":
        return Status()
    return Status(code=Status.StatusCode.STATUS_CODE_ERROR, message=line.body.splitlines()[0])


def _record(line: Line) -> LogRecord:
    return LogRecord(
        time_unix_nano=line.time_ns,
        observed_time_unix_nano=line.time_ns,
        severity_number=SEVERITY_NUMBERS[line.severity],
        severity_text=line.severity,
        body=AnyValue(string_value=line.body),
        trace_id=line.trace_id,
        span_id=line.span_id,
        attributes=[attribute(name, value) for name, value in line.attributes],
    )


def attribute(name: str, value: str | float) -> KeyValue:
    if isinstance(value, str):
        return KeyValue(key=name, value=AnyValue(string_value=value))
    if isinstance(value, int):
        return KeyValue(key=name, value=AnyValue(int_value=value))
    return KeyValue(key=name, value=AnyValue(double_value=value))
