"""Dagster's code server: it holds the definitions, runs sensors and starts runs.

It listens only after the definitions were loaded, so an open port means that they load.
"""

from __future__ import annotations

import sys

from lakerunner_cli.stack.component import Component
from lakerunner_cli.stack.components.dagster_home import prepare
from lakerunner_cli.stack.ports import HOST
from lakerunner_cli.stack.probes import tcp
from lakerunner_cli.stack.site import Site


def command(site: Site) -> list[str]:
    return [
        sys.executable, "-m", "dagster", "api", "grpc",
        "--module-name", site.definitions_module, "--location-name", "lakerunner",
        "--host", HOST, "--port", str(site.ports["code_server"]),
        "--use-python-environment-entry-point", "--empty-working-directory",
    ]  # fmt: skip


CODE_SERVER = Component(
    name="code_server",
    needs=("postgres",),
    prepare=prepare,
    command=command,
    probe=lambda site, _since: tcp(site.ports["code_server"]),
    address=lambda site: f"{HOST}:{site.ports['code_server']}",
)
