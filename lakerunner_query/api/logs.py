"""`/api/v1/logs`: queries as a stream of events, and their plan as text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
from litestar import MediaType, Request, Router, post
from litestar.response import Stream

from lakerunner_query.api import sse
from lakerunner_query.api.auth import caller, require_reader
from lakerunner_query.api.failures import envelope
from lakerunner_query.api.log_rows import row_events
from lakerunner_query.api.services import Services
from lakerunner_query.api.watching import QueryWatch
from lakerunner_query.engine import Finished, Prepared
from lakerunner_query.errors import InvalidRequestError, QueryError
from lakerunner_query.execute.merge import COUNTS
from lakerunner_query.moments import moment_ns
from lakerunner_query.plan.build import LogRange


class LogsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """A log query; `s` and `e` are times (default: the last hour), `reverse` is newest first."""

    q: str
    s: str | int | float | None = None
    e: str | int | float | None = None
    limit: int | None = None
    reverse: bool = True
    fields: list[str] = msgspec.field(default_factory=list)


@post("/query", status_code=200, media_type=sse.MEDIA_TYPE)
async def query(data: LogsQuery, request: Request[Any, Any, Any], services: Services) -> Stream:
    """Rows as server-sent events `{"type","data"}`: result, heartbeat, error, done."""
    with services.watch("lakerunner") as watch:
        prepared = await services.engine.prepare(data.q, _asked(data, request, services))
        watch.hand_over()
    events = sse.with_heartbeats(_events(services, prepared, data.fields, watch))
    return Stream(events, media_type=sse.MEDIA_TYPE, headers=sse.HEADERS)


@post("/explain", status_code=200, media_type=MediaType.TEXT)
async def explain(data: LogsQuery, request: Request[Any, Any, Any], services: Services) -> str:
    """The plan of a log query, the rules that fired, and what the index pruned."""
    prepared = await services.engine.prepare(data.q, _asked(data, request, services))
    return await services.engine.explain(prepared) + "\n"


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
    route_handlers=[query, explain],
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


def _asked(data: LogsQuery, request: Request[Any, Any, Any], services: Services) -> LogRange:
    now = time.time_ns()
    end = now if data.e is None else moment_ns(data.e, now)
    window = services.settings.query_default_window_s
    start = moment_ns(f"e-{window}s" if data.s is None else data.s, now, end)
    limit = services.settings.query_default_limit if data.limit is None else data.limit
    if limit < 0:
        raise InvalidRequestError("limit must not be negative")
    if start > end:
        raise InvalidRequestError("s is after e")
    return LogRange(caller(request.state).org, start, end, limit, data.reverse)
