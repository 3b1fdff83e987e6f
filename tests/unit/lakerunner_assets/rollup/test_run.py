"""Rollups through the index: built from what is live, swapped as a whole, never used when stale."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakerunner_assets.rollup import run
from lakerunner_assets.rollup.checks import Totals, totals
from lakerunner_assets.rollup.run import RollReport, with_due
from resources.index.types import BatchKind, BatchPlan, PublishConflictError, SegmentQuery
from resources.lake.cardinality import read
from resources.lake.frequency import (
    CARDINALITY_DATASET,
    DAY,
    FIVE_MINUTES,
    MINUTE,
    ROLLUPS,
    TEN_SECONDS,
    rollup_of,
)
from resources.lake.frequency import HOUR as HOUR_MS
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS
from resources.spark import TaskCrashError
from tests.support.cooking_lake import HOUR, SECOND, Lake, lake_in
from tests.support.rolling_lake import DAY as DAY_START
from tests.support.rolling_lake import arrive, current, every, files, gauge, roll, roll_hours, rows


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path)


def cook(lake: Lake, *samples: tuple[int, float], name: str = "a", hour: int = HOUR) -> None:
    arrive(lake, name, gauge(samples or every(15, hour)), hour)
    lake.cook(Signal.METRICS)


def test_an_hour_goes_up_to_the_day(lake: Lake) -> None:
    cook(lake)
    assert roll_hours(lake) == {TEN_SECONDS: 1, MINUTE: 1, FIVE_MINUTES: 1, HOUR_MS: 1}
    assert len(roll(lake, DAY, DAY_START)) == 1
    per_frequency = {r.frequency_ms: rows(lake, r.frequency_ms) for r in ROLLUPS}
    assert [len(per_frequency[f]) for f in (TEN_SECONDS, MINUTE, FIVE_MINUTES, HOUR_MS, DAY)] == [
        240, 60, 12, 1, 1,
    ]  # fmt: skip
    for frequency in (HOUR_MS, DAY):
        (row,) = per_frequency[frequency]
        assert (row["chq_rollup_count"], row["chq_rollup_first"], row["chq_rollup_last"]) == (240, 0.0, 239.0)
        assert row["chq_rollup_sum"] + row["chq_rollup_sum_c"] == sum(range(240))
    assert current(lake) == {0: {HOUR}, **{r.frequency_ms: {HOUR} for r in ROLLUPS[:-1]}, DAY: {DAY_START}}


def test_what_is_current_is_not_built_again_unless_forced(lake: Lake) -> None:
    cook(lake)
    roll_hours(lake)
    before = files(lake)
    assert roll_hours(lake) == {TEN_SECONDS: 0, MINUTE: 0, FIVE_MINUTES: 0, HOUR_MS: 0}
    assert files(lake) == before
    assert len(roll(lake, TEN_SECONDS, force=True)) == 1


def test_late_rows_swap_the_partition_and_nothing_is_added_to_it(lake: Lake) -> None:
    cook(lake)
    roll_hours(lake)
    cook(lake, (HOUR + 7 * SECOND, 1000.0), name="late")
    assert current(lake)[HOUR_MS] == set()
    roll_hours(lake)
    (row,) = rows(lake, HOUR_MS)
    assert (row["chq_rollup_count"], row["chq_rollup_max"]) == (241, 1000.0)
    assert current(lake)[HOUR_MS] == {HOUR}
    live = lake.index.find_segments(SegmentQuery("acme", "metrics-10s", TEN_SECONDS, 0, 2**62))
    assert len(live) == 1


def test_hours_without_rows_have_no_rollups(lake: Lake) -> None:
    assert roll_hours(lake, HOUR, HOUR + HOUR_NS) == dict.fromkeys(
        (TEN_SECONDS, MINUTE, FIVE_MINUTES, HOUR_MS), 0
    )
    assert files(lake) == set()


def test_many_hours_are_one_job(lake: Lake) -> None:
    for hour in range(5):
        cook(lake, hour=HOUR + hour * HOUR_NS, name=f"h{hour}")
    lake.tasks.jobs.clear()
    assert len(roll(lake, TEN_SECONDS, *(HOUR + hour * HOUR_NS for hour in range(7)))) == 5
    assert lake.tasks.jobs == [5]


def test_a_rollup_that_holds_other_samples_than_its_source_is_reported(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    cook(lake)
    roll(lake, TEN_SECONDS)
    report = RollReport()
    roll(lake, MINUTE, report=report)
    assert report.unequal == []
    found = [Totals(240, 28_680.0, 28_680.0), Totals(240, 28_679.0, 28_680.0)]
    monkeypatch.setattr("lakerunner_assets.rollup.task.totals", lambda *_: found.pop())
    roll(lake, FIVE_MINUTES, report=report)
    assert "28679.0" in report.unequal[0]


def test_totals_are_those_of_the_rows_in_the_window(lake: Lake) -> None:
    cook(lake)
    roll_hours(lake)
    for dataset in ("metrics-10s", "metrics-1h"):
        paths = [lake.folder / "lake" / path for path in files(lake) if f"/{dataset}/" in str(path)]
        assert totals(paths, HOUR, HOUR + HOUR_NS) == Totals(240, 28_680.0, 28_680.0)
        assert totals(paths, HOUR + HOUR_NS, HOUR + 2 * HOUR_NS) == Totals()


def test_cardinality_lies_beside_hours_and_days(lake: Lake) -> None:
    for service in ("web", "api"):
        arrive(lake, service, gauge(every(60), service=service))
    arrive(lake, "next", gauge(every(60, HOUR + HOUR_NS), service="db"), HOUR + HOUR_NS)
    lake.cook(Signal.METRICS)
    roll_hours(lake, HOUR, HOUR + HOUR_NS)
    roll(lake, DAY, DAY_START)

    def series(frequency: int, start: int) -> float:
        found = lake.index.find_segments(SegmentQuery("acme", CARDINALITY_DATASET, frequency, 0, 2**62))
        (segment,) = [s for s in found if s.hour_ns == start]
        table = read(lake.folder / "lake" / segment.key).to_pylist()
        return round(next(r["estimate"] for r in table if not r["label"]))

    assert (series(HOUR_MS, HOUR), series(HOUR_MS, HOUR + HOUR_NS), series(DAY, DAY_START)) == (2, 1, 3)
    arrive(lake, "more", gauge(every(60), service="cache"))
    lake.cook(Signal.METRICS)
    roll_hours(lake, HOUR)
    roll(lake, DAY, DAY_START)
    assert (series(HOUR_MS, HOUR), series(DAY, DAY_START)) == (3, 4)


def test_a_damaged_segment_fails_its_partition_by_name_and_not_its_neighbours(lake: Lake) -> None:
    cook(lake)
    cook(lake, hour=HOUR + HOUR_NS, name="b")
    (segment, *_) = lake.index.live_segments("acme", Signal.METRICS, 0, HOUR)
    path = lake.folder / "lake" / segment.key
    path.write_bytes(path.read_bytes()[:200])
    report = RollReport()
    changes = roll(lake, TEN_SECONDS, HOUR, HOUR + HOUR_NS, report=report)
    assert [change.start_ns for change in changes] == [HOUR + HOUR_NS]
    assert len(report.failed) == 1
    assert "source-0.parquet" in report.failed[0] or segment.segment_id in report.failed[0]
    assert lake.index.due_partitions(Signal.METRICS, TEN_SECONDS)[0].start_ns == HOUR


def test_a_partition_built_by_somebody_else_meanwhile_is_looked_at_again(lake: Lake) -> None:
    cook(lake)
    report = RollReport()

    def other() -> None:
        lake.tasks.before = bool
        roll(lake, TEN_SECONDS)

    lake.tasks.before = other
    assert roll(lake, TEN_SECONDS, report=report) == []
    assert (len(report.conflicts), report.current) == (1, 1)
    assert len(rows(lake, TEN_SECONDS)) == 240


def test_rows_that_arrive_while_it_is_built_leave_it_due(lake: Lake) -> None:
    cook(lake)

    def late() -> None:
        lake.tasks.before = bool
        cook(lake, (HOUR + 5 * SECOND, 5.0), name="late")

    lake.tasks.before = late
    assert len(roll(lake, TEN_SECONDS)) == 1
    assert current(lake)[TEN_SECONDS] == set()
    assert len(roll(lake, TEN_SECONDS)) == 1
    assert current(lake)[TEN_SECONDS] == {HOUR}
    assert sum(r["chq_rollup_count"] for r in rows(lake, TEN_SECONDS)) == 241


def test_a_crash_leaves_nothing_claimed_and_nothing_published(lake: Lake) -> None:
    cook(lake)
    lake.tasks.deadly.add("metrics")
    with pytest.raises(TaskCrashError):
        roll(lake, TEN_SECONDS)
    assert lake.index.release_expired(-1.0) == 0
    assert rows(lake, TEN_SECONDS) == []
    lake.tasks.deadly.clear()
    assert len(roll(lake, TEN_SECONDS)) == 1


def test_rollups_outlive_their_samples_and_are_not_built_from_half_of_them(lake: Lake) -> None:
    cook(lake)
    roll_hours(lake)
    lake.index._state.versions["acme", Signal.METRICS, 0, HOUR].expired = True
    for segment in lake.index.live_segments("acme", Signal.METRICS, 0, HOUR):
        claim = lake.index.create_claimed(
            BatchPlan(BatchKind.COMPACT, "acme", "c", Signal.METRICS, HOUR, (), (segment.segment_id,))
        )
        lake.index.publish(run.Publication(claim, (), retire=(segment.segment_id,)))
    assert (current(lake)[0], current(lake)[HOUR_MS]) == (set(), {HOUR})
    report = RollReport()
    assert roll(lake, TEN_SECONDS, force=True, report=report) == []
    assert "were deleted" in report.refused[0]
    assert lake.index.due_partitions(Signal.METRICS, TEN_SECONDS) == []
    assert len(rows(lake, TEN_SECONDS)) == 240


@pytest.mark.parametrize("seed", range(3))
def test_any_interleaving_of_cooking_and_rolling_ends_like_one_ordered_batch(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    moments = [(HOUR + chance.randrange(SECOND, 3 * HOUR_NS), chance.uniform(-5, 5)) for _ in range(300)]
    hours = tuple(HOUR + n * HOUR_NS for n in range(3))
    ordered, mixed = lake_in(tmp_path / "ordered"), lake_in(tmp_path / "mixed")
    arrive(ordered, "all", gauge(sorted(moments)))
    ordered.cook(Signal.METRICS)
    roll_hours(ordered, *hours)
    roll(ordered, DAY, DAY_START)
    for number in range(12):
        arrive(mixed, f"{number}", gauge(moments[number::12]))
        if chance.random() < 0.6:
            mixed.cook(Signal.METRICS)
        for rollup in chance.sample(ROLLUPS, 2):
            roll(mixed, rollup.frequency_ms, *([DAY_START] if rollup.frequency_ms == DAY else hours))
    mixed.cook(Signal.METRICS)
    roll_hours(mixed, *hours)
    roll(mixed, DAY, DAY_START)
    for rollup in ROLLUPS:
        assert rows(mixed, rollup.frequency_ms) == rows(ordered, rollup.frequency_ms)
    assert current(mixed) == current(ordered)


def test_files_of_a_rollup_say_where_they_belong(lake: Lake) -> None:
    cook(lake)
    roll_hours(lake)
    names = sorted(str(path) for path in files(lake) if "metrics-1h" in str(path))
    assert len(names) == 1
    assert names[0].startswith("db/acme/all/20260101/metrics-1h/00/tbl_")
    assert pq.read_metadata(lake.folder / "lake" / names[0]).num_rows == 1


def test_two_builds_of_one_plan_cannot_both_be_published(lake: Lake) -> None:
    cook(lake)
    planned = run._plan(lake.run_context(), ROLLUPS[0], "acme", [HOUR], False)
    for expected in (1, 0):
        claim = run._claim(lake.run_context(), planned.rolls[0])
        publication = run._publication(claim, planned.rolls[0], ())
        if expected:
            lake.index.publish(publication)
        else:
            with pytest.raises(PublishConflictError):
                lake.index.publish(publication)


def test_a_run_of_lineage_takes_along_what_is_due_for_others(lake: Lake) -> None:
    for number in range(3):
        cook(lake, name=f"hour {number}", hour=HOUR + number * HOUR_NS)
    rollup, horizon = rollup_of(TEN_SECONDS), "2020-01-01"
    own = {"beta": [HOUR], "acme": [HOUR + HOUR_NS]}
    found = with_due(lake.index, rollup, own, horizon)
    assert list(found) == ["beta", "acme"]
    assert found["beta"] == [HOUR]
    assert found["acme"] == [HOUR + HOUR_NS, HOUR, HOUR + 2 * HOUR_NS]
    roll(lake, TEN_SECONDS, HOUR)
    assert with_due(lake.index, rollup, {}, horizon) == {"acme": [HOUR + HOUR_NS, HOUR + 2 * HOUR_NS]}
    assert with_due(lake.index, rollup, {}, "2200-01-01") == {}
    assert with_due(lake.index, rollup_of(DAY), {}, horizon) == {}
