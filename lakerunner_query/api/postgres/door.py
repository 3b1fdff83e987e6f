"""The PostgreSQL door: it listens, greets, checks the key, counts sessions, and ends them.

The password is an API key, and the key names the organisation; user and database are free names. Passwords
travel as they are (keys are stored hashed, which rules out SCRAM), hence only over TLS or from this machine,
unless a setting allows more.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import logging
import secrets
import ssl
from collections import Counter

from lakerunner_query.api.postgres import messages as wire_format
from lakerunner_query.api.postgres.catalog import Catalog
from lakerunner_query.api.postgres.messages import (
    CANCEL_REQUEST,
    GSS_REQUEST,
    MAX_STARTUP_BYTES,
    PROTOCOL_3_0,
    PROTOCOL_MAJOR,
    SSL_REQUEST,
    VIOLATION,
    SqlError,
)
from lakerunner_query.api.postgres.session import Session
from lakerunner_query.api.postgres.variables import Variables
from lakerunner_query.api.postgres.wire import GoneError, Wire, protocol
from lakerunner_query.api.shared.auth import reader_key
from lakerunner_query.api.shared.services import Services
from lakerunner_query.errors import ForbiddenError, QueryError, UnauthorizedError
from resources.exposition import series

GREETING_S = 30.0
"""Seconds for everything before the first statement."""
REFUSAL_S = 1.0
"""Seconds that a wrong password costs."""
GRACE_S = 2.0
"""Seconds that sessions get to end when the server stops."""
GREETERS = 50
"""Connections that may be logging in beside the full number of sessions."""
_log = logging.getLogger(__name__)


class PostgresDoor:
    """A server for one query API process."""

    def __init__(self, services: Services, refusal_s: float = REFUSAL_S) -> None:
        settings = services.settings
        self._services = services
        self._settings = settings
        self._refusal_s = refusal_s
        self._catalog = Catalog(services.lakeql, settings.data_dir / "postgres-door")
        self._context = _tls(settings.query_tls_certificate, settings.query_tls_key)
        self._server: asyncio.Server | None = None
        self._sessions: dict[int, tuple[int, Session]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._per_org: Counter[str] = Counter()
        self._numbers = itertools.count(1)
        self.port = 0

    @property
    def sessions(self) -> int:
        return len(self._sessions)

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: protocol(self._accept, self._settings.query_stall_s),
            self._settings.query_host,
            self._settings.query_postgres_port,
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Take no more clients, and end those that are there."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        for _, session in self._sessions.values():
            session.end()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._catalog.close()

    def _accept(self, wire: Wire) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(wire))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, wire: Wire) -> None:
        try:
            await self._greet_and_run(wire)
        except GoneError:
            _log.debug("a client left")
        except (SqlError, QueryError) as error:
            found = wire_format.sql_error(error) if isinstance(error, QueryError) else error
            wire.add(wire_format.report("FATAL", found.sqlstate, found.message, hint=found.hint))
        except Exception:  # noqa: BLE001 - a defect ends the session, not the server
            _log.exception("unforeseen failure of a session")
            wire.add(wire_format.report("FATAL", "XX000", "internal error; see the log of the query API"))
        finally:
            await wire.close()

    async def _greet_and_run(self, wire: Wire) -> None:
        if len(self._tasks) > self._settings.query_postgres_connections + GREETERS:
            raise SqlError("53300", "sorry, too many clients already")
        try:
            async with asyncio.timeout(GREETING_S) as scope:
                options = await self._greet(wire)
                if options is None:
                    return
                variables = Variables()
                newer = variables.options(options)
                org = await self._log_in(wire, newer, options)
        except TimeoutError:
            if not scope.expired():
                raise
            raise SqlError("57014", "canceling authentication due to timeout") from None
        await self._run(wire, org, variables)

    async def _greet(self, wire: Wire) -> dict[str, str] | None:
        """Return the options of a start-up message; None: it was a request to cancel."""
        for _ in range(3):  # GSS, TLS, and the message itself
            first = await wire.first(MAX_STARTUP_BYTES)
            code, body = int.from_bytes(first[:4]), first[4:]
            if len(first) < 4:
                break
            if code == SSL_REQUEST and self._context is not None and not wire.is_secure:
                wire.add(b"S")
                await wire.flush()
                await wire.secure(self._context)
            elif code in {SSL_REQUEST, GSS_REQUEST}:
                wire.add(b"N")
                await wire.flush()
            elif code == CANCEL_REQUEST:
                self._cancel(body)
                return None
            elif code >> 16 != PROTOCOL_MAJOR:
                version = f"{code >> 16}.{code & 0xFFFF}"
                raise SqlError("0A000", f"unsupported frontend protocol {version}: server supports 3.0")
            else:
                options = wire_format.startup_parameters(body)
                newer = [name for name in options if name.startswith("_pq_.")]
                if code > PROTOCOL_3_0 or newer:
                    wire.add(wire_format.negotiate(newer))
                return options
        raise SqlError(VIOLATION, "expected a start-up message")

    async def _log_in(self, wire: Wire, newer: list[str], options: dict[str, str]) -> str:
        """Ask for the password, and return the organisation of that key."""
        del newer
        if not options.get("user"):
            raise SqlError("28000", "no PostgreSQL user name specified in startup packet")
        if not (wire.is_secure or wire.is_local or self._settings.query_postgres_plain_passwords):
            raise SqlError(
                "28000",
                "the password is an API key and is taken over TLS only",
                hint="Connect with sslmode=require."
                if self._context is not None
                else "Set LAKERUNNER_QUERY_TLS_CERTIFICATE and LAKERUNNER_QUERY_TLS_KEY on the server.",
            )
        wire.add(wire_format.message(b"R", wire_format.int32(3)))
        await wire.flush()
        _, body = await wire.message(MAX_STARTUP_BYTES, kinds=(b"p",))
        password = body.rstrip(b"\0").decode("utf-8", "replace")
        try:
            found = await reader_key(self._services, [password] if password else [])
        except (UnauthorizedError, ForbiddenError) as error:
            self._services.counters.add(series("lakerunner_query_logins_refused_total", door="postgres"))
            await asyncio.sleep(self._refusal_s)
            state = "28P01" if isinstance(error, UnauthorizedError) else "28000"
            raise SqlError(state, error.message, hint="The password is an API key.") from error
        return found.org

    async def _run(self, wire: Wire, org: str, variables: Variables) -> None:
        settings = self._settings
        if len(self._sessions) >= settings.query_postgres_connections:
            raise SqlError("53300", "sorry, too many clients already")
        if self._per_org[org] >= settings.query_postgres_org_connections:
            raise SqlError("53300", f"too many connections of organisation {org!r}")
        number, secret = next(self._numbers) & 0x7FFFFFFF, secrets.randbits(32)
        session = Session(self._services, wire, org, variables, self._catalog, number)
        self._sessions[number] = secret, session
        self._per_org[org] += 1
        self._services.counters.add(series("lakerunner_query_postgres_sessions"), 1)
        try:
            key = wire_format.int32(number) + secret.to_bytes(4)
            wire.add(
                wire_format.message(b"R", wire_format.int32(0)),
                variables.status(),
                wire_format.message(b"K", key),
            )
            await session.run(settings.query_postgres_idle_s)
        finally:
            del self._sessions[number]
            self._per_org[org] -= 1
            self._services.counters.add(series("lakerunner_query_postgres_sessions"), -1)

    def _cancel(self, body: bytes) -> None:
        """Stop the statement of a session; whether there is one is told to nobody."""
        number, secret = int.from_bytes(body[:4]), body[4:]
        known = self._sessions.get(number)
        if known is not None and hmac.compare_digest(known[0].to_bytes(4), secret):
            known[1].cancel()


def _tls(certificate: str, key: str) -> ssl.SSLContext | None:
    if not certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key or None)
    return context
