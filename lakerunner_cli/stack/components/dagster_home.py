"""DAGSTER_HOME of the stack: the project's `dagster.yaml` and a workspace that points at our code server."""

from __future__ import annotations

from pathlib import Path

import lakerunner_cli
from lakerunner_cli.stack.component import Announce
from lakerunner_cli.stack.errors import StackError
from lakerunner_cli.stack.ports import HOST
from lakerunner_cli.stack.site import Site

WORKSPACE = """\
load_from:
  - grpc_server:
      host: {host}
      port: {port}
      location_name: lakerunner
"""


def home(site: Site) -> Path:
    return site.paths.root / "dagster"


def workspace(site: Site) -> Path:
    return home(site) / "workspace.yaml"


def prepare(site: Site, announce: Announce) -> None:  # noqa: ARG001 - one signature for all
    """Written at every start: the port may have changed, and the project's file may have."""
    source = Path(lakerunner_cli.__file__).parent.parent / "dagster.yaml"
    if not source.is_file():
        raise StackError(f"{source} is missing; run `lakerunner up` from a checkout of the project")
    for target, text in (
        (home(site) / "dagster.yaml", source.read_text()),
        (workspace(site), WORKSPACE.format(host=HOST, port=site.ports["code_server"])),
    ):
        aside = target.with_suffix(".tmp")
        aside.write_text(text)
        aside.replace(target)
