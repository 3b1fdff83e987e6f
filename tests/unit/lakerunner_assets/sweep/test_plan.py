"""What a sweep may touch, decided over values."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_assets.sweep.plan import (
    Policy,
    forgettable_ages,
    in_force,
    is_ours,
    old_tiers,
    old_windows,
    raw_ages,
    suspicious,
    to_list,
)
from resources.index.sweeping_types import Aging, AgingSegment, OldTier, OrphanCount, Retention
from resources.lake.frequency import DAY as DAY_MS
from resources.lake.layout import Signal, hourly_segment_key, segment_key
from resources.lake.retention import NOTICE_S, ended_by_ns, too_old_ns
from resources.lake.timecut import DAY_NS, HOUR_NS, from_datetime, to_datetime
from resources.settings import Settings, SettingsError

DAY = 20_458 * DAY_NS
OLD = 10 * NOTICE_S


def aging_segment(number: int, start: int, width: int = HOUR_NS, busy: bool = False) -> AgingSegment:
    return AgingSegment(f"{number:032x}", f"db/{number}", start, width, 10, busy)


def windows(
    segments: list[AgingSegment], partitions: list[int], ended_by: int, seen_to: int = 2**62
) -> list[tuple[list[int], list[int]]]:
    """(segments, partitions) of each window that goes."""
    tier = OldTier("acme", Signal.METRICS, 0, ended_by)
    found = old_windows(Aging(tuple(segments), tuple(partitions), seen_to), tier)
    return [([int(s.segment_id, 16) for s in w.segments], list(w.partitions)) for w in found]


def test_the_example_of_the_module() -> None:
    now = from_datetime(to_datetime(DAY)) + 9 * DAY_NS + 3 * HOUR_NS
    ended_by = ended_by_ns(9, now)
    assert ended_by == DAY + HOUR_NS
    hours = [aging_segment(1, DAY), aging_segment(2, DAY + HOUR_NS)]
    assert windows(hours, [DAY, DAY + HOUR_NS], ended_by) == [([1], [DAY])]
    before = DAY - DAY_NS
    all_hours = [before + hour * HOUR_NS for hour in range(24)]
    sealed = [aging_segment(1, before, DAY_NS), aging_segment(2, before + 5 * HOUR_NS)]
    assert windows(sealed, all_hours, ended_by) == [([1, 2], all_hours)]
    today = [aging_segment(1, DAY, DAY_NS), aging_segment(2, DAY)]
    assert windows(today, [DAY], ended_by) == []


def test_a_busy_segment_keeps_its_window_and_no_other() -> None:
    segments = [
        aging_segment(1, DAY, busy=True),
        aging_segment(2, DAY),
        aging_segment(3, DAY + HOUR_NS),
    ]
    assert windows(segments, [DAY, DAY + HOUR_NS], 2**61) == [([3], [DAY + HOUR_NS])]


def test_partitions_without_segments_expire_too() -> None:
    assert windows([], [DAY, DAY + HOUR_NS], DAY + HOUR_NS) == [([], [DAY])]


def test_a_window_that_was_not_seen_whole_waits() -> None:
    segments = [aging_segment(1, DAY), aging_segment(2, DAY + HOUR_NS)]
    assert windows(segments, [], 2**61, seen_to=DAY + HOUR_NS) == [([1], [])]


def test_days_of_rollups_are_whole_partitions() -> None:
    tier = OldTier("acme", Signal.METRICS, DAY_MS, DAY + DAY_NS)
    month = aging_segment(1, DAY - 10 * DAY_NS, 31 * DAY_NS)
    day = aging_segment(2, DAY, DAY_NS)
    assert old_windows(Aging((month,), (DAY,), 2**62), tier) == []
    (found,) = old_windows(Aging((day,), (DAY, DAY + DAY_NS), 2**62), tier)
    assert (found.start_ns, found.end_ns, found.partitions) == (DAY, DAY + DAY_NS, (DAY,))


@settings(max_examples=100)
@given(
    spans=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 23), st.booleans(), st.booleans()), max_size=20
    ),
    ended_by=st.integers(0, 5 * 24),
)
def test_whatever_goes_ended_and_leaves_nothing_that_overlaps_it(
    spans: list[tuple[int, int, bool, bool]], ended_by: int
) -> None:
    segments = [
        aging_segment(
            n, DAY + day * DAY_NS + (0 if wide else hour * HOUR_NS), DAY_NS if wide else HOUR_NS, busy
        )
        for n, (day, hour, wide, busy) in enumerate(spans)
    ]
    segments.sort(key=lambda s: (s.start_ns, s.segment_id))
    partitions = sorted({DAY + day * DAY_NS + hour * HOUR_NS for day, hour, _, _ in spans})
    limit = DAY + ended_by * HOUR_NS
    gone = windows(segments, partitions, limit)
    gone_segments = {n for found, _ in gone for n in found}
    gone_partitions = {p for _, found in gone for p in found}
    by_number = {int(s.segment_id, 16): s for s in segments}

    def overlap(a: AgingSegment, start: int, width: int) -> bool:
        return a.start_ns < start + width and start < a.start_ns + a.width_ns

    for number, segment in by_number.items():
        touching = [o for o in segments if overlap(o, segment.start_ns, segment.width_ns)]
        covered = {p for p in partitions if overlap(segment, p, HOUR_NS)}
        if number in gone_segments:
            assert segment.start_ns + segment.width_ns <= limit
            assert not segment.busy
            assert {int(o.segment_id, 16) for o in touching} <= gone_segments
            assert covered <= gone_partitions
        else:  # only because of itself or something that overlaps, directly or through a sealed day
            day = segment.start_ns // DAY_NS
            same_day = [o for o in segments if o.start_ns // DAY_NS == day]
            assert any(o.busy or o.start_ns + o.width_ns > limit for o in same_day)
    for partition in partitions:
        over = {int(s.segment_id, 16) for s in segments if overlap(s, partition, HOUR_NS)}
        if partition in gone_partitions:
            assert partition + HOUR_NS <= limit
            assert over <= gone_segments


def test_a_grace_that_a_query_may_outlast_is_refused() -> None:
    with pytest.raises(SettingsError, match="LAKERUNNER_SWEEP_GRACE_S is 660"):
        Policy.of(Settings(sweep_grace_s=660, query_timeout_s=600.0))
    assert Policy.of(Settings(sweep_grace_s=661, query_timeout_s=600.0)).grace_s == 661


def test_retentions_delete_nothing_before_they_stood_a_while() -> None:
    policy = Policy(3600, 86_400)
    young = Retention("acme", Signal.LOGS, "raw", 1, NOTICE_S - 1)
    old = Retention("acme", Signal.LOGS, "segments", 1, NOTICE_S)
    other = Retention("beta", Signal.METRICS, "1m", 1, OLD)
    assert in_force([young, old, other], policy) == [old, other]
    assert in_force([young, old, other], policy, "beta") == [other]


def test_tiers_and_their_limits() -> None:
    now = 1000 * DAY_NS
    found = [
        Retention("acme", Signal.METRICS, "raw", 10, OLD),
        Retention("acme", Signal.METRICS, "segments", 30, OLD),
        Retention("acme", Signal.METRICS, "1d", 400, OLD),
        Retention("acme", Signal.LOGS, "segments", 5, OLD),
    ]
    assert [(t.signal, t.frequency_ms, t.ended_by_ns) for t in old_tiers(found, now)] == [
        (Signal.METRICS, 0, 970 * DAY_NS - 2 * HOUR_NS),
        (Signal.METRICS, DAY_MS, 600 * DAY_NS - 2 * HOUR_NS),
        (Signal.LOGS, 0, 995 * DAY_NS - 2 * HOUR_NS),
    ]
    assert [(a.signal, a.ended_by_ns) for a in raw_ages(found, now)] == [
        (Signal.METRICS, 990 * DAY_NS - 2 * HOUR_NS)
    ]
    (forgettable,) = forgettable_ages(found, now)
    assert (forgettable.signal, forgettable.ended_by_ns) == (Signal.METRICS, 970 * DAY_NS - 2 * HOUR_NS)


@given(now=st.integers(0, 2**61), keep_days=st.integers(1, 1000))
def test_what_is_taken_in_is_younger_than_what_goes_by_two_hours(now: int, keep_days: int) -> None:
    """A publication may come up to two hours after its plan and still finds its oldest hour there."""
    oldest = too_old_ns(keep_days, now)
    assert oldest % HOUR_NS == 0
    first_hour_ends = oldest + HOUR_NS
    assert first_hour_ends > ended_by_ns(keep_days, now + 2 * HOUR_NS)
    assert oldest >= now - keep_days * DAY_NS - HOUR_NS


def test_only_names_of_segments_are_ours() -> None:
    name = "0123456789abcdef0123456789abcdef"
    hour = hourly_segment_key("acme", "c", "logs", DAY + 3 * HOUR_NS, name)
    day = segment_key("acme", "c", "metrics-quarantine", DAY, None, name)
    assert is_ours(hour, "acme")
    assert is_ours(day, "acme")
    assert not is_ours(hour, "beta")
    for other in (
        hour.replace("tbl_", "tab_"),
        hour.replace("/03/", "/3/"),
        hour.replace("/03/", "/24/"),
        hour.replace(".parquet", ".parquet.tmp"),
        hour.replace("0123", "ABCD"),
        hour.replace("db/", "dc/"),
        hour.replace(hour.split("/")[3], "20260231"),
        f"{hour}/x",
        "db/acme/x",
        "",
    ):
        assert not is_ours(other, "acme"), other


def test_organisations_are_listed_in_turn() -> None:
    orgs = list("abcdef")
    assert to_list(orgs, {}, 1e9) == list("abcd")
    assert to_list(orgs, dict.fromkeys("abcd", 1e9), 1e9 + 600) == ["e", "f"]
    assert to_list(orgs, {org: 1e9 + n for n, org in enumerate(orgs)}, 1e9 + 3602) == ["a", "b", "c"]


def test_an_index_that_knows_less_than_half_of_a_lake_is_not_believed() -> None:
    counts = {
        "few": OrphanCount(100, 1, 0),
        "many": OrphanCount(101, 5, 100),
        "usual": OrphanCount(5000, 5, 5000),
    }
    assert set(suspicious(counts)) == {"many"}
