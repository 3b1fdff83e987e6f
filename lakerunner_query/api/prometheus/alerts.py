"""Rules and alerts as Prometheus and Loki show them; both have the same addresses.

/prometheus/api/v1/{rules,alerts}        rules of all languages: Grafana's Loki data source asks here, too
/loki/prometheus/api/v1/{rules,alerts}   rules in LogQL
"""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request, Response, Router, get

from lakerunner_query.api.loki.render import respond_like_loki
from lakerunner_query.api.prometheus.params import BadParameterError, selectors
from lakerunner_query.api.prometheus.render import JSON, success
from lakerunner_query.api.shared.auth import caller, require_reader
from lakerunner_query.api.shared.requests import RequestFields, read_fields
from lakerunner_query.api.shared.services import Services
from lakerunner_query.rules.documents import RuleLanguage
from lakerunner_query.rules.report import (
    ALERTING,
    RECORDING,
    RuleFilter,
    ShownGroup,
    alerts_json,
    page_of,
    rules_json,
    shown_groups,
)
from lakerunner_query.serving import handlers

ALL_LANGUAGES = frozenset(RuleLanguage)
LOGS = frozenset({RuleLanguage.LOGQL})
_KINDS = {"": "", "alert": ALERTING, "record": RECORDING}
_FLAGS = {"": False, "true": True, "1": True, "t": True, "false": False, "0": False, "f": False}


@get("/rules", media_type=JSON)
async def rules(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Return groups of rules with their states."""
    return await _rules(request, services, ALL_LANGUAGES)


@get("/alerts", media_type=JSON)
async def alerts(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Return the alerts that are pending or firing."""
    return await _alerts(request, services, ALL_LANGUAGES)


@get("/rules", media_type=JSON)
async def log_rules(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Return groups of LogQL rules with their states."""
    return await _rules(request, services, LOGS)


@get("/alerts", media_type=JSON)
async def log_alerts(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Return the alerts of LogQL rules that are pending or firing."""
    return await _alerts(request, services, LOGS)


ALERT_HANDLERS = (rules, alerts)
log_alerts_router = Router(
    "/loki/prometheus/api/v1",
    route_handlers=[log_rules, log_alerts],
    guards=[require_reader],
    exception_handlers=handlers(respond_like_loki),
    tags=["loki"],
)


async def _rules(
    request: Request[Any, Any, Any], services: Services, languages: frozenset[RuleLanguage]
) -> Response[bytes]:
    fields = await read_fields(request)
    wanted, without_alerts = _filter(fields, languages), _flag(fields, "exclude_alerts")
    limit, token = _paging(fields)
    found = await groups_of(services, caller(request.state).org)
    page = page_of(list(rules_json(found, wanted, with_alerts=not without_alerts)), limit, token)
    if page is None:
        raise BadParameterError(
            "group_next_token", f"no group has the token {token!r}; its rules may have changed"
        )
    shown, following = page
    data: dict[str, object] = {"groups": shown}
    if following:
        data["groupNextToken"] = following
    return _reply(data)


async def _alerts(
    request: Request[Any, Any, Any], services: Services, languages: frozenset[RuleLanguage]
) -> Response[bytes]:
    found = await groups_of(services, caller(request.state).org)
    return _reply({"alerts": list(alerts_json(found, languages))})


async def groups_of(services: Services, org: str) -> list[ShownGroup]:
    """Return the groups of an organisation with their last evaluations."""
    rule_set, records, recorded = await services.locator.rule_groups(org)
    default_ms = round(services.settings.ruler_interval_s * 1000)
    return shown_groups(rule_set.rules, records, default_ms, recorded)


def _filter(fields: RequestFields, languages: frozenset[RuleLanguage]) -> RuleFilter:
    kind = fields.text("type").lower()
    if kind not in _KINDS:
        raise BadParameterError("type", f"expected alert or record, found {kind!r}")
    chosen = fields.all("match[]", "match")
    return RuleFilter(
        _KINDS[kind],
        frozenset(fields.all("rule_name[]", "rule_name")),
        frozenset(fields.all("rule_group[]", "rule_group")),
        frozenset(fields.all("file[]", "file")),
        selectors(chosen) if chosen else (),
        languages,
    )


def _flag(fields: RequestFields, name: str) -> bool:
    text = fields.text(name).lower()
    if text not in _FLAGS:
        raise BadParameterError(name, f"expected true or false, found {text!r}")
    return _FLAGS[text]


def _paging(fields: RequestFields) -> tuple[int, str]:
    """Return the number of groups of a page (0: all), and the token of its first one."""
    text, token = fields.text("group_limit"), fields.text("group_next_token")
    if not text:
        if token:
            raise BadParameterError("group_next_token", "group_limit is missing beside it")
        return 0, ""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**31):
        raise BadParameterError("group_limit", f"expected a number greater than 0, found {text!r}")
    return int(text), token


def _reply(data: dict[str, object]) -> Response[bytes]:
    return Response(success(msgspec.json.encode(data)), media_type=JSON)
