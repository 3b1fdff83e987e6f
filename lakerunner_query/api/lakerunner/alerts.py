"""`/api/v1/alerts` tells how alerts changed over time, and what receivers have yet to take."""

from __future__ import annotations

from typing import Any

from litestar import HttpMethod, Request, Router, route

from lakerunner_query.api.lakerunner.service_map import interval_ms
from lakerunner_query.api.prometheus.alerts import groups_of
from lakerunner_query.api.shared.auth import caller, require_reader
from lakerunner_query.api.shared.requests import read_fields
from lakerunner_query.api.shared.services import Services
from lakerunner_query.rules.report import ShownGroup, rfc3339
from resources.index.ruling_types import AlertChange, WaitingNotices

MOST_CHANGES = 10_000


@route("/", http_method=[HttpMethod.GET, HttpMethod.POST], status_code=200)
async def alert_changes(request: Request[Any, Any, Any], services: Services) -> dict[str, object]:
    """Return the changes of alerts in an interval, the newest first."""
    fields = await read_fields(request)
    start_ms, end_ms = interval_ms(fields.text("start"), fields.text("end"), services.settings)
    org = caller(request.state).org
    groups = {one.stored.rule_id: one for one in await groups_of(services, org)}
    changes = await services.locator.alert_changes(org, start_ms, end_ms, MOST_CHANGES + 1)
    waiting = await services.locator.waiting_notices(org)
    return {
        "start": str(start_ms),
        "end": str(end_ms),
        "changes": [_change(one, groups.get(one.rule_id)) for one in changes[:MOST_CHANGES]],
        "is_complete": len(changes) <= MOST_CHANGES,
        "waiting": [_waiting(one) for one in waiting],
    }


def _change(change: AlertChange, group: ShownGroup | None) -> dict[str, object]:
    """Name the group of a change; a rule that was deleted has none."""
    return {
        "file": "" if group is None else group.stored.namespace,
        "rule_group": "" if group is None else group.group.name,
        "alert": change.alert,
        "labels": dict(change.labels),
        "state": change.state.value,
        "value": change.value,
        "at": rfc3339(change.at_ms),
    }


def _waiting(waiting: WaitingNotices) -> dict[str, object]:
    """Name the kind of a receiver only: its address belongs to the operator."""
    kind = waiting.receiver.partition(":")[0]
    return {"receiver": kind, "waiting": waiting.waiting, "oldest_s": round(waiting.oldest_s, 1)}


alerts_router = Router(
    "/api/v1/alerts",
    route_handlers=[alert_changes],
    guards=[require_reader],
    tags=["lakerunner"],
)
