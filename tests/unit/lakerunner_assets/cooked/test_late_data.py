"""A day of history that arrives in random order has the same content as one that arrived in order.

Row by row: every value of every row, in the hour it belongs to, found through the original attribute names.
Attributes come, go and change their type over the day.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lakerunner_assets.signals import SIGNALS
from resources.lake.layout import Signal
from resources.lake.segment_file import read_label_map
from resources.lake.timecut import HOUR_NS
from tests.support.cooking_lake import HOUR, SECOND, Lake, lake_in

HOURS = 24
Row = tuple[tuple[str, Any], ...]


def payload(signal: Signal, number: int, chance: random.Random) -> bytes:
    """Rows of the object's own hour and some of any hour of the day."""
    moments = [HOUR + number // 2 * HOUR_NS + chance.randrange(1, HOUR_NS) for _ in range(6)]
    moments += [HOUR + chance.randrange(1, HOURS * HOUR_NS) for _ in range(4)]
    return {Signal.LOGS: _logs, Signal.METRICS: _metrics, Signal.TRACES: _traces}[signal](number, moments)


def _attribute(attributes: Any, number: int) -> None:
    """A text in the morning, a number at noon, nothing in the evening, then a flag."""
    kind = number * 4 // (2 * HOURS)
    value = attributes.add(key="changing").value if kind != 2 else None
    if kind == 0:
        value.string_value = f"n{number}"
    elif kind == 1:
        value.int_value = number
    elif kind == 3:
        value.bool_value = number % 2 == 0


def _logs(number: int, moments: list[int]) -> bytes:
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    group.resource.attributes.add(key="service.name").value.string_value = f"service-{number % 3}"
    for row, moment in enumerate(moments):
        record = group.scope_logs.add().log_records.add(time_unix_nano=moment)
        record.body.string_value = f"row {row} of {number}"
        _attribute(record.attributes, number)
    return bytes(request.SerializeToString())


def _metrics(number: int, moments: list[int]) -> bytes:
    request = ExportMetricsServiceRequest()
    group = request.resource_metrics.add()
    group.resource.attributes.add(key="service.name").value.string_value = f"service-{number % 3}"
    gauge = group.scope_metrics.add().metrics.add(name="level")
    for row, moment in enumerate(moments):
        point = gauge.gauge.data_points.add(time_unix_nano=moment, as_double=row + number / 100)
        _attribute(point.attributes, number)
    return bytes(request.SerializeToString())


def _traces(number: int, moments: list[int]) -> bytes:
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = f"service-{number % 3}"
    for row, moment in enumerate(moments):
        span = group.scope_spans.add().spans.add(
            name=f"span {row}",
            trace_id=(number + 1).to_bytes(16, "big"),
            span_id=(row + 1).to_bytes(8, "big"),
            start_time_unix_nano=moment,
            end_time_unix_nano=moment + SECOND,
        )
        _attribute(span.attributes, number)
    return bytes(request.SerializeToString())


def content(lake: Lake, signal: Signal) -> dict[int, Counter[Row]]:
    """Per hour, every row as the values it has under their original names; ids by the object's key."""
    keys = {o.object_id: o.notice.key for o in lake.index._state.objects.values()}
    found: dict[int, Counter[Row]] = {}
    for segment, table in lake.segments(signal.value):
        names = {
            each.column: f"{each.scope}/{each.key}/{each.kind}"
            for each in read_label_map(pq.read_metadata(lake.folder / "lake" / segment.key))
        }
        rows = found.setdefault(segment.hour_ns, Counter())
        for row in table.to_pylist():
            row["chq_object"] = keys[row["chq_object"]]
            rows[_row({names.get(name, name): value for name, value in row.items()})] += 1
    return found


def _row(values: dict[str, Any]) -> Row:
    return tuple(sorted((name, repr(value)) for name, value in values.items() if value is not None))


@pytest.mark.parametrize("signal", list(SIGNALS))
def test_a_day_in_random_order_is_the_day_in_order(signal: Signal, tmp_path: Path) -> None:
    chance = random.Random(11)
    objects = [(number, payload(signal, number, chance)) for number in range(2 * HOURS)]
    ordered, shuffled = lake_in(tmp_path / "ordered"), lake_in(tmp_path / "shuffled")
    for number, data in objects:
        ordered.arrive(f"{number:03}", data, HOUR + number // 2 * HOUR_NS, signal=signal)
        ordered.cook(signal)
    chance.shuffle(objects)
    for number, data in objects:
        shuffled.arrive(f"{number:03}", data, HOUR + number // 2 * HOUR_NS, signal=signal)
        if chance.random() < 0.3:
            shuffled.cook(signal)
    shuffled.cook(signal)
    expected, found = content(ordered, signal), content(shuffled, signal)
    assert sum(sum(rows.values()) for rows in found.values()) + quarantined(shuffled, signal) == 480
    assert found == expected
    assert len(found) == HOURS


def quarantined(lake: Lake, signal: Signal) -> int:
    """Rows more than an hour ahead of the arrival of their object."""
    return sum(segment.rows for segment, _ in lake.segments(f"{signal.value}-quarantine"))
