"""What is merged when: single decisions, and whole lives of hours and days."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_assets.compacted.plan import plan_merges
from lakerunner_assets.compacted.policy import MIB, Merge, Policy, month_of, segment_limit
from resources.index.types import BatchKind, DuePartition, LiveSegment
from resources.lake.frequency import DAY, MINUTE
from resources.lake.frequency import HOUR as HOUR_MS
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS, HOUR_NS, SECOND_NS, from_datetime, to_datetime
from tests.support.compacted.merging_world import DAY_START, HOUR, POLICY, World, live, trickle

OVER = HOUR + 3 * HOUR_NS
GROWING = HOUR + HOUR_NS // 2
SEALED = DAY_START + 2 * DAY_NS + HOUR_NS


def metric(number: int, size: int, hour: int = HOUR, **more: object) -> LiveSegment:
    return live(number, size, hour, **{"signal": Signal.METRICS, "dataset": "metrics", **more})


def sizes(merge: Merge) -> list[int]:
    return [segment.bytes // MIB for segment in merge.inputs]


def test_an_hour_that_grows_is_left_alone_while_it_has_few_segments() -> None:
    found = plan_merges([live(i, MIB) for i in range(31)], GROWING, POLICY)
    assert (found.merges, found.settle) == ((), ())


def test_too_many_segments_of_one_size_are_merged_while_the_hour_grows() -> None:
    (merge,) = plan_merges([live(i, MIB) for i in range(32)], GROWING, POLICY).merges
    assert (merge.kind, len(merge.inputs), merge.level) == (BatchKind.COMPACT, 32, 1)
    assert (merge.start_ns, merge.width_ns) == (HOUR, HOUR_NS)


def test_what_fills_a_segment_goes_together_from_eight_on() -> None:
    nine = [live(i, 90 * MIB) for i in range(9)]
    (merge,) = plan_merges(nine, GROWING, POLICY).merges
    assert len(merge.inputs) == 9
    assert plan_merges([live(i, 300 * MIB) for i in range(7)], GROWING, POLICY).merges == ()


def test_full_segments_are_never_rewritten() -> None:
    full = [live(i, 512 * MIB) for i in range(40)]
    found = plan_merges(full, OVER, POLICY)
    assert found.merges == ()
    assert len(found.settle) == 40


def test_an_hour_that_is_over_keeps_its_largest_and_one_more() -> None:
    found = plan_merges([live(i, MIB) for i in range(10)] + [live(99, 40 * MIB)], OVER, POLICY)
    (merge,) = found.merges
    assert sizes(merge) == [1] * 10
    assert found.settle == ()


def test_rows_that_came_late_do_not_rewrite_what_is_large() -> None:
    closed = [live(1, 700 * MIB // 2, settled=True, level=2), live(2, 3 * MIB, settled=True, level=1)]
    (merge,) = plan_merges([*closed, live(3, MIB)], OVER, POLICY).merges
    assert sizes(merge) == [1, 3]
    assert merge.level == 2


def test_late_rows_wait_for_company_and_a_person_does_not() -> None:
    late = [live(i, MIB, published_at_ns=OVER - 60 * SECOND_NS) for i in range(5)]
    assert plan_merges(late, OVER, POLICY).merges == ()
    assert plan_merges(late, OVER, POLICY).settle == ()
    assert len(plan_merges(late, OVER, replace(POLICY, closed=True)).merges) == 1


def test_an_hour_within_its_limit_is_settled() -> None:
    assert plan_merges([live(1, MIB)], OVER, POLICY).settle == (f"{1:032x}",)
    assert len(plan_merges([live(1, MIB), live(2, MIB)], OVER, POLICY).settle) == 2
    assert plan_merges([live(1, MIB)], GROWING, POLICY).settle == ()


@pytest.mark.parametrize("other", [{"org": "b"}, {"collector": "d"}, {"dataset": "logs-quarantine"}])
def test_strangers_are_never_merged(other: dict[str, str]) -> None:
    segments = [live(i, MIB) for i in range(20)] + [live(50 + i, MIB, **other) for i in range(20)]
    merges = plan_merges(segments, OVER, POLICY).merges
    assert [len({(s.org, s.collector, s.dataset) for s in merge.inputs}) for merge in merges] == [1, 1]


def test_side_data_is_settled_and_never_merged() -> None:
    side = [metric(i, MIB, dataset="metrics-cardinality", frequency_ms=HOUR_MS) for i in range(50)]
    found = plan_merges(side, OVER, POLICY)
    assert (found.merges, len(found.settle)) == ((), 50)


def test_metric_hours_wait_for_their_seal_unsettled() -> None:
    found = plan_merges([metric(1, MIB), metric(2, MIB, HOUR + HOUR_NS)], OVER + HOUR_NS, POLICY)
    assert (found.merges, found.settle) == ((), ())


def test_quarantined_metrics_stay_by_hour() -> None:
    kept = [metric(i, MIB, HOUR + i * HOUR_NS, dataset="metrics-quarantine") for i in range(5)]
    assert len(plan_merges(kept, SEALED, POLICY).settle) == 5


def test_a_day_of_metrics_becomes_day_wide() -> None:
    day = [metric(i, MIB, DAY_START + i * HOUR_NS) for i in range(24)]
    (merge,) = plan_merges(day, SEALED, POLICY).merges
    assert (merge.kind, merge.start_ns, merge.width_ns) == (BatchKind.SEAL, DAY_START, DAY_NS)
    assert len(merge.inputs) == 24
    assert plan_merges(day, DAY_START + 2 * DAY_NS - 1, POLICY).merges == ()


def test_days_and_frequencies_are_sealed_apart() -> None:
    day = [metric(i, MIB, DAY_START + i * HOUR_NS) for i in range(48)]
    day += [
        metric(100 + i, MIB, DAY_START + i * HOUR_NS, frequency_ms=MINUTE, dataset="metrics-1m")
        for i in range(24)
    ]
    merges = plan_merges(day, SEALED + DAY_NS, POLICY).merges
    assert sorted((m.frequency_ms, (m.start_ns - DAY_START) // DAY_NS, len(m.inputs)) for m in merges) == [
        (0, 0, 24),
        (0, 1, 24),
        (MINUTE, 0, 24),
    ]


def test_day_wide_rollups_are_sealed_by_month() -> None:
    first, width = month_of(DAY_START)
    assert to_datetime(first).day == 1
    assert to_datetime(first + width).day == 1
    days = [
        metric(i, MIB, first + i * DAY_NS, width_ns=DAY_NS, frequency_ms=DAY, dataset="metrics-1d")
        for i in range(width // DAY_NS)
    ]
    after = first + width + 2 * DAY_NS
    (merge,) = plan_merges(days, after, POLICY).merges
    assert (merge.start_ns, merge.width_ns, merge.kind) == (first, width, BatchKind.SEAL)
    assert plan_merges(days, first + width, POLICY).merges == ()


def test_months_have_their_lengths() -> None:
    def month(text: str) -> int:
        return from_datetime(to_datetime(0).replace(year=int(text[:4]), month=int(text[5:])))

    for name, days in (("2024-02", 29), ("2026-02", 28), ("2026-12", 31), ("2026-04", 30)):
        assert month_of(month(name) + 27 * DAY_NS) == (month(name), days * DAY_NS)


def test_a_day_with_a_rollup_to_be_built_is_not_sealed_yet() -> None:
    day = [metric(i, MIB, DAY_START + i * HOUR_NS) for i in range(24)]
    due = [DuePartition("acme", Signal.METRICS, MINUTE, DAY_START + 3 * HOUR_NS, 5.0)]
    assert plan_merges(day, SEALED, POLICY, due).merges == ()
    others = [replace(due[0], org="b"), replace(due[0], start_ns=DAY_START + DAY_NS)]
    assert len(plan_merges(day, SEALED, POLICY, others).merges) == 1


def test_a_late_hour_stays_beside_its_sealed_day_and_further_ones_join_it() -> None:
    whole = metric(1, 400 * MIB, DAY_START, width_ns=DAY_NS, settled=True, level=2)
    first = metric(2, MIB)
    assert plan_merges([whole, first], SEALED, POLICY).settle == (first.segment_id,)
    second = metric(3, MIB, HOUR + HOUR_NS)
    (merge,) = plan_merges([whole, replace(first, settled=True), second], SEALED, POLICY).merges
    assert sizes(merge) == [1, 1]
    assert (merge.kind, merge.width_ns) == (BatchKind.SEAL, DAY_NS)


def test_the_reason_says_what_was_seen() -> None:
    (merge,) = plan_merges([live(i, MIB) for i in range(9)], OVER, POLICY).merges
    assert "9 small segments, at most 2" in merge.reason


# --- whole lives -------------------------------------------------------------------------------------


def test_a_usual_hour_is_written_about_twice() -> None:
    for size in (MIB // 50, MIB // 5, 2 * MIB, 20 * MIB):
        world = World()
        trickle(world, 20, size, spread=0.5)
        assert world.amplification <= 2.2, size
        assert all(s.settled for s in world.segments.values())


@pytest.mark.parametrize(("every", "size"), [(20, 5 * MIB), (5, MIB // 2), (5, 5 * MIB), (3, 40 * MIB)])
def test_fast_and_huge_hours_are_written_at_most_three_times(every: int, size: int) -> None:
    world = World()
    trickle(world, every, size, spread=0.9)
    assert world.amplification <= 3.0
    assert world.crowd <= 200
    _assert_within_limit(world)


def test_a_day_of_metrics_is_written_about_three_times_until_it_is_sealed() -> None:
    world = World(signal=Signal.METRICS)
    for hour in range(24):
        trickle(world, 60, MIB // 2, DAY_START + hour * HOUR_NS)
    assert {s.width_ns for s in world.segments.values()} == {HOUR_NS}
    world.settle_down(SEALED)
    assert {(s.width_ns, s.settled) for s in world.segments.values()} == {(DAY_NS, True)}
    assert world.amplification <= 3.2


arrivals = st.lists(
    st.tuples(
        st.sampled_from(["c", "d"]),
        st.integers(0, 2),  # hour
        st.floats(0, 9),  # hours until it arrives, from the start of its hour
        st.sampled_from([10_000, MIB, 30 * MIB, 200 * MIB, 2000 * MIB]),
        st.integers(1, 40),  # so many of them, a second apart
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60)
@given(arrivals, st.sampled_from([Signal.LOGS, Signal.METRICS]))
def test_any_arrivals_end_in_few_segments(
    found: list[tuple[str, int, float, int, int]], signal: Signal
) -> None:
    world = World(signal=signal)
    events = sorted(
        (HOUR + hour * HOUR_NS + int(late * HOUR_NS) + SECOND_NS * i, hour, collector, size)
        for collector, hour, late, size, count in found
        for i in range(count)
    )
    for number, (now, hour, collector, size) in enumerate(events):
        world.arrive(now, size, HOUR + hour * HOUR_NS, collector)
        if number % 5 == 0:
            world.settle_down(now)
    world.settle_down(events[-1][0] + 5 * HOUR_NS)
    _assert_within_limit(world)
    world.settle_down(SEALED + DAY_NS)
    assert all(s.settled for s in world.segments.values())
    assert sum(s.bytes for s in world.segments.values()) == world.arrived
    assert all(len(merge.inputs) >= 8 for now, merge in world.merges if now < merge.start_ns + HOUR_NS)


@settings(max_examples=40)
@given(st.integers(1, 10**6), st.integers(1, 120), st.booleans())
def test_the_order_of_what_is_shown_changes_nothing(seed: int, count: int, over: bool) -> None:
    chance = random.Random(seed)
    segments = [
        live(i, chance.choice([5000, 5000, MIB, 40 * MIB]), level=chance.choice([0, 0, 1]))
        for i in range(count)
    ]
    shuffled = chance.sample(segments, len(segments))
    now = OVER if over else GROWING
    assert plan_merges(segments, now, POLICY) == plan_merges(shuffled, now, POLICY)


def test_late_rows_over_many_hours_stay_cheap() -> None:
    world = World()
    trickle(world, 20, MIB)
    now = OVER
    for _ in range(20):
        now += HOUR_NS
        world.arrive(now, MIB)
        world.settle_down(now + HOUR_NS // 2)
    assert world.amplification <= 4.0
    assert len(world.segments) <= 2


def test_a_replay_of_an_old_hour_is_not_closed_again_for_every_object() -> None:
    world = World()
    trickle(world, 60, MIB)
    before = len(world.merges)
    now = OVER
    for _ in range(180):
        now += 20 * SECOND_NS
        world.arrive(now, MIB)
        world.settle_down(now)
    world.settle_down(now + HOUR_NS)
    assert len(world.merges) - before <= 6
    assert world.amplification <= 4.0


def _assert_within_limit(world: World) -> None:
    """No window of a collector has more small segments than its bytes need, and one."""
    groups: dict[tuple[str, int, int], list[LiveSegment]] = {}
    for s in world.segments.values():
        if s.bytes < POLICY.full_bytes:
            groups.setdefault((s.collector, s.hour_ns, s.width_ns), []).append(s)
    for small in groups.values():
        assert len(small) <= segment_limit(small, POLICY)


def test_the_policy_is_what_the_settings_say() -> None:
    from resources.settings import Settings

    assert Policy.of(Settings()) == POLICY
