"""Dagster's daemon: it ticks sensors and schedules, evaluates automation and dequeues runs.

It has no port; it is ready when it has written a heartbeat of this start into Dagster's database.
"""

from __future__ import annotations

import sys

import psycopg

from lakerunner_cli.stack.component import Component
from lakerunner_cli.stack.components.dagster_home import workspace
from lakerunner_cli.stack.site import Site

HEARTBEAT = """
SELECT count(*) FROM daemon_heartbeats
 WHERE timestamp > (to_timestamp(%s) AT TIME ZONE 'UTC')
"""


def command(site: Site) -> list[str]:
    return [sys.executable, "-m", "dagster._daemon", "run", "-w", str(workspace(site))]


def probe(site: Site, since: float) -> bool:
    try:
        with psycopg.connect(site.dsn("dagster"), connect_timeout=2) as connection:
            row = connection.execute(HEARTBEAT, (since,)).fetchone()
    except (psycopg.OperationalError, psycopg.errors.UndefinedTable):
        return False
    return row is not None and row[0] > 0


DAEMON = Component(
    name="daemon", needs=("code_server",), command=command, probe=probe, address=lambda _site: "-"
)
