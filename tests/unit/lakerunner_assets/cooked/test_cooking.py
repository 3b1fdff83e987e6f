"""Raw objects in, live segments out: the whole cooking path over files and the index in memory.

Spark is replaced by a loop that calls the same task function with the same bytes.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakerunner_assets.cooked.plan import plan_all_now
from lakerunner_assets.cooked.rebuild import RebuildRefusedError
from lakerunner_assets.cooked.run import Report
from lakerunner_assets.publish import UnbalancedError, cooked_publication
from lakerunner_assets.task_results import ObjectAnswer
from resources.index.account_types import StorageProfile
from resources.index.types import BatchKind, PendingObject
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, from_datetime, to_datetime
from resources.objects.client import ObjectStore
from resources.objects.errors import UnavailableError
from resources.settings import Settings
from resources.spark import SparkUnavailableError
from tests.support.cooking_lake import HOUR, SECOND, Lake, lake_in
from tests.support.otlp_logs import otlp_logs


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path)


def lines(*messages: str, at: int = HOUR + SECOND) -> bytes:
    return otlp_logs([(at + i, message) for i, message in enumerate(messages)])


def test_rows_of_several_objects_become_one_segment_per_hour(lake: Lake) -> None:
    lake.arrive("a.binpb", lines("one", "two"))
    lake.arrive("b.binpb.gz", otlp_logs([(HOUR + SECOND, "three")], compress=True))
    (change,) = lake.cook()
    assert (change.org, change.hour_ns, change.rows, change.segments) == ("acme", HOUR, 3, 1)
    assert lake.messages() == Counter(["one", "two", "three"])
    assert lake.index.pipeline_status()[0]["done_objects"] == 2


def test_the_event_on_the_hour_belongs_to_the_hour_it_ends(lake: Lake) -> None:
    lake.arrive("a", otlp_logs([(HOUR, "ends"), (HOUR + 1, "starts"), (HOUR + HOUR_NS, "ends too")]))
    assert [(c.hour_ns - HOUR, c.rows) for c in lake.cook()] == [(-HOUR_NS, 1), (0, 2)]


def test_late_rows_go_to_their_own_hour_in_the_same_publication(lake: Lake) -> None:
    lake.arrive("a", otlp_logs([(HOUR + 5, "now"), (HOUR - 3 * HOUR_NS + 5, "late")]))
    assert [(c.hour_ns - HOUR) // HOUR_NS for c in lake.cook()] == [-3, 0]
    assert lake.messages() == Counter(["now", "late"])


def test_rows_outside_the_accepted_range_are_kept_apart_and_counted(lake: Lake) -> None:
    ancient = from_datetime(to_datetime(0)) + SECOND
    lake.arrive("a", otlp_logs([(HOUR + 5, "good"), (ancient, "ancient"), (HOUR + 3 * HOUR_NS, "future")]))
    (change,) = lake.cook()
    assert change.rows == 1
    assert lake.messages("logs-quarantine") == Counter(["ancient", "future"])
    status = lake.index.pipeline_status()[0]
    assert (status["rows"], status["quarantined"]) == (1, 2)
    assert lake.report.segment_rows == lake.report.rows + lake.report.quarantined == 3


def test_an_object_of_quarantined_rows_only_changes_no_partition(lake: Lake) -> None:
    lake.arrive("a", otlp_logs([(HOUR + 9 * HOUR_NS, "future")]))
    assert lake.cook() == []
    assert lake.index.pipeline_status()[0]["done_objects"] == 1


def test_a_bad_object_waits_with_its_reason_and_its_neighbours_are_cooked(lake: Lake) -> None:
    lake.arrive("good", lines("fine"))
    lake.arrive("truncated", lines("lost")[:-3])
    lake.arrive("empty", b"")
    lake.cook()
    assert lake.messages() == Counter(["fine"])
    assert lake.index.pipeline_status()[0]["pending_objects"] == 2
    assert any("truncated" in reason and "byte" in reason for reason in lake.report.failed)


def test_a_missing_object_is_named(lake: Lake) -> None:
    lake.arrive("gone", lines("x"))
    next((lake.folder / "raw").rglob("gone")).unlink()
    lake.cook()
    assert "gone" in lake.report.failed[0]


def test_an_object_that_stays_bad_is_parked_after_its_tries_alone(lake: Lake) -> None:
    lake.arrive("bad", b"\xff\xff\xff")
    later = [0.0]
    lake.index._clock = lambda: time.time() + later[0]
    for _ in range(5):
        later[0] += 1000
        lake.cook()
    status = lake.index.pipeline_status()[0]
    assert (status["parked_objects"], status["pending_objects"]) == (1, 0)


def test_an_object_larger_than_memory_may_hold_is_never_downloaded(lake: Lake) -> None:
    lake.settings = replace(lake.settings, object_max_bytes=200)
    lake.arrive("a", lines("a"))
    lake.arrive("huge.gz", bytes(201))
    lake.cook()
    assert lake.messages() == Counter(["a"])
    assert "201 bytes, the limit is 200" in lake.report.failed[0]


def test_a_bad_object_larger_than_the_buffers_leaves_no_row_behind(lake: Lake) -> None:
    """Its first slices were written to a segment before the damage was found."""
    big = b"".join(lines(f"big-{i}-" + "x" * 2000) for i in range(50))
    lake.settings = Settings(data_dir=lake.folder, lake_url=lake.settings.lake_url, cook_slice_bytes=4000)
    lake.arrive("a-good", lines("before"))
    lake.arrive("b-bad", big + b"\x0a\xff")
    lake.arrive("c-good", lines("after"))
    lake.cook()
    assert lake.messages() == Counter(["before", "after"])


def test_a_large_object_is_cut_into_several_segments_without_loss(lake: Lake) -> None:
    big = b"".join(lines(f"{i}-" + "x" * 2000) for i in range(50))
    lake.settings = Settings(data_dir=lake.folder, lake_url=lake.settings.lake_url, cook_slice_bytes=20_000)
    lake.arrive("big", big)
    (change,) = lake.cook()
    assert change.segments > 1
    assert len(lake.messages()) == change.rows == 50


def test_a_task_that_dies_is_bisected_and_neighbours_get_through(lake: Lake) -> None:
    for name in ("a", "b", "poison", "d"):
        lake.arrive(name, lines(name))
    lake.tasks.deadly.add("/poison")
    for _ in range(4):
        lake.cook()
    assert lake.messages() == Counter(["a", "b", "d"])


@pytest.mark.parametrize(
    "failure", [UnavailableError("k", "the lake is away"), OSError(28, "No space left on device")]
)
def test_a_lake_or_disk_that_fails_parks_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def refuse(*_: object) -> None:
        raise failure

    for name in ("a", "b", "c"):
        lake.arrive(name, lines(name))
    with monkeypatch.context() as broken:
        broken.setattr(ObjectStore, "put_new", refuse)
        lake.cook_for_long()
    assert lake.waiting() == (3, 0)
    lake.tasks.jobs.clear()
    lake.cook_for_long(1)
    assert lake.messages() == Counter(["a", "b", "c"])
    assert lake.tasks.jobs == [1]  # a failing lake splits no batch either


def test_a_bucket_nobody_can_read_holds_up_only_its_own_objects(lake: Lake) -> None:
    lake.index.put_storage_profile(StorageProfile("locked", "s3://locked", "no-such-credentials"))
    lake.arrive("a", lines("a"))
    lake.arrive("b", lines("b"), bucket="unknown")
    lake.arrive("c", lines("c"), bucket="locked")
    lake.arrive("d", lines("d"))
    lake.cook_for_long()
    assert lake.messages() == Counter(["a", "d"])
    assert lake.waiting() == (2, 0)


def test_a_bucket_that_does_not_answer_is_not_asked_for_every_object(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def hang(_: object, key: str, __: int) -> None:
        asked.append(key)
        raise UnavailableError(key, "timed out")

    monkeypatch.setattr(ObjectStore, "get", hang)
    for name in "abcdef":
        lake.arrive(name, lines(name))
    lake.cook()
    assert len(asked) == 2
    assert lake.waiting() == (6, 0)


def test_an_object_that_kills_the_server_is_parked_and_its_neighbours_get_through(lake: Lake) -> None:
    lake.tasks.fatal.add("/poison")
    for name in ("a", "poison", "c", "d"):
        lake.arrive(name, lines(name))
    lake.cook_for_long(60)
    assert lake.messages() == Counter(["a", "c", "d"])
    assert lake.waiting() == (0, 1)


def test_a_claim_lost_before_a_crash_was_settled_does_not_end_the_run(lake: Lake) -> None:
    lake.tasks.deadly.add("/poison")
    lake.tasks.before = lambda: lake.index.release_expired(-1)
    lake.arrive("poison", lines("x"))
    assert lake.cook() == []
    assert any("another holder" in text for text in lake.logged)


def test_a_new_attempt_interrupts_the_one_before_and_never_itself(lake: Lake) -> None:
    lake.arrive("a", lines("a"))
    lake.tasks.fatal.add("/a")
    with pytest.raises(SparkUnavailableError):
        lake.cook()
    lake.tasks.fatal.clear()
    lake.cook_for_long(1)
    assert lake.messages() == Counter(["a"])
    first, second = lake.tasks.tags
    assert lake.tasks.interrupted == first != second


def test_an_answer_that_forgets_an_object_or_a_row_is_not_published(lake: Lake) -> None:
    lake.arrive("a", lines("a"))
    lake.index.plan_batches(Signal.LOGS, lambda pending: plan_all_now(pending, lake.settings))
    (claim,) = lake.index.claim_due(Signal.LOGS, BatchKind.COOK, 10**12)
    with pytest.raises(UnbalancedError, match="answered for"):
        cooked_publication(claim, [], [], 3)
    with pytest.raises(UnbalancedError, match="2 rows were decoded, 0 written"):
        cooked_publication(claim, [ObjectAnswer(claim.inputs[0].object_id, rows=2)], [], 3)


def test_rebuilding_replaces_rows_and_counts_none_twice(lake: Lake) -> None:
    lake.arrive("a", otlp_logs([(HOUR + 5, "now"), (HOUR - HOUR_NS + 5, "before")]))
    lake.arrive("b", lines("more"))
    lake.cook()
    before = {s.segment_id for s in lake.index.live_segments("acme", Signal.LOGS, 0, HOUR)}
    (change,) = lake.rebuild(HOUR)
    after = {s.segment_id for s in lake.index.live_segments("acme", Signal.LOGS, 0, HOUR)}
    assert change.version == 2
    assert not before & after
    assert lake.messages() == Counter(["now", "before", "more"])


def test_rebuilding_two_hours_decodes_a_shared_object_once(lake: Lake) -> None:
    lake.arrive("a", otlp_logs([(HOUR + 5, "now"), (HOUR - HOUR_NS + 5, "before")]))
    lake.cook()
    lake.tasks.jobs.clear()
    changed = lake.rebuild(HOUR, HOUR - HOUR_NS)
    assert sorted(c.hour_ns for c in changed) == [HOUR - HOUR_NS, HOUR]
    assert lake.tasks.jobs == [1]
    assert lake.messages() == Counter(["now", "before"])


def test_rebuilding_ingests_what_is_pending_first(lake: Lake) -> None:
    lake.arrive("a", lines("done"))
    lake.cook()
    lake.arrive("b", lines("pending"))
    lake.rebuild(HOUR)
    assert lake.messages() == Counter(["done", "pending"])


def test_rebuilding_never_registered_history_works_hour_by_hour(lake: Lake) -> None:
    lake.arrive("a", lines("only"))
    changed = lake.rebuild(HOUR)
    assert [c.version for c in changed] == [1], "decoded once: there was nothing to be rebuilt"
    assert lake.messages() == Counter(["only"])


def test_a_rebuild_refuses_to_lose_the_rows_of_a_vanished_object(lake: Lake) -> None:
    lake.arrive("a", lines("kept"))
    lake.arrive("gone", lines("would be lost"))
    lake.cook()
    next((lake.folder / "raw").rglob("gone")).unlink()
    with pytest.raises(RebuildRefusedError, match="gone"):
        lake.rebuild(HOUR)
    assert lake.messages() == Counter(["kept", "would be lost"])
    lake.rebuild(HOUR, allow_loss=True)
    assert lake.messages() == Counter(["kept"])
    assert lake.rebuild(HOUR)  # what was given up is no source any more and is not missed again


def test_a_rebuild_conserves_rows_in_its_report(lake: Lake) -> None:
    lake.arrive("a", otlp_logs([(HOUR + 5, "now"), (HOUR - HOUR_NS + 5, "before")]))
    lake.cook()
    lake.report = Report()
    lake.rebuild(HOUR, HOUR - HOUR_NS)
    assert lake.report.segment_rows == lake.report.rows == 2


def test_a_rebuild_refuses_when_settings_would_move_rows_out_of_sight(lake: Lake) -> None:
    lake.arrive("a", otlp_logs([(HOUR + 5, "now"), (HOUR + HOUR_NS + 5, "a little ahead")]))
    lake.cook()
    lake.settings = Settings(data_dir=lake.folder, lake_url=lake.settings.lake_url, future_tolerance_s=0)
    with pytest.raises(RebuildRefusedError, match="had 1 rows in the hour and now has 0"):
        lake.rebuild(HOUR + HOUR_NS, allow_loss=True)
    assert lake.messages() == Counter(["now", "a little ahead"])


def test_a_rebuild_refuses_an_object_that_was_overwritten(lake: Lake) -> None:
    lake.arrive("a", lines("original"))
    lake.cook()
    next((lake.folder / "raw").rglob("a")).write_bytes(lines("replaced", "and more"))
    with pytest.raises(RebuildRefusedError, match="written again"):
        lake.rebuild(HOUR)
    assert lake.messages() == Counter(["original"])


def test_a_rebuild_that_lost_its_claim_is_planned_again(lake: Lake) -> None:
    lake.arrive("a", lines("a"))
    lake.cook()
    lapses = [lambda: lake.index.release_expired(-1)]
    lake.tasks.before = lambda: lapses and lapses.pop()()
    (change,) = lake.rebuild(HOUR)
    assert change.version == 2
    assert lake.messages() == Counter(["a"])


def test_a_refusal_is_told_even_when_the_claim_was_lost_meanwhile(lake: Lake) -> None:
    lake.arrive("gone", lines("x"))
    lake.cook()
    next((lake.folder / "raw").rglob("gone")).unlink()
    lake.tasks.before = lambda: lake.index.release_expired(-1)
    with pytest.raises(RebuildRefusedError, match="gone"):
        lake.rebuild(HOUR)


def test_a_rebuild_leaves_objects_that_a_sensor_batched_meanwhile_to_their_run(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.arrive("a", lines("a"))
    lake.cook()
    lake.arrive("b", lines("b"))
    seen = lake.index.pending_objects

    def then_a_tick(*args: Any) -> list[PendingObject]:
        found = seen(*args)
        lake.index.plan_batches(Signal.LOGS, lambda pending: plan_all_now(pending, lake.settings))
        return found

    monkeypatch.setattr(lake.index, "pending_objects", then_a_tick)
    lake.rebuild(HOUR)
    lake.cook()
    assert lake.messages() == Counter(["a", "b"])


def test_cooking_is_deterministic_but_for_its_names(lake: Lake) -> None:
    lake.arrive("a", lines(*[f"m{i}" for i in range(100)]))
    lake.cook()
    (first,) = lake.index.live_segments("acme", Signal.LOGS, 0, HOUR)
    lake.rebuild(HOUR)
    (second,) = lake.index.live_segments("acme", Signal.LOGS, 0, HOUR)
    tables = [pq.read_table(lake.folder / "lake" / s.key) for s in (first, second)]
    assert first.segment_id != second.segment_id
    assert tables[0].equals(tables[1])
