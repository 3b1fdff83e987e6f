"""What the benchmarks of tiers conclude from tables: hand-made ones here."""

from __future__ import annotations

import json

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from benchmarks.tiers.stack import Sums, _run, gauges, kinds, stale
from resources.index.types import Partition, TierView
from resources.lake.frequency import DAY, FIVE_MINUTES, HOUR, MINUTE, TEN_SECONDS
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS, HOUR_NS

START = 20_454 * DAY_NS


def partition(frequency_ms: int, version: int, sources: dict[int, int]) -> Partition:
    return Partition("acme", Signal.METRICS, frequency_ms, START, version, sources, 0)


def built(samples: int) -> TierView:
    """Everything up to the hour, each built from version 1 of the one below."""
    above = [partition(f, 1, {START: 1}) for f in (TEN_SECONDS, MINUTE, FIVE_MINUTES, HOUR)]
    return TierView((partition(0, samples, {}), *above), ())


def test_rollups_of_what_is_no_more_are_stale() -> None:
    assert stale(built(1), [START], days=False) == []
    assert len(stale(built(2), [START], days=False)) == 4


def test_an_hour_without_rollups_is_stale() -> None:
    assert len(stale(built(1), [START, START + HOUR_NS], days=False)) == 4


def test_days_count_when_asked_for() -> None:
    assert stale(built(1), [START], days=True) == [f"1d {START}"]
    day = TierView((*built(1).partitions, partition(DAY, 1, {START: 1})), ())
    assert stale(day, [START + 0], days=True) == []


def test_runs_are_named_by_tier_and_by_who_asked() -> None:
    def run(tags: dict[str, str], *assets: list[str]) -> object:
        selection = {"__frozenset__": [{"__class__": "AssetKey", "path": path} for path in assets]}
        return _run("id", "job", "SUCCESS", 0, json.dumps({"asset_selection": selection, "tags": tags}))

    lineage = run({"dagster/from_automation_condition": "true"}, ["rollup", "10s"], ["rollup", "1m"])
    overdue = run({"lakerunner/overdue": "true"}, ["rollup", "1d"])
    sensor = run({"dagster/sensor_name": "ingest_logs"})
    assert kinds([lineage, lineage, overdue, sensor]) == {  # type: ignore[list-item]
        "rollup lineage SUCCESS": 2,
        "rollup overdue SUCCESS": 1,
        "job ingest_logs SUCCESS": 1,
    }


def test_gauges_hold_every_value_once() -> None:
    request = ExportMetricsServiceRequest.FromString(gauges(("a", "b"), [(1, [3, 4]), (2, [5, 6])]))
    points = request.resource_metrics[0].scope_metrics[0].metrics[0].gauge.data_points
    found = [(p.attributes[0].value.string_value, p.time_unix_nano, p.as_double) for p in points]
    assert found == [("a", 1, 3.0), ("b", 1, 4.0), ("a", 2, 5.0), ("b", 2, 6.0)]
    sums = Sums()
    sums.add([3, 4])
    sums.add([5, 6])
    assert sums == Sums(4, 18)
