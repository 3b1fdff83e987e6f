"""The assets `tables/…`: what runs record, and what the sensor asks for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakerunner_assets.keys import MODE_TAG, TABLES_JOB, table_key
from lakerunner_assets.partitions import ORGANISATIONS
from lakerunner_assets.tables.asset import DUE, tables_asset
from resources.bindings import Lakerunner
from sensors.tables import tables_sensor
from tests.support.cooking_lake import HOUR, Lake, lake_in
from tests.support.otlp_logs import otlp_logs

_lakes: list[Lake] = []


class OfTest(Lakerunner):
    """The lake of the running test."""

    @property
    def index(self) -> Any:  # type: ignore[override]
        return _lakes[0].index

    @property
    def settings(self) -> Any:  # type: ignore[override]
        return _lakes[0].settings


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    found = lake_in(tmp_path)
    found.settings = replace(
        found.settings, tables_catalog=f"type=sql;uri=sqlite:///{tmp_path}/catalog.db", tables_every_s=60
    )
    _lakes[:] = [found]
    found.index.create_organisation("beta")
    found.arrive("a", otlp_logs([(HOUR + 1 + n, "x") for n in range(10)]))
    found.cook()
    yield found
    _lakes.clear()


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        made.add_dynamic_partitions("org", ["acme", "beta"])
        yield made


def materialized(instance: dg.DagsterInstance, key: dg.AssetKey) -> list[tuple[str | None, int]]:
    events = instance.fetch_materializations(key, limit=10).records
    return [
        (one.partition_key, int(one.asset_materialization.metadata["rows"].value))  # type: ignore[union-attr,arg-type]
        for one in events
    ]


def ask(instance: dg.DagsterInstance, cursor: str | None = None) -> Any:
    job = dg.define_asset_job(TABLES_JOB, selection=dg.AssetSelection.assets(table_key("logs")))
    sensor = tables_sensor(job)
    with dg.build_sensor_context(
        instance=instance, cursor=cursor, resources={"lakerunner": OfTest()}
    ) as context:
        return sensor(context)


def test_run_by_hand_updates_the_named_partition(lake: Lake, instance: dg.DagsterInstance) -> None:
    for org in ("acme", "beta"):
        lake.index.add_table(org, "logs")
    result = dg.materialize(
        [tables_asset()], instance=instance, partition_key="acme", selection=[table_key("logs")],
        resources={"lakerunner": OfTest()},
    )  # fmt: skip
    assert result.success
    assert materialized(instance, table_key("logs")) == [("acme", 10)]
    assert [(t.org, t.committed) for t in lake.index.list_tables()] == [("acme", 0), ("beta", -1)]


def test_run_of_the_sensor_takes_all_that_is_due(lake: Lake, instance: dg.DagsterInstance) -> None:
    for org in ("acme", "beta"):
        lake.index.add_table(org, "logs")
    result = dg.materialize(
        [tables_asset()], instance=instance, tags={MODE_TAG: DUE}, partition_key="acme",
        resources={"lakerunner": OfTest()},
    )  # fmt: skip
    assert result.success
    assert sorted(materialized(instance, table_key("logs"))) == [("acme", 10), ("beta", 0)]
    assert materialized(instance, table_key("spans")) == []


def test_closed_tables_are_left_alone(lake: Lake, instance: dg.DagsterInstance) -> None:
    result = dg.materialize(
        [tables_asset()], instance=instance, partition_key="acme", resources={"lakerunner": OfTest()}
    )
    assert result.success
    assert materialized(instance, table_key("logs")) == []
    assert not (lake.folder / "lake" / "tables").exists()


def test_sensor_asks_once_for_what_lags(lake: Lake, instance: dg.DagsterInstance) -> None:
    assert isinstance(ask(instance), dg.SkipReason)
    lake.index.add_table("beta", "logs")
    found = ask(instance)
    (request,) = found.run_requests
    assert request.job_name == TABLES_JOB
    assert request.tags[MODE_TAG] == DUE
    assert request.tags["dagster/asset_partition_range_start"] == "beta"
    assert isinstance(ask(instance, found.cursor), dg.SkipReason)  # the same again so soon: it failed
    lake.index.add_table("acme", "logs")
    (request,) = ask(instance, found.cursor).run_requests
    assert request.tags["dagster/asset_partition_range_end"] == "beta"


def test_partitions_of_tables_are_organisations() -> None:
    assert tables_asset().partitions_def == ORGANISATIONS
