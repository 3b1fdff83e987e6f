"""`read_spans` turns OTLP's spans into columns; `plain_attributes` makes attributes readable as JSON."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, TracesData

from lakerunner_query.assembly.tree import SpanColumns

ERROR = 2
SERVICE = "service.name"
UNKNOWN = "unknown_service"
EXACT = 1 << 53
"""Integers from here on are texts in JSON, since readers hold numbers as doubles."""


@dataclass(frozen=True, slots=True)
class SentSpan:
    """A span with what it was sent in."""

    span: Span
    scope: InstrumentationScope
    resource: int
    """Number of the resource in the trace."""


@dataclass(frozen=True, slots=True)
class SentTrace:
    """Spans in the order of their starts, with their columns."""

    spans: list[SentSpan]
    columns: SpanColumns
    resources: list[ResourceSpans]


def read_spans(data: TracesData) -> SentTrace:
    """Sort the spans of one trace by start; of those that start together the longest comes first."""
    sent = [
        SentSpan(span, group.scope, number)
        for number, resource in enumerate(data.resource_spans)
        for group in resource.scope_spans
        for span in group.spans
    ]
    sent.sort(key=_order)
    names = [_service(one) for one in data.resource_spans]
    spans = [one.span for one in sent]
    columns = SpanColumns(
        ids=[one.span_id.hex() for one in spans],
        parent_ids=[one.parent_span_id.hex() for one in spans],
        starts=[one.start_time_unix_nano for one in spans],
        ends=[max(one.start_time_unix_nano, one.end_time_unix_nano) for one in spans],
        kinds=[one.kind for one in spans],
        errors=[one.status.code == ERROR for one in spans],
        services=[names[one.resource] for one in sent],
    )
    return SentTrace(sent, columns, list(data.resource_spans))


def _order(one: SentSpan) -> tuple[int, int, bytes, int]:
    span = one.span
    return span.start_time_unix_nano, -span.end_time_unix_nano, span.span_id, span.kind


def _service(resource: ResourceSpans) -> str:
    found = (one.value.string_value for one in resource.resource.attributes if one.key == SERVICE)
    return next(found, "") or UNKNOWN


def plain_attributes(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    """Return attributes as values of JSON, by key.

    >>> plain_attributes([KeyValue(key="n", value=AnyValue(int_value=5))])
    {'n': 5}
    """
    return {one.key: plain_value(one.value) for one in attributes}


def plain_value(value: AnyValue) -> Any:
    """Return a value as JSON has it; bytes are base64, integers that doubles cannot hold are texts."""
    kind = value.WhichOneof("value")
    found: Any = getattr(value, kind) if kind else None
    match kind:
        case "int_value" if abs(found) >= EXACT:
            found = str(found)
        case "double_value" if not math.isfinite(found):
            found = str(found)
        case "bytes_value":
            found = base64.b64encode(found).decode()
        case "array_value":
            found = [plain_value(one) for one in found.values]
        case "kvlist_value":
            found = plain_attributes(found.values)
    return found
