"""The asset: what its runs derive and log, and what lineage requests before and behind it."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakerunner_assets.cooked.asset import cooked_asset
from lakerunner_assets.keys import FORCE_TAG, LINEAGE_TAG, Tier, asset_key, rollup_key
from lakerunner_assets.materialized.asset import DERIVED, materialized_asset
from lakerunner_assets.partitions import partition_key
from lakerunner_assets.raw.asset import raw_asset
from lakerunner_assets.rollup.asset import rollup_asset
from lakerunner_assets.signals import SIGNALS
from resources.bindings import Lakerunner
from resources.lake.frequency import ROLLUPS
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS
from tests.support.asset_runs import instance_with_acme, lake_of_runs, materialize_one
from tests.support.cooking_lake import HOUR, Lake
from tests.support.materialized.lake import cook, derived_segments, due
from tests.support.materialized.spans import traces

HORIZON = "2026-01-01"
COOKED, MATERIALIZED = (asset_key(tier, Signal.TRACES) for tier in (Tier.COOKED, Tier.MATERIALIZED))
HOURLY = {rollup_key(rollup) for rollup in ROLLUPS[:-1]}
LATER = HOUR + 2 * HOUR_NS


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with lake_of_runs(tmp_path) as made:
        yield made


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with instance_with_acme() as made:
        yield made


def definitions() -> list[Any]:
    spec = SIGNALS[Signal.TRACES]
    return [made(spec, HORIZON) for made in (raw_asset, cooked_asset, materialized_asset)]


def materialize(instance: dg.DagsterInstance, hour: int, *tags: str) -> Any:
    return materialize_one(definitions(), MATERIALIZED, instance, hour, *tags)


def test_a_run_derives_its_hour_and_says_how_much(lake: Lake, instance: dg.DagsterInstance) -> None:
    cook(lake, "a", traces(random.Random(1), 20, LATER), LATER)
    done = materialize(instance, LATER)
    (check,) = done.get_asset_check_evaluations()
    assert (check.check_name, check.passed) == (DERIVED, True)
    assert check.metadata["hours derived"].value == 1
    assert [segment.hour_ns for segment in derived_segments(lake)] == [LATER]
    again = materialize(instance, LATER).get_asset_check_evaluations()[0]
    assert again.metadata["hours current"].value == 1
    forced = materialize(instance, LATER, FORCE_TAG)
    assert forced.get_asset_check_evaluations()[0].metadata["hours derived"].value == 1
    counted = lake.index.counters()['lakerunner_materialize_hours_total{signal="traces"}']
    assert counted == 2


def test_a_run_of_lineage_takes_along_the_neighbours_that_are_due(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    cook(lake, "a", traces(random.Random(1), 60, LATER), LATER)
    assert len(due(lake)) == 3
    done = materialize(instance, LATER, LINEAGE_TAG)
    logged = {event.partition for event in done.asset_materializations_for_node("materialized__traces")}
    hours = (LATER - HOUR_NS, LATER, LATER + HOUR_NS)
    assert logged == {str(partition_key("acme", hour)) for hour in hours}
    assert due(lake) == []


def test_cooked_spans_set_off_the_derivation_and_that_all_hourly_rollups(
    instance: dg.DagsterInstance,
) -> None:
    metrics = SIGNALS[Signal.METRICS]
    defs = dg.Definitions(
        assets=[
            *definitions(), raw_asset(metrics, HORIZON), cooked_asset(metrics, HORIZON),
            *(rollup_asset(rollup, HORIZON) for rollup in ROLLUPS),
        ],
        resources={"lakerunner": Lakerunner()},
    )  # fmt: skip
    now, cursor = dt.datetime(2026, 1, 1, 5, 20, tzinfo=dt.UTC), None
    hour = str(partition_key("acme", LATER))

    def tick() -> set[tuple[dg.AssetKey, str]]:
        nonlocal cursor
        result = dg.evaluate_automation_conditions(defs, instance, cursor=cursor, evaluation_time=now)
        cursor = result.cursor
        return {
            (found.asset_key, str(found.partition_key))
            for each in result.results
            for found in each.true_subset.expensively_compute_asset_partitions()
        }

    assert tick() == set()
    instance.report_runless_asset_event(dg.AssetMaterialization(COOKED, partition=hour))
    assert tick() == {(MATERIALIZED, hour)}
    instance.report_runless_asset_event(dg.AssetMaterialization(MATERIALIZED, partition=hour))
    assert tick() == {(key, hour) for key in HOURLY}
    assert tick() == set()
