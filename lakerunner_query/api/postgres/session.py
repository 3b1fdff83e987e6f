"""One session: the simple and the extended protocol over one connection that has logged in.

A statement is LakeQL, a question to the catalog, or a command that a read-only server answers itself. Between
an error of the extended protocol and the next `Sync` nothing is done, as in PostgreSQL; a session that was
told to stop ends at the next message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pyarrow as pa

from lakerunner_query.api.postgres import messages as wire_format
from lakerunner_query.api.postgres.catalog import Caller, Catalog
from lakerunner_query.api.postgres.commands import (
    COMMANDS,
    MAX_PORTALS,
    MAX_STATEMENTS,
    Commands,
    Prepared,
    declared,
)
from lakerunner_query.api.postgres.messages import (
    Bind,
    Close,
    Describe,
    Execute,
    Message,
    Parse,
    Plain,
    Query,
    SqlError,
)
from lakerunner_query.api.postgres.parameters import MAX_PARAMETERS, infer, parameter, preferred
from lakerunner_query.api.postgres.streams import (
    Answer,
    Portal,
    Stream,
    TableAnswer,
    as_types,
    promised_types,
    ready_made,
    spread,
    with_types,
)
from lakerunner_query.api.postgres.values import Encode, encode_rows, encoder, type_of
from lakerunner_query.api.postgres.variables import PARTIAL_RESPONSE, WRITES, Statement, Variables, split
from lakerunner_query.api.postgres.wire import GoneError, Wire
from lakerunner_query.api.shared.requests import missing_warnings
from lakerunner_query.api.shared.services import Services
from lakerunner_query.errors import QueryError
from lakerunner_query.plan.lakeql import LakeQLRequest

MAX_MESSAGE_BYTES = 16 << 20
_log = logging.getLogger(__name__)


class Session(Commands):
    """State of one client, and what its messages do."""

    def __init__(
        self, services: Services, wire: Wire, org: str, variables: Variables, catalog: Catalog, number: int
    ) -> None:
        super().__init__(services, wire, org, variables, catalog)
        self._number = number
        self._scope: asyncio.Timeout | None = None
        self._reason: SqlError | None = None
        self._end: SqlError | None = None
        self._skips = False
        self._task: asyncio.Task[None] | None = None

    # --- being stopped from outside ----------------------------------------------------------------

    def cancel(self, reason: SqlError | None = None) -> None:
        """Stop the running statement, if there is one."""
        if self._scope is not None and not self._scope.expired():
            self._reason = reason or SqlError(
                wire_format.CANCELLED, "canceling statement due to user request"
            )
            self._scope.reschedule(0)

    def end(self) -> None:
        """End the session: the statement now, the connection at once after it."""
        self._end = SqlError(
            wire_format.SHUTDOWN, "terminating connection: the server is shutting down", is_fatal=True
        )
        if self._scope is None and self._task is not None:
            self._task.cancel()
        self.cancel(self._end)

    def leave(self) -> None:
        self.cancel(SqlError(wire_format.SHUTDOWN, "the client left", is_fatal=True))

    @asynccontextmanager
    async def _bounded(self) -> AsyncIterator[None]:
        """Bound a statement by its timeout, and by those who may cancel it."""
        scope = asyncio.timeout(self.variables.statement_timeout_s or None)
        self._reason = None
        try:
            async with scope:
                self._scope = scope
                yield
        except TimeoutError:
            if not scope.expired():
                raise
            late = SqlError(wire_format.CANCELLED, "canceling statement due to statement timeout")
            raise (self._reason or late) from None
        finally:
            self._scope = None

    # --- messages -----------------------------------------------------------------------------------

    async def run(self, idle_s: float) -> None:
        """Answer messages until the client leaves."""
        self.wire.when_gone(self.leave)
        self._task = asyncio.current_task()
        try:
            self.wire.add(wire_format.ready(self._status))
            await self.wire.flush()
            while self._end is None:
                kind, body = await self.wire.message(MAX_MESSAGE_BYTES, idle_s)
                if kind == b"X":
                    return
                await self._answer_message(kind, body)
            raise self._end
        except SqlError as error:
            self._report(error)
        except asyncio.CancelledError:
            if self._end is None:
                raise
            self._report(self._end)
        finally:
            self.wire.when_gone(lambda: None)
            await self._close_portals(everything=True)

    async def _answer_message(self, kind: bytes, body: bytes) -> None:
        try:
            found = wire_format.decode(kind, body)
        except SqlError as error:  # the end of a message is known, whatever is in it
            if error.is_fatal:
                raise
            await self._fail(error, "", 0, is_simple=kind == b"Q")
            return
        if self._skips and not (isinstance(found, Plain) and found.kind == "S"):
            return
        if isinstance(found, Query):
            await self._simple(found.text)
        else:
            await self._extended(found)

    async def _simple(self, text: str) -> None:
        statements = split(text)
        if not statements:
            self.wire.add(wire_format.message(b"I"))
        for one in statements:
            try:
                async with self._bounded():
                    portal = await self._bind(await self._prepare(one, ()), (), ())
                    try:
                        await self._run(portal, 0, with_columns=True)
                    finally:
                        await portal.close()
            except GoneError:
                raise
            except Exception as error:  # noqa: BLE001 - a defect ends the statement, not the server
                await self._fail(_foreseen(error), one.text, one.start, is_simple=True)
                return
        await self._end_message()

    async def _end_message(self) -> None:
        """End an implicit transaction, and say so."""
        if self._status == b"I":
            await self._close_portals()
        self.wire.add(wire_format.ready(self._status))
        await self.wire.flush()

    async def _extended(self, found: Message) -> None:
        text, start = "", 0
        try:
            if isinstance(found, Plain):
                await self._plain(found)
                return
            async with self._bounded():
                if isinstance(found, Parse):
                    text = found.text
                    await self._parse(found)
                elif isinstance(found, Bind):
                    text, start = self._text_of("S", found.statement)
                    await self._bind_portal(found)
                elif isinstance(found, Describe):
                    text, start = self._text_of(found.kind, found.name)
                    await self._describe(found)
                elif isinstance(found, Execute):
                    text, start = self._text_of("P", found.portal)
                    await self._execute(found)
                elif isinstance(found, Close):
                    await self._close(found)
            if self.wire.is_busy:
                await self.wire.flush()
        except GoneError:
            raise
        except Exception as error:  # noqa: BLE001 - a defect ends the statement, not the server
            await self._fail(_foreseen(error), text, start)

    async def _plain(self, found: Plain) -> None:
        if found.kind == "S":
            self._skips = False
            await self._end_message()
        elif found.kind == "H":
            await self.wire.flush()
        elif found.kind == "F":
            error = SqlError(wire_format.NOT_SUPPORTED, "function calls are not supported; use SELECT")
            await self._fail(error, "", 0, is_simple=True)
        elif found.kind == "p":
            raise SqlError(wire_format.VIOLATION, "a password was sent and none was asked for", is_fatal=True)

    # --- the extended protocol ------------------------------------------------------------------------

    async def _parse(self, found: Parse) -> None:
        statements = split(found.text)
        if len(statements) > 1:
            raise SqlError("42601", "cannot insert multiple commands into a prepared statement")
        if found.name and found.name in self._prepared:
            raise SqlError("42P05", f'prepared statement "{found.name}" already exists')
        if len(self._prepared) >= MAX_STATEMENTS:
            raise SqlError("54000", f"a session keeps at most {MAX_STATEMENTS} prepared statements")
        one = statements[0] if statements else Statement("", 0, "")
        self._prepared[found.name] = await self._prepare(one, found.types)
        self.wire.add(wire_format.message(b"1"))

    async def _prepare(self, one: Statement, given: Sequence[int]) -> Prepared:
        self._check_transaction(one)
        if one.word == "declare":
            query = await self._prepare(declared(one.text).query, given)
            return Prepared(one, query.types, query=query)
        is_variable = one.word == "show" and self._show(one.text) is not None
        if one.word in COMMANDS or not one.text or is_variable:
            return Prepared(one)
        if one.word in WRITES or one.word == "copy":
            self._refuse(one)
        catalog = await self.catalog.question(one.text)
        if catalog is not None:
            return Prepared(one, preferred(given, catalog.types), catalog)
        count = await self.services.lakeql.parameters(one.text)
        if max(count, len(given)) > MAX_PARAMETERS:
            raise SqlError("54000", f"a statement has at most {MAX_PARAMETERS} parameters")
        return Prepared(one, preferred(given, infer(one.text, count)))

    async def _bind_portal(self, found: Bind) -> None:
        prepared = self._statement(found.statement)
        if found.portal in self._portals:
            if found.portal:
                raise SqlError("42P03", f'cursor "{found.portal}" already exists')
            await self._portals.pop("").close()
        if len(self._portals) >= MAX_PORTALS:
            raise SqlError("54000", f"a session keeps at most {MAX_PORTALS} portals")
        types, values = prepared.types, found.values
        if len(values) != len(types):
            raise SqlError(
                wire_format.VIOLATION,
                f'bind message supplies {len(values)} parameters, but prepared statement "{found.statement}" '
                f"requires {len(types)}",
            )
        forms = spread(found.formats, len(values))
        given = tuple(parameter(*each) for each in zip(types, forms, values, strict=True))
        self._portals[found.portal] = await self._bind(prepared, given, found.result_formats)
        self.wire.add(wire_format.message(b"2"))

    async def _bind(self, prepared: Prepared, given: tuple[object, ...], formats: tuple[int, ...]) -> Portal:
        one = prepared.statement
        if any(form not in {0, 1} for form in formats):
            raise SqlError("22023", "unsupported format code of a result")
        described = prepared.schema.types if prepared.schema is not None else None
        portal = Portal(one.text, one.word, None, formats, described)
        if prepared.query is not None:
            portal.declares = prepared.query, given
        elif one.word in {"fetch", "move"}:
            self._borrow(portal)
        elif one.word == "show" and (table := self._show(one.text)) is not None:
            portal.stream = Stream(lambda: ready_made(table))
        elif one.word not in COMMANDS and one.text:
            portal.stream = Stream(lambda: self._open(prepared, given))
        return portal

    async def _open(self, prepared: Prepared, given: tuple[object, ...]) -> Answer:
        if prepared.catalog is not None:
            caller = Caller(self.org, self._number, self.variables)
            return TableAnswer(*await self.catalog.answer(prepared.catalog, caller, given))
        return await self.services.lakeql.open(prepared.statement.text, self._request(given))

    def _request(self, given: tuple[object, ...] | None) -> LakeQLRequest:
        variables, limit = self.variables, self.services.settings.query_timeout_s
        timeout_s = variables.statement_timeout_s or limit
        return LakeQLRequest(self.org, timeout_s=timeout_s, parameters=given, engine=variables.engine)

    async def _describe(self, found: Describe) -> None:
        if found.kind == "P":
            portal = self._portal(found.name)
            portal.described = None
            schema = (
                (await portal.stream.answer()).schema if portal.stream and portal.word != "move" else None
            )
            self._columns(schema, portal.formats)
            return
        prepared = self._statement(found.name)
        self.wire.add(wire_format.parameter_description(prepared.types))
        if prepared.schema is None:
            prepared.schema = with_types(await self._schema(prepared))
        self._columns(prepared.schema, ())

    async def _schema(self, prepared: Prepared) -> pa.Schema | None:
        one = prepared.statement
        if prepared.catalog is not None:
            caller = Caller(self.org, self._number, self.variables)
            return await self.catalog.schema(prepared.catalog, caller)
        if one.word in COMMANDS or not one.text:
            portal = await self._bind(prepared, (), ()) if one.word in {"fetch", "show"} else None
            if portal is None or portal.stream is None:
                return None
            schema = (await portal.stream.answer()).schema
            await portal.close()
            return schema
        return await self.services.lakeql.describe(one.text, self._request(None))

    def _columns(self, schema: pa.Schema | None, formats: tuple[int, ...]) -> None:
        if schema is None:
            self.wire.add(wire_format.message(b"n"))
            return
        shown = [(one.name, type_of(one.type)) for one in schema]
        columns = [(name, kind.oid, kind.size) for name, kind in shown]
        self.wire.add(wire_format.row_description(columns, spread(formats, len(columns))))

    async def _execute(self, found: Execute) -> None:
        await self._run(self._portal(found.portal), max(0, found.max_rows))

    async def _close(self, found: Close) -> None:
        if found.kind == "S":
            self._prepared.pop(found.name, None)
        elif (portal := self._portals.pop(found.name, None)) is not None:
            await portal.close()
        self.wire.add(wire_format.message(b"3"))

    # --- running ----------------------------------------------------------------------------------------

    async def _run(self, portal: Portal, most: int, *, with_columns: bool = False) -> None:
        """Send rows of a portal, all or `most`; or do its command."""
        if not portal.text:
            self.wire.add(wire_format.message(b"I"))
        elif portal.stream is None:
            await self._command(portal)
        else:
            await self._rows(portal, portal.stream, most, with_columns=with_columns)

    async def _rows(self, portal: Portal, stream: Stream, most: int, *, with_columns: bool) -> None:
        with self.services.watch("postgres") as watch:
            answer = await stream.answer()
            schema = answer.schema
            self._notices(answer, portal)
            is_move = portal.word == "move"
            if with_columns and not is_move:
                self._columns(schema, portal.formats)
            told = promised_types(portal.described, schema)
            forms = spread(portal.formats, len(schema))
            encoders = [encoder(kind, form) for kind, form in zip(told, forms, strict=True)]
            limit = portal.most or most
            sent = 0
            if not portal.is_complete:
                async for batch in stream.take(limit):
                    sent += batch.num_rows
                    if not is_move:
                        await self._send(batch, told, encoders)
            if most and sent >= most and not portal.most and not portal.is_complete:
                self.wire.add(wire_format.message(b"s"))  # there may be more
            else:
                portal.is_complete = True
                self._check_missing(answer)
                word = {"fetch": "FETCH", "move": "MOVE", "show": "SHOW"}.get(portal.word, "SELECT")
                self.wire.add(wire_format.complete(f"{word} {sent}" if word != "SHOW" else word))
            watch.end(partial=bool(answer.missing))

    async def _send(
        self, batch: pa.RecordBatch, told: Sequence[pa.DataType], encoders: Sequence[Encode]
    ) -> None:
        columns = as_types(batch.columns, told)
        if not columns:
            self.wire.add(wire_format.message(b"D", wire_format.int16(0)) * batch.num_rows)
            return
        data = await asyncio.to_thread(encode_rows, columns, encoders)
        await self.wire.flush()
        await self.wire.send(data)

    def _notices(self, answer: Answer, portal: Portal) -> None:
        for text in answer.notices:
            if text not in portal.warned:
                portal.warned.add(text)
                self.wire.add(wire_format.report("NOTICE", "00000", text))

    def _check_missing(self, answer: Answer) -> None:
        """End an answer that lacks segments with an error, unless the session takes such answers."""
        for text in missing_warnings(answer.missing):
            self.wire.add(wire_format.report("WARNING", "01000", text))
        if answer.missing and not self.variables.takes_partial:
            raise SqlError(
                wire_format.PARTIAL,
                f"the rows above are not all: {missing_warnings(answer.missing)[0]}",
                hint=f"SET {PARTIAL_RESPONSE} = on takes such answers, with a warning.",
            )

    async def _fail(self, found: SqlError, text: str, start: int, *, is_simple: bool = False) -> None:
        if found.is_fatal:
            raise found
        self._report(found, text, start)
        if self._status == b"T":
            self._status = b"E"
        if is_simple:
            await self._end_message()
        else:
            self._skips = True
            await self.wire.flush()

    def _report(self, error: SqlError, text: str = "", start: int = 0) -> None:
        severity = "FATAL" if error.is_fatal else "ERROR"
        place = wire_format.offset_of(error.position, text, start)
        report = wire_format.report(severity, error.sqlstate, error.message, hint=error.hint, position=place)
        self.wire.add(report)


def _foreseen(error: Exception) -> SqlError:
    """Describe an error to the client; log one that nobody foresaw."""
    if isinstance(error, SqlError):
        return error
    if isinstance(error, QueryError):
        return wire_format.sql_error(error)
    _log.error("unforeseen failure of a statement", exc_info=error)
    return SqlError("XX000", "internal error; the log of the query API has the details")
