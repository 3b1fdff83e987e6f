"""The status endpoints of Prometheus; fields that have no counterpart here are empty or zero.

Nothing is scraped here: those endpoints answer as a Prometheus without targets does.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import msgspec
from litestar import MediaType, Request, Response, get

from lakerunner_query.api.shared.health import readiness
from lakerunner_query.api.shared.openapi import part_of
from lakerunner_query.api.shared.services import Services
from lakerunner_query.coordinator.engine import Limits
from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.promql.lang.cursor import Features
from lakerunner_query.promql.lang.functions import AGGREGATIONS, FUNCTIONS
from resources.settings import Settings

VERSION = "3.5.0"
"""Version of Prometheus whose API this is: clients choose their requests by it."""
Envelope = dict[str, object]
_STARTED = time.time()
YAML = "application/yaml"


def _success(data: object) -> Envelope:
    return {"status": "success", "data": data}


@get("/status/buildinfo", sync_to_thread=False)
def buildinfo() -> Envelope:
    """Return the version; Grafana asks for it first."""
    empty = dict.fromkeys(("branch", "buildUser", "buildDate", "goVersion"), "")
    features = {"ruler_config_api": "true"}
    return _success({"version": VERSION, "revision": "lakerunner", **empty, "features": features})


@get("/status/flags", sync_to_thread=False)
def flags(services: Services) -> Envelope:
    """Return the limits of queries, under Prometheus' names."""
    return _success(_flags(services.settings, services.engine.limits))


@get("/status/runtimeinfo", sync_to_thread=False)
def runtimeinfo() -> Envelope:
    """Return the start of this process; there is no Go runtime to describe."""
    started = datetime.fromtimestamp(_STARTED, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return _success(
        {
            "startTime": started,
            "CWD": "",
            "hostname": "",
            "serverTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "reloadConfigSuccess": True,
            "lastConfigTime": started,
            "corruptionCount": 0,
            "goroutineCount": 0,
            "GOMAXPROCS": 0,
            "GOMEMLIMIT": 0,
            "GOGC": "",
            "GODEBUG": "",
            "storageRetention": "",
        }
    )


@get("/status/config", sync_to_thread=False)
def config() -> Envelope:
    """Return an empty configuration; there is no such file."""
    return _success({"yaml": ""})


@get("/targets", sync_to_thread=False)
def targets() -> Envelope:
    return _success({"activeTargets": [], "droppedTargets": [], "droppedTargetCounts": {}})


@get("/targets/metadata", sync_to_thread=False)
def targets_metadata() -> Envelope:
    return _success([])


@get(["/targets/relabel_steps", "/scrape_pools/config"], sync_to_thread=False)
def scrape_pool(request: Request[Any, Any, Any]) -> Envelope:
    """Refuse every pool: there is none."""
    name = request.query_params.get("scrapePool", "")
    found = f"scrape pool {name[:64]!r} not found: nothing is scraped here"
    raise InvalidRequestError(found if name else "no scrapePool parameter provided")


@get("/scrape_pools", sync_to_thread=False)
def scrape_pools() -> Envelope:
    return _success({"scrapePools": []})


@get("/alertmanagers", sync_to_thread=False)
def alertmanagers() -> Envelope:
    return _success({"activeAlertmanagers": [], "droppedAlertmanagers": []})


@get("/status/walreplay", sync_to_thread=False)
def walreplay() -> Envelope:
    """Return that nothing is left to replay; pushes are durable in the bucket."""
    return _success({"min": 0, "max": 0, "current": 0})


@get("/status/tsdb/blocks", sync_to_thread=False)
def blocks() -> Envelope:
    """Return no blocks; data lies in segments."""
    return _success({"blocks": []})


@get("/openapi.yaml", media_type=YAML, sync_to_thread=False)
def description(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Describe Prometheus' API as it is here; JSON is YAML, too."""
    found = part_of(
        request.app.openapi_schema.to_schema(), "/prometheus/api/v1", "Prometheus' API of Lakerunner"
    )
    body = msgspec.json.format(msgspec.json.encode(found))
    return Response(body, media_type=YAML)


@get("/notifications", sync_to_thread=False)
def notifications() -> Envelope:
    return _success([])


@get("/features", sync_to_thread=False)
def features(services: Services) -> Envelope:
    """Return the parts of the API and of PromQL that are there."""
    return _success(_features(services.features))


@get("/prometheus/-/healthy", media_type=MediaType.TEXT, sync_to_thread=False, tags=["health"])
def healthy() -> str:
    """Answer as long as the process does."""
    return "Prometheus Server is Healthy.\n"


@get("/prometheus/-/ready", media_type=MediaType.TEXT, tags=["health"])
async def ready_like_prometheus(services: Services) -> Response[str]:
    """Answer like `/readyz`, in Prometheus' words."""
    is_ready, found = await readiness(services)
    text = "Prometheus Server is Ready.\n" if is_ready else f"Service Unavailable\n{found}"
    return Response(text, status_code=200 if is_ready else 503, media_type=MediaType.TEXT)


STATUS_HANDLERS = (
    buildinfo, flags, runtimeinfo, config, targets, targets_metadata, scrape_pool,
    scrape_pools, alertmanagers, walreplay, blocks, notifications, features, description,
)  # fmt: skip


def _features(promql: Features) -> dict[str, dict[str, bool]]:
    """Name features as Prometheus does; what is not named is not there."""
    extended, fill = promql.extended_range_selectors, promql.fill_modifiers
    syntax = {
        "anchored": extended, "at_modifier": True, "bool": True, "by": True, "delayed_name_removal": True,
        "duration_expr": promql.duration_expressions, "fill": fill, "fill_left": fill, "fill_right": fill,
        "group_left": True, "group_right": True, "ignoring": True, "negative_offset": True, "offset": True,
        "on": True, "per_query_lookback_delta": True, "per_step_stats": False, "smoothed": extended,
        "subqueries": True, "type_and_unit_labels": False, "without": True,
    }  # fmt: skip
    api = {
        "admin": False, "exclude_alerts": True, "label_values_match": True, "lifecycle": False,
        "openapi_3.1": True, "openapi_3.2": False, "otlp_write_receiver": False, "query_stats": True,
        "query_warnings": True, "remote_write_receiver": False, "search": False, "time_range_labels": True,
        "time_range_series": True,
    }  # fmt: skip
    allowed = promql.experimental_functions
    return {
        "api": api,
        "prometheus": {"agent_mode": False, "server_mode": True},
        "promql": syntax,
        "promql_functions": {n: allowed or not each.is_experimental for n, each in FUNCTIONS.items()},
        "promql_operators": {n: allowed or not each.is_experimental for n, each in AGGREGATIONS.items()},
    }


def _flags(settings: Settings, limits: Limits) -> dict[str, str]:
    return {
        "enable-feature": ",".join(limits.features),
        "query.lookback-delta": "5m",
        "query.max-concurrency": str(settings.query_max_concurrency),
        "query.max-samples": str(limits.max_points),
        "query.timeout": f"{settings.query_timeout_s:g}s",
        "web.enable-remote-write-receiver": "false",
    }
