"""Log lines as an OpenTelemetry collector writes them: OTLP protobuf, gzipped."""

from __future__ import annotations

import gzip

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from lakerunner_cli.demo.shop import Line, by_service

SEVERITY_NUMBERS = {
    "DEBUG": SeverityNumber.SEVERITY_NUMBER_DEBUG,
    "INFO": SeverityNumber.SEVERITY_NUMBER_INFO,
    "WARN": SeverityNumber.SEVERITY_NUMBER_WARN,
    "ERROR": SeverityNumber.SEVERITY_NUMBER_ERROR,
}


def pack(lines: list[Line]) -> bytes:
    """One export request with a resource per service."""
    request = ExportLogsServiceRequest(
        resource_logs=[_resource(service, found) for service, found in by_service(lines) if found]
    )
    return gzip.compress(request.SerializeToString(), compresslevel=5, mtime=0)


def _resource(service: str, lines: list[Line]) -> ResourceLogs:
    about = {
        "service.name": service,
        "service.namespace": "shop",
        "service.version": "1.4.2",
        "k8s.pod.name": f"{service}-7d9f-{len(service)}",
        "deployment.environment": "demo",
    }
    resource = Resource(attributes=[_attribute(name, value) for name, value in about.items()])
    return ResourceLogs(
        resource=resource, scope_logs=[ScopeLogs(log_records=[_record(line) for line in lines])]
    )


def _record(line: Line) -> LogRecord:
    return LogRecord(
        time_unix_nano=line.time_ns,
        observed_time_unix_nano=line.time_ns,
        severity_number=SEVERITY_NUMBERS[line.severity],
        severity_text=line.severity,
        body=AnyValue(string_value=line.body),
        trace_id=line.trace_id,
        span_id=line.span_id,
        attributes=[_attribute(name, value) for name, value in line.attributes],
    )


def _attribute(name: str, value: str | float) -> KeyValue:
    if isinstance(value, str):
        return KeyValue(key=name, value=AnyValue(string_value=value))
    if isinstance(value, int):
        return KeyValue(key=name, value=AnyValue(int_value=value))
    return KeyValue(key=name, value=AnyValue(double_value=value))
