"""OTLP/HTTP: checks requests, and renders answers in protobuf or JSON like the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from lakerunner_ingress.addresses import GRPC_ANSWER
from lakerunner_ingress.receivers.forms import CheckedPush, Form
from lakerunner_ingress.receivers.otlp_json import read_json
from lakerunner_ingress.receivers.refusals import BadRequestError, Refusal, UnsupportedError
from resources.lake.layout import Signal
from resources.notifications.raw_objects import MARKER
from resources.proto.parsing import NotAMessageError, parse
from resources.proto.status import Status

PROTOBUF, JSON = "application/x-protobuf", "application/json"
FORMS = {PROTOBUF: Form.OTLP_PROTOBUF, "application/protobuf": Form.OTLP_PROTOBUF, JSON: Form.OTLP_JSON}
GRPC_CODES = {400: 3, 401: 16, 403: 7, 413: 3, 415: 3, 429: 8, 501: 12, 503: 14}
INTERNAL = 13


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of a signal's messages and fields."""

    request: Any
    response: Any
    field: str
    key: str
    rejected: str


_NAMES = {
    Signal.LOGS: _Names(
        logs_service_pb2.ExportLogsServiceRequest,
        logs_service_pb2.ExportLogsServiceResponse,
        "resource_logs",
        "resourceLogs",
        "rejectedLogRecords",
    ),
    Signal.METRICS: _Names(
        metrics_service_pb2.ExportMetricsServiceRequest,
        metrics_service_pb2.ExportMetricsServiceResponse,
        "resource_metrics",
        "resourceMetrics",
        "rejectedDataPoints",
    ),
    Signal.TRACES: _Names(
        trace_service_pb2.ExportTraceServiceRequest,
        trace_service_pb2.ExportTraceServiceResponse,
        "resource_spans",
        "resourceSpans",
        "rejectedSpans",
    ),
}


def form_of(content_type: str) -> Form:
    """Return the form of a content type.

    >>> form_of("application/json; charset=utf-8").value
    'otlp_json'
    """
    name = content_type.partition(";")[0].strip().lower()
    if name.startswith("application/grpc"):
        raise UnsupportedError(GRPC_ANSWER)
    if name not in FORMS:
        raise UnsupportedError(f"Content-Type {name[:64]!r}: expected {PROTOBUF} or {JSON}")
    return FORMS[name]


def read_otlp(data: bytes, signal: Signal, form: Form) -> CheckedPush:
    """Check a request; raise `BadRequestError` if nothing of it is valid. An empty request is a success."""
    if form is Form.OTLP_JSON:
        return read_json(data, signal, _NAMES[signal].key)
    names = _NAMES[signal]
    if data.startswith(MARKER):
        raise BadRequestError("byte 0: field 15000 is reserved")
    try:
        request = parse(names.request, data)
    except NotAMessageError as error:
        raise BadRequestError(str(error)) from error
    if data and not getattr(request, names.field):
        raise BadRequestError(f"{len(data)} bytes without {names.field}: is this the path of this signal?")
    return CheckedPush(signal, form, data)


def answer(received: CheckedPush) -> tuple[bytes, str]:
    """Render a success; return body and content type."""
    names = _NAMES[received.signal]
    if received.form is Form.OTLP_PROTOBUF:
        return names.response().SerializeToString(), PROTOBUF
    if not received.reason:
        return b"{}", JSON
    partial = {names.rejected: str(received.rejected), "errorMessage": received.reason}
    return msgspec.json.encode({"partialSuccess": partial}), JSON


def refuse(refusal: Refusal, content_type: str) -> tuple[bytes, str]:
    """Render an error as google.rpc.Status; return body and content type."""
    code = GRPC_CODES.get(refusal.status, INTERNAL)
    if FORMS.get(content_type.partition(";")[0].strip().lower()) is Form.OTLP_PROTOBUF:
        return Status(code=code, message=refusal.message).SerializeToString(), PROTOBUF
    return msgspec.json.encode({"code": code, "message": refusal.message}), JSON
