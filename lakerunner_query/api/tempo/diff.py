"""`POST /tempo/api/v2/traces/diff` tells what sets one trace apart from another, as a `trace-patch-v0`."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from anyio.to_thread import run_sync
from litestar import MediaType, Request, Response, post

from lakerunner_query.api.shared.auth import caller
from lakerunner_query.api.shared.requests import missing_warnings
from lakerunner_query.api.shared.services import Services
from lakerunner_query.api.tempo.render import JSON
from lakerunner_query.api.tempo.traces import read_trace_id
from lakerunner_query.assembly.diff import VERSION, diff
from lakerunner_query.coordinator.languages import TRACE
from lakerunner_query.coordinator.spans import TraceRequest, WholeTraces
from lakerunner_query.errors import InvalidRequestError, NotFoundError
from lakerunner_query.plan.traceql import MAX_NS, MIN_NS
from lakerunner_query.serving import unless_gone
from resources.lake.timecut import SECOND_NS

LAST_S = MAX_NS // SECOND_NS


class DiffedTrace(msgspec.Struct):
    """A trace, looked for within whole seconds; clients spell the name of its id in two ways."""

    traceId: str = ""  # noqa: N815 - Tempo's spelling
    traceID: str = ""  # noqa: N815
    start: int | None = None
    end: int | None = None

    def request(self, org: str, side: str) -> TraceRequest:
        text = self.traceId or self.traceID
        if not text:
            raise InvalidRequestError(f"{side}.traceId is required")
        start = MIN_NS if self.start is None else max(-LAST_S, min(self.start, LAST_S)) * SECOND_NS
        end = MAX_NS if self.end is None else max(-LAST_S, min(self.end, LAST_S)) * SECOND_NS
        if start >= end:
            raise InvalidRequestError(f"{side}: start must be before end. received start={start} end={end}")
        return TraceRequest(org, (read_trace_id(text),), start, end)


class DiffRequest(msgspec.Struct):
    base: DiffedTrace
    compare: DiffedTrace
    format: str = VERSION


@post("/v2/traces/diff", status_code=200)
async def trace_diff(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Compare two whole traces; a trace with gaps is not compared."""
    asked = _read(await request.body())
    org = caller(request.state).org
    wanted = [asked.base.request(org, "base"), asked.compare.request(org, "compare")]
    with services.watch("tempo") as watch:
        both = asyncio.gather(*(services.engine.ask(TRACE, one) for one in wanted))
        base, compare = await unless_gone(request, _awaited(both))
        for side, found in (("base", base), ("compare", compare)):
            if found.missing:
                said = f"{side}: partial traces cannot be diffed: {missing_warnings(found.missing)[0]}"
                return Response(said.encode(), status_code=422, media_type=MediaType.TEXT)
            if not found.data.resource_spans:
                raise NotFoundError("Not Found")
        body = await run_sync(lambda: msgspec.json.encode(diff(base.data, compare.data)))
        watch.end(partial=False)
    return Response(body, media_type=JSON)


async def _awaited(both: asyncio.Future[list[WholeTraces]]) -> list[WholeTraces]:
    return await both


def _read(body: bytes) -> DiffRequest:
    try:
        asked = msgspec.json.decode(body, type=DiffRequest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequestError(f"invalid trace diff request: {error}") from error
    if asked.format not in {"", VERSION}:
        raise InvalidRequestError(f"unsupported trace diff format {asked.format[:64]!r}: there is {VERSION}")
    return asked
