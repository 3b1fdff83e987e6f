"""Groups of alert rules and notifications mean the same in PostgreSQL and in memory."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import psycopg
import pytest

from resources.index.memory import MemoryIndex
from resources.index.postgres import PostgresIndex
from resources.index.rule_types import PutRule, RuleKind
from resources.index.ruling_types import (
    AlertChange,
    AlertCorrection,
    AlertState,
    GroupRecord,
    Notice,
    RecordedOutcome,
    SealedSamples,
    Verdict,
)
from resources.index.types import BatchKind, BatchPlan, Intake, ObjectNotice, Publication
from resources.lake.layout import Signal
from resources.lake.signals import MATERIALIZED_MS
from resources.lake.timecut import HOUR_NS
from tests.contract.test_index_tiers import segment

LEASE_S = 6.0
RECEIVER = "alertmanager:1"
TIMES = {
    "ruler_process": ("lease_until",),
    "ruler_group": ("finished_at", "changed_at"),
    "alert_notice": ("created_at", "busy_until"),
    "alert_samples": ("created_at", "busy_until"),
    "alert_input": ("published_at",),
    "raw_object": ("registered_at",),
    "partition": ("due_since",),
}


@dataclass
class Clocked:
    """An index whose time can be moved."""

    index: MemoryIndex | PostgresIndex
    dsn: str = ""

    def wait(self, seconds: float) -> None:
        if isinstance(self.index, MemoryIndex):
            now = self.index._clock() + seconds
            self.index._clock = lambda: now
            return
        with psycopg.connect(self.dsn) as connection:
            for table, names in TIMES.items():
                moved = ", ".join(f"{name} = {name} - make_interval(secs => %(s)s)" for name in names)
                connection.execute(f"UPDATE lakerunner.{table} SET {moved}".encode(), {"s": seconds})


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def clocked(request: pytest.FixtureRequest) -> Clocked:
    if request.param == "memory":
        found = Clocked(MemoryIndex())
    else:
        found = Clocked(request.getfixturevalue("postgres_index"), request.getfixturevalue("index_dsn"))
    for org in ("acme", "beta"):
        found.index.create_organisation(org)
    return found


def claim(clocked: Clocked, owner: str, *rules: int, org: str = "acme") -> list[GroupRecord]:
    clocked.index.beat_ruler(owner, LEASE_S)
    return clocked.index.claim_groups(owner, dict.fromkeys(rules, org))


def firing(rule_id: int, at_ms: int) -> AlertChange:
    return AlertChange(rule_id, "Down", {"job": "a"}, AlertState.FIRING, "1", at_ms)


def test_a_group_has_one_owner_until_its_lease_ends(clocked: Clocked) -> None:
    first = claim(clocked, "one", 1, 2)
    assert [(one.rule_id, one.token, one.owner) for one in first] == [(1, 1, "one"), (2, 1, "one")]
    assert claim(clocked, "two", 1, 2, 3) == [GroupRecord(3, "acme", "two", 1)]
    clocked.wait(LEASE_S - 1)
    assert clocked.index.beat_ruler("one", LEASE_S) == ["one", "two"]
    clocked.wait(2)
    assert clocked.index.beat_ruler("three", LEASE_S) == ["one", "three"]
    found = clocked.index.claim_groups("three", {1: "acme", 3: "acme"})
    assert [(one.rule_id, one.token, one.owner) for one in found] == [(3, 2, "three")]


def test_an_evaluation_is_stored_with_its_changes_and_notices(clocked: Clocked) -> None:
    index = clocked.index
    (record,) = claim(clocked, "one", 7)
    evaluated = replace(
        record, version=3, evaluated_ms=60_000, duration_s=0.25, delay_s=12.5, missed=2, error="a\0b",
        state={"rules": [{"health": "ok", "labels": {"a": "x\0"}}]},
    )  # fmt: skip
    assert index.write_evaluation(evaluated, [firing(7, 60_000)], [Notice(RECEIVER, "7/a", {"n": 1})])
    (stored,) = index.group_records("acme")
    assert (stored.version, stored.evaluated_ms, stored.missed) == (3, 60_000, 2)
    assert (stored.duration_s, stored.delay_s, stored.finished_s > 0) == (0.25, 12.5, True)
    assert index.alert_changes("acme", 0, 60_000, 10) == [firing(7, 60_000)]
    assert [one.waiting for one in index.waiting_notices("acme")] == [1]
    index.withdraw_ruler("one")
    (restored,) = claim(clocked, "two", 7)
    assert (restored.token, restored.missed, restored.state) == (2, 2, stored.state)


def test_an_owner_that_lost_its_claim_writes_nothing(clocked: Clocked) -> None:
    (late,) = claim(clocked, "one", 7)
    clocked.wait(LEASE_S + 1)
    assert clocked.index.write_evaluation(replace(late, evaluated_ms=1), [], [])
    (fresh,) = claim(clocked, "two", 7)
    changes, notices = [firing(7, 2)], [Notice(RECEIVER, "7/a", {})]
    assert not clocked.index.write_evaluation(replace(late, evaluated_ms=2), changes, notices)
    assert clocked.index.alert_changes("acme", 0, 9, 10) == []
    assert clocked.index.waiting_notices() == []
    assert clocked.index.write_evaluation(replace(fresh, evaluated_ms=3), changes, notices)
    assert clocked.index.group_records("acme")[0].evaluated_ms == 3


def test_released_groups_are_free_at_once_but_not_those_of_others(clocked: Clocked) -> None:
    claim(clocked, "one", 1, 2)
    clocked.index.release_groups("two", [1])
    assert claim(clocked, "two", 1) == []
    clocked.index.release_groups("one", [1])
    assert [one.rule_id for one in claim(clocked, "two", 1, 2)] == [1]


def test_an_owner_claims_a_group_of_its_own_anew(clocked: Clocked) -> None:
    (lost,) = claim(clocked, "one", 1)
    (found,) = claim(clocked, "one", 1)
    assert found.token == 2
    assert not clocked.index.write_evaluation(lost, [], [])
    assert clocked.index.write_evaluation(found, [], [])


def test_organisations_see_only_their_own(clocked: Clocked) -> None:
    index = clocked.index
    (mine,) = claim(clocked, "one", 1)
    (theirs,) = claim(clocked, "one", 2, org="beta")
    assert index.write_evaluation(mine, [firing(1, 5)], [Notice(RECEIVER, "1", {})])
    assert index.write_evaluation(theirs, [], [])
    assert [one.rule_id for one in index.group_records("beta")] == [2]
    assert index.alert_changes("beta", 0, 9, 10) == []
    assert index.waiting_notices("beta") == []


def test_changes_are_listed_newest_first_within_bounds(clocked: Clocked) -> None:
    (record,) = claim(clocked, "one", 1)
    clocked.index.write_evaluation(record, [firing(1, at) for at in (10, 30, 20, 40)], [])
    assert [one.at_ms for one in clocked.index.alert_changes("acme", 10, 30, 2)] == [30, 20]


def test_notices_come_in_order_and_a_repeated_one_replaces_the_one_that_waits(clocked: Clocked) -> None:
    index = clocked.index
    (record,) = claim(clocked, "one", 1)
    notices = [Notice(RECEIVER, "a", {"n": 1}), Notice(RECEIVER, "b", {"n": 2}), Notice("other", "a", {})]
    index.write_evaluation(record, [], notices)
    index.write_evaluation(record, [], [Notice(RECEIVER, "a", {"n": 3})])
    found = index.claim_notices(RECEIVER, 10, 10.0)
    assert [(one.body, one.org, one.attempts) for one in found] == [
        ({"n": 3}, "acme", 1), ({"n": 2}, "acme", 1),
    ]  # fmt: skip
    assert index.claim_notices(RECEIVER, 10, 10.0) == []
    assert len(index.claim_notices("other", 10, 10.0)) == 1
    index.write_evaluation(record, [], [Notice(RECEIVER, "b", {"n": 4})])
    index.finish_notices(found)
    (again,) = index.claim_notices(RECEIVER, 10, 10.0)
    assert again.body == {"n": 4}


def test_a_receiver_that_is_put_off_rests_and_one_whose_sender_died_is_sent_to_again(
    clocked: Clocked,
) -> None:
    index = clocked.index
    (record,) = claim(clocked, "one", 1)
    index.write_evaluation(record, [], [Notice(RECEIVER, name, {}) for name in "abc"])
    found = index.claim_notices(RECEIVER, 2, 10.0)
    assert len(found) == 2
    index.put_off_notices(found, "connection refused", 30.0)
    assert index.claim_notices(RECEIVER, 10, 10.0) == []
    (waiting,) = index.waiting_notices()
    assert (waiting.waiting, waiting.attempts, waiting.error) == (3, 1, "connection refused")
    clocked.wait(31)
    assert [one.attempts for one in index.claim_notices(RECEIVER, 10, 10.0)] == [2, 2, 1]
    clocked.wait(11)
    assert [one.attempts for one in index.claim_notices(RECEIVER, 1, 10.0)] == [3]


def test_what_is_too_old_is_forgotten(clocked: Clocked) -> None:
    index = clocked.index
    gone, live = claim(clocked, "one", 1, 2)
    old_ms = int(index._clock() * 1000) if isinstance(index, MemoryIndex) else _now_ms(clocked)
    index.write_evaluation(gone, [firing(1, old_ms), firing(1, 5)], [Notice(RECEIVER, "a", {})])
    assert index.forget_ruling([2], 3600, 3600, 3600) == 0
    assert [one.rule_id for one in index.group_records("acme")] == [1, 2]
    assert [one.at_ms for one in index.alert_changes("acme", 0, old_ms, 10)] == [old_ms]
    clocked.wait(3601)
    assert index.forget_ruling([2], 3600, 10_000, 3600) == 1
    assert index.group_records("acme") == [replace(live, finished_s=0.0)]
    assert index.waiting_notices() == []


def _now_ms(clocked: Clocked) -> int:
    with psycopg.connect(clocked.dsn) as connection:
        row = connection.execute("SELECT extract(EPOCH FROM now())").fetchone()
    assert row is not None
    return int(row[0] * 1000)


def test_freshness_is_that_of_the_slowest_arrival_that_still_waits(clocked: Clocked) -> None:
    index = clocked.index
    assert index.freshness(["acme"], 600) == []
    hour_ns = time.time_ns() // HOUR_NS * HOUR_NS
    own = ObjectNotice("raw", "otel-raw/acme/ruler/a", "acme", "ruler", Signal.METRICS, hour_ns, 10, "e1")
    index.take_in(Intake("k", (own,)))
    assert index.freshness(["acme"], 600) == []
    arrived = ObjectNotice("raw", "otel-raw/acme/c/logs/a", "acme", "c", Signal.LOGS, hour_ns, 10, "e1")
    index.take_in(Intake("k", (arrived,)))
    clocked.wait(45)
    (found,) = index.freshness(["acme", "beta"], 600)
    assert found.org == "acme"
    assert found.seconds == pytest.approx(45, abs=5)
    assert index.freshness(["beta"], 600) == []
    clocked.wait(600)
    assert index.freshness(["acme"], 600) == []


def test_hours_that_wait_to_be_derived_add_to_freshness(clocked: Clocked) -> None:
    index = clocked.index
    hour_ns = time.time_ns() // HOUR_NS * HOUR_NS
    document = {"metric": "lines", "source": "logs", "select": '{a=~".+"}', "keep": [], "value": ""}
    index.change_rules("acme", [PutRule(RuleKind.DERIVED, "", "lines", document)], None)
    claim = index.create_claimed(BatchPlan(BatchKind.COOK, "acme", "c", Signal.LOGS, hour_ns))
    sent = segment(1, start=hour_ns, signal=Signal.LOGS, dataset="logs", org="acme")
    index.publish(Publication(claim, (sent,), hours=(hour_ns,)))
    assert index.due_partitions(Signal.LOGS, MATERIALIZED_MS)
    clocked.wait(30)
    arrived = ObjectNotice("raw", "otel-raw/acme/c/logs/a", "acme", "c", Signal.LOGS, hour_ns, 10, "e1")
    index.take_in(Intake("k", (arrived,)))
    (found,) = index.freshness(["acme"], 600)
    assert found.seconds == pytest.approx(0, abs=5)
    assert found.derived_s == pytest.approx(30, abs=5)


def store(index: MemoryIndex | PostgresIndex, record: GroupRecord, *samples: bytes) -> None:
    for each in samples:
        assert index.write_evaluation(record, [], [], each)


def object_of(sealed: SealedSamples) -> ObjectNotice:
    hour_ns = time.time_ns() // HOUR_NS * HOUR_NS
    key = f"otel-raw/{sealed.org}/ruler/metrics/{sealed.seal}"
    return ObjectNotice("raw", key, sealed.org, "ruler", Signal.METRICS, hour_ns, 10, "e1")


def test_samples_of_an_organisation_share_an_object(clocked: Clocked) -> None:
    index = clocked.index
    (mine,), (theirs,) = claim(clocked, "one", 1), claim(clocked, "one", 2, org="beta")
    store(index, mine, b"a", b"b", b"c")
    store(index, theirs, b"d", b"")
    assert index.seal_samples("0" * 32, 10.0, 9, LEASE_S) is None
    clocked.wait(11)
    first, second, third = (index.seal_samples(f"{n}" * 32, 10.0, 2, LEASE_S) for n in (1, 2, 3))
    assert first is not None
    assert second is not None
    assert third is not None
    assert [(one.seal[0], one.org, one.parts) for one in (first, second, third)] == [
        ("1", "acme", (b"a", b"b")), ("2", "acme", (b"c",)), ("3", "beta", (b"d",)),
    ]  # fmt: skip
    assert index.seal_samples("4" * 32, 10.0, 9, LEASE_S) is None


def test_an_object_whose_writer_ended_is_written_again_under_its_seal(clocked: Clocked) -> None:
    index = clocked.index
    (record,) = claim(clocked, "one", 1)
    store(index, record, b"a", b"b")
    first = index.seal_samples("1" * 32, 0.0, 9, LEASE_S)
    assert first is not None
    store(index, record, b"c")
    clocked.wait(LEASE_S + 1)
    assert index.seal_samples("2" * 32, 0.0, 9, LEASE_S) == first
    index.finish_samples(first, object_of(first))
    index.finish_samples(first, object_of(first))
    listed = index.pending_objects("acme", Signal.METRICS, 0, 2**62)
    assert len(listed) == 1
    rest = index.seal_samples("3" * 32, 0.0, 9, LEASE_S)
    assert rest is not None
    assert (rest.seal, rest.parts) == ("3" * 32, (b"c",))
    assert index.forget_samples(60.0) == 0
    clocked.wait(61)
    assert index.forget_samples(60.0) == 1
    assert index.seal_samples("4" * 32, 0.0, 9, LEASE_S) is None


def test_an_evaluation_that_lost_its_claim_stores_no_samples(clocked: Clocked) -> None:
    (late,) = claim(clocked, "one", 1)
    claim(clocked, "one", 1)
    assert not clocked.index.write_evaluation(late, [], [], b"a")
    assert clocked.index.seal_samples("1" * 32, 0.0, 9, LEASE_S) is None


def publish(index: MemoryIndex | PostgresIndex, number: int, collector: str = "c") -> None:
    hour_ns = time.time_ns() // HOUR_NS * HOUR_NS
    claimed = index.create_claimed(BatchPlan(BatchKind.COOK, "acme", collector, Signal.METRICS, hour_ns))
    sent = segment(number, start=hour_ns, signal=Signal.METRICS, dataset="metrics", org="acme")
    index.publish(Publication(claimed, (sent,), hours=(hour_ns,)))


def test_added_records_are_noted_where_alerts_are_evaluated(clocked: Clocked) -> None:
    index = clocked.index
    publish(index, 1)
    assert index.changed_inputs("acme", 0, -10.0, 9) == []
    claim(clocked, "one", 1)
    publish(index, 2)
    (found,) = index.changed_inputs("acme", 0, -10.0, 9)
    assert (found.signal, found.min_ns <= found.max_ns) == (Signal.METRICS, True)
    publish(index, 3, collector="ruler")
    assert index.changed_inputs("acme", 0, -10.0, 9) == [found]
    assert index.changed_inputs("beta", 0, -10.0, 9) == []
    assert index.changed_inputs("acme", found.published_ms + 1, -10.0, 9) == []
    assert index.changed_inputs("acme", 0, 60.0, 9) == []
    clocked.wait(61)
    assert len(index.changed_inputs("acme", 0, 60.0, 9)) == 1


def corrected(from_ms: int, to_ms: int, rule_id: int = 7) -> AlertCorrection:
    verdict = Verdict.WOULD_HAVE_FIRED
    return AlertCorrection(rule_id, "Down", {"job": "a\0"}, verdict, from_ms, to_ms, "2", 99)


def test_corrections_of_an_interval_are_replaced(clocked: Clocked) -> None:
    index = clocked.index
    (record,) = claim(clocked, "one", 7)
    first, second = corrected(10, 20), corrected(40, 50)
    assert index.write_check(replace(record, checked_ms=5), None, [first, second])
    assert index.group_records("acme")[0].checked_ms == 5
    shown = [(one.from_ms, one.to_ms, one.verdict) for one in index.corrections_of_rule(7, 20, 40)]
    assert shown == [(10, 20, Verdict.WOULD_HAVE_FIRED), (40, 50, Verdict.WOULD_HAVE_FIRED)]
    assert index.write_check(replace(record, checked_ms=6), (45, 60), [corrected(47, 60)])
    assert [one.from_ms for one in index.alert_corrections("acme", 0, 100, 9)] == [47, 10]
    assert [one.from_ms for one in index.alert_corrections("acme", 0, 46, 9)] == [10]
    assert index.alert_corrections("beta", 0, 100, 9) == []
    claim(clocked, "one", 7)
    assert not index.write_check(replace(record, checked_ms=7), (0, 100), [])
    assert len(index.alert_corrections("acme", 0, 100, 9)) == 2
    assert index.write_evaluation(replace(record, token=2, checked_ms=0), [], [])
    assert index.group_records("acme")[0].checked_ms == 6


def test_changes_of_a_rule_come_with_the_state_before(clocked: Clocked) -> None:
    index = clocked.index
    (record,) = claim(clocked, "one", 7)
    other = replace(firing(7, 15), labels={"job": "b"})
    changes = [firing(7, 10), replace(firing(7, 20), state=AlertState.INACTIVE), other, firing(7, 30)]
    index.write_evaluation(record, changes, [])
    found = index.changes_of_rule(7, 25, 30)
    assert [(one.at_ms, one.labels["job"], one.state) for one in found] == [
        (15, "b", AlertState.FIRING), (20, "a", AlertState.INACTIVE), (30, "a", AlertState.FIRING),
    ]  # fmt: skip
    assert index.changes_of_rule(8, 0, 99) == []


def test_recording_rules_are_known_by_the_newest_hour(clocked: Clocked) -> None:
    index = clocked.index
    index.note_recorded_rules("acme", [RecordedOutcome("g", "b", 20), RecordedOutcome("g", "a", 20, "no\0")])
    index.note_recorded_rules("acme", [RecordedOutcome("g", "b", 10, "old"), RecordedOutcome("g", "a", 30)])
    found = index.recorded_state("acme")
    assert found.behind_s == 0
    assert [(one.record, one.hour_ns, one.error) for one in found.outcomes] == [("a", 30, ""), ("b", 20, "")]
    assert all(one.at_ms > 0 for one in found.outcomes)
    assert index.recorded_state("beta").outcomes == ()


def test_hours_that_wait_to_be_recorded_are_told(clocked: Clocked) -> None:
    document = {"name": "g", "language": "promql", "rules": [{"rule": "record", "record": "a", "expr": "b"}]}
    clocked.index.change_rules("acme", [PutRule(RuleKind.GROUP, "f", "g", document)], None)
    publish(clocked.index, 1)
    clocked.wait(30)
    assert clocked.index.recorded_state("acme").behind_s == pytest.approx(30, abs=5)
    assert clocked.index.recorded_state("beta").behind_s == 0


@pytest.mark.integration
def test_racing_claims_share_no_group_and_no_notice(postgres_index: PostgresIndex) -> None:
    postgres_index.create_organisation("acme")
    groups = dict.fromkeys(range(1, 41), "acme")

    def race(owner: str) -> list[tuple[int, str]]:
        postgres_index.beat_ruler(owner, 10 * LEASE_S)
        return [(one.rule_id, owner) for one in postgres_index.claim_groups(owner, groups)]

    with ThreadPoolExecutor(4) as threads:
        claimed = {each for _ in range(2) for found in threads.map(race, "abcd") for each in found}
        # each has one owner, who may claim it again
        assert sorted(rule for rule, _ in claimed) == sorted(groups)
        record = next(one for one in postgres_index.group_records("acme") if one.rule_id == 1)
        postgres_index.write_evaluation(record, [], [Notice(RECEIVER, str(n), {}) for n in range(9)])
        found = list(threads.map(lambda _: postgres_index.claim_notices(RECEIVER, 5, 9.0), range(4)))
    assert sorted(map(len, found)) == [0, 0, 0, 5]
