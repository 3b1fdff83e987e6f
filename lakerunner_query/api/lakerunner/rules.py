"""`/api/v1/rules` shows the rules of an organisation, applies files, and deletes.

POST /api/v1/rules   {"files": [{"name": "shop.yaml", "text": "groups: …"}], "dry_run": true}

    {"revision": 4, "changes": [{"action": "add", "kind": "group", "namespace": "shop", …}], "warnings": […]}

Files are YAML or JSON; all of them are applied, or none. Faults name file and line.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import msgspec
from anyio.to_thread import run_sync
from litestar import Request, Response, Router, delete, get, post

from lakerunner_query.api.lakerunner.service_map import interval_ms
from lakerunner_query.api.prometheus.alerts import groups_of
from lakerunner_query.api.shared.auth import caller, require_admin, require_reader
from lakerunner_query.api.shared.requests import read_fields
from lakerunner_query.api.shared.services import Services
from lakerunner_query.api.shared.times import duration_ns
from lakerunner_query.coordinator.rule_book import Applied, RuleBook
from lakerunner_query.errors import InvalidRequestError, NotFoundError
from lakerunner_query.plan.suggestions import Proposal
from lakerunner_query.rules.catalog import derived_of, group_of, to_document
from lakerunner_query.rules.changes import place_of
from lakerunner_query.rules.documents import RuleLanguage
from lakerunner_query.rules.printing import files_yaml
from lakerunner_query.rules.report import ShownGroup, rfc3339
from lakerunner_query.rules.rule_files import FileForm, RuleFile, RuleFileError, read_file
from lakerunner_query.serving import handlers, respond_plain
from resources.index.rule_types import RuleKind, RuleSet, StoredRule
from resources.index.ruling_types import AlertCorrection

YAML = "application/yaml"
RECENTLY = "7d"
"""Time for which the query log is read where the request names none."""
DEFAULT_NAMESPACE = "default"
"""Namespace of groups where neither the file nor the request names one."""
MOST_CORRECTIONS = 10_000
Http = Request[Any, Any, Any]


class FileBody(msgspec.Struct, forbid_unknown_fields=True):
    """A rule file of a request."""

    text: str
    name: str = "rules.yaml"
    """Name that faults show."""
    namespace: str = ""
    """Namespace of groups whose document names none."""


class ApplyBody(msgspec.Struct, forbid_unknown_fields=True):
    files: list[FileBody]
    language: RuleLanguage = RuleLanguage.PROMQL
    """Language of groups that name none."""
    prune: bool = False
    """Remove what is in none of the files: groups of their namespaces, derived metrics if they have any."""
    dry_run: bool = False
    revision: int | None = None
    """Revision over which the files are applied; another one is refused."""


@get("/")
async def show(request: Http, services: Services) -> Response[Any]:
    """Return all rules, or those of a namespace, a name or a kind; `format=yaml` as a rule file."""
    fields = await read_fields(request)
    found = await RuleBook(services.locator).rules(caller(request.state).org)
    wanted = {name: fields.text(name) for name in ("kind", "namespace", "name") if fields.text(name)}
    rules = [one for one in found.rules if all(getattr(one, name) == text for name, text in wanted.items())]
    if fields.text("format") == "yaml":
        groups = [(one.namespace, group_of(one)) for one in rules if one.kind is RuleKind.GROUP]
        derived = [derived_of(one) for one in rules if one.kind is RuleKind.DERIVED]
        return Response(files_yaml(groups, derived), media_type=YAML)
    return Response(_shown(RuleSet(found.revision, tuple(rules))))


@get("/{rule_id:int}/versions")
async def versions(request: Http, services: Services, rule_id: int) -> dict[str, object]:
    """Return the versions of a rule, the newest first; a deletion is one."""
    found = await services.locator.rule_versions(caller(request.state).org, rule_id)
    if not found:
        raise NotFoundError(f"there is no rule {rule_id}")
    return {"versions": [_rule(one) for one in found]}


@get("/history")
async def history(request: Http, services: Services) -> dict[str, object]:
    """Return what alerts missed in an interval for lack of late records, the newest first."""
    fields = await read_fields(request)
    start_ms, end_ms = interval_ms(fields.text("start"), fields.text("end"), services.settings)
    org = caller(request.state).org
    groups = {one.stored.rule_id: one for one in await groups_of(services, org)}
    found = await services.locator.alert_corrections(org, start_ms, end_ms, MOST_CORRECTIONS + 1)
    return {
        "start": str(start_ms),
        "end": str(end_ms),
        "corrections": [_correction(one, groups.get(one.rule_id)) for one in found[:MOST_CORRECTIONS]],
        "is_complete": len(found) <= MOST_CORRECTIONS,
    }


@get("/suggestions")
async def suggestions(request: Http, services: Services) -> Response[Any]:
    """Suggest derived metrics that would have served what was asked; `format=yaml` as a rule file."""
    fields = await read_fields(request)
    since_ns = time.time_ns() - duration_ns(fields.text("since") or RECENTLY)
    found = await RuleBook(services.locator).suggest(
        caller(request.state).org, since_ns, services.settings.derived_max_series
    )
    text = files_yaml([], [one.metric for one in found.proposals])
    if fields.text("format") == "yaml":
        return Response(text, media_type=YAML)
    return Response(
        {
            "proposals": [_proposed(one) for one in found.proposals],
            "unserved": [asdict(one) for one in found.unserved],
            "has_rules": found.has_rules,
            "file": text,
        }
    )


@post("/", status_code=200, guards=[require_admin])
async def apply(request: Http, services: Services, data: ApplyBody) -> dict[str, object]:
    """Apply files, or tell what they would change."""
    form = FileForm(data.language, features=services.features)
    files, warnings = await run_sync(lambda: _read(data, form))
    applied = await RuleBook(services.locator).apply(
        caller(request.state).org, files, prune=data.prune, dry_run=data.dry_run, revision=data.revision
    )
    return _changes(applied) | {"warnings": warnings}


@delete("/", status_code=200, guards=[require_admin])
async def remove(request: Http, services: Services) -> dict[str, object]:
    """Delete a derived metric (`metric`), a group, or all groups of a namespace."""
    fields = await read_fields(request)
    metric, namespace, group = fields.text("metric"), fields.text("namespace"), fields.text("group")
    if bool(metric) == bool(namespace) or (group and not namespace):
        raise InvalidRequestError("expected either metric, or namespace and perhaps group")

    def chosen(stored: StoredRule) -> bool:
        if metric:
            return stored.kind is RuleKind.DERIVED and stored.name == metric
        is_group = stored.kind is RuleKind.GROUP and stored.namespace == namespace
        return is_group and group in {"", stored.name}

    missing = f"there is no metric {metric}" if metric else f"there is no group {namespace}/{group or '*'}"
    count = await RuleBook(services.locator).drop(caller(request.state).org, chosen, missing)
    return {"deleted": count}


rules_router = Router(
    "/api/v1/rules",
    route_handlers=[show, history, suggestions, versions, apply, remove],
    guards=[require_reader],
    exception_handlers=handlers(respond_plain),  # the path is one of Prometheus', too
    tags=["rules"],
)


def _correction(found: AlertCorrection, group: ShownGroup | None) -> dict[str, object]:
    return {
        "file": "" if group is None else group.stored.namespace,
        "rule_group": "" if group is None else group.group.name,
        "alert": found.alert,
        "labels": dict(found.labels),
        "verdict": found.verdict.value,
        "from": rfc3339(found.from_ms),
        "to": rfc3339(found.to_ms),
        "value": found.value,
        "found": rfc3339(found.found_ms),
    }


def _proposed(proposal: Proposal) -> dict[str, object]:
    """Return a proposal; its rule has the form in which the index would keep it."""
    return {**asdict(proposal), "metric": proposal.metric.metric, "document": to_document(proposal.metric)}


def _read(data: ApplyBody, form: FileForm) -> tuple[list[tuple[str, RuleFile]], list[str]]:
    """Read all files to their ends; the faults of all are told together."""
    files: list[tuple[str, RuleFile]] = []
    faults: list[str] = []
    warnings: list[str] = []
    for body in data.files:
        found = read_file(body.text.encode(errors="surrogatepass"), form)
        faults += [fault.at(body.name) for fault in found.faults]
        warnings += [fault.at(body.name) for fault in found.warnings()]
        files.append((body.namespace or DEFAULT_NAMESPACE, found))
    if faults:
        raise RuleFileError(faults)
    return files, warnings


def _changes(applied: Applied) -> dict[str, object]:
    changes = [
        {
            "action": each.action.value,
            "kind": each.change.kind.value,
            "namespace": each.change.namespace,
            "name": each.change.name,
            "place": place_of(each.change),
            "diff": each.diff,
        }
        for each in applied.differences
    ]
    return {"revision": applied.revision, "changes": changes}


def _shown(found: RuleSet) -> dict[str, object]:
    return {"revision": found.revision, "rules": [_rule(one) for one in found.rules]}


def _rule(stored: StoredRule) -> dict[str, object]:
    return {
        "id": stored.rule_id,
        "kind": stored.kind.value,
        "namespace": stored.namespace,
        "name": stored.name,
        "version": stored.version,
        "created_at_ns": str(stored.created_at_ns),
        "updated_at_ns": str(stored.updated_at_ns),
        "retired": stored.retired,
        "document": stored.document,
    }
