"""Dagster's web server, code server and daemon, over one DAGSTER_HOME.

DAGSTER_HOME holds the project's `dagster.yaml` and a workspace that points at the code server, which listens
only after it has loaded the definitions: on a Unix socket, because it runs what it is told and knows no key.
The daemon has no port: it is ready when it has written a heartbeat of this start into Dagster's database.
"""

from __future__ import annotations

import sys
from pathlib import Path

import psycopg

import lakerunner_cli
from lakerunner_cli.stack.component import Announce, Component
from lakerunner_cli.stack.ports import HOST, grpc, http
from lakerunner_cli.stack.site import Site

WORKSPACE = """\
load_from:
  - grpc_server:
      socket: {socket}
      location_name: lakerunner
"""


def home(site: Site) -> Path:
    return site.paths.root / "dagster"


def workspace(site: Site) -> Path:
    return home(site) / "workspace.yaml"


def prepare(site: Site, announce: Announce) -> None:  # noqa: ARG001 - one signature for all
    """Write the files at every start: the port or the project's file may have changed."""
    source = Path(lakerunner_cli.__file__).parent / "stack" / "dagster.yaml"
    for target, text in (
        (home(site) / "dagster.yaml", source.read_text()),
        (workspace(site), WORKSPACE.format(socket=site.code_server_socket)),
    ):
        aside = target.with_suffix(".tmp")
        aside.write_text(text)
        aside.replace(target)


def webserver_command(site: Site) -> list[str]:
    return [
        sys.executable, "-m", "lakerunner_cli.stack.dagster_webserver",
        "--host", HOST, "--port", str(site.ports["webserver"]), "--workspace", str(workspace(site)),
    ]  # fmt: skip


WEBSERVER = Component(
    name="webserver",
    needs=("code_server",),
    command=webserver_command,
    probe=lambda site, _since: http(
        site.ports["webserver"], "/server_info", {"authorization": f"Bearer {site.settings.webserver_token}"}
    ),
    address=lambda site: f"http://{HOST}:{site.ports['webserver']}",
)


def code_server_command(site: Site) -> list[str]:
    return [
        sys.executable, "-m", "dagster", "api", "grpc",
        "--module-name", site.definitions_module, "--location-name", "lakerunner",
        "--socket", str(site.code_server_socket),
        "--use-python-environment-entry-point", "--empty-working-directory",
    ]  # fmt: skip


CODE_SERVER = Component(
    name="code_server",
    needs=("postgres",),
    prepare=prepare,
    command=code_server_command,
    probe=lambda site, _since: grpc(f"unix:{site.code_server_socket}"),
    address=lambda _site: "-",
)


HEARTBEAT = """
SELECT count(*) FROM daemon_heartbeats
 WHERE timestamp > (to_timestamp(%s) AT TIME ZONE 'UTC')
"""


def daemon_command(site: Site) -> list[str]:
    return [sys.executable, "-m", "dagster._daemon", "run", "-w", str(workspace(site))]


def probe(site: Site, since: float) -> bool:
    try:
        with psycopg.connect(site.dsn("dagster"), connect_timeout=2) as connection:
            row = connection.execute(HEARTBEAT, (since,)).fetchone()
    except (psycopg.OperationalError, psycopg.errors.UndefinedTable):
        return False
    return row is not None and row[0] > 0


DAEMON = Component(
    name="daemon",
    needs=("postgres", "code_server"),
    command=daemon_command,
    probe=probe,
    address=lambda _site: "-",
    silent_timeout_s=180.0,  # its threads write a heartbeat every half a minute
)
