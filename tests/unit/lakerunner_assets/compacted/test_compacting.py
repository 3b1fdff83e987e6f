"""Segments in, fewer segments out, through the whole path over files and the index in memory."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lakerunner_assets.compacted import run as run_module
from lakerunner_assets.compacted.due import held_segments
from lakerunner_assets.compacted.task import compact_unit
from resources.index.types import BatchState
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS, HOUR_NS
from resources.objects.client import ObjectStore
from resources.objects.errors import UnavailableError
from resources.spark import SparkUnavailableError
from tests.support.compacted.compacting_lake import CompactingLake
from tests.support.cooking_lake import HOUR, SECOND

DAY = HOUR // DAY_NS * DAY_NS


def payload(signal: Signal, number: int, moments: list[int]) -> bytes:
    return {Signal.LOGS: _logs, Signal.METRICS: _metrics, Signal.TRACES: _traces}[signal](number, moments)


def _logs(number: int, moments: list[int]) -> bytes:
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    group.resource.attributes.add(key="service.name").value.string_value = f"service-{number % 3}"
    for row, moment in enumerate(moments):
        record = group.scope_logs.add().log_records.add(time_unix_nano=moment)
        record.body.string_value = f"row {row} of {number}"
        if number % 2:
            record.attributes.add(key="sometimes").value.int_value = number
    return bytes(request.SerializeToString())


def _metrics(number: int, moments: list[int]) -> bytes:
    request = ExportMetricsServiceRequest()
    group = request.resource_metrics.add()
    group.resource.attributes.add(key="service.name").value.string_value = f"service-{number % 3}"
    gauge = group.scope_metrics.add().metrics.add(name="level")
    for row, moment in enumerate(moments):
        point = gauge.gauge.data_points.add(time_unix_nano=moment, as_double=row + number / 100)
        if number % 2:
            point.attributes.add(key="sometimes").value.int_value = number
    return bytes(request.SerializeToString())


def _traces(number: int, moments: list[int]) -> bytes:
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = f"service-{number % 3}"
    for row, moment in enumerate(moments):
        group.scope_spans.add().spans.add(
            name=f"span {row}",
            trace_id=(number + 1).to_bytes(16, "big"),
            span_id=(row + 1).to_bytes(8, "big"),
            start_time_unix_nano=moment,
            end_time_unix_nano=moment + 1000,
        )
    return bytes(request.SerializeToString())


def filled(folder: Path, signal: Signal, objects: int = 6, hours: int = 1) -> CompactingLake:
    """`objects` objects with rows of each of the hours of the day."""
    lake = CompactingLake(folder, signal)
    chance = random.Random(5)
    for number in range(objects):
        moments = [DAY + h * HOUR_NS + chance.randrange(1, HOUR_NS) for h in range(hours) for _ in range(4)]
        lake.cook(f"{number}", payload(signal, number, moments), DAY + 23 * HOUR_NS)
    return lake


@pytest.mark.parametrize("signal", list(Signal))
def test_an_hour_becomes_one_segment_with_the_same_rows(tmp_path: Path, signal: Signal) -> None:
    lake = filled(tmp_path, signal)
    before = lake.rows()
    versions = lake.index.partitions("acme", signal, 0)
    (change,) = lake.compact(DAY)
    (segment,) = lake.segments()
    assert lake.rows() == before
    assert (change.segments_before, change.segments_after, change.hours) == (6, 1, (DAY,))
    assert (segment.level, segment.width_ns, segment.rows) == (1, HOUR_NS, 24)
    assert lake.index.partitions("acme", signal, 0) == versions
    assert lake.report.rows_before == lake.report.rows_after == 24
    assert lake.report.overlapping == []


def test_what_is_over_is_settled_and_not_looked_at_again(tmp_path: Path) -> None:
    lake = filled(tmp_path, Signal.LOGS)
    lake.compact(DAY)
    assert lake.index.unsettled(Signal.LOGS) == []
    assert lake.compact(DAY) == []
    assert lake.report.merges == 1


def test_only_the_hours_asked_for_are_merged(tmp_path: Path) -> None:
    lake = filled(tmp_path, Signal.LOGS, hours=3)
    lake.compact(DAY + HOUR_NS)
    assert sorted((s.hour_ns - DAY) // HOUR_NS for s in lake.segments() if s.level) == [1]


def test_quarantined_rows_are_merged_among_themselves(tmp_path: Path) -> None:
    lake = CompactingLake(tmp_path, Signal.LOGS)
    for number in range(5):
        lake.cook(f"{number}", payload(Signal.LOGS, number, [DAY + 1, SECOND]), DAY)
    before = lake.lake.messages("logs-quarantine")
    lake.compact(DAY)
    assert lake.lake.messages("logs-quarantine") == before
    assert [s.dataset for s, _ in lake.lake.segments("logs-quarantine")] == ["logs-quarantine"]


def aged(lake: CompactingLake) -> CompactingLake:
    """As if what is in it had been there for a day."""
    for kept in lake.index._state.segments.values():
        kept.published_at -= 86_400
    return lake


def rolled_up(lake: CompactingLake) -> CompactingLake:
    for version in lake.index._state.versions.values():
        version.due_at = None
    return lake


def test_a_day_is_sealed_and_late_hours_join_it(tmp_path: Path) -> None:
    signal = Signal.METRICS
    lake = rolled_up(aged(filled(tmp_path, signal, objects=3, hours=5)))
    before = lake.rows()
    (change,) = lake.compact()
    assert lake.rows() == before
    assert lake.widths() == [24]
    assert change.width_ns == DAY_NS
    assert lake.index.unsettled(signal) == []
    for number in (50, 51):
        lake.cook(f"late{number}", payload(signal, number, [DAY + number * SECOND]), DAY + 23 * HOUR_NS)
    late = lake.rows()
    assert rolled_up(lake).compact() == []  # more may come
    aged(lake).compact()
    assert lake.rows() == late
    assert set(lake.widths()) == {24}


def test_a_day_waits_for_its_rollups(tmp_path: Path) -> None:
    lake = aged(filled(tmp_path, Signal.METRICS, objects=1, hours=5))
    assert lake.compact() == []
    assert lake.widths() == [1] * 5


# --- what goes wrong -----------------------------------------------------------------------------------


def spoil(lake: CompactingLake, segment_id: str, how: str) -> None:
    path = next((lake.lake.folder / "lake").rglob(f"tbl_{segment_id}.parquet"))
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_segment_that_cannot_be_read_is_named_and_left_alone(tmp_path: Path, how: str) -> None:
    lake = filled(tmp_path, Signal.LOGS)
    bad = lake.segments()[2].segment_id
    spoil(lake, bad, how)
    lake.compact(DAY)
    assert sorted(s.level for s in lake.segments()) == [0, 1]
    (error,) = lake.report.failed
    assert bad in error
    assert held_segments(lake.index, Signal.LOGS, lake.now_s) == {bad}
    jobs = len(lake.lake.tasks.jobs)
    lake.compact(DAY)
    assert len(lake.lake.tasks.jobs) == jobs  # not tried again
    assert held_segments(lake.index, Signal.LOGS, lake.now_s + 7200) == frozenset()


def test_a_store_that_fails_blames_no_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise UnavailableError("k", "the lake is away")

    lake = filled(tmp_path, Signal.LOGS)
    before = lake.rows()
    with monkeypatch.context() as broken:
        broken.setattr(ObjectStore, "put_new", refuse)
        assert lake.compact(DAY) == []
    assert "away" in lake.report.outage
    assert held_segments(lake.index, Signal.LOGS, lake.now_s) == frozenset()
    lake.report.outage = ""
    lake.compact(DAY)
    assert lake.rows() == before
    assert len(lake.segments()) == 1


def test_a_task_that_dies_takes_nobody_along(tmp_path: Path) -> None:
    lake = filled(tmp_path, Signal.LOGS, hours=2)
    before = lake.rows()
    lake.lake.tasks.deadly.add(f'"target":{{"start_ns":{DAY},')
    lake.compact(DAY, DAY + HOUR_NS)
    assert sorted(s.hour_ns for s in lake.segments() if s.level) == [DAY + HOUR_NS]
    assert lake.rows() == before
    assert "died" in lake.report.failed[0]


def test_spark_that_goes_away_leaves_the_segments_free(tmp_path: Path) -> None:
    lake = filled(tmp_path, Signal.LOGS)
    lake.lake.tasks.fatal.add("sources")
    with pytest.raises(SparkUnavailableError):
        lake.compact(DAY)
    assert all(b.state is not BatchState.CLAIMED for b in lake.index._state.batches.values())
    lake.lake.tasks.fatal.clear()
    assert len(lake.compact(DAY)) == 1


def test_a_run_killed_before_it_published_is_planned_anew(tmp_path: Path) -> None:
    """Its outputs are in the lake; nobody sees them, and the next run writes its own."""
    lake = filled(tmp_path, Signal.LOGS)
    before = lake.rows()

    class KilledError(BaseException): ...

    def kill(*_: object) -> None:
        raise KilledError

    index = lake.index
    real, index.publish, abandon = index.publish, kill, index.abandon
    index.abandon = lambda *_: None  # a dead process gives nothing back
    with pytest.raises(KilledError):
        lake.compact(DAY)
    index.publish, index.abandon = real, abandon
    assert lake.compact(DAY) == []  # the segments are still claimed
    index.release_expired(-1.0)
    assert len(lake.compact(DAY)) == 1
    assert lake.rows() == before
    files = list((lake.lake.folder / "lake").rglob("*.parquet"))
    assert len(files) == 6 + 1 + 1


def test_an_answer_that_loses_a_row_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = filled(tmp_path, Signal.LOGS)
    before = lake.rows()

    def lossy(payload: bytes) -> bytes:
        from lakerunner_assets.compacted.units import decode_unit, encode

        answer = compact_unit(decode_unit(payload), lake.lake.settings)
        return encode(replace(answer, rows_written=answer.rows_written - 1))

    monkeypatch.setattr(run_module, "compact_task", lossy)
    assert lake.compact(DAY) == []
    assert "24 rows in the index" in lake.report.failed[0]
    assert lake.rows() == before


# --- races ---------------------------------------------------------------------------------------------


def test_rows_that_arrive_while_an_hour_is_merged_stay(tmp_path: Path) -> None:
    lake = filled(tmp_path, Signal.LOGS)
    before = lake.rows()
    late = payload(Signal.LOGS, 77, [DAY + 9])
    did: list[int] = []

    def meanwhile() -> None:
        if not did:
            did.append(1)
            lake.cook("late", late, DAY)

    lake.lake.tasks.before = meanwhile
    lake.compact(DAY)
    after = lake.rows()
    assert len(after - before) == 1
    assert before - after == type(before)()


def test_of_two_compactions_one_gets_the_segments(tmp_path: Path) -> None:
    lake = filled(tmp_path, Signal.LOGS)
    before = lake.rows()
    inner: list[int] = []

    def meanwhile() -> None:
        if not inner:
            inner.append(1)
            inner.append(len(lake.compact(DAY)))

    lake.lake.tasks.before = meanwhile
    assert len(lake.compact(DAY)) == 1
    assert inner == [1, 0]
    assert lake.rows() == before


def test_an_hour_rebuilt_while_it_is_merged_is_neither_doubled_nor_lost(tmp_path: Path) -> None:
    lake = filled(tmp_path, Signal.LOGS)
    before = lake.rows()
    did: list[int] = []

    def meanwhile() -> None:
        if not did:
            did.append(1)
            lake.rebuild(DAY)

    lake.lake.tasks.before = meanwhile
    lake.compact(DAY)
    assert lake.rows() == before
    assert lake.report.conflicts


def test_an_hour_merged_while_it_is_rebuilt_is_planned_anew(tmp_path: Path) -> None:
    lake = filled(tmp_path, Signal.LOGS)
    before = lake.rows()
    did: list[int] = []

    def meanwhile() -> None:
        if not did:
            did.append(1)
            lake.compact(DAY)

    lake.lake.tasks.before = meanwhile
    lake.rebuild(DAY)
    assert did
    assert lake.rows() == before
    assert [s.level for s in lake.segments()] == [0]
