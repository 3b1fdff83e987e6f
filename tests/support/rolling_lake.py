"""A lake whose metrics are rolled up without Spark, and what its rollups say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from lakerunner_assets.rollup.run import PartitionChange, RollReport, roll_partitions
from resources.index.types import SegmentQuery
from resources.lake.currency import current_partitions
from resources.lake.frequency import ROLLUPS, rollup_of
from resources.lake.layout import Signal
from resources.lake.rollup_columns import filled
from resources.lake.timecut import DAY_NS, HOUR_NS, cut
from tests.support.cooking_lake import HOUR, SECOND, Lake

DAY = cut(HOUR + 1, DAY_NS)
FREQUENCIES = (0, *(rollup.frequency_ms for rollup in ROLLUPS))


def gauge(values: Sequence[tuple[int, float]], name: str = "level", service: str = "web") -> bytes:
    """A gauge as OTLP: (nanoseconds, value)."""
    request = ExportMetricsServiceRequest()
    group = request.resource_metrics.add()
    group.resource.attributes.add(key="service.name").value.string_value = service
    metric = group.scope_metrics.add().metrics.add(name=name)
    for moment, value in values:
        metric.gauge.data_points.add(time_unix_nano=moment, as_double=value)
    return bytes(request.SerializeToString())


def every(seconds: int, hour: int = HOUR, offset: int = 0, length: int = HOUR_NS) -> list[tuple[int, float]]:
    """A sample every so many seconds of an hour, the last one at its very end; values count up."""
    moments = range(hour + seconds * SECOND, hour + length + 1, seconds * SECOND)
    return [(moment + offset, float(number)) for number, moment in enumerate(moments)]


def arrive(lake: Lake, name: str, data: bytes, hour: int = HOUR) -> None:
    lake.arrive(name, data, hour, signal=Signal.METRICS)


def roll(
    lake: Lake, frequency_ms: int, *starts: int, report: RollReport | None = None, force: bool = False
) -> list[PartitionChange]:
    wanted = {"acme": starts or (HOUR,)}
    return list(
        roll_partitions(
            lake.run_context(), rollup_of(frequency_ms), wanted, report or RollReport(), force=force
        )
    )


def roll_hours(lake: Lake, *hours: int) -> dict[int, int]:
    """All frequencies up to the hour; how many partitions of each were built."""
    return {r.frequency_ms: len(roll(lake, r.frequency_ms, *hours)) for r in ROLLUPS[:-1]}


def rows(lake: Lake, frequency_ms: int, start: int = DAY, width: int = DAY_NS) -> list[dict[str, Any]]:
    """Live rows of a rollup in logical form, in order of series and time."""
    dataset = rollup_of(frequency_ms).dataset
    found: list[dict[str, Any]] = []
    for segment in lake.index.find_segments(SegmentQuery("acme", dataset, frequency_ms, -(2**62), 2**62)):
        table = filled(pq.read_table(lake.folder / "lake" / segment.key))
        assert table.num_rows == segment.rows
        found += table.to_pylist()
    inside = [r for r in found if start < r["chq_timestamp"] * 1_000_000 <= start + width]
    return sorted(inside, key=lambda r: (r["metric_name"], r["chq_tid"], r["chq_timestamp"]))


def current(lake: Lake) -> dict[int, set[int]]:
    view = lake.index.tier_view("acme", Signal.METRICS, FREQUENCIES, DAY, DAY + DAY_NS)
    return current_partitions(view.partitions)


def files(lake: Lake) -> set[Path]:
    return {path.relative_to(lake.folder / "lake") for path in (lake.folder / "lake").rglob("*.parquet")}
