"""Rules over HTTP with their catalog in PostgreSQL: files, versions, and many who change at once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml
from litestar.testing import TestClient

from lakerunner_query.app import create_app
from resources.index.postgres import PostgresIndex
from resources.settings import Settings

pytestmark = pytest.mark.integration
OURS, MIMIR = "/api/v1/rules", "/prometheus/config/v1/rules"
ADMIN = {"Api-Key": "admin"}
FILE = """namespace: shop
groups:
- name: errors
  interval: 1m
  labels: {z: "1", a: "2"}
  rules:
  - {record: 'shop:up', expr: sum(up), labels: {z: x, a: é}}
  - {alert: Down, expr: 'up == 0', for: 5m, annotations: {summary: '{{ $value }}', about: ''}}
materialize:
- {metric: shop_errors, from: logs, select: '{app="shop"} |= "error"', keep: [service_name, app]}
"""


@pytest.fixture
def http(postgres_index: PostgresIndex) -> Iterator[TestClient[Any]]:
    for org in ("acme", "beta"):
        postgres_index.create_organisation(org)
    postgres_index.create_api_key("acme", "admin", "k", hashlib.sha256(b"admin").digest(), None)
    postgres_index.create_api_key("beta", "admin", "k", hashlib.sha256(b"other").digest(), None)
    settings = Settings(internal_token="t", worker_urls="http://127.0.0.1:1")
    with TestClient(create_app(settings, postgres_index)) as found:
        yield found


def apply(http: TestClient[Any], text: str) -> Any:
    found = http.post(OURS, json={"files": [{"text": text}]}, headers=ADMIN)
    assert found.status_code == 200, found.text
    return found.json()


def test_a_file_is_applied_once_and_comes_back(http: TestClient[Any]) -> None:
    assert [one["place"] for one in apply(http, FILE)["changes"]] == [
        "group shop/errors",
        "metric shop_errors",
    ]
    assert apply(http, FILE)["changes"] == []
    shown = http.get(OURS, params={"format": "yaml"}, headers=ADMIN).text
    assert apply(http, shown) == {"revision": 1, "changes": [], "warnings": []}
    group = yaml.safe_load(http.get(f"{MIMIR}/shop/errors", headers=ADMIN).text)
    assert http.post(f"{MIMIR}/shop", content=yaml.safe_dump(group), headers=ADMIN).status_code == 202
    assert apply(http, FILE)["revision"] == 1
    assert http.get(OURS, headers={"Api-Key": "other"}).json() == {"revision": 0, "rules": []}


def test_a_deleted_rule_comes_back_with_its_history(http: TestClient[Any]) -> None:
    apply(http, FILE)
    assert http.delete(OURS, params={"metric": "shop_errors"}, headers=ADMIN).json() == {"deleted": 1}
    apply(http, FILE)
    (metric,) = http.get(OURS, params={"kind": "derived"}, headers=ADMIN).json()["rules"]
    versions = http.get(f"{OURS}/{metric['id']}/versions", headers=ADMIN).json()["versions"]
    assert [(one["version"], one["retired"]) for one in versions] == [(3, False), (2, True), (1, False)]


def test_many_who_change_at_once_all_succeed(http: TestClient[Any]) -> None:
    def post(number: int) -> int:
        body = f"name: g{number}\nrules: []\n"
        return http.post(f"{MIMIR}/ns", content=body, headers=ADMIN).status_code

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(post, range(8))) == {202}
    assert len(http.get(OURS, headers=ADMIN).json()["rules"]) == 8
