"""A rule covers the hours that it was built for from what is there now, whoever keeps the index."""

from __future__ import annotations

import pytest

from resources.index.memory import MemoryIndex
from resources.index.rule_types import CoverageQuery, RuleGaps, RuleHour
from resources.index.sweeping_types import AgingSegment, OldTier, OldWindow
from resources.index.types import (
    BatchKind,
    BatchPlan,
    BuiltPartition,
    HourGrowth,
    Intake,
    ObjectDone,
    ObjectNotice,
    Publication,
    PublishConflictError,
    Segment,
)
from resources.lake.frequency import AS_SENT
from resources.lake.layout import Signal
from resources.lake.signals import MATERIALIZED_MS
from resources.lake.timecut import HOUR_NS
from tests.contract.test_index_tiers import HOUR, Index, segment

NEXT = HOUR + HOUR_NS
RULE, OTHER = 7, 8


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def index(request: pytest.FixtureRequest) -> Index:
    found: Index = MemoryIndex() if request.param == "memory" else request.getfixturevalue("postgres_index")
    for org in ("acme", "beta"):
        found.create_organisation(org)
    return found


def cook(index: Index, number: int, hour: int = HOUR, signal: Signal = Signal.LOGS, org: str = "acme") -> int:
    """Publish a segment that was sent; return the version of its hour."""
    claim = index.create_claimed(BatchPlan(BatchKind.COOK, org, "c", signal, hour))
    sent = segment(number, start=hour, signal=signal, dataset=signal.value, org=org)
    return index.publish(Publication(claim, (sent,), hours=(hour,)))[hour]


def publication(
    index: Index, rules: tuple[RuleHour, ...], hour: int = HOUR, signal: Signal = Signal.LOGS, **more: object
) -> Publication:
    claim = index.create_claimed(BatchPlan(BatchKind.MATERIALIZE, "acme", "all", Signal.METRICS, hour))
    known = {p.start_ns: p for p in index.partitions("acme", signal, MATERIALIZED_MS)}
    source = {p.start_ns: p.sent_version for p in index.partitions("acme", signal, AS_SENT)}
    built = BuiltPartition(hour, known[hour].version if hour in known else 0, {hour: source[hour]})
    more = {"segments": (), "hours": (hour,), **more}
    return Publication(claim, materialized=(signal, built), rule_hours=rules, **more)


def rule(source_version: int, hour: int = HOUR, rule_id: int = RULE, **more: object) -> RuleHour:
    values = {"version": 1, "eligible": True, "rows": 3, **more}
    return RuleHour(hour, rule_id, source_version=source_version, **values)


def gaps(index: Index, *, version: int = 1, end: int = NEXT, signal: Signal = Signal.LOGS) -> tuple[int, ...]:
    asked = CoverageQuery("acme", signal, ((RULE, version),), HOUR, end)
    (found,) = index.snapshot((), coverage=(asked,)).gaps
    assert found.rule_id == RULE
    return found.hours


def test_an_hour_is_a_gap_until_it_is_derived(index: Index) -> None:
    assert gaps(index) == ()
    cook(index, 1)
    assert gaps(index) == (HOUR,)
    index.publish(publication(index, (rule(1),)))
    assert gaps(index) == ()


def test_late_records_make_a_gap_until_the_hour_is_derived_again(index: Index) -> None:
    cook(index, 1)
    index.publish(publication(index, (rule(1),)))
    assert cook(index, 2) == 2
    assert gaps(index) == (HOUR,)
    index.publish(publication(index, (rule(2),)))
    assert gaps(index) == ()


def test_records_that_came_while_the_hour_was_derived_make_a_gap(index: Index) -> None:
    cook(index, 1)
    late = publication(index, (rule(1),))
    cook(index, 2)
    index.publish(late)
    assert gaps(index) == (HOUR,)


def test_another_version_of_the_rule_is_not_covered(index: Index) -> None:
    cook(index, 1)
    index.publish(publication(index, (rule(1),)))
    assert gaps(index, version=2) == (HOUR,)
    index.publish(publication(index, (rule(1, version=2),)))
    assert gaps(index, version=2) == ()
    assert gaps(index, version=1) == (HOUR,)


def test_an_hour_that_overflowed_is_not_covered(index: Index) -> None:
    cook(index, 1)
    index.publish(publication(index, (rule(1, eligible=False),)))
    assert gaps(index) == (HOUR,)


def test_a_derivation_replaces_the_rules_of_before(index: Index) -> None:
    cook(index, 1)
    index.publish(publication(index, (rule(1), rule(1, rule_id=OTHER))))
    assert [r.rule_id for r in index.rule_hours("acme", Signal.LOGS, HOUR, NEXT)] == [RULE, OTHER]
    index.publish(publication(index, (rule(1, rule_id=OTHER),)))
    assert index.rule_hours("acme", Signal.LOGS, HOUR, NEXT) == [rule(1, rule_id=OTHER)]
    assert gaps(index) == (HOUR,)


def test_hours_belong_to_an_organisation_and_a_signal(index: Index) -> None:
    cook(index, 1)
    cook(index, 2, org="beta")
    cook(index, 3, signal=Signal.TRACES)
    index.publish(publication(index, (rule(1),)))
    asked = [CoverageQuery(org, s, ((RULE, 1),), HOUR, NEXT) for org in ("acme", "beta") for s in Signal]
    found = index.snapshot((), coverage=asked).gaps
    missing = {(one.org, one.signal) for one, gap in zip(asked, found, strict=True) if gap.hours}
    assert missing == {("acme", Signal.TRACES), ("beta", Signal.LOGS)}
    assert index.rule_hours("beta", Signal.LOGS, HOUR, NEXT) == []


def test_all_rules_are_answered_in_the_order_of_the_question(index: Index) -> None:
    cook(index, 1)
    cook(index, 2, NEXT)
    index.publish(publication(index, (rule(1),)))
    asked = CoverageQuery("acme", Signal.LOGS, ((OTHER, 1), (RULE, 1)), HOUR, NEXT + HOUR_NS)
    wanted = (RuleGaps(OTHER, (HOUR, NEXT)), RuleGaps(RULE, (NEXT,)))
    assert index.snapshot((), coverage=(asked,)).gaps == wanted


def test_intervals_are_left_open_like_hours(index: Index) -> None:
    cook(index, 1)
    cook(index, 2, NEXT)
    assert gaps(index, end=NEXT) == (HOUR,)
    assert gaps(index, end=NEXT + 1) == (HOUR, NEXT)
    asked = CoverageQuery("acme", Signal.LOGS, ((RULE, 1),), NEXT, NEXT + 1)
    assert index.snapshot((), coverage=(asked,)).gaps[0].hours == (NEXT,)
    inside = CoverageQuery("acme", Signal.LOGS, ((RULE, 1),), NEXT - 1, NEXT)
    assert index.snapshot((), coverage=(inside,)).gaps[0].hours == (HOUR,)


@pytest.mark.parametrize("signal", [Signal.LOGS, Signal.METRICS])
def test_hours_that_lost_records_or_metrics_for_their_age_are_gaps(index: Index, signal: Signal) -> None:
    cook(index, 1)
    derived = segment(10, origin="derived-logs@1")
    index.publish(publication(index, (rule(1),), segments=(derived,)))
    assert gaps(index) == ()
    old = segment(1, signal=signal, dataset=signal.value) if signal is Signal.LOGS else derived
    aging = AgingSegment(old.segment_id, old.key, HOUR, HOUR_NS, old.bytes, False)
    assert index.expire(OldTier("acme", signal, AS_SENT, NEXT), OldWindow(HOUR, NEXT, (aging,), (HOUR,)))
    assert gaps(index) == (HOUR,)


def test_metrics_derived_from_metrics_do_not_change_what_was_sent(index: Index) -> None:
    cook(index, 1, signal=Signal.METRICS)
    made = publication(index, (rule(1),), signal=Signal.METRICS, segments=(segment(10, origin="x@1"),))
    index.publish(made)
    (partition,) = index.partitions("acme", Signal.METRICS, AS_SENT)
    assert (partition.version, partition.sent_version) == (2, 1)
    assert gaps(index, signal=Signal.METRICS) == ()
    assert index.due_partitions(Signal.METRICS, MATERIALIZED_MS) == []


def test_a_conflict_leaves_the_rules_of_before(index: Index) -> None:
    cook(index, 1)
    first, second = publication(index, (rule(1),)), publication(index, ())
    index.publish(first)
    with pytest.raises(PublishConflictError, match="built by"):
        index.publish(second)
    assert index.rule_hours("acme", Signal.LOGS, HOUR, NEXT) == [rule(1)]


def cook_object(index: Index, number: int, rows: int = 5) -> int:
    """Publish a segment of one raw object; return the object's id."""
    key = f"otel-raw/acme/c/logs/{number}"
    index.take_in(Intake("k", (ObjectNotice("raw", key, "acme", "c", Signal.LOGS, HOUR, 10, "e"),)))
    index.plan_batches(
        Signal.LOGS,
        lambda found: [
            BatchPlan(BatchKind.COOK, "acme", "c", Signal.LOGS, HOUR, (o.object_id,)) for o in found
        ],
    )
    (claim,) = index.claim_due(Signal.LOGS, BatchKind.COOK, 10**9)
    (one,) = claim.inputs
    done = (ObjectDone(one.object_id, "e", rows, 0, 0, ((HOUR, rows),)),)
    index.publish(
        Publication(
            claim, (log_segment(number, rows=rows, object_ids=(one.object_id,)),), done, hours=(HOUR,)
        )
    )
    return one.object_id


def log_segment(number: int, **more: object) -> Segment:
    return segment(number, signal=Signal.LOGS, dataset="logs", **more)


def growth(index: Index) -> HourGrowth:
    found = index.hour_growth("acme", Signal.LOGS, HOUR)
    assert found is not None
    return found


def derive_of(index: Index, *objects: int) -> None:
    seen = growth(index)
    built = BuiltPartition(HOUR, seen.version, {HOUR: seen.sent_version}, objects, "x@1")
    claim = index.create_claimed(BatchPlan(BatchKind.MATERIALIZE, "acme", "all", Signal.METRICS, HOUR))
    hours = (rule(seen.sent_version, eligible=False, errors=2, refusals=("a", "b")),)
    index.publish(Publication(claim, (), hours=(HOUR,), materialized=(Signal.LOGS, built), rule_hours=hours))


def test_what_came_since_a_derivation_is_told_by_its_objects(index: Index) -> None:
    assert index.hour_growth("acme", Signal.LOGS, HOUR) is None
    one = cook_object(index, 1)
    derive_of(index, one)
    seen = growth(index)
    assert (seen.version, seen.built_version, seen.built_objects, seen.built_by) == (1, 1, (one,), "x@1")
    assert (seen.objects, seen.added) == (((one, 5),), ())
    two = cook_object(index, 2, rows=7)
    seen = growth(index)
    assert (seen.sent_version, seen.rewritten_version, seen.objects) == (2, 0, ((one, 5), (two, 7)))
    assert [(s.segment_id, s.rows) for s in seen.added] == [(f"{2:032x}", 7)]
    assert index.hour_growth("beta", Signal.LOGS, HOUR) is None
    (found,) = index.rule_hours("acme", Signal.LOGS, HOUR, NEXT)
    assert (found.errors, found.refusals) == (2, ("a", "b"))


def test_merged_segments_are_told_as_they_were_cooked(index: Index) -> None:
    one = cook_object(index, 1)
    derive_of(index, one)
    two = cook_object(index, 2)
    ids = tuple(f"{n:032x}" for n in (1, 2))
    plan = BatchPlan(BatchKind.COMPACT, "acme", "c", Signal.LOGS, HOUR, segment_ids=ids)
    merged = log_segment(3, rows=10, level=1, object_ids=(one, two))
    index.publish(Publication(index.create_claimed(plan), (merged,), retire=ids))
    seen = growth(index)
    assert [s.segment_id for s in seen.added] == [ids[1]]
    assert seen.rewritten_version == 0


def test_a_rebuild_is_a_rewrite_and_cooking_is_none(index: Index) -> None:
    one = cook_object(index, 1)
    derive_of(index, one)
    claim = index.create_claimed(BatchPlan(BatchKind.REBUILD, "acme", "c", Signal.LOGS, HOUR))
    again = log_segment(4, object_ids=(one,))
    index.publish(Publication(claim, (again,), retire=(f"{1:032x}",), hours=(HOUR,)))
    cook_object(index, 2)
    seen = growth(index)
    assert (seen.built_version, seen.rewritten_version, seen.sent_version) == (1, 2, 3)
