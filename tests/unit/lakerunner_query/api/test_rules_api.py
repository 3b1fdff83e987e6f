"""Rules over HTTP: our own API, and those of the rulers of Mimir and Loki."""

from __future__ import annotations

import gzip
import hashlib
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from litestar.testing import TestClient

from lakerunner_query.app import create_app
from resources.index.memory import MemoryIndex
from resources.index.query_log import AskedQuery
from resources.lake.timecut import DAY_NS, cut
from resources.settings import Settings
from tests.support.corpora import CORPORA

OURS, MIMIR, LOKI = "/api/v1/rules", "/prometheus/config/v1/rules", "/loki/api/v1/rules"
ADMIN, READER, OTHER, WRITER = ({"Api-Key": key} for key in ("admin", "read", "other", "write"))
PROM_FILE = "groups: [{name: g, interval: 1m, rules: [{record: 'a:b', expr: sum(up)}]}]"
GROUP = """name: g
interval: 1m
rules:
- alert: Down
  expr: up == 0
  for: 5m
  labels:
    severity: page
  annotations:
    summary: '{{ $labels.job }} is down'
"""
LOG_GROUP = 'name: logs\nrules:\n    - record: lines\n      expr: sum(rate({app="x"}[1m]))\n'
UNCLOSED = "1:5: parse error: unclosed left parenthesis"
ERRORS = "{metric: m, from: logs, select: '{a=\"b\"}'}"
ONE = {"namespace": "a", "group": "one"}
TWO = "namespace: a\ngroups: [{name: one}, {name: two}]\n"
RULES = CORPORA / "rules"
Http = TestClient[Any]


@pytest.fixture
def http() -> Iterator[Http]:
    index = MemoryIndex()
    for org, role, key in (
        ("acme", "admin", "admin"), ("acme", "read", "read"), ("acme", "write", "write"),
        ("beta", "admin", "other"),
    ):  # fmt: skip
        index.create_organisation(org)
        index.create_api_key(org, role, key, hashlib.sha256(key.encode()).digest(), None)
    settings = Settings(internal_token="t", worker_urls="http://127.0.0.1:1")
    with TestClient(create_app(settings, index)) as found:
        yield found


def apply(http: Http, *texts: str, **more: object) -> Any:
    files = [{"name": f"{n}.yaml", "namespace": "ns", "text": text} for n, text in enumerate(texts)]
    return http.post(OURS, json={"files": files, **more}, headers=ADMIN)


def names(http: Http, headers: dict[str, str] = ADMIN) -> list[tuple[str, str]]:
    return [(one["namespace"], one["name"]) for one in http.get(OURS, headers=headers).json()["rules"]]


def test_files_are_applied_once_with_what_they_change(http: Http) -> None:
    first = apply(http, PROM_FILE, dry_run=True).json()
    assert (first["revision"], [(c["action"], c["place"]) for c in first["changes"]]) == (
        0, [("add", "group ns/g")],
    )  # fmt: skip
    assert names(http) == []
    assert apply(http, PROM_FILE).json()["revision"] == 1
    assert apply(http, PROM_FILE).json() == {"revision": 1, "changes": [], "warnings": []}
    changed = apply(http, PROM_FILE.replace("sum(up)", "max(up)")).json()
    assert (changed["revision"], changed["changes"][0]["action"]) == (2, "change")
    assert "-  expr: sum(up)" in changed["changes"][0]["diff"]
    assert "+  expr: max(up)" in changed["changes"][0]["diff"]
    (rule,) = http.get(OURS, headers=READER).json()["rules"]
    versions = http.get(f"{OURS}/{rule['id']}/versions", headers=READER).json()["versions"]
    assert [one["version"] for one in versions] == [2, 1]
    assert http.get(f"{OURS}/{rule['id']}/versions", headers=OTHER).status_code == 404


def test_all_faults_of_all_files_refuse_everything(http: Http) -> None:
    found = apply(http, PROM_FILE, "groups:\n- name: x\n  rules:\n  - {record: a, expr: 'sum('}", "groups: 3")
    assert found.status_code == 400
    assert found.json()["code"] == "invalid_rules"
    assert found.json()["message"].split("\n") == [
        '1.yaml:4: group "x", rule 1, "a": could not parse expression: ' + UNCLOSED,
        "2.yaml:1: cannot unmarshal !!int `3` into []rulefmt.RuleGroup",
    ]
    assert names(http) == []


def test_files_prune_only_where_they_fill(http: Http) -> None:
    apply(
        http, "namespace: a\ngroups: [{name: one}, {name: two}]\n---\nnamespace: b\ngroups: [{name: three}]"
    )
    apply(http, f"materialize: [{ERRORS}]")
    pruned = apply(http, "namespace: a\ngroups: [{name: two}]", prune=True).json()
    assert [(c["action"], c["place"]) for c in pruned["changes"]] == [("remove", "group a/one")]
    assert names(http) == [("", "m"), ("a", "two"), ("b", "three")]


def test_derived_metrics_do_not_clash_with_those_that_are_there(http: Http) -> None:
    assert apply(http, f"materialize: [{ERRORS[:-1]}, value: n}}]").status_code == 200
    found = apply(http, "materialize: [{metric: m_max, from: logs, select: '{a=\"b\"}'}]")
    assert found.status_code == 400
    assert '"m" has a series m_max, too' in found.json()["message"]


def test_an_outdated_revision_is_refused(http: Http) -> None:
    apply(http, PROM_FILE)
    found = apply(http, PROM_FILE.replace("1m", "2m"), revision=0)
    assert (found.status_code, found.json()["code"]) == (409, "outdated_rules")
    assert apply(http, PROM_FILE.replace("1m", "2m"), revision=1).status_code == 200


def test_what_is_shown_as_yaml_applies_as_it_is(http: Http) -> None:
    apply(http, PROM_FILE, "materialize: [{metric: m, from: traces, select: '{ }', keep: [name]}]")
    text = http.get(OURS, params={"format": "yaml"}, headers=READER).text
    assert apply(http, text).json()["changes"] == []
    assert [
        one["name"] for one in http.get(OURS, params={"kind": "derived"}, headers=READER).json()["rules"]
    ] == ["m"]


def test_rules_are_deleted_by_name(http: Http) -> None:
    apply(
        http,
        f"{TWO}materialize: [{ERRORS}]",
    )
    assert http.delete(OURS, params={"metric": "m"}, headers=ADMIN).json() == {"deleted": 1}
    assert http.delete(OURS, params=ONE, headers=ADMIN).json() == {"deleted": 1}
    assert http.delete(OURS, params=ONE, headers=ADMIN).status_code == 404
    assert http.delete(OURS, params={"namespace": "a"}, headers=ADMIN).json() == {"deleted": 1}
    assert http.delete(OURS, headers=ADMIN).status_code == 400


@pytest.mark.parametrize("headers", [READER, WRITER, {}])
def test_only_administrators_change_rules(http: Http, headers: dict[str, str]) -> None:
    status = 403 if headers else 401
    assert http.post(OURS, json={"files": []}, headers=headers).status_code == status
    assert http.delete(OURS, params={"metric": "m"}, headers=headers).status_code == status
    for api in (MIMIR, LOKI):
        assert http.post(f"{api}/ns", content=GROUP, headers=headers).status_code == status
        assert http.delete(f"{api}/ns", headers=headers).status_code == status
        assert http.get(api, headers=headers).status_code == (404 if headers == READER else status)


def test_organisations_do_not_meet(http: Http) -> None:
    apply(http, PROM_FILE)
    assert http.get(f"{MIMIR}/ns/g", headers=OTHER).status_code == 404
    assert http.delete(f"{MIMIR}/ns/g", headers=OTHER).status_code == 404
    assert http.delete(OURS, params={"namespace": "ns"}, headers=OTHER).status_code == 404
    assert names(http, OTHER) == []
    assert http.post(f"{MIMIR}/ns", content=GROUP, headers=OTHER).status_code == 202
    assert http.get(f"{MIMIR}/ns/g", headers=READER).text != http.get(f"{MIMIR}/ns/g", headers=OTHER).text


def test_mimirtool_loads_lists_and_deletes(http: Http) -> None:
    """Requests as `mimirtool rules load|list|get|diff|delete` sends them."""
    yaml_type = {**ADMIN, "Content-Type": "application/yaml"}
    assert http.get(MIMIR, headers=ADMIN).status_code == 404
    assert http.get(MIMIR, headers=ADMIN).text == "no rule groups found\n"
    stored = http.post(f"{MIMIR}/ns", content=GROUP, headers=yaml_type)
    assert (stored.status_code, stored.json()["status"]) == (202, "success")
    assert http.get(f"{MIMIR}/ns/g", headers=ADMIN).text == GROUP
    listed = http.get(MIMIR, headers=ADMIN)
    assert listed.headers["content-type"].startswith("application/yaml")
    assert yaml.safe_load(listed.text) == {"ns": [yaml.safe_load(GROUP)]}
    assert http.get(f"{MIMIR}/ns", headers=ADMIN).text == listed.text
    assert http.get(f"{MIMIR}/other", headers=ADMIN).status_code == 404
    assert http.get(f"{MIMIR}/ns/none", headers=ADMIN).text == "group does not exist\n"
    assert http.delete(f"{MIMIR}/ns/g", headers=ADMIN).status_code == 202
    assert http.delete(f"{MIMIR}/ns/g", headers=ADMIN).text == "group does not exist\n"
    assert http.delete(f"{MIMIR}/ns", headers=ADMIN).text == "group namespace does not exist\n"


@pytest.mark.parametrize("name", ["a/b", "ä b", "x%2Fy", "q?", "+"])
def test_names_may_have_any_characters(http: Http, name: str) -> None:
    there = quote(name, safe="")
    body = yaml.safe_dump({"name": name, "rules": []}, allow_unicode=True).encode()
    assert http.post(f"{MIMIR}/{there}", content=body, headers=ADMIN).status_code == 202
    assert names(http) == [(name, name)]
    assert yaml.safe_load(http.get(f"{MIMIR}/{there}/{there}", headers=ADMIN).text)["name"] == name
    assert http.delete(f"{MIMIR}/{there}/{there}", headers=ADMIN).status_code == 202
    assert names(http) == []


def test_a_group_that_is_none_is_refused_with_its_line(http: Http) -> None:
    found = http.post(f"{MIMIR}/ns", content="name: g\nrules:\n- {alert: A, expr: 'sum('}", headers=ADMIN)
    assert (found.status_code, found.text) == (
        400,
        'line 3: group "g", rule 1, "A": could not parse expression: ' + UNCLOSED,
    )
    assert http.post(MIMIR, content=GROUP, headers=ADMIN).status_code == 400
    assert http.post(f"{MIMIR}/a/b/c", content=GROUP, headers=ADMIN).status_code == 404


@pytest.mark.parametrize("loki", [LOKI, "/api/prom/rules"])
def test_loki_and_mimir_see_their_own_languages(http: Http, loki: str) -> None:
    assert http.post(f"{loki}/ns", content=LOG_GROUP, headers=ADMIN).status_code == 202
    assert http.post(f"{MIMIR}/ns", content=GROUP, headers=ADMIN).status_code == 202
    assert yaml.safe_load(http.get(f"{loki}/ns/logs", headers=ADMIN).text)["rules"][0]["record"] == "lines"
    assert [g["name"] for g in yaml.safe_load(http.get(MIMIR, headers=ADMIN).text)["ns"]] == ["g"]
    taken = http.post(f"{MIMIR}/ns", content=GROUP.replace("name: g", "name: logs"), headers=ADMIN)
    assert (taken.status_code, "is a group in logql" in taken.text) == (409, True)
    other = http.post(f"{MIMIR}/ns", content=LOG_GROUP + "language: logql\n", headers=ADMIN)
    assert (other.status_code, LOKI in other.text) == (400, True)
    assert http.delete(f"{loki}/ns", headers=ADMIN).status_code == 202
    assert names(http) == [("ns", "g")]


def test_grafana_learns_that_rules_can_be_edited(http: Http) -> None:
    found = http.get("/prometheus/api/v1/status/buildinfo", headers=READER).json()
    assert found["data"]["features"] == {"ruler_config_api": "true"}


MIXINS = (
    "kube-prometheus", "node-mixin", "prometheus-mixin", "thanos-mixin", "tempo-mixin", "loki-mixin",
)  # fmt: skip


@pytest.mark.skipif(not RULES.is_dir(), reason=f"no rule files of others in {RULES}")
@pytest.mark.parametrize("mixin", MIXINS)
def test_public_mixins_load_through_both_apis_and_come_back(http: Http, mixin: str) -> None:
    for path in sorted((RULES / "load" / mixin).rglob("*.y*ml*")):
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        groups = yaml.safe_load(text)["groups"]
        file = {"name": path.name, "namespace": path.stem, "text": text.decode()}
        for group in groups:
            body = yaml.safe_dump(group).encode()
            assert http.post(f"{MIMIR}/{path.stem}", content=body, headers=ADMIN).status_code == 202
        applied = http.post(OURS, json={"files": [file]}, headers=ADMIN)
        assert (applied.status_code, applied.json()["changes"]) == (200, []), path
        back = yaml.safe_load(http.get(f"{MIMIR}/{path.stem}", headers=ADMIN).text)[path.stem]
        again = {"name": "back", "namespace": path.stem, "text": yaml.safe_dump({"groups": back})}
        assert http.post(OURS, json={"files": [again]}, headers=ADMIN).json()["changes"] == []


def test_rules_are_suggested_to_the_organisation_that_asked(http: Http) -> None:
    today = cut(time.time_ns(), DAY_NS)
    text = 'sum(rate({app="x"} |= "lost"[5m]))'
    asked = AskedQuery("acme", today, "logql", text, True, 10, 0, 5.0, 1e9, 10, 36_000.0, 1)
    http.app.state.services.locator._index.add_asked([asked], 10)
    found = http.get(f"{OURS}/suggestions", headers=READER).json()
    (one,) = found["proposals"]
    assert (one["metric"], one["queries"], one["asked"], one["series"]) == ("x_lost", [text], 10, 1)
    assert one["document"] == {"metric": "x_lost", "source": "logs", "select": '{app="x"} |= "lost"'}
    shown = http.get(f"{OURS}/suggestions", params={"format": "yaml", "since": "1h"}, headers=READER).text
    assert yaml.safe_load(shown)["materialize"] == [
        {"metric": "x_lost", "from": "logs", "select": '{app="x"} |= "lost"'}
    ]
    assert found["file"] == shown
    assert [one["action"] for one in apply(http, shown).json()["changes"]] == ["add"]
    assert http.get(f"{OURS}/suggestions", headers=READER).json()["has_rules"] == 1
    assert http.get(f"{OURS}/suggestions", headers=OTHER).json() == {
        "proposals": [], "unserved": [], "has_rules": 0, "file": "",
    }  # fmt: skip
    assert http.get(f"{OURS}/suggestions", headers=WRITER).status_code == 403
    assert http.get(f"{OURS}/suggestions", params={"since": "x"}, headers=READER).status_code == 400


def test_a_suggested_name_is_one_that_no_rule_records(http: Http) -> None:
    apply(http, "groups: [{name: g, rules: [{record: x_lost, expr: sum(up)}]}]")
    today = cut(time.time_ns(), DAY_NS)
    asked = AskedQuery(
        "acme", today, "logql", 'sum(rate({app="x"} |= "lost"[5m]))', True, 10, 0, 5.0, 1e9, 10, 36_000.0, 1
    )
    http.app.state.services.locator._index.add_asked([asked], 10)
    (one,) = http.get(f"{OURS}/suggestions", headers=READER).json()["proposals"]
    assert one["metric"] == "x_lost_2"
