"""Handlers answer Jaeger's questions for traces; the router holds all of its endpoints."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from litestar import Request, Response, Router, get

from lakerunner_query.api.jaeger.names import NAME_HANDLERS
from lakerunner_query.api.jaeger.params import (
    NOT_FOUND,
    TracesAsked,
    flag,
    trace_id,
    trace_range,
    traces_asked,
)
from lakerunner_query.api.jaeger.render import reply, respond_like_jaeger
from lakerunner_query.api.jaeger.translation import id_text, traces_json
from lakerunner_query.api.jaeger.version3 import VERSION3_HANDLERS
from lakerunner_query.api.shared.auth import caller, require_reader
from lakerunner_query.api.shared.requests import missing_warnings, read_fields
from lakerunner_query.api.shared.services import Services
from lakerunner_query.coordinator.languages import TRACE, TRACE_SEARCH
from lakerunner_query.coordinator.spans import TraceRequest, WholeTraces
from lakerunner_query.errors import NotFoundError
from lakerunner_query.protocol.traces import FoundTrace
from lakerunner_query.serving import handlers, unless_gone

MOST_SPANS = 200_000
"""Spans of the traces of one answer; a single trace may have more."""


@get("/traces")
async def traces(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Return whole traces: the newest that match, or those with the ids that are named."""
    fields = await read_fields(request)
    asked = traces_asked(fields, caller(request.state).org, time.time_ns())
    with services.watch("jaeger") as watch:
        if asked.ids:
            during = trace_range(fields)
            wanted = TraceRequest(asked.request.org, asked.ids, during.start_ns, during.end_ns)
            found = await unless_gone(request, services.engine.ask(TRACE, wanted))
            shown, cut = await _translated(found, asked.ids, is_raw=asked.is_raw), ""
        else:
            found, ids, cut = await unless_gone(request, _search(services, asked))
            shown = await _translated(found, ids, is_raw=asked.is_raw)
        watch.end(partial=found.is_partial)
    there = {one["traceID"] for one in shown}
    lost = [text for text in map(id_text, asked.ids) if text not in there]
    errors = [{"msg": NOT_FOUND, "traceID": text} for text in lost]
    return reply(fields, shown, found.missing, errors=errors, warnings=[cut] if cut else ())


@get("/traces/{trace:str}")
async def trace(request: Request[Any, Any, Any], services: Services, trace: str) -> Response[bytes]:
    """Return a whole trace, or 404."""
    fields = await read_fields(request)
    ids, during, is_raw = (trace_id(trace),), trace_range(fields), flag(fields, "raw")
    wanted = TraceRequest(caller(request.state).org, ids, during.start_ns, during.end_ns)
    with services.watch("jaeger") as watch:
        found = await unless_gone(request, services.engine.ask(TRACE, wanted))
        if not found.data.resource_spans:
            raise NotFoundError(NOT_FOUND)
        shown = await _translated(found, ids, is_raw=is_raw)
        watch.end(partial=found.is_partial)
    return reply(fields, shown, found.missing)


async def _search(services: Services, asked: TracesAsked) -> tuple[WholeTraces, Sequence[bytes], str]:
    """Find traces, then read them whole; return them, their ids, and what was left out."""
    prepared = await services.engine.prepare(TRACE_SEARCH, asked.text, asked.request)
    found = await services.engine.collect(prepared)
    if not found.traces:
        return WholeTraces(missing=found.missing), (), ""
    chosen = _bounded(found.traces)
    ids = tuple(bytes.fromhex(one.trace_id) for one in chosen)
    start, end = min(one.start_ns for one in chosen), max(one.end_ns for one in chosen)
    whole = await services.engine.ask(TRACE, TraceRequest(asked.request.org, ids, start, end))
    whole.missing.update(found.missing)
    left = len(found.traces) - len(chosen)
    cut = f"{left} more traces match: an answer has at most {MOST_SPANS} spans" if left else ""
    return whole, ids, cut


def _bounded(traces: Sequence[FoundTrace]) -> list[FoundTrace]:
    """Return the first traces that have no more than `MOST_SPANS` spans together, and at least one."""
    chosen, spans = list[FoundTrace](), 0
    for one in traces:
        spans += sum(each.spans for each in one.services.values())
        if chosen and spans > MOST_SPANS:
            break
        chosen.append(one)
    return chosen


async def _translated(found: WholeTraces, ids: Sequence[bytes], *, is_raw: bool) -> list[Any]:
    """Return traces in the order of their ids, each once."""
    warnings = missing_warnings(found.missing)
    shown = await asyncio.to_thread(traces_json, found.data, is_raw=is_raw, warnings=warnings)
    return [shown[each] for each in ids if each in shown]


jaeger_router = Router(
    "/jaeger/api",
    route_handlers=[traces, trace, *NAME_HANDLERS, *VERSION3_HANDLERS],
    guards=[require_reader],
    exception_handlers=handlers(respond_like_jaeger),
    tags=["jaeger"],
)
