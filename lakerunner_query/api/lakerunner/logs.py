"""Endpoints under `/api/v1/logs` stream queries and list streams and tags; `/api/v1/logql` validates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Coroutine, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
from anyio.to_thread import run_sync
from litestar import HttpMethod, MediaType, Request, Router, post, route
from litestar.response import Stream

from lakerunner_query.api.lakerunner import events
from lakerunner_query.api.lakerunner.events import Progress, metric_events
from lakerunner_query.api.lakerunner.params import (
    LogsNames,
    LogsQuery,
    lines,
    read_names,
    samples,
    stream_question,
)
from lakerunner_query.api.shared.auth import caller, require_reader
from lakerunner_query.api.shared.services import QueryWatch, Services
from lakerunner_query.coordinator.languages import (
    LOG_LINES,
    LOG_SAMPLES,
    STREAM_LABEL_VALUES,
    STREAM_LABELS,
    STREAMS,
)
from lakerunner_query.coordinator.logql_lines import LogLinesQuery, is_log_query
from lakerunner_query.coordinator.merge import COUNTS, AsTheyCome, RowMerge
from lakerunner_query.coordinator.names import Listing
from lakerunner_query.errors import InvalidRequestError, ParseError, QueryError
from lakerunner_query.logql.lang.ast import Literal, LogQuery
from lakerunner_query.logql.lang.parser import parse_cached
from lakerunner_query.logql.lang.pretty import pretty
from lakerunner_query.logql.lang.printer import selector_text
from lakerunner_query.plan.logql_samples import log_ranges
from lakerunner_query.serving import Failure, envelope, unless_gone

CHUNK_ROWS = 500
COLUMNS = ("tsns", "line", "object", "position")
KINDS = ("labels", "metadata", "parsed")
"""Columns of JSON objects: labels of the stream, metadata of the line, labels that stages made."""


def row_events(rows: pa.Table, fields: Collection[str]) -> list[bytes]:
    """Render one `result` event per row, several to a chunk of bytes; parse nothing unless `fields` asks."""
    events = list(_row_events(rows, frozenset(fields)))
    return [b"".join(events[at : at + CHUNK_ROWS]) for at in range(0, len(events), CHUNK_ROWS)]


def _row_events(rows: pa.Table, fields: frozenset[str]) -> Iterator[bytes]:
    columns = [rows[name].to_pylist() for name in (*COLUMNS, *KINDS)]
    encode = msgspec.json.Encoder().encode
    for tsns, line, source, position, *objects in zip(*columns, strict=True):
        labels, metadata, parsed = [_only(one, fields) for one in objects] if fields else objects
        yield (
            (
                f'data: {{"type":"result","data":{{"timestamp":"{tsns}","labels":{labels},'
                f'"metadata":{metadata},"parsed":{parsed},"id":"{source}:{position}","message":'
            ).encode()
            + encode(line)
            + b"}}\n\n"
        )


def _only(rendered: str, fields: frozenset[str]) -> str:
    values: dict[str, str] = msgspec.json.decode(rendered)
    return msgspec.json.encode({k: v for k, v in values.items() if k in fields}).decode()


METHODS = [HttpMethod.GET, HttpMethod.POST]


@route("/tags", http_method=METHODS, status_code=200)
async def tags(request: Request[Any, Any, Any], services: Services) -> dict[str, object]:
    """List the names of stream labels."""
    wanted = stream_question(
        await read_names(request, LogsNames), caller(request.state).org, services.settings
    )
    found = await _watch(request, services, services.engine.ask(STREAM_LABELS, wanted))
    return _reply("tags", found.texts, found)


@route("/tagvalues", http_method=METHODS, status_code=200)
async def tagvalues(request: Request[Any, Any, Any], services: Services) -> dict[str, object]:
    """List the values of the stream label `tag`."""
    data = await read_names(request, LogsNames)
    if not data.tag:
        raise InvalidRequestError("tag says which label's values; it is missing")
    wanted = stream_question(data, caller(request.state).org, services.settings)
    found = await _watch(
        request, services, services.engine.ask(STREAM_LABEL_VALUES, replace(wanted, labels=(data.tag,)))
    )
    return _reply("values", found.texts, found)


@route("/series", http_method=METHODS, status_code=200)
async def series(request: Request[Any, Any, Any], services: Services) -> dict[str, object]:
    """List the label sets of streams."""
    wanted = stream_question(
        await read_names(request, LogsNames), caller(request.state).org, services.settings
    )
    found = await _watch(request, services, services.engine.ask(STREAMS, wanted))
    return _reply("series", [dict(labels) for labels in found.series], found)


async def _watch(
    request: Request[Any, Any, Any], services: Services, work: Coroutine[Any, Any, Listing]
) -> Listing:
    with services.watch("lakerunner") as watch:
        found = await unless_gone(request, work)
        watch.end(partial=bool(found.missing))
    return found


def _reply(name: str, items: object, found: Listing) -> dict[str, object]:
    return {
        "status": "partial" if found.missing else "complete",
        name: items,
        "truncated": found.truncated,
        "missing": list(found.missing.values()),
    }


@post("/query", status_code=200, media_type=events.MEDIA_TYPE)
async def query(data: LogsQuery, request: Request[Any, Any, Any], services: Services) -> Stream:
    """Stream lines or series as events `{"type","data"}`: result, summary, heartbeat, error, done."""
    org = caller(request.state).org
    with services.watch("lakerunner") as watch:
        if await run_sync(is_log_query, data.q):
            prepared = await services.engine.prepare(LOG_LINES, data.q, lines(data, org, services.settings))
            answers = _events(services, prepared, data.fields, watch)
        else:
            times, within = samples(data, org, services.settings)
            samples_query = await services.engine.prepare(LOG_SAMPLES, data.q, within)
            progress = Progress(data.limit or 0, data.summary)
            most = services.engine.limits.max_points
            answers = metric_events(
                services.engine.run(samples_query, AsTheyCome()), data.q, times, progress, watch, most
            )
        watch.hand_over()
    return Stream(events.with_heartbeats(answers), media_type=events.MEDIA_TYPE, headers=events.HEADERS)


@post("/explain", status_code=200, media_type=MediaType.TEXT)
async def explain(data: LogsQuery, request: Request[Any, Any, Any], services: Services) -> str:
    """Explain the plan of a query, the rules that fired, and what the index pruned."""
    org = caller(request.state).org
    if await run_sync(is_log_query, data.q):
        prepared = await services.engine.prepare(LOG_LINES, data.q, lines(data, org, services.settings))
        return await services.engine.explain(prepared) + "\n"
    _, within = samples(data, org, services.settings)
    return await services.engine.explain(await services.engine.prepare(LOG_SAMPLES, data.q, within)) + "\n"


async def check_body(request: Request[Any, Any, Any]) -> None:
    """Refuse JSON of too great a depth or a wrong encoding, which the framework does not catch."""
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
    before_request=check_body,
    tags=["logs"],
)


async def _events(
    services: Services, prepared: LogLinesQuery, fields: list[str], watch: QueryWatch
) -> AsyncGenerator[bytes, None]:
    try:
        with watch:
            collected = RowMerge(prepared.request.limit)
            async with aclosing(services.engine.run(prepared, collected)) as pieces:
                async for rows in pieces:
                    for chunk in await asyncio.to_thread(row_events, rows, fields):
                        yield chunk
            watch.finish(collected)
            yield events.event("done", _done(collected))
    except QueryError as error:
        yield events.event("error", envelope(error))
        yield events.event("done", {"status": "error"})
    except Exception as error:  # noqa: BLE001 -- the response has begun: an event is the only way left to say it
        yield events.event("error", envelope(error))
        yield events.event("done", {"status": "error"})


def _done(collected: RowMerge) -> dict[str, object]:
    return {
        "status": "partial" if collected.is_partial else "complete",
        "rows": collected.rows,
        "missing": list(collected.missing.values()),
        "stats": {"units": collected.units} | {name: getattr(collected, name) for name in COUNTS},
    }


class LogQLText(msgspec.Struct, forbid_unknown_fields=True):
    q: str


class LogQLVerdict(msgspec.Struct, omit_defaults=True):
    """Either `error`, or the type and selectors of a query."""

    valid: bool
    type: str = ""
    """Type: `streams`, `vector` or `scalar`."""
    formatted: str = ""
    selectors: list[str] = []
    error: Failure | None = None


@post("/validate", status_code=200)
async def validate(data: LogQLText) -> LogQLVerdict:
    """Check a query without running it."""
    return await run_sync(_verdict, data.q)


logql_router = Router(
    "/api/v1/logql",
    route_handlers=[validate],
    guards=[require_reader],
    before_request=check_body,
    tags=["logs"],
)


def _verdict(text: str) -> LogQLVerdict:
    try:
        expr = parse_cached(text)
    except ParseError as error:
        return LogQLVerdict(False, error=envelope(error))
    if isinstance(expr, LogQuery):
        return LogQLVerdict(True, "streams", pretty(expr), [selector_text(expr.matchers)])
    found = dict.fromkeys(selector_text(one.query.matchers) for one in log_ranges(expr))
    kind = "scalar" if isinstance(expr, Literal) else "vector"
    return LogQLVerdict(True, kind, pretty(expr), list(found))
