"""Answers and errors in Prometheus' envelope: finished text of samples, put together as bytes.

{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"job":"a"},"values":[[1,"0.5"]]}]}}
{"status":"error","errorType":"bad_data","error":"..."}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from litestar import HttpMethod, MediaType, Request, Response

from lakerunner_query.api.shared.requests import RequestFields, missing_warnings
from lakerunner_query.coordinator.merge import JoinedSeries, SampleResult
from lakerunner_query.errors import SegmentsMissingError
from lakerunner_query.promql.context import Annotation
from lakerunner_query.protocol.units import Missing
from lakerunner_query.serving import Failure, respond_plain
from lakerunner_query.vectors.vector import Labels

MAX_NOTES = 10
"""Warnings, and infos, of one answer; more are only counted."""
TRUNCATED = "results truncated due to limit"


class Messages(NamedTuple):
    """Warnings and infos beside the data."""

    warnings: Sequence[str] = ()
    infos: Sequence[str] = ()


NO_MESSAGES = Messages()


def success(data: bytes, messages: Messages = NO_MESSAGES) -> bytes:
    """
    >>> success(b"[]", Messages(["partial"]))
    b'{"status":"success","data":[],"warnings":["partial"]}'
    """
    warnings = b',"warnings":' + msgspec.json.encode(messages.warnings) if messages.warnings else b""
    infos = b',"infos":' + msgspec.json.encode(messages.infos) if messages.infos else b""
    return b'{"status":"success","data":' + data + warnings + infos + b"}"


def result(answer: SampleResult, *, at_ms: int | None, limit: int, stats: bytes) -> tuple[bytes, bool]:
    """Render the data of a query, and tell whether the limit cut it; instant queries have `at_ms`."""
    shown = answer.series[:limit] if limit and answer.kind != "scalar" else answer.series
    if at_ms is None:
        shown = sorted(shown, key=lambda one: one.labels)
        kind, rendered = "matrix", _list(map(_range, shown))
    elif answer.kind == "matrix":
        kind, rendered = "matrix", _list(map(_range, shown))
    elif answer.kind == "vector":
        kind, rendered = "vector", _list(map(_instant, shown))
    elif answer.kind == "scalar":
        kind, rendered = "scalar", answer.series[0].floats
    else:
        kind, rendered = "string", b"[" + seconds(at_ms) + b"," + msgspec.json.encode(answer.string) + b"]"
    trailer = b',"stats":' + stats if stats else b""
    data = b'{"resultType":"' + kind.encode() + b'","result":' + rendered + trailer + b"}"
    return data, len(shown) < len(answer.series)


def series(label_sets: Iterable[Labels]) -> bytes:
    return _list(map(metric, label_sets))


def metric(labels: Labels) -> bytes:
    """
    >>> metric((("__name__", "up"), ("job", "a")))
    b'{"__name__":"up","job":"a"}'
    """
    return msgspec.json.encode(dict(labels))


def seconds(time_ms: int) -> bytes:
    """Render a time, with milliseconds only where there are some.

    >>> seconds(1500), seconds(-60_000), seconds(-1)
    (b'1.500', b'-60', b'-0.001')
    """
    whole, rest = divmod(abs(time_ms), 1000)
    return f"{'-' if time_ms < 0 else ''}{whole}{f'.{rest:03d}' if rest else ''}".encode()


def messages_of(annotations: Sequence[Annotation], text: str, warnings: Sequence[str]) -> Messages:
    """Render annotations with their places in the query, behind other warnings."""
    found: dict[str, list[str]] = {"warning": [], "info": []}
    for annotation in annotations:
        found[annotation.kind].append(annotation.render(text))
    return Messages([*warnings, *_few(found["warning"], "warning")], _few(found["info"], "info"))


def _few(texts: list[str], kind: str) -> list[str]:
    more = len(texts) - MAX_NOTES
    if more <= 0:
        return texts
    return [*texts[:MAX_NOTES], f"{more} more {kind} annotations omitted"]


def _list(parts: Iterator[bytes]) -> bytes:
    return b"[" + b",".join(parts) + b"]"


def _range(one: JoinedSeries) -> bytes:
    values = b',"values":[' + one.floats + b"]" if one.floats else b""
    histograms = b',"histograms":[' + one.histograms + b"]" if one.histograms else b""
    return b'{"metric":' + metric(one.labels) + values + histograms + b"}"


def _instant(one: JoinedSeries) -> bytes:
    sample = b',"histogram":' + one.histograms if one.histograms else b',"value":' + one.floats
    return b'{"metric":' + metric(one.labels) + sample + b"}"


JSON = "application/json"
METHODS = [HttpMethod.GET, HttpMethod.POST]
PARTIAL_HEADER = "X-Lakerunner-Partial"


def reply(
    fields: RequestFields, data: bytes, messages: Messages, missing: Mapping[str, Missing] | None = None
) -> Response[bytes]:
    """Answer in Prometheus' envelope; `partial_response=false` refuses an answer with gaps."""
    if missing and fields.text("partial_response").lower() in {"false", "0"}:
        raise SegmentsMissingError(missing_warnings(missing)[0])
    headers = {PARTIAL_HEADER: "true"} if missing else {}
    return Response(success(data, messages), media_type=JSON, headers=headers)


_ERROR_TYPES = {
    400: "bad_data", 401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "bad_data",
    413: "bad_data", 422: "execution", 429: "too_many_requests", 500: "internal", 503: "unavailable",
}  # fmt: skip
TIMEOUT = 504
"""Status of a timeout; Prometheus answers 503 and names it in the type."""


class PrometheusFailure(msgspec.Struct, rename="camel"):
    status: str
    error_type: str
    error: str


def prometheus_failure(status: int, message: str) -> tuple[int, PrometheusFailure]:
    """
    >>> prometheus_failure(504, "slow")
    (503, PrometheusFailure(status='error', error_type='timeout', error='slow'))
    """
    if status == TIMEOUT:
        return 503, PrometheusFailure("error", "timeout", message)
    return status, PrometheusFailure("error", _ERROR_TYPES.get(status, "internal"), message)


def respond_like_prometheus(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """Answer an exception with Prometheus' envelope."""
    plain = respond_plain(request, error)
    if not isinstance(plain.content, Failure):
        return plain
    status, failure = prometheus_failure(plain.content.status, plain.content.message)
    return Response(failure, status_code=status, media_type=MediaType.JSON, headers=plain.headers)
