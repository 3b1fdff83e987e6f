"""Tempo's streaming API over gRPC answers with the messages of its HTTP API.

A request becomes the parameters of the HTTP request of the same name, so that both check and answer alike. A
search sends traces as its windows are read, newest first, and at the end all of them once more; metrics and
tags send one message.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
from litestar.datastructures import Headers

from lakerunner_query.api.shared.auth import reader_of
from lakerunner_query.api.shared.requests import RequestFields, first_of_each, missing_warnings
from lakerunner_query.api.shared.services import Services
from lakerunner_query.api.tempo import traces
from lakerunner_query.api.tempo.params import metrics_request, metrics_text, search_request, search_text
from lakerunner_query.api.tempo.queries import metrics_json
from lakerunner_query.api.tempo.render import PARTIAL_HEADER, failure_text, search_json, search_metrics
from lakerunner_query.coordinator.languages import TRACE_METRICS, TRACE_SEARCH
from lakerunner_query.coordinator.spans import SpanTags
from lakerunner_query.coordinator.traceql import FoundTraces, TraceSearchQuery, merge_search
from lakerunner_query.protocol.traces import FoundTrace
from lakerunner_query.protocol.units import Missing
from lakerunner_query.serving import envelope
from resources.grpc.calls import Call, CallError, Code, Method
from resources.proto.parsing import NotAMessageError, parse
from resources.proto.tempo import STREAMING

SERVICE = "tempopb.StreamingQuerier"
MAX_REQUEST_BYTES = 1 << 20
PROGRESS_S = 0.5
"""Time after which a search tells its progress, also without new traces."""
COMPLETE, PARTIAL = 0, 1
CODES = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    409: Code.FAILED_PRECONDITION,
    413: Code.INVALID_ARGUMENT,
    422: Code.INVALID_ARGUMENT,
    429: Code.RESOURCE_EXHAUSTED,
    499: Code.CANCELLED,
    503: Code.UNAVAILABLE,
    504: Code.DEADLINE_EXCEEDED,
}
Answer = Callable[[Call, Services, str, Any], Coroutine[Any, Any, None]]
"""A method behind the check of the key: call, services, organisation, request."""


def streaming_methods(services: Callable[[], Services]) -> Mapping[str, Method]:
    """Return the methods by path."""
    rows: Sequence[tuple[str, str, Answer]] = (
        ("Search", "SearchRequest", _search),
        ("SearchTags", "SearchTagsRequest", _tags),
        ("SearchTagsV2", "SearchTagsRequest", _scoped_tags),
        ("SearchTagValues", "SearchTagValuesRequest", _values),
        ("SearchTagValuesV2", "SearchTagValuesRequest", _typed_values),
        ("MetricsQueryRange", "QueryRangeRequest", partial(_metrics, is_instant=False)),
        ("MetricsQueryInstant", "QueryInstantRequest", partial(_metrics, is_instant=True)),
    )
    return {
        f"/{SERVICE}/{name}": _method(STREAMING[request], answer, services) for name, request, answer in rows
    }


def describe(error: Exception) -> CallError:
    """Turn an error into a status, with the text of the HTTP answer."""
    if isinstance(error, CallError):
        return error
    if isinstance(error, NotAMessageError):
        return CallError(Code.INVALID_ARGUMENT, str(error))
    failure = envelope(error)
    return CallError(CODES.get(failure.status, Code.INTERNAL), failure_text(failure))


def _method(message: Any, answer: Answer, services: Callable[[], Services]) -> Method:
    async def handle(call: Call) -> None:
        shared = services()
        key = await reader_of(shared, Headers(dict(call.metadata)))
        await answer(call, shared, key.org, parse(message, await call.message(MAX_REQUEST_BYTES)))

    return Method(handle, describe, is_cancellable=True)


async def _search(call: Call, services: Services, org: str, request: Any) -> None:
    fields = _fields(
        q=request.Query,
        tags=_tags_text(request.Tags),
        minDuration=f"{request.MinDurationMs}ms" if request.MinDurationMs else "",
        maxDuration=f"{request.MaxDurationMs}ms" if request.MaxDurationMs else "",
        limit=request.Limit,
        start=request.start,
        end=request.end,
        spss=request.SpansPerSpanSet,
    )
    asked = search_request(fields, org, time.time_ns())
    with services.watch("tempo") as watch:
        prepared = await services.engine.prepare(TRACE_SEARCH, search_text(fields), asked)
        found = merge_search(prepared, services.engine.limits)
        await _send_windows(call, services, prepared, found)
        found.missing.update(prepared.missing)
        _tell_gaps(call, found.missing)
        await _send(call, "SearchResponse", search_json(found.result(), shows_spans=bool(request.Query)))
        watch.end(partial=found.is_partial)


async def _send_windows(
    call: Call, services: Services, prepared: TraceSearchQuery, found: FoundTraces
) -> None:
    """Send the traces of each window, and what is read of all."""
    cut = services.engine.cut(prepared)
    units = tuple(cut.units)
    told = time.monotonic()
    async with aclosing(services.engine.run(prepared, found, replace(cut, units=units))) as pieces:
        async for fresh in pieces:
            now = time.monotonic()
            if fresh or now - told >= PROGRESS_S:
                told = now
                await _send(call, "SearchResponse", _progress(fresh, found, len(units)))


def _progress(fresh: Sequence[FoundTrace], found: FoundTraces, units: int) -> dict[str, Any]:
    shown = search_json(replace(found, traces=list(fresh)), shows_spans=True)
    return shown | {"metrics": search_metrics(found) | {"totalJobs": units}}


async def _tags(call: Call, services: Services, org: str, request: Any) -> None:
    fields = _tag_fields(request)
    found = await traces.find_names(services, fields, org)
    await _send_list(call, "SearchTagsResponse", found, {"tagNames": traces.tag_names(found, fields)})


async def _scoped_tags(call: Call, services: Services, org: str, request: Any) -> None:
    fields = _tag_fields(request)
    found = await traces.find_names(services, fields, org)
    await _send_list(call, "SearchTagsV2Response", found, {"scopes": traces.tag_scopes(found, fields)})


async def _values(call: Call, services: Services, org: str, request: Any) -> None:
    found = await traces.find_values(services, _value_fields(request), org, request.tagName)
    await _send_list(call, "SearchTagValuesResponse", found, {"tagValues": traces.value_texts(found)})


async def _typed_values(call: Call, services: Services, org: str, request: Any) -> None:
    found = await traces.find_typed_values(services, _value_fields(request), org, request.tagName)
    await _send_list(call, "SearchTagValuesV2Response", found, {"tagValues": traces.typed_values(found)})


async def _metrics(call: Call, services: Services, org: str, request: Any, *, is_instant: bool) -> None:
    fields = _fields(q=request.query, start=request.start, end=request.end)
    if not is_instant:
        step = f"{request.step}ns" if request.step else ""
        fields = _fields(**fields.first, step=step, exemplars=request.exemplars)
    asked = metrics_request(fields, org, time.time_ns(), is_instant=is_instant)
    with services.watch("tempo") as watch:
        prepared = await services.engine.prepare(TRACE_METRICS, metrics_text(fields), asked)
        found = await services.engine.collect(prepared)
        body = metrics_json(prepared, found, is_instant=is_instant)
        if found.missing:
            body |= {"status": PARTIAL, "message": "; ".join(missing_warnings(found.missing))}
        _tell_gaps(call, found.missing)
        await _send(call, "QueryInstantResponse" if is_instant else "QueryRangeResponse", body)
        watch.end(partial=found.is_partial)


async def _send_list(call: Call, name: str, found: SpanTags, body: dict[str, Any]) -> None:
    _tell_gaps(call, found.missing)
    numbers = search_metrics(found)
    metrics = {
        key: numbers[key] for key in STREAMING["MetadataMetrics"].DESCRIPTOR.fields_by_name if key in numbers
    }
    await _send(call, name, body | {"metrics": metrics})


async def _send(call: Call, name: str, body: dict[str, Any]) -> None:
    """Send what HTTP answers as JSON; large answers would hold the event loop."""
    message = await asyncio.to_thread(ParseDict, body, STREAMING[name]())
    await call.send(message.SerializeToString())


def _tell_gaps(call: Call, missing: Mapping[str, Missing]) -> None:
    if missing:
        call.closing.append((PARTIAL_HEADER.lower(), "true"))


def _tag_fields(request: Any) -> RequestFields:
    return _fields(
        scope=request.scope, q=request.query, start=request.start, end=request.end,
        limit=request.maxTagsPerScope,
    )  # fmt: skip


def _value_fields(request: Any) -> RequestFields:
    return _fields(q=request.query, start=request.start, end=request.end, limit=request.maxTagValues)


def _fields(**values: object) -> RequestFields:
    """Return the parameters of the request over HTTP; what has no value was not sent."""
    sent = tuple((name, str(value)) for name, value in values.items() if value)
    return RequestFields(first_of_each(sent), sent)


def _tags_text(tags: Mapping[str, str]) -> str:
    """Write tags as older clients do.

    >>> _tags_text({"http.method": "GET", "name": 'a "b"'})
    'http.method="GET" name="a \\\\"b\\\\""'
    """
    quoted = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in tags.items()}
    return " ".join(f'{name}="{value}"' for name, value in quoted.items())
