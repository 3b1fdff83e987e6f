"""The connection pool, and the one error that says the index cannot be reached.

Connections are checked before use, so a restarted server costs a retry and not an error. A server may also
hang: its machine may be frozen, or the network may drop everything. The kernel of a frozen machine still
acknowledges what is sent, so that no option of TCP ends the wait; hence the client bounds every wait for an
answer and closes the connection, which the pool replaces.

Every transaction names its schema through `search_path`-free, qualified statements.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import QueryCanceled, _WaitTimeout
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

TRANSPORT: dict[str, Any] = {
    "connect_timeout": 3,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Options of libpq that end connections whose other side is gone; those that the address names win."""
CHECK_S = 2.0
"""Seconds for the empty statement before a connection is used."""
LATE_S = 1.0
"""Seconds that the answer of a server which gives up a statement may take to arrive."""
RECONNECT_S = 3.0
"""Seconds of attempts to replace a lost connection; after that, whoever needs one starts anew."""


class IndexUnavailableError(RuntimeError):
    """PostgreSQL did not answer. The call changed all or nothing: its commit may have arrived unheard."""


class IndexTimeoutError(IndexUnavailableError):
    """PostgreSQL did not answer in time; asking again at once would take as long."""


class UnansweredError(psycopg.OperationalError):
    """A wait for the server that was given up; the connection is closed."""


class BoundedConnection(psycopg.Connection[DictRow]):
    """A connection that waits a bounded time for every answer."""

    answer_s = 0.0
    """Seconds; 0: for ever."""

    def wait(self, gen: Any, *args: Any, **named: Any) -> Any:
        if not self.answer_s or len(args) > 1 or named.get("timeout") is not None:
            return super().wait(gen, *args, **named)
        try:
            return super().wait(gen, *args, **{**named, "timeout": self.answer_s})
        except _WaitTimeout as error:
            self.pgconn.finish()  # an answer may still come, and must not be taken for that of the next
            raise UnansweredError(f"no answer for {self.answer_s:g} s") from error


Connection = BoundedConnection


class IndexDeadlockError(IndexUnavailableError):
    """Transaction given up because of a deadlock: nothing was changed."""


def storable(text: str) -> str:
    r"""Clean a text for storage.

    Errors quote what they choked on; PostgreSQL's text holds neither NUL nor half a surrogate pair.

    >>> storable("a\0b")
    'a\\x00b'
    """
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\x00")


class PostgresPart:
    """Owner of the pool, which is opened on first use, so that building an index does no I/O."""

    def __init__(
        self,
        dsn: str,
        *,
        min_connections: int = 1,
        max_connections: int = 8,
        wait_s: float = 10.0,
        answer_s: float = 120.0,
    ) -> None:
        """Wait so long for a connection, and so long for the answer to any statement."""
        self._wait_s = wait_s
        self._answer_s = answer_s
        self._dsn = dsn
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            dsn,
            min_size=min_connections,
            max_size=max_connections,
            open=False,
            timeout=wait_s,
            kwargs={"row_factory": dict_row, **_transport(dsn)},
            configure=self._configure,
            check=self._check,
            connection_class=BoundedConnection,
            reconnect_timeout=RECONNECT_S,
        )

    def _configure(self, connection: Connection) -> None:
        """Let the server give up statements, too: a closed connection does not stop them there."""
        connection.answer_s = CHECK_S + LATE_S
        allowed_ms = str(round(self._answer_s * 1000))
        connection.execute("SELECT set_config('statement_timeout', %s, false)", [allowed_ms])
        connection.commit()
        connection.answer_s = self._answer_s + LATE_S

    def _check(self, connection: Connection) -> None:
        connection.answer_s = min(CHECK_S, self._answer_s)
        ConnectionPool.check_connection(connection)
        connection.answer_s = self._answer_s + LATE_S

    def connect_alone(self) -> Connection:
        """Open a connection outside the pool, for a lock that lasts as long as it."""
        with _index_errors():
            connection = BoundedConnection.connect(
                self._dsn, row_factory=dict_row, autocommit=True, **_transport(self._dsn)
            )
        connection.answer_s = self._answer_s + LATE_S
        return connection

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Run one transaction: committed on leaving, rolled back on any exception."""
        self._pool.open()
        with _index_errors(), self._pool.connection(timeout=self._wait_s) as connection:
            yield connection

    def _rows(self, statement: bytes, values: dict[str, Any]) -> list[dict[str, Any]]:
        """Run one read-only statement in its own transaction."""
        with self._transaction() as connection:
            return connection.execute(statement, values).fetchall()

    def _change(self, statement: bytes, values: dict[str, Any]) -> int:
        """Run one changing statement in its own transaction; return the number of rows it touched."""
        with self._transaction() as connection:
            return connection.execute(statement, values).rowcount

    def ping(self) -> None:
        """Raise `IndexUnavailableError` when the index cannot be reached."""
        self._rows(b"SELECT 1", {})

    def close(self) -> None:
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _index_errors() -> Iterator[None]:
    try:
        yield
    except psycopg.errors.DeadlockDetected as error:
        raise IndexDeadlockError(f"the segment index gave this transaction up: {error}") from error
    except (UnansweredError, QueryCanceled) as error:
        raise IndexTimeoutError(f"the segment index does not answer: {error}") from error
    except (PoolTimeout, PoolClosed, psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise IndexUnavailableError(f"the segment index does not answer: {error}") from error


def _transport(dsn: str) -> dict[str, Any]:
    """Return the options that the address leaves open."""
    named = conninfo_to_dict(dsn)
    return {name: value for name, value in TRANSPORT.items() if name not in named}
