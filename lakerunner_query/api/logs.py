"""`/api/v1/logs`: queries as a stream of events, and their plan as text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
from anyio.to_thread import run_sync
from litestar import MediaType, Request, Router, post
from litestar.response import Stream

from lakerunner_query.api import sse
from lakerunner_query.api.auth import caller, require_reader
from lakerunner_query.api.failures import envelope
from lakerunner_query.api.log_names import series, tags, tagvalues
from lakerunner_query.api.log_params import LogsQuery, lines, samples
from lakerunner_query.api.log_rows import row_events
from lakerunner_query.api.metric_events import Progress, metric_events
from lakerunner_query.api.services import Services
from lakerunner_query.api.watching import QueryWatch
from lakerunner_query.coordinator.logql_lines import Finished, Prepared
from lakerunner_query.coordinator.logql_samples import is_log_query
from lakerunner_query.coordinator.merge import COUNTS
from lakerunner_query.errors import InvalidRequestError, QueryError


@post("/query", status_code=200, media_type=sse.MEDIA_TYPE)
async def query(data: LogsQuery, request: Request[Any, Any, Any], services: Services) -> Stream:
    """Lines or series as server-sent events `{"type","data"}`: result, summary, heartbeat, error, done."""
    org = caller(request.state).org
    with services.watch("lakerunner") as watch:
        if await run_sync(is_log_query, data.q):
            prepared = await services.engine.prepare(data.q, lines(data, org, services.settings))
            events = _events(services, prepared, data.fields, watch)
        else:
            times, within = samples(data, org, services.settings)
            asked = await services.log_metrics.prepare(data.q, within)
            progress = Progress(data.limit or 0, data.summary)
            most = services.log_metrics.limits.max_points
            events = metric_events(services.log_metrics.run(asked), data.q, times, progress, watch, most)
        watch.hand_over()
    return Stream(sse.with_heartbeats(events), media_type=sse.MEDIA_TYPE, headers=sse.HEADERS)


@post("/explain", status_code=200, media_type=MediaType.TEXT)
async def explain(data: LogsQuery, request: Request[Any, Any, Any], services: Services) -> str:
    """The plan of a query, the rules that fired, and what the index pruned."""
    org = caller(request.state).org
    if await run_sync(is_log_query, data.q):
        prepared = await services.engine.prepare(data.q, lines(data, org, services.settings))
        return await services.engine.explain(prepared) + "\n"
    _, within = samples(data, org, services.settings)
    return await services.log_metrics.explain(await services.log_metrics.prepare(data.q, within)) + "\n"


async def readable(request: Request[Any, Any, Any]) -> None:
    """Depth and encoding are the two faults of JSON that the framework's decoder does not catch."""
    body = await request.body()
    try:
        body.decode()
        msgspec.json.decode(body or b"null")
    except (UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequestError(f"the body is not JSON: {error}") from error
    except msgspec.DecodeError:
        return  # the framework says it better


logs_router = Router(
    "/api/v1/logs",
    route_handlers=[query, explain, tags, tagvalues, series],
    guards=[require_reader],
    before_request=readable,
    tags=["logs"],
)


async def _events(
    services: Services, prepared: Prepared, fields: list[str], watch: QueryWatch
) -> AsyncGenerator[bytes, None]:
    try:
        with watch:
            async with aclosing(services.engine.run(prepared)) as answers:
                async for answer in answers:
                    if isinstance(answer, Finished):
                        watch.finished(answer)
                        yield sse.event("done", _done(answer))
                        continue
                    for chunk in await asyncio.to_thread(row_events, answer.table, fields):
                        yield chunk
    except QueryError as error:
        yield sse.event("error", envelope(error))
        yield sse.event("done", {"status": "error"})
    except Exception as error:  # noqa: BLE001 -- the response has begun: an event is the only way left to say it
        yield sse.event("error", envelope(error))
        yield sse.event("done", {"status": "error"})


def _done(answer: Finished) -> dict[str, object]:
    found = answer.collected
    return {
        "status": "partial" if answer.partial else "complete",
        "rows": found.rows,
        "missing": list(found.missing.values()),
        "stats": {"units": found.units} | {name: getattr(found, name) for name in COUNTS},
    }
