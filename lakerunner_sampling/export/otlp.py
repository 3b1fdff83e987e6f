"""Spans become an OTLP request, sent over HTTP or gRPC; attributes leave as text."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from lakerunner_sampling.export.senders import HttpSender, Outcome, Reply
from resources.grpc.calls import Code
from resources.grpc.client import GrpcClient, GrpcError

PATH = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LATER = frozenset(
    {Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.RESOURCE_EXHAUSTED, Code.UNAVAILABLE, Code.UNAUTHENTICATED,
     Code.PERMISSION_DENIED, Code.UNIMPLEMENTED}
)  # fmt: skip
"""Codes that a repetition may overcome, some of them once somebody has changed a setting."""
Group = tuple[tuple[tuple[str, str], ...], str, str]


def payload(spans: pa.Table) -> bytes:
    """Encode spans, grouped by their resource and scope."""
    request = ExportTraceServiceRequest()
    resources: dict[tuple[tuple[str, str], ...], ResourceSpans] = {}
    scopes: dict[Group, ScopeSpans] = {}
    for row in spans.to_pylist():
        about = _resource_of(row)
        group = about, row["scope_name"] or "", row["scope_version"] or ""
        target = scopes.get(group)
        if target is None:
            resource = resources.get(about)
            if resource is None:
                resource = request.resource_spans.add(resource=Resource(attributes=_pairs(about)))
                resources[about] = resource
            scope = InstrumentationScope(name=group[1], version=group[2])
            target = scopes[group] = resource.scope_spans.add(scope=scope)
        target.spans.append(_span(row))
    return bytes(request.SerializeToString())


def _resource_of(row: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    pairs = tuple(row["resource_attributes"] or ())
    if row["service_name"] and all(key != "service.name" for key, _ in pairs):
        return ("service.name", row["service_name"]), *pairs
    return pairs


def _span(row: Mapping[str, Any]) -> Span:
    code = Status.StatusCode.ValueType(row["status_code"] or 0)
    found = Span(
        trace_id=row["trace_id"], span_id=row["span_id"] or b"", parent_span_id=row["parent_span_id"] or b"",
        trace_state=row["trace_state"] or "", flags=row["flags"] or 0, name=row["name"] or "",
        kind=Span.SpanKind.ValueType(row["kind"] or 0),
        start_time_unix_nano=row["start_ns"] or 0, end_time_unix_nano=row["end_ns"] or 0,
        attributes=_pairs(row["attributes"] or ()),
        status=Status(code=code, message=row["status_message"] or ""),
    )  # fmt: skip
    for event in row["events"] or ():
        found.events.add(
            time_unix_nano=event["time_ns"] or 0, name=event["name"] or "",
            attributes=_pairs(event["attributes"] or ()),
        )  # fmt: skip
    for link in row["links"] or ():
        found.links.add(
            trace_id=link["trace_id"] or b"", span_id=link["span_id"] or b"",
            trace_state=link["trace_state"] or "", attributes=_pairs(link["attributes"] or ()),
        )  # fmt: skip
    return found


def _pairs(attributes: Sequence[tuple[str, str | None]]) -> list[KeyValue]:
    return [
        KeyValue(key=key, value=AnyValue(string_value=value)) if value is not None else KeyValue(key=key)
        for key, value in attributes
    ]


@dataclass(slots=True)
class OtlpHttpSender(HttpSender):
    """Sends protobuf over HTTP, compressed."""

    def encode(self, spans: pa.Table) -> bytes:
        return payload(spans)

    def send(self, payload: bytes, traces: int, identity: str) -> Reply:  # noqa: ARG002 - no such fields
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
        return self.post(gzip.compress(payload, 1), headers)


@dataclass(slots=True)
class OtlpGrpcSender:
    """Sends over gRPC, without TLS to an address of `http://`, with TLS to one of `https://`."""

    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 10.0
    _client: GrpcClient | None = None

    def encode(self, spans: pa.Table) -> bytes:
        return payload(spans)

    def send(self, payload: bytes, traces: int, identity: str) -> Reply:
        del identity
        if self._client is None:
            self._client = GrpcClient(self.url, self.timeout_s, self.headers)
        try:
            answer = ExportTraceServiceResponse.FromString(self._client.call(PATH, payload))
        except GrpcError as error:
            text = f"{error.code.name}: {error}"
            if error.code is Code.RESOURCE_EXHAUSTED and "larger than max" in str(error):
                return Reply(Outcome.TOO_LARGE, text)  # as the servers of Go word their limit of a message
            outcome = Outcome.LATER if error.code in LATER else Outcome.REFUSED
            return Reply(outcome, text, error.retry_after_s)
        except OSError as error:
            return Reply(Outcome.LATER, f"{type(error).__name__}: {error}")
        refused = answer.partial_success.rejected_spans
        if refused and traces == 1:
            return Reply(
                Outcome.REFUSED, f"{refused} spans rejected: {answer.partial_success.error_message[:200]}"
            )
        return Reply(Outcome.TAKEN)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
