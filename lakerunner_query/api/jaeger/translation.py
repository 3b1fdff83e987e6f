"""OTLP becomes the JSON of Jaeger's UI, as Jaeger's own translation makes it.

    resource     process p1, p2, …: service name and tags
    parent       reference CHILD_OF; links FOLLOWS_FROM
    attributes   tags with a type; kind, status, scope and trace state are tags, too
    events       logs with fields; the name is the field `event`

Times are microseconds. Tags and fields are sorted by key.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData

from lakerunner_query.api.jaeger.adjustments import TraceSpan, host_of, unify_ids, warn
from lakerunner_query.api.jaeger.conditions import EMPTY_SERVICE, MISSING_SERVICE
from lakerunner_query.traceql.values import SPAN_KINDS, STATUSES

NS_PER_US = 1000
EXACT = 2**53
"""Integers from here on are texts, since a browser cannot hold them."""
TYPES = ("string", "bool", "int64", "float64", "binary")
SDK_KEYS = frozenset(
    {
        "telemetry.sdk.language", "telemetry.sdk.name", "telemetry.sdk.version", "telemetry.distro.name",
        "telemetry.distro.version",
    }
)  # fmt: skip
"""Attributes of spans that are shown at their process."""
ADDRESSES = frozenset({"ip", "peer.ipv4"})
"""Attributes in which an integer is an address."""
REFERENCE = "opentracing.ref_type"
Tag = dict[str, Any]


def traces_json(data: TracesData, *, is_raw: bool, warnings: Sequence[str] = ()) -> dict[bytes, Any]:
    """Return the traces of OTLP data by id; `warnings` are about each of them."""
    traces: dict[bytes, list[TraceSpan]] = {}
    for group in data.resource_spans:
        host = host_of(group.resource)
        for part in group.scope_spans:
            for span in part.spans:
                one = TraceSpan(span, group.resource, part.scope, host)
                traces.setdefault(span.trace_id, []).append(one)
    return {each: _trace(each, spans, is_raw, warnings) for each, spans in traces.items()}


def _trace(trace_id: bytes, spans: list[TraceSpan], is_raw: bool, warnings: Sequence[str]) -> dict[str, Any]:
    spans.sort(key=lambda one: (one.span.start_time_unix_nano, one.span.span_id))
    if not is_raw:
        unify_ids(spans)
        warn(spans)
    moved = frozenset[str]() if is_raw else SDK_KEYS
    processes = _Processes()
    shown = [_span(one, processes.number(one, moved), moved) for one in spans]
    if not is_raw:
        for each in (*shown, *processes.found.values()):
            _spell_addresses(each["tags"])
    return {
        "traceID": id_text(trace_id),
        "spans": shown,
        "processes": processes.found,
        "warnings": list(warnings) or None,
    }


class _Processes:
    """Processes of a trace, numbered in the order of their first spans."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self._numbers: dict[bytes, str] = {}

    def number(self, one: TraceSpan, moved: Collection[str]) -> str:
        process = {"serviceName": service_of(one.resource), "tags": _process_tags(one, moved)}
        key = msgspec.json.encode(process)
        if key not in self._numbers:
            self._numbers[key] = f"p{len(self._numbers) + 1}"
            self.found[self._numbers[key]] = process
        return self._numbers[key]


def service_of(resource: Resource) -> str:
    for one in resource.attributes:
        if one.key == "service.name":
            return one.value.string_value or EMPTY_SERVICE
    return MISSING_SERVICE


def _process_tags(one: TraceSpan, moved: Collection[str]) -> list[Tag]:
    tags = [_tag(each) for each in one.resource.attributes if each.key != "service.name"]
    known = {tag["key"] for tag in tags}
    tags += [_tag(each) for each in one.span.attributes if each.key in moved and each.key not in known]
    return _in_order(tags)


def _span(one: TraceSpan, process: str, moved: Collection[str]) -> dict[str, Any]:
    span = one.span
    start, end = span.start_time_unix_nano, span.end_time_unix_nano
    return {
        "traceID": id_text(span.trace_id),
        "spanID": one.span_id,
        "operationName": span.name,
        "references": _references(one),
        "startTime": start // NS_PER_US,
        "duration": max(0, end - start) // NS_PER_US,
        "tags": _span_tags(span, one.scope, moved),
        "logs": [_log(event) for event in span.events],
        "processID": process,
        "warnings": one.warnings or None,
    }


def _references(one: TraceSpan) -> list[dict[str, str]]:
    """Return the parent, then the links; a link to the parent only tells the type of that reference."""
    trace = id_text(one.span.trace_id)
    found: list[dict[str, str]] = []
    if one.parent_id:
        found.append({"refType": "CHILD_OF", "traceID": trace, "spanID": one.parent_id})
    for link in one.span.links:
        kind = next((each.value.string_value for each in link.attributes if each.key == REFERENCE), "")
        type_ = "CHILD_OF" if kind == "child_of" else "FOLLOWS_FROM"
        to = {"refType": type_, "traceID": id_text(link.trace_id), "spanID": span_id_text(link.span_id)}
        if one.parent_id and (to["traceID"], to["spanID"]) == (trace, one.parent_id):
            found[0] = to
        elif any(link.trace_id):
            found.append(to)
    return found


def _span_tags(span: Span, scope: InstrumentationScope, moved: Collection[str]) -> list[Tag]:
    tags = [_tag(each) for each in span.attributes if each.key not in moved]
    if 0 < span.kind < len(SPAN_KINDS):
        tags.append(_text("span.kind", SPAN_KINDS[span.kind]))
    if 0 < span.status.code < len(STATUSES):
        tags.append(_text("otel.status_code", STATUSES[span.status.code].upper()))
    if span.status.code == STATUSES.index("error"):
        tags.append({"key": "error", "type": "bool", "value": True})
    texts = {
        "otel.status_description": span.status.message,
        "otel.scope.name": scope.name,
        "otel.scope.version": scope.version,
        "w3c.tracestate": span.trace_state,
    }
    tags += [_text(key, text) for key, text in texts.items() if text]
    return _in_order(tags)


def _log(event: Span.Event) -> dict[str, Any]:
    fields = [_tag(each) for each in event.attributes]
    if event.name and not any(each["key"] == "event" for each in fields):
        fields.append(_text("event", event.name))
    fields = sorted(_in_order(fields), key=lambda one: (one["key"], one["type"]) != ("event", "string"))
    return {"timestamp": event.time_unix_nano // NS_PER_US, "fields": fields}


def _in_order(tags: list[Tag]) -> list[Tag]:
    return sorted(tags, key=lambda one: (one["key"], TYPES.index(one["type"]), str(one["value"])))


def _text(key: str, value: str) -> Tag:
    return {"key": key, "type": "string", "value": value}


def _tag(one: KeyValue) -> Tag:
    kind, value = _typed(one.value)
    return {"key": one.key, "type": kind, "value": value}


def _spell_addresses(tags: Iterable[Tag]) -> None:
    """Spell integers that are addresses with dots."""
    for one in tags:
        if one["key"] in ADDRESSES and one["type"] in {"int64", "float64"}:
            raw = (int(float(one["value"])) & 0xFFFFFFFF).to_bytes(4, "big")
            one.update(_text(one["key"], ".".join(map(str, raw))))


def _typed(value: AnyValue) -> tuple[str, Any]:
    """Return the type and the value of an attribute; lists and maps are their JSON.

    >>> _typed(AnyValue(int_value=2**60)), _typed(AnyValue(bytes_value=b"ab")), _typed(AnyValue())
    (('int64', '1152921504606846976'), ('binary', 'YWI='), ('string', ''))
    """
    kind = value.WhichOneof("value")
    if kind == "int_value":
        number = value.int_value
        return "int64", number if abs(number) < EXACT else str(number)
    if kind in {"bool_value", "double_value"}:
        found = getattr(value, kind)
        is_bool = kind == "bool_value"
        return ("bool", found) if is_bool else ("float64", found if math.isfinite(found) else str(found))
    if kind == "bytes_value":
        return "binary", base64.b64encode(value.bytes_value).decode()
    if kind in {"array_value", "kvlist_value"}:
        return "string", msgspec.json.encode(_plain(value)).decode()
    return "string", value.string_value


def _plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        pairs: Iterable[KeyValue] = value.kvlist_value.values
        found: Mapping[str, Any] = {each.key: _plain(each.value) for each in pairs}
        return dict(sorted(found.items()))
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    return None if kind is None else getattr(value, kind)


def id_text(trace_id: bytes) -> str:
    """Write the id of a trace; one of 64 bits has 16 digits.

    >>> id_text(bytes(15) + b"x")
    '0000000000000078'
    """
    text = trace_id.hex()
    return text[16:] if text.startswith("0" * 16) else text


def span_id_text(span_id: bytes) -> str:
    return span_id.hex().rjust(16, "0")
