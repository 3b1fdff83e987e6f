"""When a compaction run is asked for, and when asking again is pointless."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakerunner_assets.compacted.asset import PLANNED, compacted_asset
from lakerunner_assets.compacted.due import hold
from lakerunner_assets.compacted.plan import plan_merges
from lakerunner_assets.keys import MODE_TAG, Tier, asset_key, compact_job_name
from lakerunner_assets.partitions import ORGANISATIONS, parse_partition_key
from lakerunner_assets.signals import SIGNALS
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, hour_start
from sensors.planner import LastRequest, partition_tags, plan_name, planner_sensor
from tests.support.compacted.compacting_lake import CompactingLake
from tests.support.compacted.merging_world import HOUR, POLICY, live
from tests.unit.lakerunner_assets.compacted.test_compacted_asset import OfTest, _lakes
from tests.unit.lakerunner_assets.compacted.test_compacting import DAY, aged, filled

NOW = HOUR + 30 * HOUR_NS


class Ticking:
    def __init__(self, lake: CompactingLake, instance: dg.DagsterInstance) -> None:
        _lakes[:] = [lake]
        self.instance = instance
        self.instance.add_dynamic_partitions(str(ORGANISATIONS.name), ["acme"])
        job: Any = dg.define_asset_job(
            compact_job_name(Signal.LOGS), selection=[asset_key(Tier.COMPACTED, Signal.LOGS)]
        )
        self.sensor = planner_sensor(Signal.LOGS, job, 20)
        self.defs = dg.Definitions(
            assets=[compacted_asset(SIGNALS[Signal.LOGS], "2026-01-01")],
            jobs=[job],
            sensors=[self.sensor],
            resources={"lakerunner": OfTest()},
        )
        self.cursor: str | None = None

    def tick(self) -> Any:
        context = dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursor,
            definitions=self.defs,
            resources={"lakerunner": OfTest()},
        )
        result = self.sensor(context)
        if isinstance(result, dg.SensorResult):
            self.cursor = result.cursor
        return result


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def ticking(lake: CompactingLake, instance: dg.DagsterInstance) -> Iterator[Ticking]:
    yield Ticking(lake, instance)
    _lakes.clear()


@pytest.fixture
def lake(tmp_path: Path) -> CompactingLake:
    return aged(filled(tmp_path, Signal.LOGS, hours=2))


def test_work_is_asked_for_in_one_run(ticking: Ticking) -> None:
    result = ticking.tick()
    (request,) = result.run_requests
    assert request.tags[MODE_TAG] == PLANNED
    assert request.tags["lakerunner/merges"] == "2"
    start = request.tags["dagster/asset_partition_range_start"]
    assert parse_partition_key(start) == ("acme", DAY + HOUR_NS)


def test_a_request_that_changed_nothing_is_not_repeated_at_once(ticking: Ticking) -> None:
    ticking.tick()
    again = ticking.tick()
    assert isinstance(again, dg.SkipReason)
    assert "12 segments" in str(again.skip_message)


def test_without_work_it_says_so_and_settles(lake: CompactingLake, ticking: Ticking) -> None:
    lake.compact()
    for kept in lake.index._state.segments.values():
        kept.segment = replace(kept.segment, settled=False)
    result = ticking.tick()
    assert isinstance(result, dg.SkipReason)
    assert "2 segments settled" in str(result.skip_message)
    assert lake.index.unsettled(Signal.LOGS) == []


def test_a_damaged_segment_is_no_reason_to_ask(lake: CompactingLake, ticking: Ticking) -> None:
    hold(lake.index, Signal.LOGS, [s.segment_id for s in lake.segments()], lake.now_s)
    assert isinstance(ticking.tick(), dg.SkipReason)


def test_organisations_that_dagster_does_not_know_yet_wait(ticking: Ticking) -> None:
    ticking.instance.delete_dynamic_partition(str(ORGANISATIONS.name), "acme")
    assert isinstance(ticking.tick(), dg.SkipReason)


def test_a_run_under_way_is_enough(ticking: Ticking) -> None:
    job = ticking.defs.resolve_job_def(compact_job_name(Signal.LOGS))
    ticking.instance.create_run_for_job(job, tags={MODE_TAG: PLANNED}, status=dg.DagsterRunStatus.STARTED)
    result = ticking.tick()
    assert isinstance(result, dg.SkipReason)
    assert "under way" in str(result.skip_message)


def test_pauses_double_and_end_when_the_plan_changes() -> None:
    last = LastRequest()
    pauses = []
    for _ in range(7):
        last = last.following("plan", 0.0)
        pauses.append(last.pause_s("plan", 20))
    assert pauses == [40, 80, 160, 320, 640, 900, 900]
    assert last.pause_s("another", 20) == 0
    assert LastRequest.of(last.cursor()) == last
    assert LastRequest.of(None) == LastRequest()


def _merges(hour: int) -> Any:
    return plan_merges([live(i, 1000, hour) for i in range(9)], hour + 5 * HOUR_NS, POLICY).merges


def test_the_same_work_has_the_same_name() -> None:
    assert plan_name(_merges(HOUR)) == plan_name(list(reversed(_merges(HOUR))))
    assert plan_name(_merges(HOUR)) != plan_name(_merges(HOUR)[:0])


def test_a_run_is_never_shown_under_an_hour_that_is_no_partition() -> None:
    shown = partition_tags(_merges(HOUR - 10_000 * HOUR_NS), ["acme"], "2026-01-01", NOW)
    assert {parse_partition_key(key) for key in shown.values()} == {("acme", hour_start(NOW))}
