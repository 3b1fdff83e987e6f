"""Hours cut out of sealed days, and rebuilt there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakerunner_assets.compacted.carve import CarveConflictError, CarveError, segments_of_window
from resources.index.types import BatchKind, BatchPlan, PublishConflictError
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS
from resources.objects.client import ObjectStore
from resources.objects.errors import UnavailableError
from tests.support.compacted.compacting_lake import CompactingLake
from tests.support.cooking_lake import SECOND
from tests.unit.lakerunner_assets.compacted.test_compacting import DAY, aged, filled, payload, rolled_up

HOURS = 5


@pytest.fixture
def sealed(tmp_path: Path) -> CompactingLake:
    """A day with rows in its first five hours, in one segment."""
    lake = rolled_up(aged(filled(tmp_path, Signal.METRICS, objects=3, hours=HOURS)))
    lake.compact()
    assert lake.widths() == [24]
    return lake


def once(lake: CompactingLake, act: Callable[[], object]) -> list[object]:
    """Do it in the middle of the next Spark job."""
    done: list[object] = []

    def meanwhile() -> None:
        if not done:
            done.append(None)
            done[0] = act()

    lake.lake.tasks.before = meanwhile
    return done


def test_hours_of_a_sealed_day_become_their_own_segments(sealed: CompactingLake) -> None:
    before = sealed.rows()
    versions = sealed.index.partitions("acme", Signal.METRICS, 0)
    rests = sealed.carve(DAY, DAY + 3 * HOUR_NS)
    assert sealed.rows() == before
    assert sealed.widths() == [1, 1, 24]
    hours = {s.hour_ns: s.rows for s in sealed.segments() if s.width_ns == HOUR_NS}
    assert hours == {DAY: 12, DAY + 3 * HOUR_NS: 12}
    assert rests == {s.segment_id for s in sealed.segments() if s.width_ns > HOUR_NS}
    assert sealed.index.partitions("acme", Signal.METRICS, 0) == versions
    assert sealed.index.unsettled(Signal.METRICS) == []  # nobody seals it back at once


def test_a_day_that_is_carved_whole_has_no_rest(sealed: CompactingLake) -> None:
    before = sealed.rows()
    assert sealed.carve(*(DAY + i * HOUR_NS for i in range(24))) == frozenset()
    assert sealed.widths() == [1] * HOURS
    assert sealed.rows() == before


def test_where_nothing_is_sealed_nothing_is_done(tmp_path: Path) -> None:
    lake = filled(tmp_path, Signal.METRICS, objects=2, hours=2)
    jobs = len(lake.lake.tasks.jobs)
    assert lake.carve(DAY) == frozenset()
    assert len(lake.lake.tasks.jobs) == jobs
    assert lake.carve() == frozenset()


def test_a_sealed_day_elsewhere_is_not_touched(sealed: CompactingLake) -> None:
    before = {s.segment_id for s in sealed.segments()}
    assert sealed.carve(DAY - HOUR_NS, DAY + 24 * HOUR_NS) == frozenset()
    assert {s.segment_id for s in sealed.segments()} == before


def test_the_first_hour_of_a_day_is_not_taken_for_the_day(sealed: CompactingLake) -> None:
    """Both start at the same moment."""
    before = sealed.rows()
    sealed.rebuild(DAY)
    assert sealed.rows() == before
    assert sealed.widths() == [1, 24]


def test_an_hour_of_a_sealed_day_is_rebuilt_and_sealed_again(sealed: CompactingLake) -> None:
    before = sealed.rows()
    hours = [DAY + HOUR_NS, DAY + 2 * HOUR_NS]
    (first, second) = sealed.rebuild(*hours)
    assert [first.hour_ns, second.hour_ns] == hours
    assert sealed.rows() == before
    assert sealed.widths() == [1, 1, 24]
    aged(rolled_up(sealed)).compact()
    assert sealed.rows() == before
    assert sealed.widths() in ([24], [24, 24])


def test_merged_hours_are_rebuilt_like_cooked_ones(tmp_path: Path) -> None:
    lake = filled(tmp_path, Signal.LOGS, objects=4)
    lake.compact(DAY)
    lake.cook("late", payload(Signal.LOGS, 9, [DAY + 9]), DAY + 23 * HOUR_NS)
    before = lake.rows()
    lake.rebuild(DAY)
    assert lake.rows() == before
    assert [s.level for s in lake.segments()] == [0]


def test_somebody_who_has_the_day_is_waited_for(sealed: CompactingLake) -> None:
    (day,) = sealed.segments()
    held = sealed.index.create_claimed(
        BatchPlan(BatchKind.SEAL, "acme", "c", Signal.METRICS, DAY, segment_ids=(day.segment_id,))
    )
    with pytest.raises(CarveConflictError, match="8 tries"):
        sealed.carve(DAY)
    sealed.index.abandon(held, "done")
    sealed.carve(DAY)
    assert sealed.widths() == [1, 24]


def test_a_day_sealed_anew_while_it_is_carved_is_carved_again(sealed: CompactingLake) -> None:
    """Late rows of the hour come and are sealed in, after the carving has looked."""
    before = sealed.rows()
    (old,) = sealed.segments()
    for number in (60, 61, 62):
        hour = DAY + (number - 60) * HOUR_NS
        sealed.cook(f"{number}", payload(Signal.METRICS, number, [hour + SECOND]), DAY + 23 * HOUR_NS)
    aged(rolled_up(sealed))
    seen = once(sealed, sealed.compact)
    rests = sealed.carve(DAY)
    assert seen[0]
    assert len(sealed.rows() - before) == 3
    assert before - sealed.rows() == type(before)()
    assert old.segment_id not in {s.segment_id for s in sealed.segments()}
    wide = [s for s in sealed.segments() if s.width_ns > HOUR_NS]
    assert {s.segment_id for s in wide} <= rests
    hour = [s for s in sealed.segments() if (s.hour_ns, s.width_ns) == (DAY, HOUR_NS)]
    assert sum(s.rows for s in hour) == 13


def test_a_day_sealed_while_one_of_its_hours_is_rebuilt_is_planned_anew(tmp_path: Path) -> None:
    lake = rolled_up(aged(filled(tmp_path, Signal.METRICS, objects=3, hours=HOURS)))
    before = lake.rows()
    seen = once(lake, lake.compact)
    lake.rebuild(DAY)
    assert seen[0], "the seal came first"
    assert lake.rows() == before
    assert lake.widths() == [1, 24]
    assert lake.lake.report.conflicts


def test_a_wider_segment_nobody_vouches_for_is_a_conflict(sealed: CompactingLake) -> None:
    with pytest.raises(PublishConflictError, match="wider segments"):
        segments_of_window(sealed.segments(), DAY, HOUR_NS, ())
    rests = sealed.carve(DAY)
    (hour,) = segments_of_window(sealed.segments(), DAY, HOUR_NS, rests)
    assert hour.rows == 12


def test_a_day_that_cannot_be_read_is_a_clear_error(sealed: CompactingLake) -> None:
    (day,) = sealed.segments()
    next((sealed.lake.folder / "lake").rglob(f"tbl_{day.segment_id}.parquet")).unlink()
    with pytest.raises(CarveError, match=day.segment_id):
        sealed.carve(DAY)
    assert sealed.widths() == [24]


def test_a_carving_that_fails_leaves_the_day_free(
    sealed: CompactingLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UnavailableError("k", "the lake is away")

    before = sealed.rows()
    with monkeypatch.context() as broken:
        broken.setattr(ObjectStore, "put_new", refuse)
        with pytest.raises(CarveError, match="away"):
            sealed.carve(DAY)
    sealed.carve(DAY)
    assert sealed.rows() == before
