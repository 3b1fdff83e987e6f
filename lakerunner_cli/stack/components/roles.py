"""Lakerunner's own roles: the `lakerunner …` commands of production, with `/livez` as their probe.

The second query worker differs from the first only in its port; two of them make dispatch real.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lakerunner_cli.stack.component import Component
from lakerunner_cli.stack.ports import HOST, http
from lakerunner_cli.stack.site import Site


def _command(role: str, site: Site) -> list[str]:  # noqa: ARG001 - one signature for all
    return [sys.executable, "-m", "lakerunner_cli.main", role]


def _alive(name: str, site: Site, since: float) -> bool:  # noqa: ARG001 - one signature for all
    return http(site.ports[name], "/livez")


def _address(name: str, site: Site) -> str:
    return f"http://{HOST}:{site.ports[name]}"


def _ingress_addresses(site: Site) -> str:
    """Name both doors of the ingress."""
    return f"{_address('ingress', site)}, OTLP/gRPC: http://{HOST}:{site.ports['ingress_grpc']}"


def _query_addresses(site: Site) -> str:
    """Name every door of the query API."""
    secure = "+tls" if site.settings.query_tls_certificate else ""
    flight = f"grpc{secure}://{HOST}:{site.ports['query_flight']} (Flight)"
    postgres = f"postgresql://{HOST}:{site.ports['query_postgres']} (PostgreSQL)"
    return f"{_address('query_api', site)}, SQL: {flight}, {postgres}"


def _worker_environment(name: str, site: Site) -> dict[str, str]:
    return {"LAKERUNNER_WORKER_PORT": str(site.ports[name])}


def _role(
    name: str, role: str, needs: tuple[str, ...], address: Callable[[Site], str] | None = None
) -> Component:
    return Component(
        name=name,
        needs=needs,
        command=partial(_command, role),
        probe=partial(_alive, name),
        address=address or partial(_address, name),
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


def _is_younger(beat: Path, since: float) -> bool:
    return beat.is_file() and beat.stat().st_mtime >= since


INGRESS = _role("ingress", "ingress", ("postgres", "kafka"), _ingress_addresses)
QUERY_API = _role("query_api", "query-api", ("postgres",), _query_addresses)
QUERY_WORKER_1 = _worker("query_worker_1")
QUERY_WORKER_2 = _worker("query_worker_2")
# the demo's shop: it runs while a demo has left its plan, and shows that it goes on by a file
SHOP = Component(
    name="shop",
    needs=("postgres", "ingress"),
    command=lambda _site: [sys.executable, "-m", "lakerunner_cli.demo.standing"],
    probe=lambda site, since: _is_younger(site.paths.shop_beat, since),
    address=lambda _site: "-",
    silent_timeout_s=60.0,
    wanted=lambda site: site.paths.shop_plan.is_file(),
)
# it has no port either: it touches a file after each look into the index
QUERY_JOBS = Component(
    name="query_jobs",
    needs=("postgres", "spark"),
    command=partial(_command, "query-jobs"),
    probe=lambda site, since: _is_younger(site.settings.jobs_beat, since),
    silent_timeout_s=60.0,
    address=lambda _site: "-",
)
RULER = Component(
    name="ruler",
    needs=("postgres", "query_worker_1"),
    command=partial(_command, "ruler"),
    probe=lambda site, since: _is_younger(site.settings.ruler_beat, since),
    silent_timeout_s=60.0,
    address=lambda _site: "-",
)
# the watchdog has no port: it touches a file after each look
WATCHDOG = Component(
    name="watchdog",
    needs=("code_server",),
    command=partial(_command, "watchdog"),
    probe=lambda site, since: _is_younger(site.settings.watchdog_beat, since),
    silent_timeout_s=60.0,
    address=lambda _site: "-",
)
