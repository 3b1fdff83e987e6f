"""A PostgreSQL that does not answer: its processes stopped, or a port behind which nobody reads."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator

import psutil
import psycopg


@contextlib.contextmanager
def frozen(dsn: str) -> Iterator[None]:
    """Stop the server and all of its processes for as long as the block runs."""
    with psycopg.connect(dsn) as connection:
        server = psutil.Process(connection.info.backend_pid).parent()
    assert server is not None
    processes = [server, *server.children(recursive=True)]
    try:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):  # the connection's own may have ended by now
                os.kill(process.pid, signal.SIGSTOP)
        yield
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """The address of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield f"postgresql://nobody@127.0.0.1:{listening.getsockname()[1]}/lakerunner"
