"""The Flight SQL server hands work from its threads to the event loop.

A request authenticates by its headers, as over HTTP; a handshake answers with the key as a bearer token. What
a client asks for is a message of `resources/proto/flight_sql.py`; each has a row in one of the tables here.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import msgspec
import pyarrow as pa
from litestar.datastructures import Headers
from pyarrow import flight

from lakerunner_query.api.flight.catalogue import SCHEMAS, TABLES_QUERY, TableRow, answer_from, schema_of
from lakerunner_query.api.flight.results import (
    TICKET_S,
    CancelledError,
    Finished,
    Opened,
    PreparedStatements,
    Results,
    RunningResult,
    Statement,
    Tickets,
    check_text,
    only_row,
)
from lakerunner_query.api.shared.auth import presented_keys, reader_key, reader_of
from lakerunner_query.api.shared.services import Services
from lakerunner_query.errors import InvalidRequestError, UnauthorizedError, WorkerUnavailableError
from lakerunner_query.plan.lakeql import LakeQLRequest
from lakerunner_query.serving import envelope
from resources.index.account_types import ApiKey
from resources.proto import flight_sql as sql
from resources.proto.parsing import NotAMessageError, parse

Given = ParamSpec("Given")
Found = TypeVar("Found")
AUTH = "authorization"
PARTIAL = "x-lakerunner-partial-response"
"""Header whose value `true` takes an answer without segments that could not be read."""
POLL_S = 0.2
"""Seconds between two looks at whether the client is still there."""
STOP_S = 5.0
MAX_PARAMETER_BYTES = 1 << 20
_log = logging.getLogger(__name__)
_ERRORS: Mapping[int, type[flight.FlightError]] = {
    401: flight.FlightUnauthenticatedError,
    403: flight.FlightUnauthorizedError,
    429: flight.FlightUnavailableError,
    499: flight.FlightCancelledError,
    500: flight.FlightInternalError,
    503: flight.FlightUnavailableError,
    504: flight.FlightTimedOutError,
}
"""Errors by the status that HTTP has for them; any other one is the client's."""


def as_flight_error(error: Exception) -> flight.FlightError:
    """Return what a client may see of an error; its details are the envelope that HTTP answers with."""
    if isinstance(error, flight.FlightError):
        return error
    if isinstance(error, NotAMessageError):
        error = InvalidRequestError(str(error))
    told = envelope(error)
    place = f"line {told.position.line}, col {told.position.column}" if told.position else ""
    message = told.message if place in told.message else f"{place}: {told.message}"
    return _ERRORS.get(told.status, flight.FlightServerError)(message, msgspec.json.encode(told))


class SchemaError(Exception):
    """An error of GetSchema, to whose text Arrow adds no traceback.

    Of this method alone Arrow formats what is raised, with the files of the server; it shows the type instead
    where formatting fails.
    """

    @property
    def __cause__(self) -> BaseException | None:  # type: ignore[override]
        raise RuntimeError("errors of GetSchema are not formatted")


def answers_errors(method: Callable[Given, Found]) -> Callable[Given, Found]:
    """Let a method raise errors of Flight only: others would show the client their traceback."""

    @wraps(method)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Found:
        try:
            return method(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - each becomes one of Flight's
            raise as_flight_error(error) from None

    return call


class Bridge:
    """Threads of the server wait here for work on the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_closed = threading.Event()

    def call(self, work: Coroutine[Any, Any, Found], context: Any = None) -> Found:
        """Run `work` on the loop; cancel it when the client of `context` goes away."""
        if self._is_closed.is_set():
            work.close()
            raise WorkerUnavailableError("the query API is stopping")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        while not wait((future,), POLL_S).done:
            if self._is_closed.is_set() or (context is not None and context.is_cancelled()):
                future.cancel()
                raise CancelledError("the client has gone, or the query API is stopping")
        return future.result()

    def send(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run the coroutine on the loop without waiting for it."""
        if not self._is_closed.is_set():
            asyncio.run_coroutine_threadsafe(work(), self._loop)

    def close(self) -> None:
        self._is_closed.set()


class Caller(flight.ServerMiddleware):  # type: ignore[misc]
    """The key of one call, and the headers that matter."""

    def __init__(self, key: ApiKey, *, takes_partial: bool, token: str) -> None:
        self.key = key
        self.takes_partial = takes_partial
        self._token = token

    def sending_headers(self) -> dict[str, str]:
        return {AUTH: f"Bearer {self._token}"} if self._token else {}


class KeyCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Every call needs a key that may read; a handshake gets it back as a token."""

    def __init__(self, bridge: Bridge, services: Services) -> None:
        self._bridge = bridge
        self._services = services

    @answers_errors
    def start_call(self, info: Any, headers: Mapping[str, Sequence[Any]]) -> Caller:
        given = Headers({name: values[0] for name, values in headers.items() if isinstance(values[0], str)})
        key = self._bridge.call(reader_of(self._services, given))
        is_handshake = info.method == flight.FlightMethod.HANDSHAKE
        token = self._bridge.call(self._accepted_key(given)) if is_handshake else ""
        return Caller(key, takes_partial=given.get(PARTIAL, "").lower() == "true", token=token)

    async def _accepted_key(self, given: Headers) -> str:
        """Return the key that was accepted: it may be the user or the password."""
        *others, last = presented_keys(given)
        for text in others:
            with suppress(UnauthorizedError):
                await reader_key(self._services, [text])
                return text
        return last


class HeadersOnly(flight.ServerAuthHandler):  # type: ignore[misc]
    """A handshake carries nothing but its headers, which were checked before."""

    def authenticate(self, outgoing: object, incoming: object) -> None:
        """Accept: the middleware has refused others."""

    def is_valid(self, token: object) -> bytes:  # noqa: ARG002 - the interface of a handler
        return b""


class FlightDoor(flight.FlightServerBase):  # type: ignore[misc]
    """Methods of Flight, called on threads of the server."""

    def __init__(self, services: Services, bridge: Bridge, **options: Any) -> None:
        self._bridge = bridge
        self._lakeql = services.lakeql
        self._results = Results(services)
        self._tickets = Tickets(services.settings.require("internal_token"))
        self._prepared = PreparedStatements()
        middleware = {AUTH: KeyCheck(bridge, services)}
        super().__init__(auth_handler=HeadersOnly(), middleware=middleware, **options)

    @answers_errors
    def get_flight_info(self, context: Any, descriptor: Any) -> flight.FlightInfo:
        caller, command = _caller(context), sql.unpack(descriptor.command or b"")
        name = command.DESCRIPTOR.name
        if name in SCHEMAS:
            return _info(schema_of(name, command), descriptor, descriptor.command)
        statement = self._statement(caller.key.org, command)
        schema = self._bridge.call(self._lakeql.describe(statement.text, statement.request), context)
        handle = self._tickets.issue(statement.org, statement.text, statement.parameters)
        return _info(schema, descriptor, sql.pack(sql.StatementTicket(statement_handle=handle)))

    def get_schema(self, context: Any, descriptor: Any) -> flight.SchemaResult:
        try:
            return flight.SchemaResult(self.get_flight_info(context, descriptor).schema)
        except flight.FlightError as error:
            raise SchemaError(str(error)) from None

    @answers_errors
    def do_get(self, context: Any, ticket: Any) -> flight.FlightDataStream:
        caller, command = _caller(context), sql.unpack(ticket.ticket)
        name = command.DESCRIPTOR.name
        if name in SCHEMAS:
            return flight.RecordBatchStream(self._answer_about(name, command, caller.key.org, context))
        if name != "TicketStatementQuery":
            raise InvalidRequestError(f"{name} is no ticket")
        statement = self._tickets.read(command.statement_handle, caller.key.org)
        result = self._bridge.call(self._results.start(statement, caller.takes_partial), context)
        try:
            opened = self._bridge.call(result.take(), context)
        except BaseException:
            self._bridge.send(lambda: self._results.end(result))
            raise
        assert isinstance(opened, Opened)  # noqa: S101 - the first piece always is
        schema = _with_notices(opened)
        return flight.GeneratorStream(schema, self._batches(result, schema, context))

    @answers_errors
    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Bind parameters of a prepared statement; everything else would write."""
        command = sql.unpack(descriptor.command or b"")
        if command.DESCRIPTOR.name != "CommandPreparedStatementQuery":
            raise InvalidRequestError("the lake is read-only here; only queries are taken")
        prepared = self._prepared.find(command.prepared_statement_handle, _caller(context).key.org)
        prepared.parameters = only_row(_few_batches(reader))
        handle = command.prepared_statement_handle
        bound = sql.BoundParameters(prepared_statement_handle=handle).SerializeToString()
        writer.write(pa.py_buffer(bound))

    @answers_errors
    def do_action(self, context: Any, action: Any) -> Iterator[flight.Result]:
        act = _ACTIONS.get(action.type)
        if act is None:
            raise InvalidRequestError(f"no action {action.type[:100]!r}; there are {', '.join(_ACTIONS)}")
        return iter(act.do(self, context, action.body.to_pybytes()))

    def list_actions(self, context: Any) -> list[flight.ActionType]:  # noqa: ARG002 - the interface
        return [flight.ActionType(name, act.meaning) for name, act in _ACTIONS.items()]

    @answers_errors
    def list_flights(self, context: Any, criteria: bytes) -> Iterator[flight.FlightInfo]:  # noqa: ARG002
        raise InvalidRequestError("there is no list of flights: ask for tables, or send a statement")

    @answers_errors
    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:  # noqa: ARG002
        raise InvalidRequestError("nothing is exchanged here: send a statement, and read its result")

    def prepare(self, context: Any, body: bytes) -> list[flight.Result]:
        org = _caller(context).key.org
        text = check_text(sql.unpack(body, sql.CreatePreparedStatement).query)
        count = self._bridge.call(self._lakeql.parameters(text), context)
        schema = self._bridge.call(self._lakeql.describe(text, LakeQLRequest(org)), context)
        parameters = pa.schema([pa.field(str(number), pa.null()) for number in range(1, count + 1)])
        created = sql.CreatedPreparedStatement(
            prepared_statement_handle=self._prepared.add(org, text, count),
            dataset_schema=schema.serialize().to_pybytes(),
            parameter_schema=parameters.serialize().to_pybytes() if count else b"",
        )
        return [flight.Result(sql.pack(created))]

    def close_prepared(self, context: Any, body: bytes) -> list[flight.Result]:
        handle = sql.unpack(body, sql.ClosePreparedStatement).prepared_statement_handle
        self._prepared.close(handle, _caller(context).key.org)
        return []

    def cancel_info(self, context: Any, body: bytes) -> list[flight.Result]:
        status = self._cancel(context, parse(sql.CancelFlightInfo, body).info)
        return [flight.Result(sql.CancelFlightInfoResult(status=status).SerializeToString())]

    def cancel_query(self, context: Any, body: bytes) -> list[flight.Result]:
        info = parse(sql.FlightInfo, sql.unpack(body, sql.CancelQuery).info)
        return [flight.Result(sql.pack(sql.CancelQueryResult(result=self._cancel(context, info))))]

    def close_session(self, context: Any, body: bytes) -> list[flight.Result]:  # noqa: ARG002
        """Close nothing: a session has no state beside its prepared statements, which expire."""
        return [flight.Result(sql.CloseSessionResult(status=sql.CLOSED).SerializeToString())]

    async def stop(self) -> None:
        """End all results, then the server; a client that does not take an error is not waited for."""
        await self._results.close()
        self._bridge.close()
        stopping = threading.Thread(target=self.shutdown, name="flight-stop", daemon=True)
        stopping.start()
        await asyncio.to_thread(stopping.join, STOP_S)

    def _statement(self, org: str, command: Any) -> Statement:
        """Return the statement of a command, not yet signed."""
        name = command.DESCRIPTOR.name
        if name == "CommandStatementQuery":
            return Statement("", org, check_text(command.query), (), 0)
        if name == "CommandPreparedStatementQuery":
            prepared = self._prepared.find(command.prepared_statement_handle, org)
            return Statement("", org, prepared.text, prepared.complete(), 0)
        raise InvalidRequestError(f"{name} is not answered: the lake is read-only here")

    def _answer_about(self, name: str, command: Any, org: str, context: Any) -> pa.Table:
        def columns_of(row: TableRow) -> pa.Schema:
            quoted = row["table_name"].replace('"', '""')
            text = f'SELECT * FROM "{row["table_schema"]}"."{quoted}"'  # noqa: S608 - names of our own tables
            return self._bridge.call(self._lakeql.describe(text, LakeQLRequest(org)), context)

        tables: list[dict[str, str]] = []
        if name != "CommandGetSqlInfo":
            tables = self._bridge.call(self._tables(org), context)
        return answer_from(name, command, tables, columns_of)

    async def _tables(self, org: str) -> list[dict[str, str]]:
        answer = await self._lakeql.open(TABLES_QUERY, LakeQLRequest(org))
        async with answer:
            return [row async for batch in answer.batches() for row in batch.to_pylist()]

    def _batches(
        self, result: RunningResult, schema: pa.Schema, context: Any
    ) -> Generator[tuple[pa.RecordBatch, bytes | None], None, None]:
        """Yield batches as the client takes them; the last one is empty and carries the metadata."""
        try:
            while not isinstance(piece := self._bridge.call(result.take(), context), Finished):
                batch: Any = piece
                yield (batch if batch.schema == schema else batch.cast(schema)), None
            yield _empty_batch(schema), piece.metadata
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - each becomes one of Flight's
            raise as_flight_error(_as_exception(error)) from None
        finally:
            self._bridge.send(lambda: self._results.end(result))

    def _cancel(self, context: Any, info: Any) -> int:
        org = _caller(context).key.org
        for endpoint in info.endpoint:
            command = sql.unpack(endpoint.ticket.ticket)
            if command.DESCRIPTOR.name != "TicketStatementQuery":
                return sql.NOT_CANCELLABLE
            statement = self._tickets.read(command.statement_handle, org)
            self._bridge.call(self._results.cancel(statement))
        return sql.CANCELLED


@dataclass(frozen=True, slots=True)
class _Act:
    """An action, and the method that does it."""

    do: Callable[[FlightDoor, Any, bytes], list[flight.Result]]
    meaning: str


_ACTIONS: Mapping[str, _Act] = {
    "CreatePreparedStatement": _Act(FlightDoor.prepare, "keep a statement with its parameters"),
    "ClosePreparedStatement": _Act(FlightDoor.close_prepared, "forget such a statement"),
    "CancelFlightInfo": _Act(FlightDoor.cancel_info, "cancel the results of a statement"),
    "CancelQuery": _Act(FlightDoor.cancel_query, "the same for older clients"),
    "CloseSession": _Act(FlightDoor.close_session, "end a session"),
}


async def open_door(services: Services) -> FlightDoor:
    """Listen on the port of the settings, with TLS if there is a certificate."""
    settings = services.settings
    options: dict[str, Any] = {}
    if settings.query_tls_certificate:
        certificate = await asyncio.to_thread(Path(settings.query_tls_certificate).read_bytes)
        key = await asyncio.to_thread(Path(settings.require("query_tls_key")).read_bytes)
        options["tls_certificates"] = [(certificate, key)]
    scheme = "grpc+tls" if options else "grpc"
    host = f"[{settings.query_host}]" if ":" in settings.query_host else settings.query_host
    location = f"{scheme}://{host}:{settings.query_flight_port}"
    door = FlightDoor(services, Bridge(), location=location, **options)
    _log.info("Flight SQL listens on %s", location)
    return door


def _caller(context: Any) -> Caller:
    found: Caller = context.get_middleware(AUTH)
    return found


def _info(schema: pa.Schema, descriptor: Any, ticket: bytes) -> flight.FlightInfo:
    expires = pa.scalar(datetime.now(UTC) + timedelta(seconds=TICKET_S), pa.timestamp("us", "UTC"))
    endpoint = flight.FlightEndpoint(ticket, [], expires)
    return flight.FlightInfo(schema, descriptor, [endpoint], -1, -1)


def _with_notices(opened: Opened) -> pa.Schema:
    if not opened.notices:
        return opened.schema
    told = {b"notices": msgspec.json.encode(opened.notices)}
    return opened.schema.with_metadata({**(opened.schema.metadata or {}), **told})


def _empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _few_batches(reader: Any) -> list[pa.RecordBatch]:
    """Read parameters; their bytes are a stranger's, and Arrow believes offsets that it did not check."""
    found: list[pa.RecordBatch] = []
    try:
        for chunk in reader:
            if chunk.data is not None:
                chunk.data.validate(full=True)
                found.append(chunk.data)
            if sum(batch.nbytes for batch in found) > MAX_PARAMETER_BYTES:
                raise InvalidRequestError(f"parameters take more than {MAX_PARAMETER_BYTES} bytes")
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidRequestError(f"the parameters are no stream of Arrow batches: {reason[:200]}") from error
    return found


def _as_exception(error: BaseException) -> Exception:
    """Return the error itself; the end of a task is the end of its statement."""
    return error if isinstance(error, Exception) else CancelledError("the statement was cancelled")
