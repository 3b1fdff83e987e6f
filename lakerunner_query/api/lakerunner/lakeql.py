"""`/api/v1/query` answers SQL, PromQL and LogQL as tables: events, JSON, CSV or an Arrow stream.

    data: {"type":"schema","data":[{"name":"severity","type":"string"},…]}
    data: {"type":"summary","data":{"stats":{"segments":40,"segments_opened":7,…}}}
    data: {"type":"result","data":{"rows":[["ERROR",12],…]}}
    data: {"type":"done","data":{"status":"complete","rows":2,…}}

Whatever the form, a result goes out as it is computed; JSON, CSV and Arrow begin only when the first batch is
there, so that an error before it keeps its status. One after it ends the stream in a way that no client takes
for a whole answer.
"""

from __future__ import annotations

import io
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from litestar import MediaType, Request, Response, post
from litestar.response import Stream
from pyarrow import csv

from lakerunner_query.api.lakerunner import events
from lakerunner_query.api.lakerunner.logs import check_body
from lakerunner_query.api.shared.auth import caller
from lakerunner_query.api.shared.requests import missing_warnings
from lakerunner_query.api.shared.services import QueryWatch, Services
from lakerunner_query.api.shared.times import moment_ns
from lakerunner_query.coordinator.lakeql import Answer
from lakerunner_query.coordinator.lakeql_jobs import KeptAnswer, result_of
from lakerunner_query.errors import InvalidRequestError, ParseError, SegmentsMissingError
from lakerunner_query.plan.lakeql import LakeQLRequest
from lakerunner_query.serving import Failure, envelope, unless_gone
from resources.index.job_types import QueryJob

JSON, CSV, ARROW = "application/json", "text/csv", "application/vnd.apache.arrow.stream"
PROGRESS_S = 1.0
"""Seconds without an event after which one tells of the progress."""
BIG = 1 << 53
"""Integers from which on JavaScript would round: they are texts in JSON."""


Result = Answer | KeptAnswer


class LakeQLBody(msgspec.Struct, forbid_unknown_fields=True):
    """A statement; `s` and `e` bound tables that it does not bound itself."""

    q: str
    s: int | str = 0
    e: int | str = 0
    limit: int = 0
    """Upper bound of the rows of the answer; 0: there is none."""
    parameters: list[str | int | float | bool | None] = []
    partial: bool = True
    """False: an answer that lacks segments is an error."""
    timeout: float = 0.0
    engine: Literal["auto", "local", "spark"] = "auto"
    """Place of joins, groups and sorts; auto: Spark takes over what is too large for the query API."""
    keep: bool = False
    """True: Spark goes on when the caller leaves; the result stays for an hour under its id."""


class LakeQLVerdict(msgspec.Struct, omit_defaults=True):
    valid: bool
    columns: list[dict[str, str]] = []
    error: Failure | None = None


@post("/query", status_code=200, media_type=events.MEDIA_TYPE)
async def query(data: LakeQLBody, request: Request[Any, Any, Any], services: Services) -> Response[Any]:
    """Answer in the form that `Accept` names: server-sent events, JSON, CSV or an Arrow stream."""
    with services.watch("lakeql") as watch:
        answer = await services.lakeql.open(data.q, request_of(data, request))
        return await respond(request, answer, watch, allow_partial=data.partial)


async def respond(
    request: Request[Any, Any, Any], answer: Result, watch: QueryWatch, *, allow_partial: bool
) -> Response[Any]:
    """Send an answer in the form that `Accept` names."""
    accepted = request.headers.get("accept", "")
    form = next((one for one in (JSON, CSV, ARROW) if one in accepted), events.MEDIA_TYPE)
    if form == events.MEDIA_TYPE:
        watch.hand_over()
        told = events.with_heartbeats(_events(answer, watch), PROGRESS_S, lambda: _progress(answer))
        return Stream(told, media_type=form, headers=events.HEADERS)
    pieces = _pieces(answer, watch, _FORMS[form](answer.schema), allow_partial=allow_partial)
    try:
        first = await unless_gone(request, _first_of(pieces))
    except BaseException:
        await pieces.aclose()
        raise
    watch.hand_over()
    kind = f"{form}; charset=utf-8" if form == CSV else form
    headers = {
        "Cache-Control": "no-store",
        "Content-Type": kind,
    }  # else the handler's, which is that of events
    if answer.notices:
        headers["X-Lakerunner-Notices"] = msgspec.json.encode(answer.notices).decode("latin-1")
    if answer.job is not None:
        headers["X-Lakerunner-Query-Id"] = answer.job.job_id
    return Stream(_from_first(first, pieces), media_type=form, headers=headers)


@post("/query/explain", status_code=200, media_type=MediaType.TEXT)
async def explain(data: LakeQLBody, request: Request[Any, Any, Any], services: Services) -> str:
    """Explain which segments are read, what workers do, and what is left for the end."""
    return await services.lakeql.explain(data.q, request_of(data, request)) + "\n"


@post("/lakeql/validate", status_code=200)
async def validate(data: LakeQLBody, request: Request[Any, Any, Any], services: Services) -> LakeQLVerdict:
    """Check a statement, names included, without running it."""
    try:
        schema = await services.lakeql.describe(data.q, request_of(data, request))
    except ParseError as error:
        return LakeQLVerdict(False, error=envelope(error))
    return LakeQLVerdict(True, _columns(schema))


async def check_statement(request: Request[Any, Any, Any]) -> None:
    """Refuse what Prometheus' clients send to a path of this name, and JSON that the framework misses."""
    if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise InvalidRequestError(
            'a statement is sent as JSON, {"q": "SELECT …"}; '
            f"Prometheus' API lies under /prometheus here: ask /prometheus{request.url.path}"
        )
    await check_body(request)


def request_of(data: LakeQLBody, request: Request[Any, Any, Any]) -> LakeQLRequest:
    if data.limit < 0:
        raise InvalidRequestError("limit is a number of rows, 0 or more")
    now_ns = time.time_ns()
    end_ns = moment_ns(data.e, now_ns) if data.e else 0
    start_ns = moment_ns(data.s, now_ns, end_ns or now_ns) if data.s else 0
    org, parameters = caller(request.state).org, tuple(data.parameters)
    return LakeQLRequest(
        org,
        start_ns,
        end_ns,
        data.timeout,
        parameters,
        data.limit,
        now_ns,
        engine=data.engine,
        keep=data.keep,
    )


def _columns(schema: pa.Schema) -> list[dict[str, str]]:
    return [{"name": one.name, "type": str(one.type)} for one in schema]


async def _events(answer: Result, watch: QueryWatch) -> AsyncGenerator[bytes, None]:
    try:
        with watch:
            async with answer, aclosing(answer.batches()) as batches:
                if answer.job is not None:
                    yield events.event("job", job_facts(answer.job))
                yield events.event("schema", _columns(answer.schema))
                for text in answer.notices:
                    yield events.event("notice", text)
                async for batch in batches:
                    yield b'data: {"type":"result","data":{"rows":' + json_rows(batch) + b"}}\n\n"
            watch.end(partial=bool(answer.missing), points=answer.statistics["rows"])
            yield events.event("done", _done(answer))
    except Exception as error:  # noqa: BLE001 -- the response has begun: an event is the only way left to say it
        yield events.event("error", envelope(error))
        yield events.event("done", {"status": "error"})


def _progress(answer: Result) -> bytes:
    """Tell what was read so far; it also shows that the connection is alive."""
    if answer.job is not None:
        return events.event("job", job_facts(answer.job))
    return events.event("summary", {"stats": answer.statistics})


def job_facts(job: QueryJob) -> dict[str, object]:
    """Return what a client may know of a statement on Spark."""
    found: dict[str, object] = {
        "id": job.job_id,
        "state": job.state.value,
        "engine": "spark",
        "attempt": job.attempt,
        "progress": dict(job.progress),
    }
    if job.error:
        found["error"] = {"code": job.error_code, "message": job.error}
    if job.result is not None:
        result = result_of(job)
        found |= {"rows": result.rows, "bytes": result.bytes, "expires_s": round(job.expires_s)}
    return found


def _done(answer: Result) -> dict[str, object]:
    return {
        "status": "partial" if answer.missing else "complete",
        "rows": answer.statistics["rows"],
        "warnings": missing_warnings(answer.missing),
        "missing": list(answer.missing.values()),
        "stats": answer.statistics,
    }


class _Form:
    """Writes batches as bytes; `end` closes what `begin` opened."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def begin(self) -> bytes:
        return b""

    def batch(self, batch: pa.RecordBatch) -> bytes:
        raise NotImplementedError

    def end(self, answer: Result) -> bytes:  # noqa: ARG002 - some forms tell what was read
        return b""


class _Json(_Form):
    def __init__(self, schema: pa.Schema) -> None:
        super().__init__(schema)
        self._is_first = True

    def begin(self) -> bytes:
        return b'{"columns":' + msgspec.json.encode(_columns(self.schema)) + b',"rows":['

    def batch(self, batch: pa.RecordBatch) -> bytes:
        comma, self._is_first = b"" if self._is_first else b",", False
        return comma + json_rows(batch)[1:-1]

    def end(self, answer: Result) -> bytes:
        rest = {**_done(answer), "notices": answer.notices}
        rest.pop("rows")
        return b"]," + msgspec.json.encode(rest)[1:]


class _Csv(_Form):
    def begin(self) -> bytes:
        return self._written(_flat(self.schema.empty_table()), with_names=True)

    def batch(self, batch: pa.RecordBatch) -> bytes:
        return self._written(_flat(pa.Table.from_batches([batch])), with_names=False)

    def _written(self, table: pa.Table, *, with_names: bool) -> bytes:
        sink = io.BytesIO()
        csv.write_csv(table, sink, csv.WriteOptions(include_header=with_names))
        return sink.getvalue()


class _Arrow(_Form):
    def __init__(self, schema: pa.Schema) -> None:
        super().__init__(schema)
        self._sink = io.BytesIO()
        self._writer = pa.ipc.new_stream(self._sink, schema)

    def _taken(self) -> bytes:
        taken = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return taken

    def begin(self) -> bytes:
        return self._taken()

    def batch(self, batch: pa.RecordBatch) -> bytes:
        self._writer.write_batch(batch)
        return self._taken()

    def end(self, answer: Result) -> bytes:  # noqa: ARG002 - the format has no place for it
        self._writer.close()
        return self._taken()


_FORMS: dict[str, Callable[[pa.Schema], _Form]] = {JSON: _Json, CSV: _Csv, ARROW: _Arrow}


async def _pieces(
    answer: Result, watch: QueryWatch, form: _Form, *, allow_partial: bool
) -> AsyncGenerator[bytes, None]:
    """Yield the answer in one form; an error ends the stream before its end is written."""
    with watch:
        async with answer, aclosing(answer.batches()) as batches:
            held = form.begin()
            async for batch in batches:
                _check_whole(answer, allow_partial=allow_partial)
                yield held + form.batch(batch)
                held = b""
            _check_whole(answer, allow_partial=allow_partial)
            watch.end(partial=bool(answer.missing), points=answer.statistics["rows"])
            yield held + form.end(answer)


def _check_whole(answer: Result, *, allow_partial: bool) -> None:
    """Refuse an answer that lacks segments where nobody would see it: CSV and Arrow cannot say so."""
    if answer.missing and not allow_partial:
        raise SegmentsMissingError(
            f"{len(answer.missing)} segments could not be read, "
            "and the request forbids an answer without them"
        )


async def _first_of(pieces: AsyncGenerator[bytes, None]) -> bytes:
    return await anext(pieces)


async def _from_first(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest) as pieces:
        yield first
        async for piece in pieces:
            yield piece


def json_rows(batch: pa.RecordBatch) -> bytes:
    """Render rows as JSON arrays; times as text in UTC, large integers and what JSON lacks as text."""
    columns = [_json_column(column) for column in batch.columns]
    return msgspec.json.encode(list(zip(*columns, strict=True)))


def _json_column(column: pa.Array) -> list[Any]:  # noqa: PLR0911 - a line for each kind
    kind = column.type
    if pa.types.is_timestamp(kind):
        return pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ").to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_integer(kind):
        bounds = [one for one in pc.min_max(column).as_py().values() if one is not None]
        is_big = any(abs(one) >= BIG for one in bounds)
        return (column.cast(pa.string()) if is_big else column).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_floating(kind):
        found = column.to_pylist()
        if pc.all(pc.is_finite(column)).as_py() is False:
            found = [one if one is None or abs(one) < float("inf") else str(one) for one in found]
        return found  # type: ignore[no-any-return]
    if pa.types.is_map(kind):
        return [None if one is None else dict(one) for one in column.to_pylist()]
    if pa.types.is_nested(kind) or pa.types.is_binary(kind):
        return [_json_value(one) for one in column.to_pylist()]
    if pa.types.is_interval(kind):
        return [one if one is None else _duration(*one) for one in column.to_pylist()]
    if pa.types.is_boolean(kind) or pa.types.is_string(kind):
        return column.to_pylist()  # type: ignore[no-any-return]
    return column.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [_json_value(one) for one in value]
    return value


def _duration(months: int, days: int, nanoseconds: int) -> str:
    """Write an interval as ISO 8601 does.

    >>> _duration(14, 3, 5_400_500_000_000), _duration(0, 0, 0)
    ('P14M3DT5400.5S', 'P0M0DT0S')
    """
    seconds = f"{nanoseconds / 1e9:.9f}".rstrip("0").rstrip(".")
    return f"P{months}M{days}DT{seconds}S"


def _flat(table: pa.Table) -> pa.Table:
    """Write nested columns as JSON: CSV has no other way."""
    for place, one in enumerate(table.schema):
        if pa.types.is_nested(one.type) or pa.types.is_binary(one.type) or pa.types.is_interval(one.type):
            column = table.column(place).combine_chunks()
            texts = [_csv_text(value) for value in _json_column(column)]
            table = table.set_column(place, one.name, pa.array(texts, pa.string()))
    return table


def _csv_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()
