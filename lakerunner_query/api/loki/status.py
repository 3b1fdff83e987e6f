"""The status endpoints of Loki, and the one that formats queries."""

from __future__ import annotations

from typing import Any

import msgspec
from anyio.to_thread import run_sync
from litestar import Request, Response, get, route

from lakerunner_query.api.loki.params import query_text
from lakerunner_query.api.loki.render import JSON, METHODS, reply
from lakerunner_query.api.shared.requests import read_fields
from lakerunner_query.api.shared.services import Services
from lakerunner_query.errors import ParseError
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.lang.pretty import pretty

VERSION = "3.5.0"
"""Version of Loki whose API this is: clients choose their requests by it."""


@get("/status/buildinfo", sync_to_thread=False)
def buildinfo() -> dict[str, str]:
    """Return the version; Grafana asks for it first."""
    empty = dict.fromkeys(("branch", "buildUser", "buildDate", "goVersion"), "")
    return {"version": VERSION, "revision": "lakerunner", **empty}


@get("/drilldown-limits", sync_to_thread=False)
def drilldown_limits(services: Services) -> dict[str, object]:
    """Return the limits of queries, under Loki's names, for Grafana's Logs Drilldown."""
    settings = services.settings
    limits: dict[str, object] = {
        "discover_log_levels": True,
        "discover_service_name": ["service_name"],
        "log_level_fields": ["level", "detected_level"],
        "max_entries_limit_per_query": settings.query_max_limit,
        "max_line_size_truncate": False,
        "max_query_bytes_read": "0B",
        "max_query_length": "0s",
        "max_query_lookback": "0s",
        "max_query_range": "0s",
        "max_query_series": settings.query_max_series,
        "metric_aggregation_enabled": False,
        "query_timeout": f"{settings.query_timeout_s:g}s",
        "retention_period": "0s",
        "retention_stream": None,
        "volume_enabled": True,
        "volume_max_series": settings.query_max_series,
    }
    return {"limits": limits, "pattern_ingester_enabled": True, "version": VERSION}


@route("/format_query", http_method=METHODS, status_code=200, media_type=JSON)
async def format_query(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Lay out the query for a person."""
    fields = await read_fields(request)
    try:
        text = await run_sync(lambda: pretty(parse_expr(query_text(fields))))
    except ParseError as error:
        said = msgspec.json.encode({"status": "invalid-query", "error": error.message})
        return Response(said, status_code=error.status, media_type=JSON)
    return reply(fields, msgspec.json.encode(text), {})


STATUS_HANDLERS = (buildinfo, drilldown_limits, format_query)
