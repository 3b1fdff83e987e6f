"""Assets of tests run over a lake of files, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg

from lakerunner_assets.partitions import ORGANISATIONS, partition_key
from resources.bindings import Lakerunner
from tests.support.cooking_lake import Lake, lake_in

_lakes: list[Lake] = []


class OfTest(Lakerunner):
    """The lake of the running test."""

    @property
    def index(self) -> Any:  # type: ignore[override]
        return _lakes[0].index

    @property
    def settings(self) -> Any:  # type: ignore[override]
        return _lakes[0].settings

    def spark_tasks(self) -> Any:
        return _lakes[0].tasks


@contextmanager
def lake_of_runs(folder: Path) -> Iterator[Lake]:
    """Give a lake that runs use while the block lasts."""
    _lakes[:] = [lake_in(folder)]
    yield _lakes[0]
    _lakes.clear()


@contextmanager
def instance_with_acme() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        made.add_dynamic_partitions(str(ORGANISATIONS.name), ["acme"])
        yield made


def materialize_one(
    definitions: Sequence[Any], key: dg.AssetKey, instance: dg.DagsterInstance, hour: int, *tags: str
) -> Any:
    return dg.materialize(
        list(definitions),
        selection=[key],
        instance=instance,
        resources={"lakerunner": OfTest()},
        partition_key=str(partition_key("acme", hour)),
        tags=dict.fromkeys(tags, "true"),
    )
