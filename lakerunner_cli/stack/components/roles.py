"""Lakerunner's own roles: the `lakerunner …` commands of production, with `/livez` as their probe.

The second query worker differs from the first only in its port; two of them make dispatch real.
"""

from __future__ import annotations

import sys
from functools import partial

from lakerunner_cli.stack.component import Component
from lakerunner_cli.stack.ports import HOST, http
from lakerunner_cli.stack.site import Site


def _command(role: str, site: Site) -> list[str]:  # noqa: ARG001 - one signature for all
    return [sys.executable, "-m", "lakerunner_cli.main", role]


def _alive(name: str, site: Site, since: float) -> bool:  # noqa: ARG001 - one signature for all
    return http(site.ports[name], "/livez")


def _address(name: str, site: Site) -> str:
    return f"http://{HOST}:{site.ports[name]}"


def _worker_environment(name: str, site: Site) -> dict[str, str]:
    return {"LAKERUNNER_WORKER_PORT": str(site.ports[name])}


def _role(name: str, role: str, needs: tuple[str, ...]) -> Component:
    return Component(
        name=name,
        needs=needs,
        command=partial(_command, role),
        probe=partial(_alive, name),
        address=partial(_address, name),
    )


def _worker(name: str) -> Component:
    return Component(
        name=name,
        needs=("postgres",),
        command=partial(_command, "query-worker"),
        environment=partial(_worker_environment, name),
        probe=partial(_alive, name),
        address=partial(_address, name),
    )


INGRESS = _role("ingress", "ingress", ("postgres", "kafka"))
QUERY_API = _role("query_api", "query-api", ("postgres",))
QUERY_WORKER_1 = _worker("query_worker_1")
QUERY_WORKER_2 = _worker("query_worker_2")
# the watchdog has no port: it is ready as soon as it runs
WATCHDOG = Component(
    name="watchdog",
    needs=("code_server",),
    command=partial(_command, "watchdog"),
    probe=lambda _site, _since: True,
    address=lambda _site: "-",
)
