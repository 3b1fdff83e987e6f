"""What the index promises to whoever watches tiers, whoever keeps it."""

from __future__ import annotations

import time
from dataclasses import replace

import psycopg
import pytest

from resources.index.memory import MemoryIndex
from resources.index.postgres import PostgresIndex
from resources.index.sweeping_types import OrphanNumbers, TierNumbers, TierStatus
from resources.index.types import (
    BatchKind,
    BatchPlan,
    BuiltPartition,
    Claim,
    Intake,
    ObjectDone,
    ObjectNotice,
    Publication,
    Segment,
)
from resources.lake.frequency import DAY, FIVE_MINUTES, MINUTE, TEN_SECONDS, rollup_of
from resources.lake.frequency import HOUR as HOUR_MS
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS, HOUR_NS

NOW = time.time()
TODAY = int(NOW * 1e9) // DAY_NS * DAY_NS
PAST_DAY = TODAY - 3 * DAY_NS
PAST = PAST_DAY + 12 * HOUR_NS
Index = MemoryIndex | PostgresIndex


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def index(request: pytest.FixtureRequest) -> Index:
    found: Index = MemoryIndex() if request.param == "memory" else request.getfixturevalue("postgres_index")
    for org in ("acme", "beta"):
        found.create_organisation(org)
    return found


def segment(number: int, frequency_ms: int = 0, start: int = PAST, width: int = HOUR_NS, **more) -> Segment:
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


def cook(index: Index, made: Segment) -> None:
    """One object with rows in one hour becomes this live segment."""
    key = f"otel-raw/{made.org}/c/{made.signal.value}/{made.segment_id}"
    index.take_in(Intake("k", (ObjectNotice("raw", key, made.org, "c", made.signal, made.hour_ns, 10, "e"),)))
    index.plan_batches(
        made.signal,
        lambda found: [
            BatchPlan(BatchKind.COOK, made.org, "c", made.signal, made.hour_ns, (o.object_id,)) for o in found
        ],
    )
    (claim,) = index.claim_due(made.signal, BatchKind.COOK, 10**9)
    done = tuple(ObjectDone(o.object_id, "e", 5, 0, 0, ((made.hour_ns, 5),)) for o in claim.inputs)
    index.publish(Publication(claim, (made,), done, hours=(made.hour_ns,)))


def claim_of(index: Index, kind: BatchKind, *ids: str, frequency_ms: int = 0, start: int = PAST) -> Claim:
    return index.create_claimed(BatchPlan(kind, "acme", "c", Signal.METRICS, start, (), ids, frequency_ms))


def build(index: Index, frequency_ms: int, number: int, hour: int) -> None:
    """The rollup of this hour, from whatever its source says now."""
    rollup = rollup_of(frequency_ms)
    view = index.tier_view("acme", Signal.METRICS, (rollup.source_ms,), hour, hour + HOUR_NS)
    sources = {p.start_ns: p.version for p in view.partitions}
    claim = claim_of(index, BatchKind.ROLLUP, frequency_ms=frequency_ms, start=hour)
    built = (BuiltPartition(hour, 0, sources),)
    made = segment(number, frequency_ms, hour)
    index.publish(Publication(claim, (made,), frequency_ms=frequency_ms, built=built))


def tier(index: Index, dataset: str, org: str = "acme") -> TierNumbers:
    (found,) = [t for t in index.tier_status().tiers if (t.org, t.dataset) == (org, dataset)]
    return found


def test_an_empty_index_has_no_tiers(index: Index) -> None:
    assert index.tier_status() == TierStatus((), ())


def test_live_segments_are_counted_by_organisation_signal_and_dataset(index: Index) -> None:
    cook(index, segment(1, bytes=100, rows=7))
    cook(index, segment(2, bytes=300, rows=8, max_ns=PAST + 5))
    cook(index, segment(3, org="beta", key="db/b"))
    cook(index, segment(4, signal=Signal.LOGS, dataset="logs"))
    cook(index, segment(5, signal=Signal.LOGS, dataset="logs-quarantine"))
    found = index.tier_status().tiers
    assert [(t.org, t.signal, t.dataset) for t in found] == [
        ("acme", Signal.LOGS, "logs"),
        ("acme", Signal.LOGS, "logs-quarantine"),
        ("acme", Signal.METRICS, "metrics"),
        ("acme", Signal.METRICS, "metrics-10s"),
        ("beta", Signal.METRICS, "metrics"),
        ("beta", Signal.METRICS, "metrics-10s"),
    ]
    mine = tier(index, "metrics")
    assert (mine.segments, mine.bytes, mine.rows) == (2, 400, 15)
    assert mine.newest_ns == PAST + HOUR_NS
    assert mine.newest_s == pytest.approx(time.time() - (PAST + HOUR_NS) / 1e9, abs=30)


def test_what_is_not_settled_is_the_debt_of_compaction(index: Index) -> None:
    for number in (1, 2, 3):
        cook(index, segment(number, bytes=number * 10))
    assert index.settle([f"{2:032x}"]) == 1
    mine = tier(index, "metrics")
    assert (mine.segments, mine.unsettled, mine.unsettled_bytes) == (3, 2, 40)
    index.settle([f"{n:032x}" for n in (1, 3)])
    mine = tier(index, "metrics")
    assert (mine.unsettled, mine.unsettled_bytes) == (0, 0)


def test_a_replaced_segment_waits_for_the_sweeper_and_is_not_live(index: Index) -> None:
    cook(index, segment(1, bytes=10))
    cook(index, segment(2, bytes=20))
    ids = tuple(f"{n:032x}" for n in (1, 2))
    claim = claim_of(index, BatchKind.COMPACT, *ids)
    index.publish(Publication(claim, (segment(3, bytes=25, rows=10, level=1),), retire=ids))
    mine = tier(index, "metrics")
    assert (mine.segments, mine.bytes, mine.rows) == (1, 25, 10)
    assert (mine.retired, mine.retired_bytes) == (2, 30)
    index.delete_retired(["db/1"], -1.0, lambda keys: None)
    assert (tier(index, "metrics").retired, tier(index, "metrics").retired_bytes) == (1, 20)


def test_due_rollups_are_counted_until_they_are_built(index: Index) -> None:
    cook(index, segment(1))
    cook(index, segment(2, start=PAST + HOUR_NS))
    ten = tier(index, "metrics-10s")
    assert (ten.due, ten.segments, ten.newest_ns, ten.newest_s) == (2, 0, None, 0.0)
    assert 0.0 <= ten.due_s < 30.0
    build(index, TEN_SECONDS, 10, PAST)
    ten, minute = tier(index, "metrics-10s"), tier(index, "metrics-1m")
    assert (ten.due, ten.segments, minute.due, minute.segments) == (1, 1, 1, 0)


def test_the_longest_due_partition_counts(
    index: Index, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    cook(index, segment(1))
    pass_seconds(index, 500.0, request, monkeypatch)
    cook(index, segment(2, start=PAST + HOUR_NS))
    assert tier(index, "metrics-10s").due == 2
    assert tier(index, "metrics-10s").due_s == pytest.approx(500.0, abs=30)
    assert tier(index, "metrics").due == 0


@pytest.mark.parametrize(("day", "expected"), [(PAST_DAY, 1), (TODAY, 0)])
def test_a_day_is_due_once_it_is_over(index: Index, day: int, expected: int) -> None:
    hour = day  # the first of the day, which has begun
    cook(index, segment(1, start=hour))
    for number, frequency in enumerate((TEN_SECONDS, MINUTE, FIVE_MINUTES, HOUR_MS), 10):
        build(index, frequency, number, hour)
    assert [d.start_ns for d in index.due_partitions(Signal.METRICS, DAY)] == [day]
    found = [t for t in index.tier_status().tiers if t.dataset == "metrics-1d"]
    assert [t.due for t in found] == [expected] * expected


def test_the_lateness_of_a_day_begins_when_it_is_over(
    index: Index, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    yesterday = TODAY - DAY_NS
    cook(index, segment(1, start=yesterday))
    for number, frequency in enumerate((TEN_SECONDS, MINUTE, FIVE_MINUTES, HOUR_MS), 10):
        build(index, frequency, number, yesterday)
    before = time.time() - TODAY / 1e9
    pass_due_seconds(index, 3 * 86_400.0, request)
    assert tier(index, "metrics-1d").due_s == pytest.approx(before, abs=30)


def test_expired_partitions_are_not_due(index: Index) -> None:
    from resources.index.sweeping_types import OldTier, OldWindow

    cook(index, segment(1))
    old = OldTier("acme", Signal.METRICS, TEN_SECONDS, TODAY)
    assert tier(index, "metrics-10s").due == 1
    assert index.aging(old, 10).partitions == (PAST,)
    assert index.expire(old, OldWindow(PAST, PAST + HOUR_NS, (), (PAST,)))
    assert [t.dataset for t in index.tier_status().tiers] == ["metrics"]


def test_orphans_by_organisation(index: Index) -> None:
    index.note_listed("beta", {"db/x": 5}, [])
    index.note_listed("acme", {"db/y": 7, "db/z": 8}, [])
    assert index.tier_status().orphans == (OrphanNumbers("acme", 2, 15), OrphanNumbers("beta", 1, 5))


def pass_seconds(
    index: Index, seconds: float, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(index, MemoryIndex):
        monkeypatch.setattr(index, "_clock", lambda: time.time() + seconds)
    else:
        pass_due_seconds(index, seconds, request)


def pass_due_seconds(index: Index, seconds: float, request: pytest.FixtureRequest) -> None:
    """What is due becomes so earlier."""
    if isinstance(index, MemoryIndex):
        for key, version in index._state.versions.items():
            if version.due_at is not None:
                index._state.versions[key] = replace(version, due_at=version.due_at - seconds)
        return
    with psycopg.connect(request.getfixturevalue("index_dsn")) as connection:
        connection.execute(
            "UPDATE lakerunner.partition SET due_since = due_since - make_interval(secs => %s)", (seconds,)
        )
