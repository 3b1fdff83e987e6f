"""Answers have the JSON of Tempo's protobuf messages.

64-bit numbers are texts, and zeros are left out.

Grafana refuses fields that it does not know, so nothing else is sent; gaps are told in a header.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from litestar import MediaType, Request, Response

from lakerunner_query.api.shared.requests import RequestFields, missing_warnings
from lakerunner_query.coordinator.traceql import Collected, FoundTraces
from lakerunner_query.errors import SegmentsMissingError
from lakerunner_query.gotext.durations import duration_text
from lakerunner_query.protocol.traces import (
    FoundSet,
    FoundSpan,
    FoundTrace,
    Named,
    TraceExemplar,
)
from lakerunner_query.protocol.units import Missing
from lakerunner_query.serving import Failure, respond_plain
from lakerunner_query.traceql.series import LabelSet, Series

JSON = "application/json"
PARTIAL_HEADER = "X-Lakerunner-Partial"
NS_PER_MS = 1_000_000
_KINDS = {"string": "stringValue", "int": "intValue", "float": "doubleValue", "bool": "boolValue"}


def reply(fields: RequestFields, body: object, missing: Mapping[str, Missing]) -> Response[bytes]:
    """Answer in JSON; `partial_response=false` refuses an answer with gaps."""
    if missing and fields.text("partial_response").lower() in {"false", "0"}:
        raise SegmentsMissingError(missing_warnings(missing)[0])
    headers = {PARTIAL_HEADER: "true"} if missing else {}
    return Response(msgspec.json.encode(body), media_type=JSON, headers=headers)


def respond_like_tempo(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """Answer an exception with its message as text, and the place in the query."""
    plain = respond_plain(request, error)
    if not isinstance(plain.content, Failure):
        return plain
    failure = plain.content
    status = 400 if failure.status == 422 else failure.status
    text = failure_text(failure)
    return Response(text, status_code=status, media_type=MediaType.TEXT, headers=plain.headers)


def failure_text(failure: Failure) -> str:
    message, place = failure.message, failure.position
    if place is not None and " at line " not in message:
        message += f", at line {place.line}, col {place.column}"
    return message


def search_json(found: FoundTraces, *, shows_spans: bool) -> dict[str, Any]:
    """Return found traces; older clients, which send no TraceQL, get no spans."""
    traces = [_trace(one) for one in found.traces]
    if not shows_spans:
        for one in traces:
            for name in ("spanSet", "spanSets", "serviceStats"):
                one.pop(name, None)
    return {"traces": traces, "metrics": search_metrics(found)}


def search_metrics(found: Collected) -> dict[str, Any]:
    """Return what reading took; the message has no other fields."""
    numbers = {
        "inspectedTraces": found.traces_read,
        "inspectedBytes": str(found.report.bytes_considered),
        "totalBlocks": found.report.segments_opened,
        "completedJobs": found.units,
        "totalJobs": found.units,
        "totalBlockBytes": str(found.report.bytes_considered),
        "inspectedSpans": str(found.spans_read),
    }
    return {name: value for name, value in numbers.items() if value not in (0, "0")}


def _trace(one: FoundTrace) -> dict[str, Any]:
    sets = [_span_set(each) for each in one.sets]
    fields = {
        "traceID": one.trace_id.lstrip("0") or "0",
        "rootServiceName": one.root_service,
        "rootTraceName": one.root_name,
        "startTimeUnixNano": str(one.start_ns),
        "durationMs": (one.end_ns - one.start_ns) // NS_PER_MS,
        "spanSet": sets[0] if sets else None,
        "spanSets": sets,
        "serviceStats": {
            name: _without_zeros({"spanCount": stats.spans, "errorCount": stats.errors})
            for name, stats in one.services.items()
        },
    }
    return _without_zeros(fields)


def _span_set(one: FoundSet) -> dict[str, Any]:
    return _without_zeros(
        {
            "spans": [_span(each) for each in one.spans],
            "matched": one.matched,
            "attributes": attributes(one.attributes),
        }
    )


def _span(one: FoundSpan) -> dict[str, Any]:
    return _without_zeros(
        {
            "spanID": one.span_id,
            "name": one.name,
            "startTimeUnixNano": str(one.start_ns),
            "durationNanos": str(one.duration_ns),
            "attributes": attributes(one.attributes),
        }
    )


def _without_zeros(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", 0, [], {})}


def attributes(named: Named) -> list[dict[str, Any]]:
    return [{"key": name, "value": any_value(value.type, value.value)} for name, value in named]


def any_value(kind: str, value: object) -> dict[str, Any]:
    """Return a value as OTLP's JSON has it; what OTLP does not know is a text.

    >>> any_value("int", 5), any_value("duration", 1_500_000_000), any_value("nil", None)
    ({'intValue': '5'}, {'stringValue': '1.5s'}, {'stringValue': 'nil'})
    """
    if isinstance(value, list | tuple):
        return {"arrayValue": {"values": [any_value(kind, one) for one in value]}}
    if value is None:
        return {"stringValue": "nil"}
    if kind == "duration" and isinstance(value, int):
        return {"stringValue": duration_text(value)}
    if kind == "int":
        return {"intValue": str(value)}
    if kind == "float" and isinstance(value, float):
        return {"doubleValue": json_number(value)}
    return {_KINDS.get(kind, "stringValue"): value}


def json_number(value: float) -> float | str:
    """Return a number, or the word that protobuf has for it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def range_json(
    series: Sequence[Series],
    times_ms: Sequence[int],
    exemplars: Mapping[LabelSet, Sequence[TraceExemplar]],
) -> list[Any]:
    found = []
    for one in series:
        samples = [
            {"timestampMs": str(time), "value": json_number(value)}
            for time, value in zip(times_ms, one.values.tolist(), strict=True)
            if not math.isnan(value)
        ]
        entry = {"labels": labels_json(one.labels), "samples": samples}
        found.append(entry | _exemplars(exemplars.get(one.labels, ())))
    return found


def instant_json(series: Sequence[Series]) -> list[Any]:
    return [
        {"labels": labels_json(one.labels), "value": json_number(float(one.values[0]))}
        for one in series
        if not math.isnan(one.values[0])
    ]


def _exemplars(samples: Sequence[TraceExemplar]) -> dict[str, Any]:
    shown = [
        {
            "labels": [{"key": "trace:id", "value": {"stringValue": one.trace_id.lstrip("0") or "0"}}],
            "value": json_number(one.value),
            "timestampMs": str(one.time_ms),
        }
        for one in samples
    ]
    return {"exemplars": shown} if shown else {}


def labels_json(labels: LabelSet) -> list[dict[str, Any]]:
    return [{"key": name, "value": any_value(kind, value)} for name, kind, value in labels]
