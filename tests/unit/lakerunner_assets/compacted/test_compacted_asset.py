"""The asset: what its runs take, log and check, and when lineage asks for one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakerunner_assets.compacted.asset import KEYS_APART, PLANNED, ROWS_CONSERVED, compacted_asset
from lakerunner_assets.cooked.asset import cooked_asset
from lakerunner_assets.keys import LINEAGE_TAG, MODE_TAG, Tier, asset_key
from lakerunner_assets.partitions import ORGANISATIONS, partition_key
from lakerunner_assets.raw.asset import raw_asset
from lakerunner_assets.signals import SIGNALS
from resources.bindings import Lakerunner
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS, HOUR_NS, from_datetime
from tests.support.compacted.compacting_lake import CompactingLake
from tests.unit.lakerunner_assets.compacted.test_compacting import DAY, aged, filled

HORIZON = "2026-01-01"
NOW = dt.datetime(2026, 1, 2, 12, 20, tzinfo=dt.UTC)
TODAY = from_datetime(NOW) // DAY_NS * DAY_NS
COOKED, COMPACTED = (asset_key(tier, Signal.LOGS) for tier in (Tier.COOKED, Tier.COMPACTED))
_lakes: list[CompactingLake] = []


class OfTest(Lakerunner):
    """The lake of the running test."""

    @property
    def index(self) -> Any:  # type: ignore[override]
        return _lakes[0].index

    @property
    def settings(self) -> Any:  # type: ignore[override]
        return _lakes[0].lake.settings

    def spark_tasks(self) -> Any:
        return _lakes[0].lake.tasks


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[CompactingLake]:
    _lakes[:] = [filled(tmp_path, Signal.LOGS, hours=3)]
    yield _lakes[0]
    _lakes.clear()


def definitions() -> list[Any]:
    spec = SIGNALS[Signal.LOGS]
    return [made(spec, HORIZON) for made in (raw_asset, cooked_asset, compacted_asset)]


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        made.add_dynamic_partitions(str(ORGANISATIONS.name), ["acme", "beta"])
        yield made


def hour(number: int, org: str = "acme", day: int = TODAY) -> str:
    return str(partition_key(org, day + number * HOUR_NS))


def materialize(instance: dg.DagsterInstance, tags: dict[str, str], partition: str) -> Any:
    return dg.materialize(
        definitions(),
        selection=[COMPACTED],
        instance=instance,
        resources={"lakerunner": OfTest()},
        partition_key=partition,
        tags=tags,
    )


def logged(instance: dg.DagsterInstance) -> set[str | None]:
    records = instance.fetch_materializations(COMPACTED, limit=100).records
    return {record.partition_key for record in records}


def test_a_run_without_a_tag_takes_exactly_its_partitions(
    lake: CompactingLake, instance: dg.DagsterInstance
) -> None:
    before = lake.rows()
    result = materialize(instance, {}, hour(1, day=DAY))
    assert result.success
    assert [s.hour_ns for s in lake.segments() if s.level] == [DAY + HOUR_NS]
    assert lake.rows() == before
    checks = {each.check_name: each for each in result.get_asset_check_evaluations()}
    assert all(each.passed for each in checks.values())
    assert set(checks) == {ROWS_CONSERVED, KEYS_APART}
    assert checks[ROWS_CONSERVED].metadata["segments before"].value == 6
    assert "before" in str(checks[ROWS_CONSERVED].metadata["sizes"].value)
    assert logged(instance) == {hour(1, day=DAY)}


def test_a_planned_run_takes_what_is_due_and_logs_the_hours_it_changed(
    lake: CompactingLake, instance: dg.DagsterInstance
) -> None:
    aged(lake)
    result = materialize(instance, {MODE_TAG: PLANNED}, hour(1))
    assert result.success
    assert len(lake.segments()) == 3
    assert logged(instance) == {hour(n, day=DAY) for n in range(3)}
    counters = lake.index.counters()
    assert counters['lakerunner_compact_read_segments_total{signal="logs"}'] == 18
    assert counters['lakerunner_compact_written_segments_total{signal="logs"}'] == 3


def test_a_run_of_lineage_waits_for_late_rows(lake: CompactingLake, instance: dg.DagsterInstance) -> None:
    tags = {LINEAGE_TAG: "true"}
    materialize(instance, tags, hour(1, day=DAY))
    assert {s.level for s in lake.segments()} == {0}
    aged(lake)
    materialize(instance, tags, hour(1, day=DAY))
    assert [s.hour_ns for s in lake.segments() if s.level] == [DAY + HOUR_NS]


def test_a_merge_that_failed_is_in_the_metadata(lake: CompactingLake, instance: dg.DagsterInstance) -> None:
    bad = next(s for s in lake.segments() if s.hour_ns == DAY)
    next((lake.lake.folder / "lake").rglob(f"tbl_{bad.segment_id}.parquet")).unlink()
    result = materialize(instance, {}, hour(0, day=DAY))
    evaluations = {each.check_name: each for each in result.get_asset_check_evaluations()}
    assert bad.segment_id in str(evaluations[ROWS_CONSERVED].metadata["merges given up"].value)


# --- lineage -------------------------------------------------------------------------------------------


class Lineage:
    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self.defs = dg.Definitions(assets=definitions(), resources={"lakerunner": Lakerunner()})
        self.cursor: Any = None
        self.now = NOW

    def happens(self, key: dg.AssetKey, *partitions: str) -> None:
        for partition in partitions:
            self.instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=partition))

    def tick(self) -> set[str]:
        result = dg.evaluate_automation_conditions(
            self.defs, self.instance, cursor=self.cursor, evaluation_time=self.now
        )
        self.cursor = result.cursor
        return {
            str(each.partition_key)
            for found in result.results
            if found.key == COMPACTED
            for each in found.true_subset.expensively_compute_asset_partitions()
        }


@pytest.fixture
def lineage(instance: dg.DagsterInstance) -> Lineage:
    made = Lineage(instance)
    assert made.tick() == set()
    return made


def test_an_hour_that_is_over_is_compacted_by_lineage(lineage: Lineage) -> None:
    """At 12:20 the hour from 10 has been over for 80 minutes; the one from 11 for 20."""
    lineage.happens(COOKED, hour(10), hour(11), hour(12))
    assert lineage.tick() == {hour(10)}
    assert lineage.tick() == set()


def test_an_open_hour_is_compacted_once_it_is_over(lineage: Lineage) -> None:
    lineage.happens(COOKED, hour(12))
    assert lineage.tick() == set()
    lineage.now = NOW + dt.timedelta(hours=1)
    assert lineage.tick() == set()
    lineage.now = NOW + dt.timedelta(hours=2)
    assert lineage.tick() == {hour(12)}


def test_late_rows_ask_again_and_compaction_itself_does_not(lineage: Lineage) -> None:
    lineage.happens(COOKED, hour(3))
    assert lineage.tick() == {hour(3)}
    lineage.happens(COMPACTED, hour(3))
    assert lineage.tick() == set()
    lineage.happens(COOKED, hour(3), hour(4, "beta"))
    assert lineage.tick() == {hour(3), hour(4, "beta")}
