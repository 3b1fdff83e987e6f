"""When runs are requested and when they are believed dead."""

from __future__ import annotations

import datetime as dt
import time

import msgspec
import pytest

from lakerunner_assets.partitions import parse_partition_key
from resources.index.account_types import StorageProfile
from resources.index.types import DueBatch
from resources.kafka.reader import Message
from resources.lake.layout import Signal
from resources.lake.timecut import from_datetime, hour_start
from resources.notifications.references import Registry
from sensors.ingest import arrivals, sort_messages
from sensors.requests import RunSight, in_flight, is_backing_off, range_tags, run_key
from sensors.watchdog import Patience, RunState, dead_runs

REGISTRY = Registry({"raw": StorageProfile("raw", "file:///raw")}, (), frozenset({"acme"}))
PATIENCE = Patience(silent_s=30, first_beat_s=90)


def message(offset: int, key: str, bucket: str = "raw") -> Message:
    body = {"v": 1, "bucket": bucket, "key": key, "size": 5, "event_time_ns": 10**18}
    return Message("t", 0, offset, b"", msgspec.json.encode(body), 0)


def test_a_request_made_again_has_another_key() -> None:
    first = run_key(Signal.LOGS, [DueBatch(1, "acme", 0, 0, 0, 10, 1)])
    again = run_key(Signal.LOGS, [DueBatch(1, "acme", 0, 0, 1, 10, 1)])
    retried = run_key(Signal.LOGS, [DueBatch(1, "acme", 0, 1, 0, 10, 1)])
    assert len({first, again, retried}) == 3
    assert first == run_key(Signal.LOGS, [DueBatch(1, "acme", 0, 0, 0, 10, 1)])


def test_requests_that_lead_nowhere_are_repeated_more_and_more_rarely() -> None:
    def due(requests: int, ago: float) -> list[DueBatch]:
        return [DueBatch(1, "acme", 0, 0, requests, 10, 1, 0.0, ago)]

    assert not is_backing_off([DueBatch(1, "acme", 0, 0, 0, 10, 1)])
    assert is_backing_off(due(3, 7.9))
    assert not is_backing_off(due(3, 8.1))
    assert is_backing_off(due(50, 59))
    assert not is_backing_off(due(50, 61))


@pytest.mark.parametrize("arrived", ["2020-01-01T00", "2090-01-01T00"])
def test_a_run_is_never_shown_under_an_hour_that_is_no_partition(arrived: str) -> None:
    """Dagster would refuse to create it, at every tick: the batches would never be cooked."""
    hour = from_datetime(dt.datetime.fromisoformat(arrived).replace(tzinfo=dt.UTC))
    now = time.time_ns()
    strange, usual = DueBatch(1, "acme", hour, 0, 0, 10, 1), DueBatch(2, "acme", hour_start(now), 0, 0, 10, 1)
    keys = [range_tags(due, ["acme"], "2025-01-01", now) for due in ([strange], [strange, usual], [usual])]
    assert keys[0] == keys[1] == keys[2]
    shown = [parse_partition_key(key) for key in keys[0].values()]
    assert shown == [("acme", hour_start(now))] * 2


def test_waiting_and_beating_runs_are_in_flight_and_silent_ones_are_not() -> None:
    runs = [
        RunSight("waiting", True),
        RunSight("new", False),
        RunSight("alive", False),
        RunSight("dead", False),
    ]
    assert in_flight(runs, {"alive": 3.0, "dead": 31.0}, lease_s=30) == 3


def test_silence_after_a_beat_is_death() -> None:
    runs = [RunState("alive", 500, 500), RunState("dead", 500, 500)]
    assert list(dead_runs(runs, {"alive": 29, "dead": 31}, PATIENCE)) == ["dead"]


def test_a_run_that_never_beat_has_time_to_start() -> None:
    assert list(dead_runs([RunState("slow", 89, 89), RunState("lost", 91, 91)], {}, PATIENCE)) == ["lost"]


def test_every_message_becomes_a_notice_or_a_dead_letter_with_its_place() -> None:
    messages = [
        message(0, "otel-raw/acme/c/logs/a"),
        message(1, "otel-raw/acme/../beta/logs/a"),
        message(2, "otel-raw/acme/c/logs/b", bucket="other"),
        message(3, "otel-raw/nobody/c/logs/a"),
        Message("t", 0, 4, b"", b"not json", 0),
        message(5, "db/acme/c/20260101/logs/00/tbl_x.parquet"),
    ]
    intake = sort_messages("k", messages, (), REGISTRY)
    assert [n.key for n in intake.notices] == ["otel-raw/acme/c/logs/a"]
    assert [(d.offset, d.topic) for d in intake.dead_letters] == [(1, "t"), (2, "t"), (3, "t"), (4, "t")]
    assert all(d.reason for d in intake.dead_letters)


def test_a_record_that_is_refused_does_not_take_its_neighbours_along() -> None:
    objects = [("raw", "otel-raw/acme/c/logs/a"), ("raw", "nowhere/x"), ("raw", "otel-raw/acme/c/logs/b")]
    records = [
        {"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": bucket}, "object": {"key": key}}}
        for bucket, key in objects
    ]
    event = Message("t", 0, 7, b"", msgspec.json.encode({"Records": records}), 1_767_323_045_000)
    intake = sort_messages("k", [event], (), REGISTRY)
    assert [n.key[-1] for n in intake.notices] == ["a", "b"]
    ((offset, reason),) = [(d.offset, d.reason) for d in intake.dead_letters]
    assert offset == 7
    assert "nowhere" in reason


def test_arrivals_are_grouped_for_the_log() -> None:
    intake = sort_messages(
        "k", [message(i, f"otel-raw/acme/c/logs/2026/01/02/03/{i}") for i in range(3)], (), REGISTRY
    )
    ((place, notices),) = arrivals(intake.notices).items()
    assert place[:2] == ("acme", Signal.LOGS)
    assert len(notices) == 3
