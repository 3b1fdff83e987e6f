"""The configuration APIs of Mimir's and Loki's rulers: groups by namespace, YAML in and out.

/prometheus/config/v1/rules[/{namespace}[/{group}]]     groups in all languages but LogQL
/loki/api/v1/rules[/{namespace}[/{group}]]              groups in LogQL
/api/prom/rules[/{namespace}[/{group}]]                 the same: Grafana edits a Loki source's rules here

A namespace or a group may have any characters, slashes too: `a%2Fb` is one part of the address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from anyio.to_thread import run_sync
from litestar import Request, Response, Router, delete, get, post

from lakerunner_query.api.loki.render import respond_like_loki
from lakerunner_query.api.shared.auth import caller, require_admin, require_reader
from lakerunner_query.api.shared.services import Services
from lakerunner_query.coordinator.rule_book import RuleBook
from lakerunner_query.errors import InvalidRequestError, NotFoundError
from lakerunner_query.rules.catalog import group_of
from lakerunner_query.rules.documents import RuleGroup, RuleLanguage
from lakerunner_query.rules.printing import group_yaml, groups_yaml
from lakerunner_query.rules.rule_files import FileForm, RuleFileError, read_group
from lakerunner_query.serving import handlers
from resources.index.rule_types import RuleKind, StoredRule
from resources.yaml_nodes import Fault

YAML = "application/yaml"
MIMIR, LOKI, OLD_LOKI = "/prometheus/config/v1/rules", "/loki/api/v1/rules", "/api/prom/rules"
NO_GROUPS = "no rule groups found\n"
NO_GROUP = "group does not exist\n"
NO_NAMESPACE = "group namespace does not exist\n"
_REST = "/{rest:path}"
_DONE: dict[str, object] = {"status": "success", "data": None, "errorType": "", "error": ""}
Http = Request[Any, Any, Any]


def _language(request: Http) -> RuleLanguage:
    """Return the language of groups that name none, by the API."""
    return RuleLanguage.PROMQL if request.url.path.startswith(MIMIR) else RuleLanguage.LOGQL


def _belongs(request: Http) -> Callable[[StoredRule], bool]:
    """Choose the groups that an API shows."""
    is_loki = _language(request) is RuleLanguage.LOGQL

    def choose(stored: StoredRule) -> bool:
        is_group = stored.kind is RuleKind.GROUP
        return is_group and (group_of(stored).language is RuleLanguage.LOGQL) == is_loki

    return choose


def _parts(request: Http) -> list[str]:
    """Return namespace and group of the address, as far as they are there."""
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    path = raw.decode("latin-1").partition("?")[0]
    behind = path.partition("/rules")[2].strip("/")
    parts = [unquote(part) for part in behind.split("/")] if behind else []
    if len(parts) > 2 or not all(parts):
        raise NotFoundError(
            f"expected /rules, /rules/NAMESPACE or /rules/NAMESPACE/GROUP, found /rules/{behind[:200]}"
        )
    return parts


@get(["/", _REST])
async def show(request: Http, services: Services) -> Response[str]:
    """Return all groups, those of a namespace, or one."""
    parts, chosen = _parts(request), _belongs(request)
    found = await RuleBook(services.locator).rules(caller(request.state).org)
    groups = [(one.namespace, group_of(one)) for one in found.rules if chosen(one)]
    if len(parts) == 2:
        named = [group for namespace, group in groups if [namespace, group.name] == parts]
        if not named:
            raise NotFoundError(NO_GROUP)
        return Response(group_yaml(named[0]), media_type=YAML)
    groups = [one for one in groups if not parts or one[0] == parts[0]]
    if not groups:
        raise NotFoundError(NO_GROUPS)
    return Response(groups_yaml(groups), media_type=YAML)


@post(["/", _REST], status_code=202, guards=[require_admin])
async def put(request: Http, services: Services) -> dict[str, object]:
    """Add or replace the group of the body in a namespace."""
    parts = _parts(request)
    if len(parts) != 1:
        raise InvalidRequestError("expected POST /rules/NAMESPACE with one group as YAML")
    body = await request.body()
    group = await run_sync(lambda: _group(request, body, services))
    await RuleBook(services.locator).put_group(caller(request.state).org, parts[0], group)
    return _DONE


@delete(["/", _REST], status_code=202, guards=[require_admin])
async def remove(request: Http, services: Services) -> dict[str, object]:
    """Delete a group, or all groups of a namespace."""
    parts, belongs = _parts(request), _belongs(request)
    if not parts:
        raise InvalidRequestError("expected DELETE /rules/NAMESPACE or /rules/NAMESPACE/GROUP")

    def chosen(stored: StoredRule) -> bool:
        return belongs(stored) and [stored.namespace, stored.name][: len(parts)] == parts

    missing = NO_GROUP if len(parts) == 2 else NO_NAMESPACE
    await RuleBook(services.locator).drop(caller(request.state).org, chosen, missing)
    return _DONE


def _group(request: Http, body: bytes, services: Services) -> RuleGroup:
    language = _language(request)
    group = read_group(body, FileForm(language, features=services.features))
    if (group.language is RuleLanguage.LOGQL) != (language is RuleLanguage.LOGQL):
        where = LOKI if group.language is RuleLanguage.LOGQL else MIMIR
        raise RuleFileError.of([Fault(group.line, f"groups in {group.language} belong to {where}")])
    return group


def _router(path: str, tag: str) -> Router:
    return Router(
        path,
        route_handlers=[show, put, remove],
        guards=[require_reader],
        exception_handlers=handlers(respond_like_loki),
        tags=[tag],
    )


mimir_rules_router = _router(MIMIR, "prometheus")
loki_rules_router = _router(LOKI, "loki")
old_loki_rules_router = _router(OLD_LOKI, "loki")
