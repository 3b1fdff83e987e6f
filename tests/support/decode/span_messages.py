"""OTLP spans for tests: hypothesis strategies, a sample with every field, and what the protobuf runtime reads
in a request, in the words of our columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from lakerunner_assets.decode.dispatch import DecodedSlice, Place, Request, decode
from lakerunner_assets.decode.otlp.owners import LAST_NS
from lakerunner_assets.decode.otlp.traces import decode_traces
from lakerunner_assets.decode.payload import open_payload
from lakerunner_assets.signals.traces import TRACES
from resources.lake.options import DecodeOptions
from tests.support.decode.messages import ATTRIBUTES, TEXT, TIMES, UINT32
from tests.support.decode.oracle import first_of_each, found_rows, kind_of, text

START = 1_768_392_000_000_000_000
KINDS = ["unspecified", "internal", "server", "client", "producer", "consumer"]
CODES = ["unset", "ok", "error"]

TRACE_IDS = st.binary(max_size=17) | st.binary(min_size=16, max_size=16) | st.just(bytes(16))
SPAN_IDS = st.binary(max_size=9) | st.binary(min_size=8, max_size=8) | st.just(bytes(8))
ENUM = st.integers(0, 7) | st.integers(-(2**31), 2**31 - 1)
EVENTS = st.builds(
    Span.Event, time_unix_nano=TIMES, name=TEXT, attributes=ATTRIBUTES, dropped_attributes_count=UINT32
)
LINKS = st.builds(
    Span.Link,
    trace_id=TRACE_IDS,
    span_id=SPAN_IDS,
    trace_state=TEXT,
    attributes=ATTRIBUTES,
    dropped_attributes_count=UINT32,
    flags=UINT32,
)
SPANS = st.builds(
    Span,
    trace_id=TRACE_IDS,
    span_id=SPAN_IDS,
    trace_state=TEXT,
    parent_span_id=SPAN_IDS,
    flags=UINT32,
    name=TEXT,
    kind=ENUM,
    start_time_unix_nano=TIMES,
    end_time_unix_nano=TIMES,
    attributes=ATTRIBUTES,
    dropped_attributes_count=UINT32,
    events=st.lists(EVENTS, max_size=3),
    dropped_events_count=UINT32,
    links=st.lists(LINKS, max_size=2),
    dropped_links_count=UINT32,
    status=st.none() | st.builds(Status, message=TEXT, code=ENUM),
)
SCOPES = st.builds(
    ScopeSpans,
    scope=st.builds(
        InstrumentationScope, name=TEXT, version=TEXT, attributes=ATTRIBUTES, dropped_attributes_count=UINT32
    ),
    spans=st.lists(SPANS, max_size=4),
    schema_url=TEXT,
)
RESOURCES = st.builds(
    ResourceSpans,
    resource=st.builds(Resource, attributes=ATTRIBUTES, dropped_attributes_count=UINT32),
    scope_spans=st.lists(SCOPES, max_size=3),
    schema_url=TEXT,
)
REQUESTS = st.builds(ExportTraceServiceRequest, resource_spans=st.lists(RESOURCES, max_size=3))


def sample(spans: int = 12) -> ExportTraceServiceRequest:
    """A request that uses every field once, deterministic: two services, three spans a trace."""
    request = ExportTraceServiceRequest()
    for service in ("web", "api"):
        group = request.resource_spans.add(schema_url="https://r")
        group.resource.attributes.add(key="service.name").value.string_value = service
        group.resource.attributes.add(key="k8s.pod.name").value.string_value = f"{service}-0"
        group.resource.attributes.add(key="host.cpus").value.int_value = 8
        scope = group.scope_spans.add(schema_url="https://s")
        scope.scope.name, scope.scope.version = "lib", "1.2"
        for index in range(spans // 2):
            scope.spans.append(_span(index, service))
    return request


def trace_id(number: int) -> bytes:
    """Descending with the number, so that the order of arrival is not the order of ids."""
    return bytes([200 - number, *range(1, 16)])


def _span(index: int, service: str) -> Span:
    start = START + (100 - index) * 1_000_000_000
    span = Span(
        trace_id=trace_id(index // 3),
        span_id=bytes([index + 1, len(service), ord(service[0]), 4, 5, 6, 7, 8]),
        parent_span_id=b"parent_%d" % (index % 10) if index % 3 else b"",
        name=f"GET /{service}/:id",
        kind=2 + index % 2,
        start_time_unix_nano=start,
        end_time_unix_nano=start + 1500 * (index + 1),
        trace_state="vendor=1",
        flags=257,
        dropped_attributes_count=1,
        dropped_events_count=2,
        dropped_links_count=3,
    )
    span.status.code, span.status.message = index % 3, "went wrong" if index % 3 == 2 else ""
    span.attributes.add(key="http.response.status_code").value.int_value = 200 + index
    span.attributes.add(key="user").value.string_value = f"user{index}"
    event = span.events.add(time_unix_nano=start + 7, name="exception", dropped_attributes_count=4)
    event.attributes.add(key="exception.message").value.string_value = f"boom{index}"
    event.attributes.add(key="retry").value.bool_value = True
    event.attributes.add(key="ratio").value.double_value = 0.1
    event.attributes.add(key="stack").value.array_value.values.add().int_value = index
    span.events.add(name="bare")
    link = span.links.add(trace_id=trace_id(90), span_id=b"linked_%d" % (index % 10), flags=1)
    link.attributes.add(key="why").value.string_value = "batch"
    return span


def decode_spans(data: bytes, *, arrival_ns: int = 1, first_position: int = 0) -> DecodedSlice:
    """One slice."""
    return decode_traces(data, Place(5, first_position, arrival_ns), DecodeOptions())


def decode_object(data: bytes, *, object_id: int = 5, slice_bytes: int = 1 << 24) -> list[pa.Table]:
    """A whole raw object, as the cook task decodes it."""
    request = Request("object", Place(object_id, 0, 1), DecodeOptions(), slice_bytes)
    with open_payload(data, 1 << 30) as payload:
        return [piece.table for piece in decode(payload, request, TRACES.decoders())]


def expected_rows(payload: bytes, arrival_ns: int) -> Iterator[dict[str, Any]]:
    for group in ExportTraceServiceRequest.FromString(payload).resource_spans:
        for scope in group.scope_spans:
            for span in scope.spans:
                yield {
                    **_span_row(span, arrival_ns),
                    "service_name": _service(group.resource),
                    "chq_resource_dropped_attributes": group.resource.dropped_attributes_count,
                    "chq_scope_dropped_attributes": scope.scope.dropped_attributes_count,
                    "scope_name": scope.scope.name or None,
                    "scope_version": scope.scope.version or None,
                    "scope_schema_url": scope.schema_url or None,
                    "resource_schema_url": group.schema_url or None,
                    "attributes": first_of_each(
                        ("resource", group.resource.attributes),
                        ("scope", scope.scope.attributes),
                        ("record", span.attributes),
                    ),
                }


def _span_row(span: Span, arrival_ns: int) -> dict[str, Any]:
    start, end = span.start_time_unix_nano, span.end_time_unix_nano
    measured = 0 < start <= end <= LAST_NS
    return {
        "span_trace_id": _id(span.trace_id, 16),
        "span_id": _id(span.span_id, 8),
        "span_parent_span_id": _id(span.parent_span_id, 8),
        "span_name": span.name,
        "span_kind": KINDS[span.kind] if 0 <= span.kind < 6 else str(span.kind),
        "span_status_code": CODES[span.status.code] if 0 <= span.status.code < 3 else str(span.status.code),
        "span_status_message": span.status.message or None,
        "span_trace_state": span.trace_state or None,
        "span_flags": span.flags,
        "span_start_ns": min(start or end, LAST_NS) or arrival_ns,
        "span_end_ns": min(end, LAST_NS) or None,
        "span_duration_ns": end - start if measured else None,
        "chq_dropped_attributes": span.dropped_attributes_count,
        "chq_dropped_events": span.dropped_events_count,
        "chq_dropped_links": span.dropped_links_count,
        "span_events": [
            {
                "tsns": min(event.time_unix_nano, LAST_NS) or None,
                "name": event.name,
                "dropped": event.dropped_attributes_count,
                "attributes": _pairs(event.attributes),
            }
            for event in span.events
        ],
        "span_links": [
            {
                "trace_id": _id(link.trace_id, 16),
                "span_id": _id(link.span_id, 8),
                "trace_state": link.trace_state or None,
                "flags": link.flags,
                "dropped": link.dropped_attributes_count,
                "attributes": _pairs(link.attributes),
            }
            for link in span.links
        ],
    }


def _id(raw: bytes, width: int) -> bytes | None:
    return raw if len(raw) == width and any(raw) else None


def _pairs(attributes: Any) -> list[dict[str, str]]:
    return [{"key": pair.key, "kind": kind_of(pair.value), "value": text(pair.value)} for pair in attributes]


def _service(resource: Resource) -> str:
    """By the kind that the flat columns name first, as they are ordered by first appearance."""
    named = [pair.value for pair in resource.attributes if pair.key == "service.name"]
    return (text(named[0]) if named else "") or "unknown_service"


def assert_same(payload: bytes, tables: list[pa.Table], arrival_ns: int) -> int:
    """Every span, every field; returns how many spans there were."""
    expected = list(expected_rows(payload, arrival_ns))
    found = [row for table in tables for row in found_rows(table)]
    assert len(found) == len(expected)
    for position, (want, have) in enumerate(zip(expected, found, strict=True)):
        assert (have["chq_object"], have["chq_position"]) == (5, position)
        assert {name: have[name] for name in want} == want
    return len(expected)
