"""What lineage requests when partitions change: all hourly rollups at once, the day when it has closed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import dagster as dg
import pytest

from lakerunner_assets.cooked.asset import cooked_asset
from lakerunner_assets.keys import Tier, asset_key, rollup_key
from lakerunner_assets.partitions import ORGANISATIONS, day_partition_key, partition_key
from lakerunner_assets.raw.asset import raw_asset
from lakerunner_assets.rollup.asset import rollup_asset
from lakerunner_assets.signals import SIGNALS
from resources.bindings import Lakerunner
from resources.lake.frequency import ROLLUPS
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS, HOUR_NS, from_datetime

HORIZON = "2026-01-01"
NOON = dt.datetime(2026, 1, 2, 12, 20, tzinfo=dt.UTC)
TODAY = from_datetime(NOON) // DAY_NS * DAY_NS
COOKED = asset_key(Tier.COOKED, Signal.METRICS)
HOURLY = {rollup_key(rollup) for rollup in ROLLUPS[:-1]}
DAILY = rollup_key(ROLLUPS[-1])
Requested = set[tuple[dg.AssetKey, str]]


class Graph:
    """Metrics from raw to the day, with an instance of their own and a clock that tests move."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        spec = SIGNALS[Signal.METRICS]
        self.instance = instance
        self.defs = dg.Definitions(
            assets=[
                raw_asset(spec, HORIZON),
                cooked_asset(spec, HORIZON),
                *(rollup_asset(rollup, HORIZON) for rollup in ROLLUPS),
            ],
            resources={"lakerunner": Lakerunner()},
        )
        self.cursor: object = None
        self.now = NOON

    def happens(self, key: dg.AssetKey, *partitions: str) -> None:
        for partition in partitions:
            self.instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=partition))

    def tick(self) -> Requested:
        result = dg.evaluate_automation_conditions(
            self.defs,
            self.instance,
            cursor=self.cursor,  # type: ignore[arg-type]
            evaluation_time=self.now,
        )
        self.cursor = result.cursor
        found: Requested = set()
        for each in result.results:
            keys = each.true_subset.expensively_compute_asset_partitions()
            found |= {(p.asset_key, str(p.partition_key)) for p in keys}
        return found


@pytest.fixture
def graph() -> Iterator[Graph]:
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(str(ORGANISATIONS.name), ["acme", "beta"])
        made = Graph(instance)
        assert made.tick() == set()
        yield made


def hour(number: int, org: str = "acme", day: int = TODAY) -> str:
    return str(partition_key(org, day + number * HOUR_NS))


def test_a_cooked_hour_sets_off_all_hourly_rollups_of_it_at_once(graph: Graph) -> None:
    graph.happens(COOKED, hour(11))
    assert graph.tick() == {(key, hour(11)) for key in HOURLY}
    assert graph.tick() == set()


def test_rollups_set_off_no_hourly_rollups(graph: Graph) -> None:
    graph.happens(COOKED, hour(11))
    graph.tick()
    for key in sorted(HOURLY):
        graph.happens(key, hour(11))
    assert graph.tick() == set()


def test_late_rows_set_them_off_again(graph: Graph) -> None:
    graph.happens(COOKED, hour(3))
    graph.tick()
    for key in sorted(HOURLY):
        graph.happens(key, hour(3))
    graph.tick()
    graph.happens(COOKED, hour(3))
    assert graph.tick() == {(key, hour(3)) for key in HOURLY}


def test_each_organisation_for_itself(graph: Graph) -> None:
    graph.happens(COOKED, hour(11), hour(10, "beta"))
    assert {partition for _, partition in graph.tick()} == {hour(11), hour(10, "beta")}


def test_the_day_waits_until_it_has_closed_and_then_fires_once(graph: Graph) -> None:
    top = rollup_key(ROLLUPS[-2])
    graph.happens(top, hour(11))
    assert graph.tick() == set()
    graph.now = NOON + dt.timedelta(hours=11, minutes=30)
    assert graph.tick() == set()
    graph.now = NOON + dt.timedelta(hours=12)
    assert graph.tick() == {(DAILY, str(day_partition_key("acme", TODAY)))}
    graph.happens(DAILY, str(day_partition_key("acme", TODAY)))
    assert graph.tick() == set()


def test_late_rows_of_a_closed_day_set_it_off_again(graph: Graph) -> None:
    yesterday = TODAY - DAY_NS
    top = rollup_key(ROLLUPS[-2])
    graph.happens(top, hour(23, day=yesterday))
    assert graph.tick() == {(DAILY, str(day_partition_key("acme", yesterday)))}
    graph.tick()
    graph.happens(top, hour(0, day=yesterday))
    assert graph.tick() == {(DAILY, str(day_partition_key("acme", yesterday)))}


def test_changes_between_two_ticks_are_not_lost(graph: Graph) -> None:
    graph.happens(COOKED, hour(11))
    graph.tick()
    graph.happens(COOKED, hour(11))  # while the run of the first tick may still be under way
    assert graph.tick() == {(key, hour(11)) for key in HOURLY}
