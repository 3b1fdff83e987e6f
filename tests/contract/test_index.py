"""One contract, two implementations: what the index promises, whoever keeps it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from threading import Thread

import psycopg
import pytest

from resources.index.account_types import StorageProfile
from resources.index.memory import MemoryIndex
from resources.index.postgres import PostgresIndex
from resources.index.types import (
    BatchKind,
    BatchPlan,
    Claim,
    DeadLetter,
    Intake,
    ObjectDone,
    ObjectFailed,
    ObjectNotice,
    OutboxMessage,
    PendingObject,
    Publication,
    PublishConflictError,
    Segment,
    SegmentQuery,
    TopicOffset,
)
from resources.lake.layout import PrefixMapping, Signal
from resources.lake.options import MetricNaming, OptionError
from resources.lake.timecut import HOUR_NS
from tests.support.patience import PATIENCE_S

HOUR = 491_000 * HOUR_NS
Index = MemoryIndex | PostgresIndex


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def index(request: pytest.FixtureRequest) -> Index:
    found: Index = MemoryIndex() if request.param == "memory" else request.getfixturevalue("postgres_index")
    for org in ("acme", "beta"):
        found.create_organisation(org)
    return found


def notice(name: str, org: str = "acme", size: int = 10, etag: str = "e1") -> ObjectNotice:
    return ObjectNotice("raw", f"otel-raw/{org}/c/logs/{name}", org, "c", Signal.LOGS, HOUR, size, etag)


def one_batch_each(pending: Sequence[PendingObject]) -> list[BatchPlan]:
    return [plan_of([p]) for p in pending]


def one_batch(pending: Sequence[PendingObject]) -> list[BatchPlan]:
    return [plan_of(pending)] if pending else []


def plan_of(pending: Sequence[PendingObject], kind: BatchKind = BatchKind.COOK) -> BatchPlan:
    return BatchPlan(kind, pending[0].org, "c", Signal.LOGS, HOUR, tuple(p.object_id for p in pending))


def claim_all(index: Index, *names: str, group=one_batch) -> list[Claim]:
    index.take_in(Intake("k", tuple(notice(name) for name in names)))
    index.plan_batches(Signal.LOGS, group)
    return index.claim_due(Signal.LOGS, BatchKind.COOK, 10**12)


def segment(
    number: int, org: str = "acme", hour: int = HOUR, terms: tuple[int, ...] = (1, 2), **more
) -> Segment:
    values = {
        "segment_id": f"{number:032x}",
        "key": f"db/{org}/{number}",
        "org": org,
        "collector": "c",
        "signal": Signal.LOGS,
        "dataset": "logs",
        "frequency_ms": 0,
        "hour_ns": hour,
        "width_ns": HOUR_NS,
        "min_ns": hour + 1,
        "max_ns": hour + 100,
        "rows": 5,
        "bytes": 50,
        "level": 0,
        "origin": "",
        "format_version": 1,
        "sort_version": 1,
        "terms": terms,
        "label_names": ("service_name",),
        "metric_names": (),
        "series_offset": 1,
        "series_length": 2,
        "bloom_offset": 3,
        "bloom_length": 4,
        **more,
    }
    return Segment(**values)


def publication(claim: Claim, *segments: Segment, **more) -> Publication:
    done = tuple(ObjectDone(o.object_id, "e1", 5, 0, 0, ((HOUR, 5),)) for o in claim.inputs)
    return replace(Publication(claim, segments, done, hours=(HOUR,)), **more)


def everything(org: str = "acme", **more) -> SegmentQuery:
    return replace(SegmentQuery(org, "logs", 0, HOUR, HOUR + HOUR_NS), **more)


def test_registering_is_idempotent_by_bucket_and_key(index: Index) -> None:
    first = index.take_in(Intake("k", (notice("a"), notice("b"), notice("a"))))
    again = index.take_in(Intake("k", (notice("b"), notice("c"))))
    assert [n.key[-1] for n in first.registered] == ["a", "b"]
    assert (first.duplicates, again.duplicates) == (1, 1)
    assert index.known_keys("raw", [notice(n).key for n in "abcd"]) == {notice(n).key for n in "abc"}


def test_offsets_move_with_the_objects_or_not_at_all(index: Index) -> None:
    index.take_in(Intake("k", (notice("a"),), offsets=(TopicOffset("t", 0, 5),)))
    stranger = notice("x", org="nobody")
    with pytest.raises(Exception):  # noqa: B017, PT011 - each implementation has its own
        index.take_in(Intake("k", (notice("b"), stranger), offsets=(TopicOffset("t", 0, 9),)))
    assert index.read_offsets("k", "t") == [TopicOffset("t", 0, 5)]
    assert index.known_keys("raw", [notice("b").key]) == set()


def test_offsets_are_kept_per_cluster_and_partition(index: Index) -> None:
    index.take_in(Intake("k", offsets=(TopicOffset("t", 1, 7), TopicOffset("t", 0, 3))))
    index.take_in(Intake("other", offsets=(TopicOffset("t", 0, 1),)))
    assert index.read_offsets("k", "t") == [TopicOffset("t", 0, 3), TopicOffset("t", 1, 7)]


def test_a_key_written_again_is_reported_and_keeps_its_content(index: Index) -> None:
    claims = claim_all(index, "a")
    index.publish(publication(claims[0], segment(1)))
    result = index.take_in(Intake("k", (notice("a", etag="e2"),)))
    assert (result.overwritten, result.duplicates) == (1, 1)
    assert index.pipeline_status()[0]["overwritten_objects"] == 1
    assert index.objects_with_rows_in("acme", Signal.LOGS, HOUR)[0].etag == "e1"


def test_an_object_is_in_one_batch_only(index: Index) -> None:
    index.take_in(Intake("k", (notice("a"), notice("b"))))
    assert index.plan_batches(Signal.LOGS, one_batch_each) == 2
    assert index.plan_batches(Signal.LOGS, one_batch_each) == 0
    assert [b.objects for b in index.due_batches(Signal.LOGS, BatchKind.COOK)] == [1, 1]


def test_claims_respect_the_byte_limit_but_take_at_least_one(index: Index) -> None:
    index.take_in(Intake("k", tuple(notice(n, size=100) for n in "abc")))
    index.plan_batches(Signal.LOGS, one_batch_each)
    assert len(index.claim_due(Signal.LOGS, BatchKind.COOK, 1)) == 1
    assert len(index.claim_due(Signal.LOGS, BatchKind.COOK, 250)) == 2
    assert index.claim_due(Signal.LOGS, BatchKind.COOK, 250) == []


def test_a_claim_takes_a_bounded_number_of_batches_however_small(index: Index) -> None:
    index.take_in(Intake("k", tuple(notice(str(n), size=0) for n in range(150))))
    index.plan_batches(Signal.LOGS, one_batch_each)
    taken = [len(index.claim_due(Signal.LOGS, BatchKind.COOK, 10**12)) for _ in range(3)]
    assert taken == [100, 50, 0]


def test_inputs_keep_their_order(index: Index) -> None:
    index.take_in(Intake("k", tuple(notice(n) for n in "abc")))
    index.plan_batches(Signal.LOGS, lambda pending: [plan_of(list(reversed(pending)))])
    (claim,) = index.claim_due(Signal.LOGS, BatchKind.COOK, 10**9)
    assert [o.key[-1] for o in claim.inputs] == ["c", "b", "a"]


def test_publishing_makes_segments_live_and_objects_done(index: Index) -> None:
    (claim,) = claim_all(index, "a", "b")
    versions = index.publish(publication(claim, segment(1), segment(2)))
    assert versions == {HOUR: 1}
    assert [s.segment_id for s in index.find_segments(everything())] == [f"{1:032x}", f"{2:032x}"]
    status = index.pipeline_status()[0]
    assert (status["pending_objects"], status["pending_bytes"], status["done_objects"]) == (0, 0, 2)
    assert (status["rows"], status["segments"]) == (10, 2)
    assert [p.version for p in index.partitions("acme", Signal.LOGS, 0)] == [1]


def test_publishing_twice_is_refused_and_changes_nothing(index: Index) -> None:
    (claim,) = claim_all(index, "a")
    index.publish(publication(claim, segment(1)))
    with pytest.raises(PublishConflictError):
        index.publish(publication(claim, segment(2)))
    assert len(index.find_segments(everything())) == 1
    assert [p.version for p in index.partitions("acme", Signal.LOGS, 0)] == [1]


def test_a_holder_that_lost_its_claim_cannot_publish(index: Index) -> None:
    (old,) = claim_all(index, "a")
    time.sleep(0.05)
    assert index.release_expired(0.01) == 1
    (new,) = index.claim_due(Signal.LOGS, BatchKind.COOK, 10**9)
    assert (new.batch_id, new.attempt) == (old.batch_id, old.attempt + 1)
    with pytest.raises(PublishConflictError):
        index.publish(publication(old, segment(1)))
    assert index.publish(publication(new, segment(2))) == {HOUR: 1}


def test_a_beating_holder_keeps_its_claim(
    index: Index, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    beating, silent = claim_all(index, "a", "b", group=one_batch_each)
    if isinstance(index, MemoryIndex):
        monkeypatch.setattr(index, "_clock", lambda: time.time() + 7200)
    else:
        with psycopg.connect(request.getfixturevalue("index_dsn")) as connection:
            connection.execute("UPDATE lakerunner.batch SET heartbeat_at = heartbeat_at - interval '2 hours'")
    assert index.beat([beating.token]) == 1
    assert index.release_expired(3600.0) == 1
    assert index.beat([beating.token, silent.token]) == 1
    assert index.beat(["nonsense"]) == 0


def test_retiring_a_segment_that_is_not_live_aborts_everything(index: Index) -> None:
    (claim,) = claim_all(index, "a")
    with pytest.raises(PublishConflictError):
        index.publish(publication(claim, segment(1), retire=(f"{9:032x}",)))
    assert index.find_segments(everything()) == []
    assert index.publish(publication(claim, segment(1)))  # the claim survived the abort


def test_another_organisations_segment_cannot_be_retired(index: Index) -> None:
    index.take_in(Intake("k", (notice("b", org="beta"),)))
    index.plan_batches(Signal.LOGS, one_batch)
    (theirs,) = index.claim_due(Signal.LOGS, BatchKind.COOK, 10**9)
    index.publish(publication(theirs, segment(7, org="beta")))
    (mine,) = claim_all(index, "a")
    with pytest.raises(PublishConflictError):
        index.publish(publication(mine, retire=(f"{7:032x}",)))
    assert len(index.find_segments(everything("beta"))) == 1


def test_a_rebuild_swaps_segments_and_bumps_the_version(index: Index) -> None:
    (claim,) = claim_all(index, "a")
    index.publish(publication(claim, segment(1)))
    inputs = tuple(o.object_id for o in claim.inputs)
    rebuild = index.create_claimed(BatchPlan(BatchKind.REBUILD, "acme", "c", Signal.LOGS, HOUR, inputs))
    swap = Publication(rebuild, (segment(2),), retire=(f"{1:032x}",), hours=(HOUR,), expect_sources=inputs)
    assert index.publish(swap) == {HOUR: 2}
    assert [s.segment_id for s in index.live_segments("acme", Signal.LOGS, 0, HOUR)] == [f"{2:032x}"]


def test_a_rebuild_aborts_when_new_objects_arrived_in_its_hour(index: Index) -> None:
    (claim,) = claim_all(index, "a")
    index.publish(publication(claim, segment(1)))
    inputs = tuple(o.object_id for o in claim.inputs)
    rebuild = index.create_claimed(BatchPlan(BatchKind.REBUILD, "acme", "c", Signal.LOGS, HOUR, inputs))
    (late,) = claim_all(index, "b")
    index.publish(publication(late, segment(3)))
    swap = Publication(rebuild, (segment(2),), retire=(f"{1:032x}",), hours=(HOUR,), expect_sources=inputs)
    with pytest.raises(PublishConflictError, match="changed since planning"):
        index.publish(swap)
    assert len(index.find_segments(everything())) == 2


def test_a_given_up_object_is_no_source_of_the_hour_any_more(index: Index) -> None:
    (claim,) = claim_all(index, "a", "b")
    index.publish(publication(claim, segment(1)))
    first, second = (o.object_id for o in claim.inputs)
    assert [o.hour_rows for o in index.objects_with_rows_in("acme", Signal.LOGS, HOUR)] == [5, 5]
    rebuild = index.create_claimed(
        BatchPlan(BatchKind.REBUILD, "acme", "c", Signal.LOGS, HOUR, (first, second))
    )
    swap = Publication(
        rebuild,
        (segment(2),),
        retire=(f"{1:032x}",),
        hours=(HOUR,),
        expect_sources=(first, second),
        given_up=(second,),
    )
    index.publish(swap)
    assert [o.object_id for o in index.objects_with_rows_in("acme", Signal.LOGS, HOUR)] == [first]


def test_an_expired_rebuild_is_over_and_never_due(index: Index) -> None:
    (claim,) = claim_all(index, "a")
    index.publish(publication(claim, segment(1)))
    plan = BatchPlan(BatchKind.REBUILD, "acme", "c", Signal.LOGS, HOUR, (claim.inputs[0].object_id,))
    index.create_claimed(plan)
    time.sleep(0.05)
    assert index.release_expired(0.01) == 1
    assert index.due_batches(Signal.LOGS, BatchKind.REBUILD) == []


def test_a_failed_object_waits_and_goes_back_while_its_neighbour_is_done(index: Index) -> None:
    (claim,) = claim_all(index, "a", "b")
    bad, good = claim.inputs
    outcome = Publication(
        claim,
        (segment(1),),
        (ObjectDone(good.object_id, "e1", 5, 0, 0, ((HOUR, 5),)),),
        (ObjectFailed(bad.object_id, "truncated at byte 7"),),
        hours=(HOUR,),
    )
    index.publish(outcome)
    status = index.pipeline_status()[0]
    assert (status["done_objects"], status["pending_objects"], status["parked_objects"]) == (1, 1, 0)


def test_an_object_alone_is_parked_after_its_last_try_and_retried_on_request(index: Index) -> None:
    (claim,) = claim_all(index, "a")
    bad = ObjectFailed(claim.inputs[0].object_id, "not OTLP")
    index.publish(Publication(claim, (), failed=(bad,), max_tries=1))
    assert index.pipeline_status()[0]["parked_objects"] == 1
    assert index.retry_parked("beta", None) == 0
    assert index.retry_parked("acme", None) == 1
    assert index.plan_batches(Signal.LOGS, one_batch) == 1


def test_losses_are_counted_by_signal_and_hour_of_arrival(index: Index) -> None:
    (claim,) = claim_all(index, "a", "b")
    first, second = claim.inputs
    index.publish(
        Publication(
            claim,
            (segment(1),),
            (ObjectDone(first.object_id, "e1", 5, 2, 1, ((HOUR, 5),), "line 3: no JSON"),),
            (ObjectFailed(second.object_id, "truncated at byte 7"),),
            hours=(HOUR,),
        )
    )
    found = {"signal": "logs", "rows": 5, "rejected": 2, "quarantined": 1, "parked_objects": 0}
    assert index.ingest_losses("acme", HOUR + 1, HOUR + 1) == [{**found, "reason": "line 3: no JSON"}]
    (claim,) = claim_all(index, "c")
    index.publish(
        Publication(claim, (), failed=(ObjectFailed(claim.inputs[0].object_id, "not OTLP"),), max_tries=1)
    )
    found["parked_objects"] = 1
    assert index.ingest_losses("acme", 0, 2**62) == [{**found, "reason": "not OTLP"}]
    assert index.ingest_losses("acme", 0, HOUR) == []  # the hour begins behind its first nanosecond
    assert index.ingest_losses("beta", 0, 2**62) == []


def test_a_crash_bisects_until_the_culprit_is_alone_and_parked(index: Index) -> None:
    (claim,) = claim_all(index, "a", "b", "c")
    index.split(claim, "worker died", max_tries=1)
    halves = index.claim_due(Signal.LOGS, BatchKind.COOK, 10**9)
    assert [[o.key[-1] for o in c.inputs] for c in halves] == [["a"], ["b", "c"]]
    index.split(halves[0], "worker died", max_tries=1)
    assert index.pipeline_status()[0]["parked_objects"] == 1
    index.publish(publication(halves[1], segment(1)))
    assert index.pipeline_status()[0]["done_objects"] == 2


def test_a_lone_crash_is_retried_before_it_is_parked(index: Index) -> None:
    (claim,) = claim_all(index, "a")
    index.split(claim, "worker died", max_tries=3)
    assert index.pipeline_status()[0]["parked_objects"] == 0
    assert index.due_batches(Signal.LOGS, BatchKind.COOK) == []  # backs off first


def test_giving_back_delays_and_counts_the_attempt(index: Index) -> None:
    (claim,) = claim_all(index, "a")
    index.give_back(claim, "spark is away", 0.0)
    (again,) = index.claim_due(Signal.LOGS, BatchKind.COOK, 10**9)
    assert (again.attempt, again.crashes) == (1, 0)
    index.give_back(again, "spark is away", 60.0)
    assert index.claim_due(Signal.LOGS, BatchKind.COOK, 10**9) == []


def test_queries_see_only_their_organisation_time_and_terms(index: Index) -> None:
    (claim,) = claim_all(index, "a")
    index.publish(publication(claim, segment(1, terms=(1, 2)), segment(2, terms=(3,), min_ns=HOUR + 50)))
    assert index.find_segments(everything("beta")) == []
    assert [s.segment_id[-1] for s in index.find_segments(everything(terms=((2, 9),)))] == ["1"]
    assert index.find_segments(everything(terms=((1,), (3,)))) == []
    assert [s.segment_id[-1] for s in index.find_segments(everything(end_ns=HOUR + 49))] == ["1"]
    assert len(index.find_segments(everything(start_ns=HOUR + 100))) == 2
    assert index.find_segments(everything(start_ns=HOUR + 101)) == []
    assert index.find_segments(everything(collectors=("d",))) == []


def test_segments_are_read_back_as_they_were_written(index: Index) -> None:
    (claim,) = claim_all(index, "a")
    written = segment(1, object_ids=(claim.inputs[0].object_id,))
    index.publish(publication(claim, written))
    (found,) = index.find_segments(everything(names=True))
    assert found == written
    assert (written.terms, found.terms) == ((1, 2), ())
    (found,) = index.find_segments(everything())
    assert (found.label_names, found.metric_names) == ((), ())
    assert replace(found, label_names=written.label_names, metric_names=written.metric_names) == written


def test_outbox_keeps_messages_until_they_are_delivered(index: Index) -> None:
    index.append_outbox([OutboxMessage("t", "k", b"1"), OutboxMessage("t", "k", b"2")])

    def broken(messages: Sequence[OutboxMessage]) -> None:
        raise ConnectionError("kafka is away")

    with pytest.raises(ConnectionError):
        index.drain_outbox(broken, 10)
    got: list[OutboxMessage] = []
    waiting = index.backlog()
    assert (waiting.outbox_messages, waiting.outbox_oldest_s >= 0) == (2, True)
    assert index.drain_outbox(got.extend, 10) == 2
    assert (index.backlog().outbox_messages, index.backlog().outbox_oldest_s) == (0, 0)
    assert [m.payload for m in got] == [b"1", b"2"]
    assert index.drain_outbox(got.extend, 10) == 0


def test_keys_open_only_while_live(index: Index) -> None:
    past = time.time_ns() - 10**9
    index.create_api_key("acme", "read", "old", b"1" * 32, past)
    index.create_api_key("acme", "admin", "new", b"2" * 32, None)
    assert index.find_api_key(b"1" * 32) is None
    found = index.find_api_key(b"2" * 32)
    assert found is not None
    assert (found.org, found.role) == ("acme", "admin")
    assert index.revoke_api_key("beta", "new") == 0
    assert index.revoke_api_key("acme", "new") == 1
    assert index.find_api_key(b"2" * 32) is None


def test_setup_is_read_back(index: Index) -> None:
    assert index.create_organisation("gamma") is True
    assert index.create_organisation("gamma") is False
    assert index.organisations() == ["acme", "beta", "gamma"]
    index.put_storage_profile(StorageProfile("raw", "file:///raw"))
    index.put_storage_profile(StorageProfile("raw", "file:///raw2", "prod"))
    assert index.storage_profiles() == {"raw": StorageProfile("raw", "file:///raw2", "prod")}
    mapping = PrefixMapping("raw", "incoming/", "acme", "c", None)
    index.put_prefix_mapping(mapping)
    assert index.prefix_mappings() == [mapping]


def test_runs_beat_and_are_forgotten(index: Index) -> None:
    index.beat_run("r1")
    index.beat_run("r1")
    assert 0 <= index.run_heartbeats()["r1"] < 5
    index.rest_run("r1", 60.0)
    assert -61 < index.run_heartbeats()["r1"] < -50
    index.forget_run("r1")
    assert index.run_heartbeats() == {}


def test_dead_letters_and_counters_are_kept(index: Index) -> None:
    index.append_dead_letters([DeadLetter("webhook", "unknown bucket", b"{}")])
    index.add_counters({"rejected": 2.0, "seen": 1.0})
    index.add_counters({"rejected": 1.0})
    assert index.counters() == {"rejected": 3.0, "seen": 1.0}
    assert index.backlog().dead_letters == 1


def test_pending_objects_by_arrival_hour(index: Index) -> None:
    index.take_in(Intake("k", (notice("a"), replace(notice("b"), arrival_hour_ns=HOUR + HOUR_NS))))
    found = index.pending_objects("acme", Signal.LOGS, HOUR, HOUR)
    assert len(found) == 1
    (claim,) = index.batch_now([plan_of(found)])
    assert [o.key[-1] for o in claim.inputs] == ["a"]
    with pytest.raises(PublishConflictError):
        index.batch_now([plan_of(found)])


@pytest.mark.integration
def test_racing_claims_never_share_a_batch(postgres_index: PostgresIndex) -> None:
    postgres_index.create_organisation("acme")
    postgres_index.take_in(Intake("k", tuple(notice(f"n{i}") for i in range(40))))
    postgres_index.plan_batches(Signal.LOGS, one_batch_each)
    claimed: list[int] = []

    def worker() -> None:
        while claims := postgres_index.claim_due(Signal.LOGS, BatchKind.COOK, 20):
            claimed.extend(c.batch_id for c in claims)

    threads = [Thread(target=worker) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(claimed) == len(set(claimed)) <= 40
    assert len(claimed) + len(postgres_index.due_batches(Signal.LOGS, BatchKind.COOK)) == 40


def test_an_error_may_quote_any_bytes(index: Index) -> None:
    """One that the index refused would end the run that reports it, and the batch would do so for ever."""
    strange = "found \0 and \ud800"
    first, second, third = claim_all(index, "a", "b", "c", group=one_batch_each)
    index.give_back(first, strange, 0.0)
    index.split(second, strange, max_tries=1)
    failed = ObjectFailed(third.inputs[0].object_id, strange)
    index.publish(Publication(third, (), failed=(failed,), max_tries=1))
    assert index.pipeline_status()[0]["parked_objects"] == 2


def test_thousands_of_notices_with_repeats_are_one_registration_each(index: Index) -> None:
    many = tuple(notice(str(n % 3000)) for n in range(5000))
    result = index.take_in(Intake("k", many))
    assert (len(result.registered), result.duplicates) == (3000, 2000)
    assert [n.key for n in result.registered] == sorted(n.key for n in result.registered)


@pytest.mark.integration
def test_publications_do_not_hold_up_the_heartbeats_of_other_batches(
    postgres_index: PostgresIndex, index_dsn: str
) -> None:
    """A long publication locks its batch; beats that waited for it would let all other claims lapse."""
    postgres_index.create_organisation("acme")
    busy, other = claim_all(postgres_index, "a", "b", group=one_batch_each)
    with psycopg.connect(index_dsn) as publishing:
        publishing.execute("SELECT 1 FROM lakerunner.batch WHERE batch_id = %s FOR UPDATE", (busy.batch_id,))
        beats: list[int] = []
        thread = Thread(target=lambda: beats.append(postgres_index.beat([busy.token, other.token])))
        thread.start()
        thread.join(PATIENCE_S)
        assert beats == [1]
        time.sleep(0.05)
        assert postgres_index.release_expired(0.04) == 1  # the other; this one is being published


@pytest.mark.integration
def test_a_publication_the_tables_refuse_is_a_conflict(postgres_index: PostgresIndex) -> None:
    postgres_index.create_organisation("acme")
    (claim,) = claim_all(postgres_index, "a")
    for bad in (segment(1, label_names=("nul\0",)), segment(1, rows=0), segment(1, org="nobody")):
        with pytest.raises(PublishConflictError):
            postgres_index.publish(publication(claim, bad))
    assert postgres_index.publish(publication(claim, segment(1))) == {HOUR: 1}


def test_settings_of_an_organisation_are_checked_kept_and_removed(index: Index) -> None:
    index.put_org_setting("acme", "metric_naming", "verbatim")
    index.put_org_setting("acme", "fields", {"message": ["text"]})
    assert index.org_settings("acme") == {"fields": {"message": ["text"]}, "metric_naming": "verbatim"}
    assert set(index.org_options()) == {"acme"}
    assert index.org_options()["acme"].decode.metric_naming is MetricNaming.VERBATIM
    assert index.org_options()["acme"].decode.fields == (("message", ("text",)),)
    index.put_org_setting("acme", "metric_naming", None)
    assert index.org_settings("acme") == {"fields": {"message": ["text"]}}


@pytest.mark.parametrize(
    ("name", "value"),
    [("no_such", 1), ("metric_naming", "loud"), ("fields", {"colour": ["x"]}), ("fields", [1]),
     ("push_bytes_per_second", 0), ("ingest_bytes_per_minute", True), ("index_attributes", "host")],
)  # fmt: skip
def test_impossible_settings_are_refused_and_change_nothing(index: Index, name: str, value: object) -> None:
    with pytest.raises(OptionError, match=name):
        index.put_org_setting("acme", name, value)
    assert index.org_settings("acme") == {}


def test_bytes_batched_lately_and_bytes_pending(index: Index) -> None:
    index.take_in(Intake("k", (notice("a", size=7), notice("b", org="beta", size=5), notice("c", size=2))))
    assert (index.pending_bytes(Signal.LOGS), index.pending_bytes(Signal.METRICS)) == (14, 0)
    assert index.batched_bytes(60) == {}
    index.plan_batches(Signal.LOGS, lambda pending: [plan_of(pending[:1])])
    assert index.batched_bytes(60) == {"acme": 7}
    assert index.pending_bytes(Signal.LOGS) == 14
    claim = index.claim_due(Signal.LOGS, BatchKind.COOK, 10**12)[0]
    index.publish(publication(claim, segment(1)))
    assert index.pending_bytes(Signal.LOGS) == 7


def test_organisations_held_back_are_not_shown(index: Index) -> None:
    index.take_in(Intake("k", (notice("a"), notice("b", org="beta"))))
    shown: list[str] = []
    index.plan_batches(Signal.LOGS, lambda pending: shown.extend(p.org for p in pending) or [], ["acme"])
    assert shown == ["beta"]


def test_gauges_replace_and_counters_add(index: Index) -> None:
    for value in (3.0, 2.0):
        index.set_gauges({"lag": value})
        index.add_counters({"done_total": value})
    assert index.counters() == {"done_total": 5.0, "lag": 2.0}


@pytest.mark.integration
def test_a_setting_that_cannot_be_read_stops_nobody(postgres_index: PostgresIndex, index_dsn: str) -> None:
    postgres_index.create_organisation("acme")
    postgres_index.put_org_setting("acme", "metric_naming", "verbatim")
    with psycopg.connect(index_dsn) as connection:
        connection.execute(
            "INSERT INTO lakerunner.org_setting (org_id, name, value) VALUES ('acme', 'from_the_future', '1')"
        )
    assert postgres_index.org_options()["acme"].decode.metric_naming is MetricNaming.VERBATIM


def test_a_dead_letter_with_a_nul_is_kept(index: Index) -> None:
    letter = DeadLetter("kafka", "unknown field \x00", b"payload", "t", 0, 1)
    result = index.take_in(Intake("k", dead_letters=(letter,), offsets=(TopicOffset("t", 0, 2),)))
    assert result.dead_letters == 1
    assert index.read_offsets("k", "t") == [TopicOffset("t", 0, 2)]
