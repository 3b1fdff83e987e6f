"""Query workers register in the index and extend their leases by heartbeats.

The front of a worker needs nothing else of the index.
Each call opens a connection of its own: there is one every few seconds, and a pool would cost the front more
memory than all the rest of it.
"""

from __future__ import annotations

import psycopg

from resources.index.statements import load

SQL = load("workers")
PATIENCE = {"connect_timeout": 3, "tcp_user_timeout": 5_000, "options": "-c statement_timeout=3000"}
LOST = (psycopg.Error, OSError)
"""Errors of calls while PostgreSQL is away."""


def beat(dsn: str, url: str) -> None:
    """Register a worker, or extend its lease."""
    with psycopg.connect(dsn, **PATIENCE) as connection:  # type: ignore[arg-type]
        connection.execute(SQL["beat_worker"], {"url": url})
        connection.execute(SQL["forget_workers"])


def withdraw(dsn: str, url: str) -> None:
    """Forget a worker that ends."""
    with psycopg.connect(dsn, **PATIENCE) as connection:  # type: ignore[arg-type]
        connection.execute(SQL["withdraw_worker"], {"url": url})


def live_workers(dsn: str, lease_s: float) -> tuple[str, ...]:
    """List workers whose last heartbeat is younger than the lease."""
    with psycopg.connect(dsn, **PATIENCE) as connection:  # type: ignore[arg-type]
        return tuple(url for (url,) in connection.execute(SQL["live_workers"], {"lease_s": lease_s}))
