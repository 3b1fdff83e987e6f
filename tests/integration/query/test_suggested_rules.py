"""Queries of a dashboard suggest rules; once these are derived, the same queries are answered from them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from litestar.testing import TestClient

from lakerunner_query.app import create_app
from resources.index.postgres import PostgresIndex
from resources.lake.frequency import AS_SENT
from resources.lake.layout import Signal
from resources.lake.timecut import SECOND_NS
from resources.settings import Settings
from tests.support.cooking_lake import Lake as CookedLake
from tests.support.materialized.rules import derive_rules
from tests.support.patience import wait_for
from tests.support.query.lake import BASE, Client, Lake, Line, start_workers

pytestmark = pytest.mark.integration
SERVICES = ("web", "shop", "cart", "pay")
PANELS = (
    *(f'sum by (region)(count_over_time({{service_name="{one}"}} |= "failed"[5m]))' for one in SERVICES),
    'avg_over_time({service_name=~".+"} | logfmt | unwrap took[5m]) by (service_name)',
    'sum(rate({service_name="web"} |= "failed"[1m])) / sum(rate({service_name="web"}[1m]))',
)
UNSERVED = 'topk(2,sum by (service_name)(sum_over_time({service_name=~".+"} | logfmt | unwrap took[5m])))'
LINES, EVERY_NS = 35_000, SECOND_NS // 10


@pytest.fixture
def filled(
    lake_home: object, postgres_index: PostgresIndex, tmp_path_factory: pytest.TempPathFactory
) -> Lake:
    lake = Lake(tmp_path_factory.mktemp("lake"), postgres_index)
    for org in ("acme", "beta"):
        lake.add_org(org, f"key-{org}")
    postgres_index.create_api_key("acme", "admin", "rules", hashlib.sha256(b"admin").digest(), None)
    lake.write("acme", [_line(number) for number in range(1, LINES)])
    return lake


def _line(number: int) -> Line:
    outcome = "failed" if number % 51 == 7 else "done"
    text = f"order {number} {outcome} took={number % 90} " + f"trace={number * 7919 % 1_000_003:x} " * 3
    region = ("eu", "us")[number % 3 == 0]
    return Line(number * EVERY_NS, text, SERVICES[number % 4], resource={"region": region})


@pytest.fixture
def client(filled: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    for stack in start_workers(tmp_path_factory.mktemp("data"), filled.folder, 1):
        with TestClient(create_app(stack.settings, filled.index)) as http:
            yield Client(http, "key-acme")


def ask(client: Client, query: str, **more: object) -> dict[Any, dict[float, float]]:
    first, last = BASE + 600 * SECOND_NS, BASE + 3000 * SECOND_NS
    found = client.loki(query, start=first, end=last, step=60, **more)
    assert found.status_code == 200, found.text
    return {
        tuple(sorted(one["metric"].items())): {at: float(value) for at, value in one["values"]}
        for one in found.json()["data"]["result"]
    }


def suggestions(client: Client, **headers: str) -> Any:
    found = client.http.get("/api/v1/rules/suggestions", headers=headers or client.headers)
    assert found.status_code == 200, found.text
    return found.json()


def test_a_dashboard_suggests_the_rules_that_answer_it(client: Client, filled: Lake, tmp_path: Path) -> None:
    before = {text: ask(client, text) for text in PANELS}
    ask(client, UNSERVED)
    found = wait_for(lambda: _of_all(client), "the query log is sent")
    assert [one["query"] for one in found["unserved"]] == [UNSERVED]
    by_select = {one["document"]["select"]: one for one in found["proposals"]}
    errors = by_select['{service_name=~"cart|pay|shop|web"} |= "failed"']
    assert errors["document"]["keep"] == ["region", "service_name"]
    assert errors["asked"] == 5
    assert errors["saved_bytes"] > 0 < errors["saved_seconds"]
    assert suggestions(client, **{"x-cardinalhq-api-key": "key-beta"})["proposals"] == []

    body = {"files": [{"text": found["file"]}]}
    applied = client.http.post("/api/v1/rules", json=body, headers={"Api-Key": "admin"})
    assert applied.status_code == 200, applied.text
    _derive(filled, tmp_path)
    for text in PANELS:
        wait_for(lambda text=text: _is_served(client, text), f"{text} is served")  # type: ignore[misc]
        after = ask(client, text)
        assert after.keys() == before[text].keys() != set()
        for series, points in before[text].items():
            assert after[series].keys() == points.keys()
            assert all(math.isclose(after[series][at], value, rel_tol=1e-12) for at, value in points.items())
    assert suggestions(client)["proposals"] == []


def _of_all(client: Client) -> Any:
    """Return the suggestions once all queries are in the log."""
    found = suggestions(client)
    asked = {text for one in found["proposals"] for text in one["queries"]}
    is_whole = found["unserved"] and len(asked) == len(PANELS)
    return found if is_whole else None


def _is_served(client: Client, text: str) -> bool:
    times = {"s": str(BASE + 600 * SECOND_NS), "e": str(BASE + 3000 * SECOND_NS), "step": "1m"}
    body = {"q": text, **times}
    plan = client.http.post("/api/v1/logs/explain", json=body, headers=client.headers).text
    return "rewritten: " in plan and "from records: 0" in plan


def _derive(lake: Lake, folder: Path) -> None:
    settings = Settings(data_dir=folder, lake_url=f"file://{lake.folder}")
    hours = sorted(p.start_ns for p in lake.index.partitions("acme", Signal.LOGS, AS_SENT))
    derive_rules(CookedLake(folder, settings, lake.index), Signal.LOGS, hours, force=True)  # type: ignore[arg-type]
