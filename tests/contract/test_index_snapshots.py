"""All questions of one query are answered as of one moment, whoever keeps the index."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from dataclasses import replace

import psycopg
import pytest

from resources.index.memory import MemoryIndex
from resources.index.postgres import PostgresIndex
from resources.index.types import (
    BatchKind,
    BatchPlan,
    CountQuery,
    Publication,
    Segment,
    SegmentQuery,
    Snapshot,
    Survey,
    TierQuery,
    TierView,
)
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS
from tests.contract.test_index_tiers import DAY_START, FREQUENCIES, HOUR, Index, segment
from tests.support.patience import PATIENCE_S

WEB, DB, BOTH = (1,), (2,), (1, 2)
COUNTED = CountQuery("acme", "metrics")
TIERS = TierQuery("acme", Signal.METRICS, FREQUENCIES, DAY_START, HOUR + HOUR_NS)


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def index(request: pytest.FixtureRequest) -> Index:
    found: Index = MemoryIndex() if request.param == "memory" else request.getfixturevalue("postgres_index")
    found.create_organisation("acme")
    return found


def asks(*terms: int) -> SegmentQuery:
    return SegmentQuery("acme", "metrics", 0, HOUR, HOUR + HOUR_NS, terms=tuple((term,) for term in terms))


def publish(index: Index, new: Sequence[Segment], retire: Sequence[Segment] = ()) -> None:
    """Publish segments in place of others, as compaction does, and bump the hour."""
    kind = BatchKind.COMPACT if retire else BatchKind.REBUILD
    old = tuple(one.segment_id for one in retire)
    claim = index.create_claimed(BatchPlan(kind, "acme", "c", Signal.METRICS, HOUR, (), old))
    index.publish(Publication(claim, tuple(new), retire=old, hours=(HOUR,)))


def ids(segments: Sequence[Segment]) -> list[int]:
    return [int(one.segment_id, 16) for one in segments]


def test_a_segment_that_is_settled_or_retired_meanwhile_is_seen_so(index: Index) -> None:
    publish(index, [segment(1, terms=WEB), segment(2, terms=WEB)])
    seen = [[(int(one.segment_id, 16), one.settled) for one in index.snapshot([asks(1)]).segments[0]]]
    index.settle([f"{1:032x}"])
    seen.append([(int(one.segment_id, 16), one.settled) for one in index.snapshot([asks(1)]).segments[0]])
    publish(index, [segment(3, terms=WEB)], retire=[segment(2)])
    seen.append([(int(one.segment_id, 16), one.settled) for one in index.snapshot([asks(1)]).segments[0]])
    assert seen == [[(1, False), (2, False)], [(1, True), (2, False)], [(1, True), (3, False)]]


def test_names_come_only_with_questions_for_them_in_any_order(index: Index) -> None:
    publish(index, [segment(1, terms=WEB, label_names=("job",))])
    named = replace(asks(1), names=True)
    found = [index.snapshot([each]).segments[0][0].label_names for each in (asks(1), named, asks(1), named)]
    assert found == [(), ("job",), (), ("job",)]


def test_segments_come_back_by_question_with_tiers_beside_them(index: Index) -> None:
    publish(index, [segment(1, terms=WEB), segment(2, terms=DB), segment(3, terms=BOTH)])
    found = index.snapshot([asks(1), asks(2), asks(1, 2), asks(9), asks(1)], TIERS)
    assert [ids(each) for each in found.segments] == [[1, 3], [2, 3], [3], [], [1, 3]]
    assert found.tiers == index.tier_view("acme", Signal.METRICS, FREQUENCIES, DAY_START, HOUR + HOUR_NS)
    assert ids(found.tiers.segments) == [1, 2, 3]
    assert [one.version for one in found.tiers.partitions if one.frequency_ms == 0] == [1]
    assert found.live is None


def test_live_segments_are_counted_whatever_is_asked_of_them(index: Index) -> None:
    publish(index, [segment(1, terms=WEB), segment(2, terms=DB), segment(3, terms=BOTH)])
    publish(index, [segment(4, terms=BOTH)], [segment(1)])
    assert index.snapshot([asks(9)], counted=COUNTED) == Snapshot(((),), live=3)
    assert index.snapshot([], counted=replace(COUNTED, dataset="logs")).live == 0
    assert index.snapshot([], counted=replace(COUNTED, org="umbrella")).live == 0


def test_nothing_asked_is_nothing_found(index: Index) -> None:
    publish(index, [segment(1, terms=WEB)])
    assert index.snapshot([]) == Snapshot((), TierView((), ()))
    assert index.snapshot([asks(9)]) == Snapshot(((),), TierView((), ()))


def test_a_survey_lists_live_segments_and_describes_those_that_are_new(index: Index) -> None:
    publish(index, [replace(segment(1, terms=(5, -7)), metric_names=("up",)), segment(2, terms=DB)])
    whole, empty = asks(9), replace(asks(), org="umbrella")
    found = index.survey([whole, empty], [TIERS, TIERS], (), most=2)
    listed = [[int(one, 16) for one in each or ()] for each in found.live]
    assert listed == [[1, 2], []], "terms prune nothing"
    described = {int(one.segment.segment_id, 16): one for one in found.fresh}
    terms = {number: sorted(array("q", one.terms)) for number, one in described.items()}
    assert terms == {1: [-7, 5], 2: [2]}
    first = described[1].segment
    assert first.metric_names == ("up",)
    assert replace(first, metric_names=(), label_names=()) == index.snapshot([asks(5)]).segments[0][0]
    assert found.tiers == (index.snapshot([], TIERS).tiers,) * 2
    publish(index, [segment(3, terms=BOTH)], [segment(1)])
    again = index.survey([whole], [], [f"{1:032x}", f"{2:032x}"], most=2)
    assert [int(one, 16) for one in again.live[0] or ()] == [2, 3]
    assert [int(one.segment.segment_id, 16) for one in again.fresh] == [3]
    assert index.survey([whole], [], (), most=1).live == (None,)


def is_whole(found: Snapshot) -> bool:
    """Tell whether every question saw the same single segment, and tiers and the count did, too."""
    seen = {tuple(ids(each)) for each in found.segments} | {tuple(ids(found.tiers.segments))}
    return len(seen) == 1 and all(len(one) == 1 for one in seen) and found.live in {None, 1}


def test_a_publisher_at_work_is_seen_before_or_after(index: Index) -> None:
    """Every publication replaces the only segment, whose rows two selectors and a rollup ask for."""
    questions, newest, failures, stop = [asks(1), asks(2)], segment(1, terms=BOTH), [], threading.Event()
    publish(index, [newest])

    def publish_on() -> None:
        last = newest
        for number in range(2, 2000):
            if stop.is_set():
                return
            merged = replace(last, segment_id=f"{number:032x}", key=f"db/{number}", terms=BOTH)
            try:
                publish(index, [merged], [last])
            except Exception as error:  # noqa: BLE001 -- the test fails below
                failures.append(error)
                return
            last = merged

    publisher = threading.Thread(target=publish_on)
    publisher.start()
    try:
        moments = [index.snapshot(questions, TIERS, COUNTED)]
        while publisher.is_alive() and len({one.segments for one in moments}) < 20:
            moments.append(index.snapshot(questions, TIERS, COUNTED))
    finally:
        stop.set()
        publisher.join()
    assert not failures
    assert all(map(is_whole, moments))
    assert len({one.segments for one in moments}) > 1, "nothing was published in between"


@pytest.mark.integration
def test_what_commits_between_two_statements_of_a_snapshot_is_not_in_it(
    postgres_index: PostgresIndex, index_dsn: str
) -> None:
    """A lock holds the snapshot up after it has read segments and before it reads partitions."""
    postgres_index.create_organisation("acme")
    old, new = segment(1, terms=BOTH), segment(2, terms=BOTH)
    publish(postgres_index, [old])
    found: list[Snapshot] = []
    surveys: list[Survey] = []
    with psycopg.connect(index_dsn) as other, psycopg.connect(index_dsn, autocommit=True) as watching:
        other.execute("LOCK TABLE lakerunner.partition IN ACCESS EXCLUSIVE MODE")
        asking = threading.Thread(
            target=lambda: found.append(postgres_index.snapshot([asks(1), asks(2)], TIERS))
        )
        surveying = threading.Thread(
            target=lambda: surveys.append(postgres_index.survey([asks(1)], [TIERS], (), 9))
        )
        asking.start()
        surveying.start()
        waiting = (
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'lakerunner.partition'::regclass"
        )
        while watching.execute(waiting).fetchone()[0] < 2:  # type: ignore[index]
            assert asking.is_alive()
            assert surveying.is_alive()
        columns = (
            "org_id, collector, signal, dataset, frequency_ms, dateint, hour, hour_ns, width_ns, min_ns, "
            "max_ns, rows, bytes, level, origin, format_version, sort_version, terms, label_names, "
            "metric_names, series_offset, series_length, bloom_offset, bloom_length, settled, batch_id"
        )
        other.execute("UPDATE lakerunner.segment SET retired_at = now()")
        other.execute(
            f"INSERT INTO lakerunner.segment (segment_id, key, {columns}) "  # type: ignore[arg-type]
            f"SELECT '{new.segment_id}', 'db/2', {columns} FROM lakerunner.segment"
        )
        other.execute("UPDATE lakerunner.partition SET version = version + 1")
        other.commit()
        asking.join(PATIENCE_S)
        surveying.join(PATIENCE_S)
    (one,) = found
    assert is_whole(one)
    assert ids(one.segments[0]) == [1]
    assert [p.version for p in one.tiers.partitions if p.frequency_ms == 0] == [1]
    assert ids(postgres_index.find_segments(asks(1))) == [2]
    (survey,) = surveys
    assert survey.live == ((old.segment_id,),)
    assert (ids(survey.tiers[0].segments), [ids([one.segment]) for one in survey.fresh]) == ([1], [[1]])
