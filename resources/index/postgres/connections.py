"""The connection pool, and the one error that says the index cannot be reached.

Connections are checked before use, so a restarted server costs a retry and not an error. Every
transaction names its schema through `search_path`-free, qualified statements.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import psycopg
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

Connection = psycopg.Connection[DictRow]


class IndexUnavailableError(RuntimeError):
    """PostgreSQL did not answer. The call changed all or nothing: its commit may have arrived unheard."""


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
        self, dsn: str, *, min_connections: int = 1, max_connections: int = 8, wait_s: float = 10.0
    ) -> None:
        self._wait_s = wait_s
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            dsn,
            min_size=min_connections,
            max_size=max_connections,
            open=False,
            timeout=wait_s,
            kwargs={"row_factory": dict_row, "connect_timeout": 5},
            check=ConnectionPool.check_connection,
            connection_class=psycopg.Connection[DictRow],
        )

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Run one transaction: committed on leaving, rolled back on any exception."""
        self._pool.open()
        try:
            with self._pool.connection(timeout=self._wait_s) as connection:
                yield connection
        except psycopg.errors.DeadlockDetected as error:
            raise IndexDeadlockError(f"the segment index gave this transaction up: {error}") from error
        except (PoolTimeout, PoolClosed, psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise IndexUnavailableError(f"the segment index does not answer: {error}") from error

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
