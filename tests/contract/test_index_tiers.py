"""What the index promises to compaction and rollups, whoever keeps it."""

from __future__ import annotations

from threading import Thread

import pytest

from resources.index.memory import MemoryIndex
from resources.index.postgres import PostgresIndex
from resources.index.types import (
    BatchKind,
    BatchPlan,
    BuiltPartition,
    Claim,
    Intake,
    LiveSegment,
    ObjectDone,
    ObjectNotice,
    Publication,
    PublishConflictError,
    Segment,
    TierView,
)
from resources.lake.currency import current_partitions
from resources.lake.frequency import AS_SENT, DAY, FIVE_MINUTES, MINUTE, ROLLUPS, TEN_SECONDS, rollup_of
from resources.lake.frequency import HOUR as HOUR_MS
from resources.lake.layout import Signal
from resources.lake.signals import MATERIALIZED_MS
from resources.lake.timecut import DAY_NS, HOUR_NS

DAY_START = 20_458 * DAY_NS
HOUR = DAY_START + 12 * HOUR_NS
FREQUENCIES = (AS_SENT, *(rollup.frequency_ms for rollup in ROLLUPS))
Index = MemoryIndex | PostgresIndex


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def index(request: pytest.FixtureRequest) -> Index:
    found: Index = MemoryIndex() if request.param == "memory" else request.getfixturevalue("postgres_index")
    for org in ("acme", "beta"):
        found.create_organisation(org)
    return found


def segment(number: int, frequency_ms: int = 0, start: int = HOUR, width: int = HOUR_NS, **more) -> Segment:
    dataset = rollup_of(frequency_ms).dataset if frequency_ms else "metrics"
    values = {
        "segment_id": f"{number:032x}",
        "key": f"db/{number}",
        "org": "acme",
        "collector": "c",
        "signal": Signal.METRICS,
        "dataset": dataset,
        "frequency_ms": frequency_ms,
        "hour_ns": start,
        "width_ns": width,
        "min_ns": start + 1,
        "max_ns": start + width,
        "rows": 5,
        "bytes": 50,
        "level": 0,
        "origin": "",
        "format_version": 1,
        "sort_version": 1,
        "terms": (),
        "label_names": (),
        "metric_names": (),
        "series_offset": 1,
        "series_length": 2,
        "bloom_offset": 3,
        "bloom_length": 4,
        **more,
    }
    return Segment(**values)


def cook(index: Index, number: int, hour: int = HOUR, org: str = "acme") -> None:
    """One object with rows in one hour becomes one live segment."""
    key = f"otel-raw/{org}/c/metrics/{number}"
    index.take_in(Intake("k", (ObjectNotice("raw", key, org, "c", Signal.METRICS, hour, 10, "e"),)))
    index.plan_batches(
        Signal.METRICS,
        lambda found: [
            BatchPlan(BatchKind.COOK, org, "c", Signal.METRICS, hour, (o.object_id,)) for o in found
        ],
    )
    (claim,) = index.claim_due(Signal.METRICS, BatchKind.COOK, 10**9)
    done = tuple(ObjectDone(o.object_id, "e", 5, 0, 0, ((hour, 5),)) for o in claim.inputs)
    index.publish(Publication(claim, (segment(number, start=hour, org=org),), done, hours=(hour,)))


def claim_of(
    index: Index, kind: BatchKind, *segments: int, frequency_ms: int = 0, start: int = HOUR
) -> Claim:
    ids = tuple(f"{number:032x}" for number in segments)
    plan = BatchPlan(kind, "acme", "c", Signal.METRICS, start, (), ids, frequency_ms)
    return index.create_claimed(plan)


def view(index: Index, start: int = DAY_START, end: int = DAY_START + DAY_NS) -> TierView:
    return index.tier_view("acme", Signal.METRICS, FREQUENCIES, start, end)


def build(index: Index, frequency_ms: int, start: int, number: int, seen: TierView | None = None) -> None:
    """Publish a rollup of what `seen` (default: now) says about its sources."""
    seen = seen or view(index)
    rollup = rollup_of(frequency_ms)
    sources = {
        p.start_ns: p.version
        for p in seen.partitions
        if p.frequency_ms == rollup.source_ms
        and start <= p.start_ns < start + rollup.partition_ns
        and p.version
    }
    mine = [p.version for p in seen.partitions if (p.frequency_ms, p.start_ns) == (frequency_ms, start)]
    old = [s.segment_id for s in seen.segments if (s.frequency_ms, s.hour_ns) == (frequency_ms, start)]
    claim = claim_of(index, BatchKind.ROLLUP, frequency_ms=frequency_ms, start=start)
    new = segment(number, frequency_ms, start, rollup.partition_ns)
    built = BuiltPartition(start, mine[0] if mine else 0, sources)
    index.publish(Publication(claim, (new,), retire=tuple(old), frequency_ms=frequency_ms, built=(built,)))


def due(index: Index) -> dict[int, list[int]]:
    found = {f: [d.start_ns for d in index.due_partitions(Signal.METRICS, f)] for f in FREQUENCIES[1:]}
    return {frequency: starts for frequency, starts in found.items() if starts}


def test_cooking_makes_the_lowest_rollup_due_and_each_build_the_next(index: Index) -> None:
    cook(index, 1)
    assert due(index) == {TEN_SECONDS: [HOUR]}
    for number, (frequency, following) in enumerate(
        [(TEN_SECONDS, MINUTE), (MINUTE, FIVE_MINUTES), (FIVE_MINUTES, HOUR_MS)], 10
    ):
        build(index, frequency, HOUR, number)
        assert due(index) == {following: [HOUR]}
    build(index, HOUR_MS, HOUR, 20)
    assert due(index) == {DAY: [DAY_START]}
    build(index, DAY, DAY_START, 21)
    assert due(index) == {}


def test_what_cannot_be_built_is_put_off_until_later_or_until_a_source_changes(index: Index) -> None:
    cook(index, 1)
    index.put_off("acme", Signal.METRICS, TEN_SECONDS, [HOUR], ever=False)
    assert due(index) == {TEN_SECONDS: [HOUR]}
    index.put_off("acme", Signal.METRICS, TEN_SECONDS, [HOUR], ever=True)
    assert due(index) == {}
    cook(index, 2)
    assert due(index) == {TEN_SECONDS: [HOUR]}


def test_logs_have_no_rollups(index: Index) -> None:
    index.take_in(Intake("k", (ObjectNotice("raw", "l", "acme", "c", Signal.LOGS, HOUR, 10, "e"),)))
    index.plan_batches(
        Signal.LOGS,
        lambda found: [BatchPlan(BatchKind.COOK, "acme", "c", Signal.LOGS, HOUR, (found[0].object_id,))],
    )
    (claim,) = index.claim_due(Signal.LOGS, BatchKind.COOK, 10**9)
    mine = segment(1, signal=Signal.LOGS, dataset="logs")
    done = (ObjectDone(claim.inputs[0].object_id, "e", 5, 0, 0, ((HOUR, 5),)),)
    index.publish(Publication(claim, (mine,), done, hours=(HOUR,)))
    assert index.due_partitions(Signal.LOGS, TEN_SECONDS) == []


def test_a_rollup_is_current_until_its_samples_change_and_again_once_rebuilt(index: Index) -> None:
    cook(index, 1)
    build(index, TEN_SECONDS, HOUR, 10)
    build(index, MINUTE, HOUR, 11)
    assert current_partitions(view(index).partitions)[MINUTE] == {HOUR}
    cook(index, 2)
    current = current_partitions(view(index).partitions)
    assert (current[TEN_SECONDS], current[MINUTE]) == (set(), set())
    assert due(index)[TEN_SECONDS] == [HOUR]
    build(index, TEN_SECONDS, HOUR, 12)
    current = current_partitions(view(index).partitions)
    assert (current[TEN_SECONDS], current[MINUTE]) == ({HOUR}, set())
    build(index, MINUTE, HOUR, 13)
    assert current_partitions(view(index).partitions)[MINUTE] == {HOUR}


def test_a_rollup_of_outdated_samples_is_published_but_neither_current_nor_done(index: Index) -> None:
    cook(index, 1)
    seen = view(index)
    cook(index, 2)
    build(index, TEN_SECONDS, HOUR, 10, seen)
    assert current_partitions(view(index).partitions)[TEN_SECONDS] == set()
    assert due(index)[TEN_SECONDS] == [HOUR]


def test_of_two_builds_of_one_partition_the_second_is_refused(index: Index) -> None:
    cook(index, 1)
    seen = view(index)
    build(index, TEN_SECONDS, HOUR, 10, seen)
    with pytest.raises(PublishConflictError, match="built by"):
        build(index, TEN_SECONDS, HOUR, 11, seen)
    assert [s.segment_id for s in view(index).segments if s.frequency_ms] == [f"{10:032x}"]


def test_a_day_needs_all_its_hours_current(index: Index) -> None:
    for number, hour in enumerate([HOUR, HOUR + HOUR_NS]):
        cook(index, number, hour)
        for step, frequency in enumerate(FREQUENCIES[1:5]):
            build(index, frequency, hour, 100 * (number + 1) + step)
    build(index, DAY, DAY_START, 50)
    assert current_partitions(view(index).partitions)[DAY] == {DAY_START}
    cook(index, 3, DAY_START)  # an hour that had nothing yet
    assert current_partitions(view(index).partitions)[DAY] == set()
    for step, frequency in enumerate(FREQUENCIES[1:5]):
        build(index, frequency, DAY_START, 300 + step)
    assert current_partitions(view(index).partitions)[DAY] == set()


def test_compaction_changes_no_version_and_makes_nothing_due(index: Index) -> None:
    cook(index, 1)
    cook(index, 2)
    build(index, TEN_SECONDS, HOUR, 10)
    before = {(p.frequency_ms, p.start_ns): p.version for p in view(index).partitions}
    claim = claim_of(index, BatchKind.COMPACT, 1, 2)
    merged = segment(30, level=1, settled=True)
    index.publish(Publication(claim, (merged,), retire=(f"{1:032x}", f"{2:032x}")))
    after = {(p.frequency_ms, p.start_ns): p.version for p in view(index).partitions}
    assert before == after
    assert current_partitions(view(index).partitions)[TEN_SECONDS] == {HOUR}
    assert [s.segment_id for s in view(index).segments if not s.frequency_ms] == [f"{30:032x}"]


def test_a_segment_is_in_one_batch_at_a_time(index: Index) -> None:
    for number in (1, 2, 3):
        cook(index, number)
    held = claim_of(index, BatchKind.COMPACT, 1, 2)
    with pytest.raises(PublishConflictError):
        claim_of(index, BatchKind.COMPACT, 2, 3)
    assert [s.segment_id for s in index.unsettled(Signal.METRICS)] == [f"{3:032x}"]
    index.abandon(held, "changed my mind")
    assert claim_of(index, BatchKind.COMPACT, 2, 3)


def test_a_retired_segment_cannot_be_merged(index: Index) -> None:
    cook(index, 1)
    cook(index, 2)
    claim = claim_of(index, BatchKind.COMPACT, 1, 2)
    index.publish(Publication(claim, (segment(30),), retire=(f"{1:032x}", f"{2:032x}")))
    with pytest.raises(PublishConflictError):
        claim_of(index, BatchKind.COMPACT, 1, 30)


def test_a_merge_whose_holder_died_is_over_and_its_segments_are_free(index: Index) -> None:
    cook(index, 1)
    cook(index, 2)
    claim = claim_of(index, BatchKind.COMPACT, 1, 2)
    assert index.release_expired(-1.0) == 1
    with pytest.raises(PublishConflictError):
        index.publish(Publication(claim, (segment(30),), retire=(f"{1:032x}", f"{2:032x}")))
    assert claim_of(index, BatchKind.COMPACT, 1, 2)


def ids(found: list[LiveSegment]) -> list[int]:
    return sorted(int(s.segment_id, 16) for s in found)


def test_windows_with_an_unsettled_segment_are_shown_whole(index: Index) -> None:
    cook(index, 1)
    cook(index, 2)
    cook(index, 3, HOUR + HOUR_NS)
    assert ids(index.unsettled(Signal.METRICS)) == [1, 2, 3]
    assert index.settle([f"{1:032x}", f"{3:032x}"]) == 2
    assert ids(index.unsettled(Signal.METRICS)) == [1, 2]
    assert index.settle([f"{2:032x}"]) == 1
    assert index.unsettled(Signal.METRICS) == []
    assert ids(index.live_in(Signal.METRICS, "acme", HOUR, HOUR + HOUR_NS)) == [1, 2]
    assert index.unsettled(Signal.LOGS) == []


def test_a_day_wide_segment_is_shown_with_its_unsettled_hours(index: Index) -> None:
    cook(index, 1)
    cook(index, 2, HOUR - HOUR_NS)
    claim = claim_of(index, BatchKind.SEAL, 1, 2, start=DAY_START)
    day = segment(30, start=DAY_START, width=DAY_NS, settled=True)
    index.publish(Publication(claim, (day,), retire=(f"{1:032x}", f"{2:032x}")))
    assert index.unsettled(Signal.METRICS) == []
    cook(index, 3)
    assert ids(index.unsettled(Signal.METRICS)) == [3, 30]
    assert [s.hour_ns for s in view(index, HOUR, HOUR + HOUR_NS).segments] == [DAY_START, HOUR]
    assert view(index, DAY_START + DAY_NS, DAY_START + 2 * DAY_NS).segments == ()


def test_other_organisations_are_not_seen(index: Index) -> None:
    cook(index, 1)
    cook(index, 2, org="beta")
    assert [s.segment_id for s in view(index).segments] == [f"{1:032x}"]
    assert ids(index.live_in(Signal.METRICS, "beta", HOUR, HOUR + HOUR_NS)) == [2]
    assert ids(index.unsettled(Signal.METRICS, "beta")) == [2]
    with pytest.raises(PublishConflictError):
        claim_of(index, BatchKind.COMPACT, 1, 2)


def test_side_data_and_quarantine_are_seen_only_by_name(index: Index) -> None:
    cook(index, 1)
    claim = claim_of(index, BatchKind.ROLLUP)
    side = segment(40, HOUR_MS, dataset="metrics-cardinality")
    index.publish(Publication(claim, (segment(41, dataset="metrics-quarantine"), side)))
    assert [s.segment_id for s in view(index).segments] == [f"{1:032x}"]
    named = index.tier_view(
        "acme", Signal.METRICS, (HOUR_MS,), DAY_START, DAY_START + DAY_NS, "metrics-cardinality"
    )
    assert [s.segment_id for s in named.segments] == [f"{40:032x}"]


@pytest.mark.integration
def test_a_rollup_published_beside_new_samples_is_never_taken_for_current(
    postgres_index: PostgresIndex,
) -> None:
    """Whatever the order of the two commits, the rollup is stale and due, or was built from the new rows."""
    postgres_index.create_organisation("acme")
    for number in range(12):
        hour = HOUR + number * HOUR_NS
        cook(postgres_index, 2 * number, hour)
        whole = (DAY_START, DAY_START + 2 * DAY_NS)
        seen = view(postgres_index, *whole)
        late = Thread(target=cook, args=(postgres_index, 2 * number + 1, hour))
        late.start()
        build(postgres_index, TEN_SECONDS, hour, 100 + number, seen)
        late.join()
        now = view(postgres_index, *whole)
        assert hour not in current_partitions(now.partitions)[TEN_SECONDS]
        assert hour in due(postgres_index)[TEN_SECONDS]


def spans(index: Index, number: int, hour: int, first_s: int, last_s: int) -> None:
    """Publish a segment of spans between these seconds of an hour."""
    of_traces = {"signal": Signal.TRACES, "dataset": "traces"}
    bounds = {"min_ns": hour + first_s * 10**9, "max_ns": hour + last_s * 10**9}
    claim = index.create_claimed(BatchPlan(BatchKind.COOK, "acme", "c", Signal.TRACES, hour))
    index.publish(Publication(claim, (segment(number, start=hour, **of_traces, **bounds),), hours=(hour,)))


def due_hours(index: Index) -> list[int]:
    return sorted(due.start_ns for due in index.due_partitions(Signal.TRACES, MATERIALIZED_MS))


def derived(index: Index, built_from: dict[int, int], expected: int = 0, **more: object) -> Publication:
    claim = index.create_claimed(BatchPlan(BatchKind.MATERIALIZE, "acme", "all", Signal.METRICS, HOUR))
    built = BuiltPartition(HOUR, expected, built_from)
    return Publication(claim, hours=(HOUR,), materialized=(Signal.TRACES, built), **more)


@pytest.mark.parametrize(
    ("first_s", "last_s", "touched"),
    [(1000, 2000, (0,)), (1, 2000, (-1, 0)), (1000, 3500, (0, 1)), (300, 3300, (-1, 0)), (301, 3301, (0, 1))],
)
def test_spans_near_a_boundary_make_the_neighbouring_hour_due(
    index: Index, first_s: int, last_s: int, touched: tuple[int, ...]
) -> None:
    spans(index, 1, HOUR, first_s, last_s)
    assert due_hours(index) == [HOUR + n * HOUR_NS for n in touched]


def test_derived_metrics_swap_their_hour_and_make_its_rollups_due(index: Index) -> None:
    spans(index, 1, HOUR, 1000, 2000)
    index.publish(derived(index, {HOUR: 1}, segments=(segment(10, origin="x@1"),)))
    assert due_hours(index) == []
    assert [d.start_ns for d in index.due_partitions(Signal.METRICS, TEN_SECONDS)] == [HOUR]
    spans(index, 2, HOUR, 1000, 2000)
    assert due_hours(index) == [HOUR]
    more = {"segments": (segment(11, origin="x@1"),), "retire": (f"{10:032x}",)}
    index.publish(derived(index, {HOUR: 2}, 1, **more))
    view = index.tier_view("acme", Signal.METRICS, [0], HOUR, HOUR + HOUR_NS)
    assert [s.segment_id for s in view.segments] == [f"{11:032x}"]
    assert due_hours(index) == []


@pytest.mark.parametrize("late", [HOUR, HOUR + HOUR_NS])
def test_an_hour_whose_spans_changed_since_planning_stays_due(index: Index, late: int) -> None:
    spans(index, 1, HOUR, 1000, 2000)
    publication = derived(index, {HOUR: 1}, segments=(segment(10, origin="x@1"),))
    spans(index, 2, late, 1, 2000)
    index.publish(publication)
    assert HOUR in due_hours(index)


def test_of_two_derivations_of_one_hour_the_second_is_refused(index: Index) -> None:
    spans(index, 1, HOUR, 1000, 2000)
    first = derived(index, {HOUR: 1}, segments=(segment(10, origin="x@1"),))
    second = derived(index, {HOUR: 1}, segments=(segment(11, origin="x@1"),))
    index.publish(first)
    with pytest.raises(PublishConflictError, match="built by"):
        index.publish(second)
    view = index.tier_view("acme", Signal.METRICS, [0], HOUR, HOUR + HOUR_NS)
    assert [s.segment_id for s in view.segments] == [f"{10:032x}"]


def test_derived_segments_are_left_out_of_merges(index: Index) -> None:
    spans(index, 1, HOUR, 1000, 2000)
    index.publish(derived(index, {HOUR: 1}, segments=(segment(10, origin="x@1"), segment(11))))
    assert [s.segment_id for s in index.unsettled(Signal.METRICS)] == [f"{11:032x}"]
    found = index.live_in(Signal.METRICS, "acme", HOUR, HOUR + HOUR_NS)
    assert [s.segment_id for s in found] == [f"{11:032x}"]
