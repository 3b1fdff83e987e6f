"""A lake whose spans are cooked and whose metrics are derived without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow.parquet as pq

from lakerunner_assets.materialized.run import DeriveReport, HourDerived, derive_hours
from lakerunner_assets.segments.metrics import VALUE_COLUMN
from resources.index.types import Segment, SegmentQuery
from resources.lake import series
from resources.lake.layout import Signal
from resources.lake.metric_values import VALUE_SQL
from resources.lake.signals import MATERIALIZED_MS
from tests.support.cooking_lake import HOUR, Lake
from tests.support.materialized.spans import Call, request


def arrive(lake: Lake, name: str, calls: Sequence[Call], hour: int = HOUR) -> None:
    lake.arrive(name, request(calls), hour, signal=Signal.TRACES)


def cook(lake: Lake, name: str, calls: Sequence[Call], hour: int = HOUR) -> None:
    arrive(lake, name, calls, hour)
    lake.cook(Signal.TRACES)


def derive(
    lake: Lake, *hours: int, report: DeriveReport | None = None, force: bool = False
) -> list[HourDerived]:
    wanted = {"acme": hours or (HOUR,)}
    report = report or DeriveReport()
    return list(derive_hours(lake.run_context(), Signal.TRACES, wanted, report, force=force))


def due(lake: Lake) -> list[int]:
    return sorted(d.start_ns for d in lake.index.due_partitions(Signal.TRACES, MATERIALIZED_MS))


def derived_segments(lake: Lake) -> list[Segment]:
    return lake.index.find_segments(SegmentQuery("acme", "metrics", 0, -(2**62), 2**62))


def rows(lake: Lake) -> list[dict[str, Any]]:
    """Every live derived sample with its labels and value."""
    found: list[dict[str, Any]] = []
    for segment in derived_segments(lake):
        path = lake.folder / "lake" / segment.key
        raw = path.read_bytes()[segment.series_offset : segment.series_offset + segment.series_length]
        table = pq.read_table(path)
        values = _values(table)
        listed = table.to_pylist()
        for one in series.decode(raw, segment.rows):
            labels = dict(one.labels)
            mine = range(one.row, one.row + one.rows)
            found += [{**listed[place], VALUE_COLUMN: values[place], "labels": labels} for place in mine]
    return found


def _values(table: Any) -> list[float | None]:
    with duckdb.connect() as connection:
        connection.register("segment", table)
        return [row[0] for row in connection.sql(f"SELECT {VALUE_SQL} FROM segment").fetchall()]


def totals(lake: Lake, metric: str, *labels: str) -> Counter[tuple[str, ...]]:
    """Sums of a counter by these labels."""
    found: Counter[tuple[str, ...]] = Counter()
    for row in rows(lake):
        if row["metric_name"] == metric:
            found[tuple(row["labels"].get(name, "") for name in labels)] += int(row[VALUE_COLUMN])
    return found
