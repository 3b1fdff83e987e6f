"""The asset: what its runs record and log, and what lineage and the reconciler request."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakerunner_assets.cooked.asset import cooked_asset
from lakerunner_assets.keys import FORCE_TAG, RECORD_JOB, Tier, asset_key, rollup_key
from lakerunner_assets.materialized.asset import materialized_asset
from lakerunner_assets.partitions import partition_key
from lakerunner_assets.raw.asset import raw_asset
from lakerunner_assets.recorded.asset import RECORDED, recorded_asset
from lakerunner_assets.rollup.asset import rollup_asset
from lakerunner_assets.signals import SIGNALS
from resources.bindings import Lakerunner
from resources.lake.frequency import ROLLUPS
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS
from sensors.reconciler import overdue_requests
from tests.support.asset_runs import instance_with_acme, lake_of_runs, materialize_one
from tests.support.cooking_lake import HOUR, Lake
from tests.support.recorded import declare, group, recorded
from tests.support.rolling_lake import arrive, every, gauge

HORIZON = "2026-01-01"
ASSET = asset_key(Tier.RECORDED, Signal.METRICS)
LATER = HOUR + 2 * HOUR_NS


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with lake_of_runs(tmp_path) as made:
        declare(made, group("g", level__sum="sum(level)", bad="level * on () group_left level"))
        for hour in (LATER, LATER + HOUR_NS):
            arrive(made, f"a{hour}", gauge(every(60, hour)), hour)
        made.cook(Signal.METRICS)
        yield made


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with instance_with_acme() as made:
        yield made


def definitions() -> list[Any]:
    sources = [
        make(SIGNALS[signal], HORIZON)
        for make in (raw_asset, cooked_asset, materialized_asset)
        for signal in Signal
    ]
    return [*sources, recorded_asset(SIGNALS[Signal.METRICS], HORIZON)]


def materialize(instance: dg.DagsterInstance, hour: int, *tags: str) -> Any:
    return materialize_one(definitions(), ASSET, instance, hour, *tags)


def test_a_run_records_its_hour_and_says_how_much(lake: Lake, instance: dg.DagsterInstance) -> None:
    (check,) = materialize(instance, LATER).get_asset_check_evaluations()
    assert (check.check_name, check.passed) == (RECORDED, True)
    assert check.metadata["hours recorded"].value == 1
    assert len(recorded(lake, "level:sum")) == 60
    again = materialize(instance, LATER).get_asset_check_evaluations()[0]
    assert again.metadata["hours current"].value == 1
    forced = materialize(instance, LATER, FORCE_TAG)
    assert forced.get_asset_check_evaluations()[0].metadata["hours recorded"].value == 1
    assert lake.index.counters()["lakerunner_record_hours_total"] == 2


def test_a_rule_that_fails_is_told_by_the_check(lake: Lake, instance: dg.DagsterInstance) -> None:
    arrive(lake, "b", gauge(every(60, LATER), service="other"), LATER)
    lake.cook(Signal.METRICS)
    (check,) = materialize(instance, LATER).get_asset_check_evaluations()
    assert not check.passed
    assert "bad of g" in str(check.metadata["rules that failed"].value)


def test_the_reconciler_requests_hours_that_nobody_recorded(lake: Lake, instance: dg.DagsterInstance) -> None:
    settings = replace(lake.settings, rollup_interval_s=0)
    found = {request.job_name for request in overdue_requests(lake.index, instance, settings)}
    assert RECORD_JOB in found
    for hour in (LATER, LATER + HOUR_NS):
        materialize(instance, hour)
    found = {request.job_name for request in overdue_requests(lake.index, instance, settings)}
    assert RECORD_JOB not in found


def test_recorded_samples_set_off_the_rollups_and_nothing_the_recording(instance: dg.DagsterInstance) -> None:
    defs = dg.Definitions(
        assets=[*definitions(), *(rollup_asset(rollup, HORIZON) for rollup in ROLLUPS)],
        resources={"lakerunner": Lakerunner()},
    )
    now, cursor = dt.datetime(2026, 1, 1, 5, 20, tzinfo=dt.UTC), None
    hour = str(partition_key("acme", LATER))

    def tick() -> set[dg.AssetKey]:
        nonlocal cursor
        result = dg.evaluate_automation_conditions(defs, instance, cursor=cursor, evaluation_time=now)
        cursor = result.cursor
        return {
            found.asset_key
            for each in result.results
            for found in each.true_subset.expensively_compute_asset_partitions()
            if str(found.partition_key) == hour
        }

    assert tick() == set()
    derived = asset_key(Tier.MATERIALIZED, Signal.LOGS)
    instance.report_runless_asset_event(dg.AssetMaterialization(derived, partition=hour))
    assert ASSET not in tick()  # the index knows what is due, also for organisations without rules
    instance.report_runless_asset_event(dg.AssetMaterialization(ASSET, partition=hour))
    assert {rollup_key(rollup) for rollup in ROLLUPS[:-1]} <= tick()
