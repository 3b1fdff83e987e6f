"""Dagster's web server: lineage, runs, backfills and checks for people."""

from __future__ import annotations

import sys

from lakerunner_cli.stack.component import Component
from lakerunner_cli.stack.components.dagster_home import workspace
from lakerunner_cli.stack.ports import HOST
from lakerunner_cli.stack.probes import http
from lakerunner_cli.stack.site import Site


def command(site: Site) -> list[str]:
    return [
        sys.executable, "-m", "dagster_webserver", "--host", HOST, "--port", str(site.ports["webserver"]),
        "--workspace", str(workspace(site)),
    ]  # fmt: skip


WEBSERVER = Component(
    name="webserver",
    needs=("code_server",),
    command=command,
    probe=lambda site, _since: http(site.ports["webserver"], "/server_info"),
    address=lambda site: f"http://{HOST}:{site.ports['webserver']}",
)
