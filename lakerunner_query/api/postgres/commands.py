"""Commands that a read-only server answers itself: transactions, variables, cursors, refusals.

`COMMANDS` lists them by the first word of a statement; everything else is a question to LakeQL or to the
catalog, or it would write and is refused.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakerunner_query.api.postgres import messages as wire_format
from lakerunner_query.api.postgres.catalog import Catalog
from lakerunner_query.api.postgres.messages import NOT_SUPPORTED, READ_ONLY, SqlError
from lakerunner_query.api.postgres.questions import CatalogQuery
from lakerunner_query.api.postgres.streams import Portal
from lakerunner_query.api.postgres.variables import Statement, Variables, check_modes, first_word
from lakerunner_query.api.postgres.wire import Wire
from lakerunner_query.api.shared.services import Services

MAX_STATEMENTS, MAX_PORTALS = 1000, 100
"""Prepared statements and portals that one session may keep."""
_FOR = re.compile(r"\bfor\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Declared:
    """The parts of `DECLARE name CURSOR FOR query`."""

    name: str
    query: Statement
    is_held: bool
    is_binary: bool


def declared(text: str) -> Declared:
    middle = _FOR.search(text)
    words = text[: middle.start()].split() if middle else []
    lower = [word.lower() for word in words]
    if middle is None or len(words) < 3 or "cursor" not in lower:
        raise SqlError("42601", "expected DECLARE name CURSOR FOR SELECT …")
    if "scroll" in lower[2:] and "no" not in lower[2:]:
        raise SqlError(NOT_SUPPORTED, "cursors go forward only: NO SCROLL")
    if not {*lower[2:]} <= {
        "binary",
        "insensitive",
        "asensitive",
        "no",
        "scroll",
        "cursor",
        "with",
        "without",
        "hold",
    }:
        raise SqlError("42601", "expected DECLARE name CURSOR FOR SELECT …")
    query = text[middle.end() :]
    one = Statement(query, middle.end(), first_word(query))
    if one.word in COMMANDS or not query.strip():
        raise SqlError("42601", "a cursor is declared FOR SELECT …")
    return Declared(_identifier(words[1]), one, "with" in lower[2:], "binary" in lower[2:])


@dataclass(slots=True)
class Prepared:
    """A parsed statement."""

    statement: Statement
    types: tuple[int, ...] = ()
    catalog: CatalogQuery | None = None
    schema: pa.Schema | None = None
    """Columns as they were described."""
    query: Prepared | None = None
    """Query of a cursor that the statement declares."""


class Commands(ABC):
    """State of a session, and the commands that change it."""

    def __init__(
        self, services: Services, wire: Wire, org: str, variables: Variables, catalog: Catalog
    ) -> None:
        self.services = services
        self.wire = wire
        self.org = org
        self.variables = variables
        self.catalog = catalog
        self._status = b"I"
        self._prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}

    @abstractmethod
    async def _prepare(self, one: Statement, given: Sequence[int]) -> Prepared: ...

    @abstractmethod
    async def _bind(
        self, prepared: Prepared, given: tuple[object, ...], formats: tuple[int, ...]
    ) -> Portal: ...

    async def _command(self, portal: Portal) -> None:
        is_cursor = portal.word == "declare"
        tag = await (self.declare(portal) if is_cursor else COMMANDS[portal.word](self, portal.text))
        self.wire.add(wire_format.complete(tag))

    def _text_of(self, kind: str, name: str) -> tuple[str, int]:
        if kind == "S":
            known = self._prepared.get(name)
            return (known.statement.text, known.statement.start) if known else ("", 0)
        portal = self._portals.get(name)
        return (portal.text, 0) if portal else ("", 0)

    async def begin(self, text: str) -> str:
        check_modes(text)
        if self._status == b"T":
            notice = wire_format.report("WARNING", "25001", "there is already a transaction in progress")
            self.wire.add(notice)
        self._status = b"T"
        return "START TRANSACTION" if text.split(maxsplit=1)[0].lower() == "start" else "BEGIN"

    async def commit(self, text: str) -> str:
        del text
        was_aborted = self._status == b"E"
        await self._finish()
        return "ROLLBACK" if was_aborted else "COMMIT"

    async def rollback(self, text: str) -> str:
        if re.match(r"\s*rollback\s+(work\s+|transaction\s+)?to\b", text, re.IGNORECASE):
            self._status = b"T"
            return "ROLLBACK"
        await self._finish()
        return "ROLLBACK"

    async def _finish(self) -> None:
        if self._status == b"I":
            notice = wire_format.report("WARNING", "25P01", "there is no transaction in progress")
            self.wire.add(notice)
        self._status = b"I"
        await self._close_portals()

    async def savepoint(self, text: str) -> str:
        if self._status == b"I":
            raise SqlError("25P01", "SAVEPOINT can only be used in transaction blocks")
        return "RELEASE" if text.split(maxsplit=1)[0].lower() == "release" else "SAVEPOINT"

    async def set(self, text: str) -> str:
        name, warning = self.variables.set_by(text.strip().rstrip(";"))
        if warning:
            self.wire.add(wire_format.report("WARNING", "01000", warning))
        if name:
            self.wire.add(self.variables.status(name))
        return "SET"

    async def reset(self, text: str) -> str:
        self.variables.reset("_".join(text.lower().strip(" ;\n").split()[1:]) or "all")
        self.wire.add(self.variables.status())
        return "RESET"

    async def discard(self, text: str) -> str:
        self.variables.reset()
        self._prepared.clear()
        await self._close_portals(everything=True)
        return " ".join(text.upper().strip(" ;\n").split())

    async def deallocate(self, text: str) -> str:
        name = _identifier(text.rstrip("; \n").split()[-1])
        if name == "all":
            self._prepared.clear()
            return "DEALLOCATE ALL"
        if self._prepared.pop(name, None) is None:
            raise SqlError("26000", f'prepared statement "{name}" does not exist')
        return "DEALLOCATE"

    async def declare(self, portal: Portal) -> str:
        """Open a cursor; its query and the values of its parameters were bound before."""
        found = declared(portal.text)
        if self._status == b"I" and not found.is_held:
            raise SqlError("25P01", "DECLARE CURSOR can only be used in transaction blocks")
        if found.name in self._portals:
            raise SqlError("42P03", f'cursor "{found.name}" already exists')
        if len(self._portals) >= MAX_PORTALS:
            raise SqlError("54000", f"a session keeps at most {MAX_PORTALS} portals")
        if portal.declares is None:
            raise SqlError("42601", "a cursor is declared FOR SELECT …")
        prepared, given = portal.declares
        cursor = await self._bind(prepared, given, (1,) if found.is_binary else ())
        cursor.is_held = found.is_held
        if cursor.stream is not None:
            await cursor.stream.answer()
        self._portals[found.name] = cursor
        return "DECLARE CURSOR"

    async def close_cursor(self, text: str) -> str:
        name = _identifier(text.rstrip("; \n").split()[-1])
        if name == "all":
            await self._close_portals(everything=True)
            return "CLOSE CURSOR ALL"
        portal = self._portals.pop(name, None)
        if portal is None:
            raise SqlError("34000", f'cursor "{name}" does not exist')
        await portal.close()
        return "CLOSE CURSOR"

    async def unlisten(self, text: str) -> str:
        del text
        return "UNLISTEN"

    async def not_here(self, text: str) -> str:
        word = text.split(maxsplit=1)[0].upper()
        raise SqlError(NOT_SUPPORTED, f"{word} is not supported by this read-only server")

    def _check_transaction(self, one: Statement) -> None:
        if self._status == b"E" and one.word not in {"rollback", "abort", "commit", "end"}:
            raise SqlError(
                "25P02", "current transaction is aborted, commands ignored until end of transaction block"
            )

    def _refuse(self, one: Statement) -> None:
        if one.word == "copy":
            raise SqlError(
                NOT_SUPPORTED,
                "COPY is not supported: read with SELECT, or take Arrow from POST /api/v1/query",
                position=1 + len(one.text) - len(one.text.lstrip()),
            )
        raise SqlError(
            READ_ONLY,
            f"cannot execute {one.word.upper()} in a read-only transaction",
            hint="This server only reads; telemetry comes in through the ingress.",
            position=1 + len(one.text) - len(one.text.lstrip()),
        )

    def _borrow(self, portal: Portal) -> None:
        """Let `FETCH` and `MOVE` read from a cursor."""
        _, *words = portal.text.rstrip("; \n").split()
        name = _identifier(words.pop()) if words else ""
        asked = [word.lower() for word in words if word.lower() not in {"from", "in", "forward", "next"}]
        if len(asked) > 1 or (asked and asked[0] != "all" and not asked[0].isdigit()):
            hint = "FETCH n FROM name, FETCH ALL FROM name"
            raise SqlError("55000", "cursor can only scan forward", hint=hint)
        cursor = self._portals.get(name)
        if cursor is None or cursor.stream is None:
            raise SqlError("34000", f'cursor "{name}" does not exist')
        count = asked[0][:18] if asked else "1"
        portal.most = 0 if count == "all" else int(count)
        portal.is_complete = portal.most == 0 and count != "all"
        portal.stream, portal.is_borrowed = cursor.stream, True

    def _show(self, text: str) -> pa.Table | None:
        """Answer `SHOW` of a variable; other things that are shown are LakeQL."""
        name = " ".join(text.lower().replace('"', "").rstrip("; \n").split()[1:])
        name = {
            "transaction isolation level": "transaction_isolation", "time zone": "timezone",
            "session authorization": "session_authorization",
        }.get(name, name)  # fmt: skip
        if name == "all":
            everything = self.variables.all()
            columns = {"name": list(everything), "setting": list(everything.values())}
            return pa.table({**columns, "description": [""] * len(everything)})
        if name.partition(" ")[0] in {"tables", "columns", "functions", ""}:
            return None
        return pa.table({name: [self.variables.show(name)]})

    def _statement(self, name: str) -> Prepared:
        found = self._prepared.get(name)
        if found is None:
            shown = f'prepared statement "{name}"' if name else "unnamed prepared statement"
            raise SqlError("26000", f"{shown} does not exist")
        return found

    def _portal(self, name: str) -> Portal:
        found = self._portals.get(name)
        if found is None:
            raise SqlError("34000", f'portal "{name}" does not exist')
        return found

    async def _close_portals(self, *, everything: bool = False) -> None:
        for name in [name for name, one in self._portals.items() if everything or not one.is_held]:
            await self._portals.pop(name).close()


def _identifier(name: str) -> str:
    """Fold a name as PostgreSQL does: in lower case, unless it is quoted."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


COMMANDS: Mapping[str, Callable[[Commands, str], Awaitable[str]]] = {
    "begin": Commands.begin, "start": Commands.begin, "commit": Commands.commit, "end": Commands.commit,
    "rollback": Commands.rollback, "abort": Commands.rollback, "savepoint": Commands.savepoint,
    "release": Commands.savepoint, "set": Commands.set, "reset": Commands.reset,
    "discard": Commands.discard, "deallocate": Commands.deallocate, "declare": Commands.not_here,
    "close": Commands.close_cursor, "fetch": Commands.not_here, "move": Commands.not_here,
    "unlisten": Commands.unlisten, "listen": Commands.not_here, "notify": Commands.not_here,
    "prepare": Commands.not_here, "execute": Commands.not_here, "load": Commands.not_here,
}  # fmt: skip
