"""Traces by id, in JSON or protobuf, and the names and values of fields."""

from __future__ import annotations

import re
import time
from typing import Any

from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from litestar import Request, Response, get

from lakerunner_query.api.shared.auth import caller
from lakerunner_query.api.shared.requests import RequestFields, missing_warnings, read_fields
from lakerunner_query.api.shared.services import Services
from lakerunner_query.api.tempo.params import Window, seconds_window, signed_window, tag_condition
from lakerunner_query.api.tempo.render import reply
from lakerunner_query.coordinator.languages import SPAN_TAGS, TRACE
from lakerunner_query.coordinator.spans import SpanTags, SpanTagsRequest, TraceRequest, WholeTraces
from lakerunner_query.errors import InvalidRequestError, NotFoundError, QueryError
from lakerunner_query.gotext.strconv import LOGQL
from lakerunner_query.plan.traceql import MAX_NS, MIN_NS
from lakerunner_query.protocol.traces import TypedValue
from lakerunner_query.serving import unless_gone
from lakerunner_query.traceql.lang.intrinsics import TAG_NAMES
from lakerunner_query.traceql.lang.parser import parse_field
from lakerunner_query.traceql.values import SPAN_KINDS, STATUSES
from resources.proto.tempo import TraceByIDResponse

PROTOBUF = "application/protobuf"
SCOPES = ("event", "instrumentation", "link", "resource", "span")
INTRINSIC = "intrinsic"
MODES = {"", "all", "blocks", "ingesters", "external"}
V1_INTRINSICS = frozenset({"name", "status", "rootName", "rootServiceName", "statusMessage"})
_HEX = re.compile(r"[0-9a-fA-F]*")
COMPLETE, PARTIAL = 0, 1


@get("/traces/{trace_id:str}")
async def trace(request: Request[Any, Any, Any], services: Services, trace_id: str) -> Response[bytes]:
    """Return a trace, or 404."""
    fields = await read_fields(request)
    found = await _find(request, services, fields, trace_id)
    if not found.data.resource_spans:
        raise NotFoundError("")
    if _wants_protobuf(request):
        return Response(found.data.SerializeToString(deterministic=True), media_type=PROTOBUF)
    return reply(fields, _json(found), found.missing)


@get("/v2/traces/{trace_id:str}")
async def trace_with_status(
    request: Request[Any, Any, Any], services: Services, trace_id: str
) -> Response[bytes]:
    """Return a trace with its status: complete, or partial with the reason. An unknown one is empty."""
    fields = await read_fields(request)
    found = await _find(request, services, fields, trace_id)
    status = PARTIAL if found.missing else COMPLETE
    message = "; ".join(missing_warnings(found.missing))
    if _wants_protobuf(request):
        answer = TraceByIDResponse(status=status, message=message)
        answer.trace.MergeFromString(found.data.SerializeToString(deterministic=True))
        answer.trace.SetInParent()
        return Response(answer.SerializeToString(deterministic=True), media_type=PROTOBUF)
    body: dict[str, Any] = {"trace": _json(found), "metrics": {}}
    if found.missing:
        body |= {"status": "PARTIAL", "message": message}
    return reply(fields, body, found.missing)


async def _find(
    request: Request[Any, Any, Any], services: Services, fields: RequestFields, text: str
) -> WholeTraces:
    trace_id = read_trace_id(text)
    if fields.text("mode") not in MODES:
        raise InvalidRequestError(f"invalid value for mode {fields.text('mode')}")
    during = signed_window(fields) or Window(MIN_NS, MAX_NS)
    org = caller(request.state).org
    asked = TraceRequest(org, (trace_id,), during.start_ns, during.end_ns)
    with services.watch("tempo"):
        return await unless_gone(request, services.engine.ask(TRACE, asked))


def read_trace_id(text: str) -> bytes:
    digits = _HEX.match(text)
    end = digits.end() if digits else 0
    if end < len(text):
        raise InvalidRequestError(
            "trace IDs can only contain hex characters: "
            f"invalid character {text[end]!r} at position {end + 1}"
        )
    if len(text) > 32:
        raise InvalidRequestError("trace IDs can't be larger than 128 bits")
    return bytes.fromhex(text.rjust(32, "0"))


def _wants_protobuf(request: Request[Any, Any, Any]) -> bool:
    return PROTOBUF in request.headers.get("Accept", "")


def _json(found: WholeTraces) -> dict[str, Any]:
    body: dict[str, Any] = MessageToDict(found.data)
    return body


@get("/search/tags")
async def tags(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """List the names of attributes."""
    fields = await read_fields(request)
    found = await unless_gone(request, find_names(services, fields, caller(request.state).org))
    return reply(fields, {"tagNames": tag_names(found, fields), "metrics": {}}, found.missing)


@get("/v2/search/tags")
async def scoped_tags(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """List the names of attributes by scope."""
    fields = await read_fields(request)
    found = await unless_gone(request, find_names(services, fields, caller(request.state).org))
    return reply(fields, {"scopes": tag_scopes(found, fields), "metrics": {}}, found.missing)


def tag_names(found: SpanTags, fields: RequestFields) -> list[str]:
    scope = fields.text("scope")
    names = {name for one in SCOPES if scope in ("", "none", one) for name in found.names.get(one, ())}
    return sorted(TAG_NAMES if scope == INTRINSIC else names)


def tag_scopes(found: SpanTags, fields: RequestFields) -> list[dict[str, Any]]:
    scope = fields.text("scope")
    names = {one: sorted(found.names.get(one, ())) for one in SCOPES if scope in ("", "none", one)}
    if scope in ("", "none", INTRINSIC):
        names[INTRINSIC] = sorted(TAG_NAMES)
    return [{"name": one, "tags": each} for one, each in names.items() if each]


async def find_names(services: Services, fields: RequestFields, org: str) -> SpanTags:
    scope = fields.text("scope")
    if scope not in {"", "none", INTRINSIC, *SCOPES}:
        raise InvalidRequestError(f"invalid scope: {scope}")
    return await _ask(services, fields, org, "")


async def find_values(services: Services, fields: RequestFields, org: str, tag: str) -> SpanTags:
    """Find the values of a bare name."""
    return await _ask(services, fields, org, _v1_field(tag))


async def find_typed_values(services: Services, fields: RequestFields, org: str, tag: str) -> SpanTags:
    """Find the values of a field of TraceQL."""
    return await _ask(services, fields, org, _field(tag))


async def _ask(services: Services, fields: RequestFields, org: str, tag: str) -> SpanTags:
    during = seconds_window(fields, time.time_ns())
    limit = int(fields.text("limit")) if fields.text("limit").isdigit() else 0
    asked = SpanTagsRequest(org, during.start_ns, during.end_ns, tag, tag_condition(fields.text("q")), limit)
    with services.watch("tempo"):
        return await services.engine.ask(SPAN_TAGS, asked)


@get("/search/tag/{tag:str}/values")
async def tag_values(request: Request[Any, Any, Any], services: Services, tag: str) -> Response[bytes]:
    """List the values of an attribute as texts."""
    fields = await read_fields(request)
    found = await unless_gone(request, find_values(services, fields, caller(request.state).org, tag))
    return reply(fields, {"tagValues": value_texts(found), "metrics": {}}, found.missing)


@get("/v2/search/tag/{tag:str}/values")
async def typed_tag_values(request: Request[Any, Any, Any], services: Services, tag: str) -> Response[bytes]:
    """List the values of a field with their types."""
    fields = await read_fields(request)
    found = await unless_gone(request, find_typed_values(services, fields, caller(request.state).org, tag))
    return reply(fields, {"tagValues": typed_values(found), "metrics": {}}, found.missing)


def value_texts(found: SpanTags) -> list[str]:
    return sorted({_text(value) for value in found.values})


def typed_values(found: SpanTags) -> list[dict[str, str]]:
    return [
        {"type": _type(one), "value": text} if (text := _text(one)) else {"type": _type(one)}
        for one in found.values
    ]


def _v1_field(tag: str) -> str:
    """Return the field of a bare name: an intrinsic, else an attribute of any scope."""
    if tag in V1_INTRINSICS:
        return tag
    return f".{LOGQL.quote(tag)}"


def _field(*texts: str) -> str:
    """Return the first text that names a field."""
    error: QueryError | None = None
    for text in texts:
        try:
            parse_field(text)
        except QueryError as failed:
            error = failed
        else:
            return text
    raise InvalidRequestError(
        f"please provide a valid tagName: failed to parse identifier {texts[-1]}: {error}"
    )


NUMBERED = {"status": STATUSES, "kind": SPAN_KINDS}
"""Types of which Tempo lists numbers."""


def _type(one: TypedValue) -> str:
    return "int" if one.type in NUMBERED or one.type == "duration" else one.type


def _text(one: TypedValue) -> str:
    if one.type in NUMBERED:
        return str(NUMBERED[one.type].index(str(one.value)))
    if isinstance(one.value, bool):
        return str(one.value).lower()
    return str(one.value)


TRACE_HANDLERS: tuple[Any, ...] = (trace, trace_with_status, tags, scoped_tags, tag_values, typed_tag_values)
