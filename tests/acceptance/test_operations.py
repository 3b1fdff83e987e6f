"""What a person does in the Dagster UI, done through the same API: materialise, backfill, list."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from benchmarks.traffic import ROWS, Traffic, lake_content, object_bytes, raw_store
from lakerunner_assets.partitions import partition_key
from lakerunner_cli.accounts import open_index
from resources.lake.layout import Signal, raw_key
from resources.lake.timecut import HOUR_NS, hour_start, to_datetime
from resources.settings import Settings
from tests.support.http_client import call
from tests.support.patience import wait_for
from tests.support.stack_fixture import dagster_key

pytestmark = [pytest.mark.integration, pytest.mark.slow]
BACKFILL = """mutation($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) {
  __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
STATUS = """query($id: String!) { partitionBackfillOrError(backfillId: $id) {
  ... on PartitionBackfill { status error { message } } } }"""
FINISHED = {"COMPLETED", "COMPLETED_SUCCESS", "COMPLETED_FAILED", "FAILED"}


def graphql(settings: Settings, query: str, variables: dict[str, Any]) -> Any:
    url = f"http://127.0.0.1:{settings.webserver_port}/graphql"
    status, body = call(url, {"query": query, "variables": variables}, dagster_key(settings))
    assert status == 200, body
    assert "errors" not in body, body
    return body["data"]


def backfill(settings: Settings, assets: Sequence[str], keys: Sequence[str]) -> str:
    """The final status."""
    chosen = {"assetSelection": [{"path": [asset, "logs"]} for asset in assets], "partitionNames": list(keys)}
    launched = graphql(settings, BACKFILL, {"p": chosen})["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess", launched

    def status() -> str | None:
        found = graphql(settings, STATUS, {"id": launched["backfillId"]})["partitionBackfillOrError"][
            "status"
        ]
        return found if found in FINISHED else None

    return str(wait_for(status, f"the backfill of {assets}"))


def versions(settings: Settings, org: str) -> dict[int, int]:
    with open_index(settings) as desk:
        return {p.start_ns: p.version for p in desk.partitions(org, Signal.LOGS, 0)}


def test_history_that_nobody_announced_is_listed_and_cooked_by_backfill(stack: Settings) -> None:
    history = Traffic(stack, ("history",))
    history.prepare()
    start = hour_start(time.time_ns()) - 48 * HOUR_NS
    hours = [start, start + HOUR_NS]
    for number, hour in enumerate(hours):
        data = object_bytes(history.service, number, hour + HOUR_NS // 2)
        raw_store(stack).put(
            raw_key("history", "old", Signal.LOGS, to_datetime(hour), f"{number}.binpb"), data
        )
    _wait_for_partitions(stack, "history")
    keys = [str(partition_key("history", hour)) for hour in hours]
    assert backfill(stack, ["raw", "cooked"], keys) == "COMPLETED_SUCCESS"
    content = lake_content(stack, ("history",), history.service)
    assert content.rows == content.distinct_row_ids == 2 * ROWS
    assert set(versions(stack, "history")) == set(hours)


def test_materialising_a_cooked_partition_again_changes_no_row(stack: Settings, traffic: Traffic) -> None:
    traffic.send(9000)
    org = traffic.sent[-1].org
    wait_for(lambda: 9000 in traffic.visible(org), what="the object")
    before = lake_content(stack, (org,), traffic.service)
    touched = versions(stack, org)
    keys = [str(partition_key(org, hour)) for hour in touched]
    assert backfill(stack, ["cooked"], keys) == "COMPLETED_SUCCESS"
    after = lake_content(stack, (org,), traffic.service)
    assert after == before
    assert all(version > touched[hour] for hour, version in versions(stack, org).items())


def _wait_for_partitions(settings: Settings, org: str) -> None:
    query = """query { assetNodeOrError(assetKey: {path: ["raw", "logs"]}) { ... on AssetNode {
        partitionKeysByDimension(startIdx: 0, endIdx: 100) { name partitionKeys } } } }"""

    def there() -> bool:
        dimensions = graphql(settings, query, {})["assetNodeOrError"]["partitionKeysByDimension"]
        return any(org in d["partitionKeys"] for d in dimensions if d["name"] == "org")

    wait_for(there, f"partitions of {org}")
