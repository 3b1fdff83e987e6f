"""What the index promises to the sweeper, whoever keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import psycopg
import pytest

from resources.index.memory import MemoryIndex
from resources.index.postgres import PostgresIndex
from resources.index.sweeping_types import OldTier
from resources.index.types import (
    BatchKind,
    BatchPlan,
    Intake,
    ObjectDone,
    OutboxMessage,
    Publication,
    PublishConflictError,
)
from resources.lake.frequency import HOUR as HOUR_MS
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS
from tests.support.sweep_index import (
    HOUR,
    Clocked,
    Index,
    cook,
    live,
    notice,
    numbers,
    one_batch,
    retire,
    segment,
    tier,
    whole,
    work,
)


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def clocked(request: pytest.FixtureRequest) -> Clocked:
    if request.param == "memory":
        found = Clocked(MemoryIndex(), "")
    else:
        index = request.getfixturevalue("postgres_index")
        found = Clocked(index, request.getfixturevalue("index_dsn"))
    for org in ("acme", "beta"):
        found.index.create_organisation(org)
    return found


@pytest.fixture
def index(clocked: Clocked) -> Index:
    return clocked.index


class Bucket:
    """Takes note of what it was told to delete; refuses when told so."""

    def __init__(self) -> None:
        self.gone: list[str] = []
        self.broken = False

    def remove(self, keys: Sequence[str]) -> None:
        if self.broken:
            raise ConnectionError("no answer")
        self.gone += keys


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


def test_retention_is_set_changed_listed_and_removed(clocked: Clocked) -> None:
    index = clocked.index
    index.put_retention("acme", Signal.LOGS, "raw", 30)
    clocked.pass_seconds(100)
    index.put_retention("acme", Signal.METRICS, "1d", 400)
    index.put_retention("acme", Signal.LOGS, "raw", 30)
    first, second = index.retentions()
    assert (first.org, first.signal, first.tier, first.keep_days) == ("acme", Signal.LOGS, "raw", 30)
    assert first.stood_s >= 100  # the same number again is no change
    assert (second.signal, second.tier, second.keep_days) == (Signal.METRICS, "1d", 400)
    assert second.stood_s < 100
    index.put_retention("acme", Signal.LOGS, "raw", 31)
    assert index.retentions()[0].stood_s < 100
    assert index.remove_retention("acme", Signal.LOGS, "raw")
    assert not index.remove_retention("acme", Signal.LOGS, "raw")
    assert [r.tier for r in index.retentions()] == ["1d"]


def test_one_sweeper_at_a_time(index: Index) -> None:
    with index.sweep_lock() as first:
        assert first
        with index.sweep_lock() as second:
            assert not second
    with index.sweep_lock() as again:
        assert again


def test_what_ages_starts_before_the_limit_and_is_of_one_tier(index: Index) -> None:
    cook(index, 1)
    cook(index, 2, HOUR + HOUR_NS)
    claim = work(index, BatchKind.ROLLUP)
    index.publish(Publication(claim, (segment(3, frequency_ms=HOUR_MS, dataset="metrics-1h"),)))
    aging = index.aging(tier(), 100)
    assert [s.key for s in aging.segments] == ["db/1"]
    assert aging.partitions == (HOUR,)
    assert [s.key for s in index.aging(tier(frequency_ms=HOUR_MS), 100).segments] == ["db/3"]
    assert index.aging(OldTier("beta", Signal.METRICS, 0, 2**62), 100).segments == ()
    assert index.aging(OldTier("acme", Signal.LOGS, 0, 2**62), 100).partitions == ()


def test_a_list_that_was_cut_off_says_where(index: Index) -> None:
    for number in range(3):
        cook(index, number, HOUR + number * HOUR_NS)
    assert index.aging(tier(2**61), 2).seen_to_ns == HOUR + HOUR_NS
    assert index.aging(tier(2**61), 4).seen_to_ns == 2**61


def test_an_expired_window_has_no_live_segments_and_keeps_its_version(index: Index) -> None:
    cook(index, 1)
    cook(index, 2)
    claim = work(index, BatchKind.ROLLUP)
    index.publish(Publication(claim, (segment(3, dataset="metrics-quarantine"),)))
    (before,) = index.partitions("acme", Signal.METRICS, 0)
    assert index.expire(tier(), whole(index, tier()))
    (after,) = index.partitions("acme", Signal.METRICS, 0)
    assert live(index) == []
    assert (after.expired, after.version) == (True, before.version)
    assert index.aging(tier(), 100).segments == index.aging(tier(), 100).partitions == ()


def test_a_window_with_a_segment_in_a_batch_is_left_alone(index: Index) -> None:
    cook(index, 1)
    cook(index, 2)
    planned = whole(index, tier())
    claim = work(index, BatchKind.COMPACT, 1)  # between plan and retirement
    assert [s.busy for s in index.aging(tier(), 100).segments] == [True, False]
    assert not index.expire(tier(), planned)
    assert not any(p.expired for p in index.partitions("acme", Signal.METRICS, 0))
    index.abandon(claim, "changed my mind")
    assert index.expire(tier(), planned)
    assert live(index) == []


def test_a_window_that_changed_since_it_was_planned_is_left_alone(index: Index) -> None:
    cook(index, 1)
    planned = whole(index, tier())
    cook(index, 2)
    assert not index.expire(tier(), planned)
    assert live(index) == [1, 2]
    assert not index.expire(tier(), replace(whole(index, tier()), partitions=()))
    assert index.expire(tier(), whole(index, tier()))


def test_retired_segments_can_be_deleted_after_the_grace_only(clocked: Clocked, bucket: Bucket) -> None:
    index = clocked.index
    for number in (1, 2, 3):
        cook(index, number)
    retire(index, 1, 2)
    assert index.retired_segments(600, "", 10) == []
    assert index.delete_retired(["db/1"], 600, bucket.remove) == []
    clocked.pass_seconds(700)
    found = index.retired_segments(600, "", 10)
    assert numbers([f.key for f in found]) == [1, 2]
    assert {(f.org, f.bytes) for f in found} == {("acme", 50)}
    assert len(index.retired_segments(600, "", 1)) == 1
    assert index.retired_segments(600, "beta", 10) == []
    gone = index.delete_retired(["db/1", "db/2", "db/3", "db/unknown"], 600, bucket.remove)
    assert numbers([f.key for f in gone]) == numbers(bucket.gone) == [1, 2]
    assert live(index) == [3, 90]
    assert index.known_segment_keys(["db/1", "db/3"]) == {"db/3"}


def test_a_retired_segment_that_a_batch_still_reads_stays(clocked: Clocked, bucket: Bucket) -> None:
    index = clocked.index
    cook(index, 1)
    cook(index, 2)
    reading = work(index, BatchKind.COMPACT, 1, 2)
    rebuild = work(index, BatchKind.REBUILD)
    index.publish(Publication(rebuild, (segment(3),), retire=(f"{1:032x}", f"{2:032x}"), hours=(HOUR,)))
    clocked.pass_seconds(700)
    assert index.retired_segments(600, "", 10) == []
    assert index.delete_retired(["db/1", "db/2"], 600, bucket.remove) == []
    assert bucket.gone == []
    index.abandon(reading, "its inputs are retired")
    assert len(index.delete_retired(["db/1", "db/2"], 600, bucket.remove)) == 2


def test_rows_of_files_that_could_not_be_deleted_stay(clocked: Clocked, bucket: Bucket) -> None:
    index = clocked.index
    object_id = cook(index, 1)
    retire(index, 1)
    index.note_listed("acme", {"db/lost": 7}, [])
    clocked.pass_seconds(700)
    bucket.broken = True
    with pytest.raises(ConnectionError):
        index.delete_retired(["db/1"], 600, bucket.remove)
    with pytest.raises(ConnectionError):
        index.expire_objects([object_id], bucket.remove)
    with pytest.raises(ConnectionError):
        index.delete_orphans(["db/lost"], 600, bucket.remove)
    bucket.broken = False
    assert len(index.delete_retired(["db/1"], 600, bucket.remove)) == 1
    assert len(index.expire_objects([object_id], bucket.remove)) == 1
    assert len(index.delete_orphans(["db/lost"], 600, bucket.remove)) == 1


def test_only_done_objects_of_old_hours_lose_their_bytes(index: Index, bucket: Bucket) -> None:
    old = cook(index, 1)
    cook(index, 2, HOUR + HOUR_NS)
    parked = one_batch(index, "parked")
    index.split(parked, "poison", 1)
    index.take_in(Intake("k", (notice("pending"),)))
    found = index.old_objects("acme", Signal.METRICS, HOUR + HOUR_NS, 10)
    assert [(o.object_id, o.bucket, o.bytes) for o in found] == [(old, "raw", 10)]
    assert index.old_objects("acme", Signal.METRICS, HOUR + HOUR_NS - 1, 10) == []
    assert index.old_objects("acme", Signal.METRICS, HOUR + HOUR_NS, 10, ["raw"]) == []
    everything = range(1, 10)
    gone = index.expire_objects(list(everything), bucket.remove)
    assert [o.key.rsplit("/", 1)[1] for o in gone] == ["1", "2"]
    assert index.expire_objects(list(everything), bucket.remove) == []
    assert index.pipeline_status()[0]["parked_objects"] == 1
    assert index.pipeline_status()[0]["pending_objects"] == 1


def test_an_object_in_a_rebuild_keeps_its_bytes(index: Index, bucket: Bucket) -> None:
    object_id = cook(index, 1)
    plan = BatchPlan(BatchKind.REBUILD, "acme", "c", Signal.METRICS, HOUR, (object_id,))
    claim = index.create_claimed(plan)
    assert index.old_objects("acme", Signal.METRICS, 2**62, 10) == []
    assert index.expire_objects([object_id], bucket.remove) == []
    index.abandon(claim, "not needed")
    assert len(index.expire_objects([object_id], bucket.remove)) == 1


def test_bytes_that_nobody_read_are_kept(index: Index, bucket: Bucket) -> None:
    object_id = cook(index, 1)
    index.take_in(Intake("k", (notice("1", etag="another"),)))
    assert index.old_objects("acme", Signal.METRICS, 2**62, 10) == []
    assert index.expire_objects([object_id], bucket.remove) == []


def test_a_deleted_object_is_not_taken_in_again(index: Index, bucket: Bucket) -> None:
    object_id = cook(index, 1)
    index.expire_objects([object_id], bucket.remove)
    again = index.take_in(Intake("k", (notice("1"),)))
    assert (again.registered, again.duplicates) == ((), 1)
    assert index.pending_objects("acme", Signal.METRICS, 0, 2**62) == []


def test_rows_of_objects_are_forgotten_last_of_all(clocked: Clocked, bucket: Bucket) -> None:
    index = clocked.index
    object_id = cook(index, 1)

    def forgettable(ended_by: int = HOUR + HOUR_NS) -> list[int]:
        return index.forgettable_objects("acme", Signal.METRICS, ended_by, 600, 10)

    assert index.forget_objects([object_id]) == 0  # its bytes are there
    index.expire_objects([object_id], bucket.remove)
    assert index.expire(tier(), whole(index, tier()))
    clocked.pass_seconds(700)
    assert forgettable() == []  # a retired segment holds its rows
    assert index.forget_objects([object_id]) == 0
    index.delete_retired(["db/1"], 600, bucket.remove)
    assert forgettable() == []  # its batch is there
    assert index.forget_objects([object_id]) == 0
    assert index.forget_batches(600, 10) == 1
    assert forgettable(HOUR + HOUR_NS - 1) == []
    assert forgettable() == [object_id]
    assert index.forget_objects([object_id]) == 1
    assert index.objects_with_rows_in("acme", Signal.METRICS, HOUR) == []
    assert index.known_keys("raw", ["otel-raw/acme/c/metrics/1"]) == set()


def test_an_object_with_rows_in_a_younger_hour_is_remembered(clocked: Clocked, bucket: Bucket) -> None:
    index = clocked.index
    claim = one_batch(index, "1")
    (obj,) = claim.inputs
    done = (
        ObjectDone(
            obj.object_id,
            "e",
            5,
            0,
            0,
            ((HOUR, 2), (HOUR + HOUR_NS, 3)),
        ),
    )
    index.publish(Publication(claim, (), done))
    index.expire_objects([obj.object_id], bucket.remove)
    clocked.pass_seconds(700)
    index.forget_batches(600, 10)
    assert index.forgettable_objects("acme", Signal.METRICS, HOUR + HOUR_NS, 600, 10) == []
    found = index.forgettable_objects("acme", Signal.METRICS, HOUR + 2 * HOUR_NS, 600, 10)
    assert found == [obj.object_id]


def test_unknown_files_are_orphans_until_they_are_known(clocked: Clocked, bucket: Bucket) -> None:
    index = clocked.index
    assert index.note_listed("acme", {"db/1": 7, "db/2": 8}, []) == 2
    assert index.note_listed("acme", {"db/1": 7, "db/2": 8}, []) == 0
    counts = index.orphan_counts()["acme"]
    assert (counts.orphans, counts.bytes, counts.segments) == (2, 15, 0)
    cook(index, 1)
    assert index.ripe_orphans(600, "", 10) == []
    clocked.pass_seconds(700)
    assert [f.key for f in index.ripe_orphans(600, "", 10)] == ["db/2"]  # judged anew
    assert index.ripe_orphans(600, "beta", 10) == index.ripe_orphans(600, "", 10, ["acme"]) == []
    index.note_listed("acme", {}, ["db/1"])
    assert index.orphan_counts()["acme"].orphans == 1
    gone = index.delete_orphans(["db/1", "db/2"], 600, bucket.remove)
    assert [(f.key, f.org, f.bytes) for f in gone] == [("db/2", "acme", 8)]
    assert bucket.gone == ["db/2"]
    assert index.orphan_counts() == {}


def test_an_orphan_waits_for_batches_that_were_there_before_it(clocked: Clocked, bucket: Bucket) -> None:
    index = clocked.index
    before = work(index, BatchKind.ROLLUP)
    clocked.pass_seconds(1)
    index.note_listed("acme", {"db/2": 8}, [])
    clocked.pass_seconds(700)
    work(index, BatchKind.ROLLUP)
    work(index, BatchKind.ROLLUP, org="beta")
    assert index.ripe_orphans(600, "", 10) == []
    assert index.delete_orphans(["db/2"], 600, bucket.remove) == []
    index.abandon(before, "failed")  # the younger batch cannot have written it
    assert [f.key for f in index.ripe_orphans(600, "", 10)] == ["db/2"]
    assert len(index.delete_orphans(["db/2"], 600, bucket.remove)) == 1


def test_a_file_that_becomes_known_at_the_last_moment_is_kept(clocked: Clocked, bucket: Bucket) -> None:
    index = clocked.index
    index.note_listed("acme", {"db/1": 8}, [])
    clocked.pass_seconds(700)
    assert [f.key for f in index.ripe_orphans(600, "", 10)] == ["db/1"]
    cook(index, 1)
    assert index.delete_orphans(["db/1"], 600, bucket.remove) == []
    assert bucket.gone == []


def test_what_is_left_over_is_counted_and_forgotten(clocked: Clocked) -> None:
    index = clocked.index
    index.beat_run("old")
    index.append_outbox([OutboxMessage("t", "k", b"")])
    index.abandon(work(index, BatchKind.ROLLUP), "failed")
    work(index, BatchKind.ROLLUP)
    clocked.pass_seconds(700)
    index.beat_run("young")
    left = index.leftovers(600, 600, 600)
    assert (left.batches, left.runs, left.old_messages, left.retired) == (1, 1, 1, 0)
    assert index.forget_batches(600, 10) == 1
    assert index.forget_silent_runs(600) == 1
    assert set(index.run_heartbeats()) == {"young"}
    left = index.leftovers(600, 600, 600)
    assert (left.batches, left.runs, left.old_messages) == (0, 0, 1)


@pytest.mark.integration
def test_batches_with_segments_are_kept(postgres_index: PostgresIndex, index_dsn: str) -> None:
    clocked = Clocked(postgres_index, index_dsn)
    postgres_index.create_organisation("acme")
    cook(postgres_index, 1)
    clocked.pass_seconds(700)
    assert postgres_index.forget_batches(600, 10) == 0


@pytest.mark.integration
def test_a_sweep_waits_for_nobody_and_takes_nothing_from_a_claim_that_is_being_made(
    postgres_index: PostgresIndex, index_dsn: str
) -> None:
    """Rows locked by a claim that has not been committed yet: the window is left, at once."""
    postgres_index.create_organisation("acme")
    cook(postgres_index, 1)
    planned = whole(postgres_index, tier())
    with psycopg.connect(index_dsn) as other:
        other.execute("SELECT 1 FROM lakerunner.segment FOR UPDATE")
        assert not postgres_index.expire(tier(), planned)
    with psycopg.connect(index_dsn) as other:
        other.execute("SELECT 1 FROM lakerunner.partition FOR UPDATE")
        assert not postgres_index.expire(tier(), planned)
    assert postgres_index.expire(tier(), planned)


@pytest.mark.integration
def test_a_claim_that_waited_for_a_sweep_does_not_get_retired_segments(
    postgres_index: PostgresIndex,
) -> None:
    postgres_index.create_organisation("acme")
    cook(postgres_index, 1)
    assert postgres_index.expire(tier(), whole(postgres_index, tier()))
    with pytest.raises(PublishConflictError):
        work(postgres_index, BatchKind.COMPACT, 1)
