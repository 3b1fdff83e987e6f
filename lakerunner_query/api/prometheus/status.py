"""The status endpoints of Prometheus; fields that have no counterpart here are empty or zero."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from litestar import MediaType, Response, get

from lakerunner_query.api.shared.health import readiness
from lakerunner_query.api.shared.services import Services
from lakerunner_query.coordinator.engine import Limits
from resources.settings import Settings

VERSION = "3.5.0"
"""Version of Prometheus whose API this is: clients choose their requests by it."""
Envelope = dict[str, object]
_STARTED = time.time()


def _success(data: object) -> Envelope:
    return {"status": "success", "data": data}


@get("/status/buildinfo", sync_to_thread=False)
def buildinfo() -> Envelope:
    """Return the version; Grafana asks for it first."""
    empty = dict.fromkeys(("branch", "buildUser", "buildDate", "goVersion"), "")
    return _success({"version": VERSION, "revision": "lakerunner", **empty})


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


@get("/status/tsdb", sync_to_thread=False)
def tsdb() -> Envelope:
    """Return empty statistics: data lies in segments, there is no head block."""
    head = {"numSeries": 0, "numLabelPairs": 0, "chunkCount": 0, "minTime": 0, "maxTime": 0}
    lists: dict[str, object] = {
        "seriesCountByMetricName": [],
        "labelValueCountByLabelName": [],
        "memoryInBytesByLabelName": [],
        "seriesCountByLabelValuePair": [],
    }
    return _success({"headStats": head, **lists})


@get("/rules", sync_to_thread=False)
def rules() -> Envelope:
    return _success({"groups": []})


@get("/alerts", sync_to_thread=False)
def alerts() -> Envelope:
    return _success({"alerts": []})


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


STATUS_HANDLERS = (buildinfo, flags, runtimeinfo, config, tsdb, rules, alerts)


def _flags(settings: Settings, limits: Limits) -> dict[str, str]:
    return {
        "enable-feature": ",".join(limits.features),
        "query.lookback-delta": "5m",
        "query.max-concurrency": str(settings.query_max_concurrency),
        "query.max-samples": str(limits.max_points),
        "query.timeout": f"{settings.query_timeout_s:g}s",
        "web.enable-remote-write-receiver": "false",
    }
