"""Dagster's daemon: it ticks sensors and schedules, evaluates automation and dequeues runs.

It has no port; it is ready when it has written a heartbeat of this start into Dagster's database.
"""

from __future__ import annotations

import sys

import psycopg

from lakerunner_cli.stack.component import Component
from lakerunner_cli.stack.components.dagster_home import workspace
from lakerunner_cli.stack.site import Site

FRESH_S = 40  # heartbeats come every 30 seconds
HEARTBEAT = """
SELECT count(*) FROM daemon_heartbeats
 WHERE timestamp > (now() AT TIME ZONE 'UTC') - make_interval(secs => %s)
"""


def command(site: Site) -> list[str]:
    return [sys.executable, "-m", "dagster._daemon", "run", "-w", str(workspace(site))]


def probe(site: Site) -> bool:
    try:
        with psycopg.connect(site.dsn("dagster"), connect_timeout=2) as connection:
            row = connection.execute(HEARTBEAT, (FRESH_S,)).fetchone()
    except (psycopg.OperationalError, psycopg.errors.UndefinedTable):
        return False
    return row is not None and row[0] > 0


DAEMON = Component(
    name="daemon", needs=("code_server",), command=command, probe=probe, address=lambda _site: "-"
)
