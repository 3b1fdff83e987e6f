"""Objects put and announced become answers, for the right organisation, exactly once."""

from __future__ import annotations

import time

import pytest

from benchmarks.traffic import ROWS, Traffic, lake_content, run_counts, unfinished
from resources.settings import Settings
from tests.support.http_client import call, key_header, query_url, stream
from tests.support.patience import wait_for
from tests.support.stack_fixture import dagster_key

pytestmark = [pytest.mark.integration, pytest.mark.slow]
OBJECTS = 9


@pytest.fixture(scope="module")
def runs_before(stack: Settings) -> int:
    return sum(run_counts(stack).values())


@pytest.fixture(scope="module")
def cooked(stack: Settings, runs_before: int) -> Traffic:
    """Nine objects for three organisations of their own, all of them visible."""
    traffic = Traffic(stack, ("red", "green", "blue"))
    traffic.prepare()
    for number in range(OBJECTS):
        traffic.send(number)
    for place, org in enumerate(traffic.orgs):
        wanted = {number for number in range(OBJECTS) if number % len(traffic.orgs) == place}
        wait_for(lambda org=org, wanted=wanted: traffic.visible(org) >= wanted, what=f"objects of {org}")
    return traffic


def loki(settings: Settings, key: str, query: str, **more: object) -> list[list[str]]:
    now = time.time_ns()
    window = {"start": now - 3600 * 10**9, "end": now + 60 * 10**9, "limit": 1000}
    url = query_url(settings, "/loki/api/v1/query_range", query=query, **{**window, **more})
    status, body = call(url, headers=key_header(key))
    assert status == 200, body
    return [value for found in body["data"]["result"] for value in found["values"]]


def test_every_row_is_in_the_lake_exactly_once(cooked: Traffic) -> None:
    content = lake_content(cooked.settings, cooked.orgs, cooked.service)
    assert content.messages == cooked.expected()
    assert content.rows == content.distinct_row_ids == OBJECTS * ROWS


def test_nothing_is_left_pending(cooked: Traffic) -> None:
    wait_for(lambda: unfinished(cooked.settings)["objects"] == 0, what="an empty queue")


def test_a_handful_of_objects_does_not_cost_a_run_each(cooked: Traffic, runs_before: int) -> None:
    """The safety-net schedule may run beside it."""
    assert sum(run_counts(cooked.settings).values()) - runs_before <= OBJECTS // 3


def test_an_organisation_sees_its_own_rows_only(cooked: Traffic) -> None:
    for place, org in enumerate(cooked.orgs):
        lines = loki(cooked.settings, cooked.keys[org], f'{{service_name="{cooked.service}"}}')
        assert len(lines) == OBJECTS // len(cooked.orgs) * ROWS
        assert {int(value[1].split()[-1]) % len(cooked.orgs) for value in lines} == {place}


def test_line_filters_limit_and_direction(cooked: Traffic) -> None:
    key, selector = cooked.keys["red"], f'{{service_name="{cooked.service}"}}'
    newest = loki(cooked.settings, key, selector, limit=5)
    oldest = loki(cooked.settings, key, selector, limit=5, direction="forward")
    assert [int(v[0]) for v in newest] == sorted((int(v[0]) for v in newest), reverse=True)
    assert [int(v[0]) for v in oldest] == sorted(int(v[0]) for v in oldest)
    assert int(oldest[0][0]) < int(newest[-1][0])
    assert len(loki(cooked.settings, key, f'{selector} |= "row 0 of" != "object 3"')) == 2
    assert len(loki(cooked.settings, key, f'{selector} |~ "row (1|2) of" !~ "object [36]$"')) == 2


def test_sse_and_loki_give_the_same_rows(cooked: Traffic) -> None:
    key, query = cooked.keys["green"], f'{{service_name="{cooked.service}"}} |= "row 7 of"'
    events = stream(cooked.settings, key, {"q": query, "s": "now-1h", "e": "now", "limit": 100})
    assert events[-1]["type"] == "done"
    assert events[-1]["data"]["status"] == "complete"
    rows = [event["data"] for event in events if event["type"] == "result"]
    assert len(rows) == len(loki(cooked.settings, key, query)) == OBJECTS // 3


def test_partitions_of_the_organisations_appeared_by_themselves(cooked: Traffic) -> None:
    query = """query { assetNodeOrError(assetKey: {path: ["cooked", "logs"]}) { ... on AssetNode {
        partitionKeysByDimension(startIdx: 0, endIdx: 100) { name partitionKeys } } } }"""
    url = f"http://127.0.0.1:{cooked.settings.webserver_port}/graphql"
    assert call(url, {"query": query})[0] == 401
    _, body = call(url, {"query": query}, dagster_key(cooked.settings))
    dimensions = body["data"]["assetNodeOrError"]["partitionKeysByDimension"]
    orgs = next(d["partitionKeys"] for d in dimensions if d["name"] == "org")
    assert set(cooked.orgs) <= set(orgs)
