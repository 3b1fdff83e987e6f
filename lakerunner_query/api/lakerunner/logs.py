"""Endpoints under `/api/v1/logs` stream queries and list streams and tags; `/api/v1/logql` validates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
from anyio.to_thread import run_sync
from litestar import HttpMethod, MediaType, Request, Response, Router, get, post, route
from litestar.response import Stream

from lakerunner_query.api.lakerunner import events, resume, tagged
from lakerunner_query.api.lakerunner.events import Progress, id_line, metric_events
from lakerunner_query.api.lakerunner.params import (
    NS_PER_MS,
    LogsNames,
    LogsQuery,
    lines,
    read_names,
    read_query,
    samples,
    stream_question,
)
from lakerunner_query.api.shared.auth import caller, require_reader
from lakerunner_query.api.shared.requests import missing_warnings
from lakerunner_query.api.shared.services import QueryWatch, Services
from lakerunner_query.coordinator.languages import (
    LOG_LINES,
    LOG_SAMPLES,
    STREAM_LABEL_VALUES,
    STREAM_LABELS,
    STREAMS,
)
from lakerunner_query.coordinator.logql_lines import LogLinesQuery, is_log_query
from lakerunner_query.coordinator.logql_samples import NOW, LogSamplesRequest
from lakerunner_query.coordinator.merge import COUNTS, RowMerge
from lakerunner_query.coordinator.names import Listing, StreamsRequest
from lakerunner_query.errors import InvalidRequestError, ParseError, QueryError
from lakerunner_query.logql.lang.ast import Literal, LogQuery
from lakerunner_query.logql.lang.parser import parse_cached
from lakerunner_query.logql.lang.pretty import pretty
from lakerunner_query.logql.lang.printer import selector_text
from lakerunner_query.plan.logql import LogLinesRequest
from lakerunner_query.plan.logql_samples import log_ranges
from lakerunner_query.protocol.tables import ROWS
from lakerunner_query.serving import Failure, envelope, unless_gone
from resources.lake.timecut import SECOND_NS

CHUNK_ROWS = 500
COLUMNS = ("tsns", "line", "object", "position")
KINDS = ("labels", "metadata", "parsed")
"""Columns of JSON objects: labels of the stream, metadata of the line, labels that stages made."""


def row_events(rows: pa.Table, fields: Collection[str], ids: Sequence[str] = ()) -> list[bytes]:
    """Render one `result` event per row, several to a chunk of bytes; parse nothing unless `fields` asks."""
    events = list(_row_events(rows, frozenset(fields), ids or [""] * rows.num_rows))
    return [b"".join(events[at : at + CHUNK_ROWS]) for at in range(0, len(events), CHUNK_ROWS)]


def _row_events(rows: pa.Table, fields: frozenset[str], ids: Sequence[str]) -> Iterator[bytes]:
    columns = [rows[name].to_pylist() for name in (*COLUMNS, *KINDS)]
    encode = msgspec.json.Encoder().encode
    for event_id, tsns, line, source, position, *objects in zip(ids, *columns, strict=True):
        labels, metadata, parsed = [_only(one, fields) for one in objects] if fields else objects
        yield (
            (
                f'data: {{"type":"result","data":{{"timestamp":"{tsns}","labels":{labels},'
                f'"metadata":{metadata},"parsed":{parsed},"id":"{source}:{position}","message":'
            ).encode()
            + encode(line)
            + b"}}\n"
            + id_line(event_id)
            + b"\n"
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
async def tagvalues(
    request: Request[Any, Any, Any], services: Services
) -> dict[str, object] | Response[bytes]:
    """List the values of the stream label `tag`."""
    data = await read_names(request, LogsNames)
    if not data.tag:
        raise InvalidRequestError("tag says which label's values; it is missing")
    if tagged.wants_tags(request):
        return await _tagged_values(request, services, data)
    wanted = stream_question(data, caller(request.state).org, services.settings)
    found = await _watch(
        request, services, services.engine.ask(STREAM_LABEL_VALUES, replace(wanted, labels=(data.tag,)))
    )
    return _reply("values", found.texts, found)


async def _tagged_values(
    request: Request[Any, Any, Any], services: Services, data: LogsNames
) -> Response[bytes]:
    """List the values of any tag, as events; those of tags that no stream has are read from the lines."""
    org = caller(request.state).org
    wanted = stream_question(LogsNames(data.s, data.e), org, services.settings)
    stream_labels = await _stream_labels(services, wanted)
    name = tagged.name_here(data.tag, stream_labels)
    with services.watch("lakerunner") as watch:
        if name in stream_labels and not data.q:
            names = services.engine.ask(STREAM_LABEL_VALUES, replace(wanted, labels=(name,)))
            found = await unless_gone(request, names)
            values = found.texts
        else:
            seconds = -(-(wanted.end_ns - wanted.start_ns) // SECOND_NS)
            text = tagged.values_query(name, data.q, stream_labels, seconds)
            at = LogSamplesRequest(org, wanted.end_ns, wanted.end_ns, 0)
            prepared = await services.engine.prepare(LOG_SAMPLES, text, at)
            joined = await unless_gone(request, services.engine.collect(prepared))
            shown = tagged.plain(name)
            values = sorted({dict(one.labels).get(shown, "") for one in joined.series} - {""})
        watch.end(partial=False)
    return Response(tagged.value_events(values), media_type=events.MEDIA_TYPE, headers=events.HEADERS)


async def _stream_labels(services: Services, wanted: StreamsRequest) -> list[str]:
    """Return the labels that streams of the range have; the index knows them."""
    return (await services.engine.ask(STREAM_LABELS, wanted)).texts


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
        **({"warnings": missing_warnings(found.missing)} if found.missing else {}),
    }


@post("/query", status_code=200, media_type=events.MEDIA_TYPE)
async def query(data: LogsQuery, request: Request[Any, Any, Any], services: Services) -> Stream:
    """Stream lines or series as events `{"type","data"}`: result, summary, heartbeat, error, done."""
    return await _stream(data, request, services)


@get("/query", media_type=events.MEDIA_TYPE)
async def query_by_address(request: Request[Any, Any, Any], services: Services) -> Stream:
    """Stream like the POST, for clients that know nothing else."""
    return await _stream(await read_query(request, LogsQuery), request, services)


async def _stream(data: LogsQuery, request: Request[Any, Any, Any], services: Services) -> Stream:
    is_tagged, last_id = tagged.wants_tags(request), resume.last_event_id(request)
    with services.watch("lakerunner") as watch:
        if not await run_sync(is_log_query, data.q):
            answers = await _samples(data, caller(request.state).org, services, watch, last_id)
        elif is_tagged:
            within = lines(data, caller(request.state).org, services.settings)
            text = await _translated(services, data.q, within)
            prepared = await services.engine.prepare(LOG_LINES, text, within)
            stream = LinesStream(prepared, services.engine.run, None)
            answers = _events(stream, partial(tagged.row_events, fields=data.fields), watch, is_tagged=True)
        else:
            stream = await _lines(data, caller(request.state).org, services, last_id)
            answers = _events(stream, partial(row_events, fields=data.fields), watch, is_tagged=False)
        watch.hand_over()
    beat = tagged.HEARTBEAT if is_tagged else events.event("heartbeat")
    alive = events.with_heartbeats(answers, beat=beat)
    return Stream(alive, media_type=events.MEDIA_TYPE, headers=events.HEADERS)


async def _samples(
    data: LogsQuery, org: str, services: Services, watch: QueryWatch, last_id: str
) -> AsyncGenerator[bytes, None]:
    times, _ = samples(data, org, services.settings)
    has_ids = not (data.limit or data.summary or NOW in data.q)
    place = resume.place_of(times.request, has_ids, last_id, "log samples", data.q)
    times = times if place is None else times.at(place.start_ms, place.end_ms, place.step_ms)
    progress = Progress(data.limit or 0, data.summary)

    def request_of(part_ms: tuple[int, int] | None) -> LogSamplesRequest:
        first, last = part_ms or (times.request.start_ms, times.request.end_ms)
        step_ns = times.request.step_ms * NS_PER_MS
        return LogSamplesRequest(org, first * NS_PER_MS, last * NS_PER_MS, step_ns, rewrite=data.rewrite)

    stream = await resume.open_samples(services.engine, LOG_SAMPLES, data.q, request_of, place, progress)
    return metric_events(stream, data.q, times, progress, watch, services.engine.limits.max_points)


@dataclass(slots=True)
class LinesStream:
    """A query for lines that is about to be streamed."""

    prepared: LogLinesQuery
    run: Callable[[LogLinesQuery, RowMerge], AsyncGenerator[pa.Table, None]]
    place: resume.LinesPosition | None
    """Place of the last row that was sent; None: rows have no ids."""
    collected: RowMerge = field(init=False)
    pieces: AsyncGenerator[pa.Table, None] = field(init=False)
    first: pa.Table = field(default_factory=ROWS.empty_table)
    """Rows that were already read."""

    def __post_init__(self) -> None:
        self.collected = RowMerge(self.prepared.request.limit, missing=self.prepared.missing)
        self.pieces = self.run(self.prepared, self.collected)

    async def skip(self, seen: resume.LinesPosition) -> None:
        """Go on behind a row."""
        resume.refuse_outdated(self.prepared.outdated)
        self.first = await resume.rows_behind(self.pieces, seen)
        self.collected.missing.update(seen.missing)

    @property
    def sent_before(self) -> int:
        """Rows that were sent before, less those that were read again."""
        return 0 if self.place is None else self.place.sent - self.place.same


async def _lines(data: LogsQuery, org: str, services: Services, last_id: str) -> LinesStream:
    request = lines(data, org, services.settings)
    key = resume.fingerprint(org, "lines", data.q, data.fields)
    if last_id:
        seen = resume.LinesPosition.parse(last_id, key)
        prepared = await services.engine.prepare(LOG_LINES, data.q, seen.rest_of(request), seen.now_ns)
        stream = LinesStream(prepared, services.engine.run, seen)
        await stream.skip(seen)
        return stream
    prepared = await services.engine.prepare(LOG_LINES, data.q, request)
    place = resume.LinesPosition(
        key, request.start_ns, request.end_ns, prepared.now_ns, request.limit, request.reverse
    )
    return LinesStream(prepared, services.engine.run, place)


async def _translated(services: Services, text: str, within: LogLinesRequest) -> str:
    stream_labels = await _stream_labels(services, StreamsRequest(within.org, within.start_ns, within.end_ns))
    return await run_sync(tagged.translated, text, stream_labels)


@post("/explain", status_code=200, media_type=MediaType.TEXT)
async def explain(data: LogsQuery, request: Request[Any, Any, Any], services: Services) -> str:
    """Explain the plan of a query, the rules that fired, and what the index pruned."""
    org, engine = caller(request.state).org, services.engine
    if await run_sync(is_log_query, data.q):
        within = lines(data, org, services.settings)
        return engine.explain(await engine.prepare(LOG_LINES, data.q, within, is_explained=True)) + "\n"
    _, times = samples(data, org, services.settings)
    return engine.explain(await engine.prepare(LOG_SAMPLES, data.q, times, is_explained=True)) + "\n"


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
    route_handlers=[query, query_by_address, explain, tags, tagvalues, series],
    guards=[require_reader],
    before_request=check_body,
    tags=["logs"],
)


async def _events(
    stream: LinesStream,
    render: Callable[..., list[bytes]],
    watch: QueryWatch,
    *,
    is_tagged: bool,
) -> AsyncGenerator[bytes, None]:
    try:
        with watch:
            collected, place = stream.collected, stream.place
            async with aclosing(_rows(stream)) as pieces:
                async for rows in pieces:
                    if place is None:
                        chunks = await asyncio.to_thread(render, rows)
                    else:
                        ids, place = place.ids(rows, is_partial=bool(collected.missing))
                        chunks = await asyncio.to_thread(render, rows, ids=ids)
                    for chunk in chunks:
                        yield chunk
            watch.finish(collected)
            for event in _ending(stream, is_tagged=is_tagged):
                yield event
    except QueryError as error:
        yield _failed(error, is_tagged=is_tagged)
    except Exception as error:  # noqa: BLE001 -- the response has begun: an event is the only way left to say it
        yield _failed(error, is_tagged=is_tagged)


async def _rows(stream: LinesStream) -> AsyncGenerator[pa.Table, None]:
    async with aclosing(stream.pieces) as pieces:
        yield stream.first
        async for rows in pieces:
            yield rows


def _ending(stream: LinesStream, *, is_tagged: bool) -> Iterator[bytes]:
    collected = stream.collected
    if not is_tagged:
        yield events.event("done", _done(collected, stream.sent_before))
        return
    if collected.is_partial:
        yield tagged.failure_event(Failure(503, "segments_missing", missing_warnings(collected.missing)[0]))
    yield tagged.DONE


def _failed(error: Exception, *, is_tagged: bool) -> bytes:
    if is_tagged:
        return tagged.failure_event(envelope(error)) + tagged.DONE
    return events.event("error", envelope(error)) + events.event("done", {"status": "error"})


def _done(collected: RowMerge, sent_before: int) -> dict[str, object]:
    return {
        "status": "partial" if collected.is_partial else "complete",
        "rows": collected.rows + sent_before,
        "warnings": missing_warnings(collected.missing),
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
