"""The pipeline's exporter over the index in memory: complete, cached, honest about a silent index."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest

from lakerunner_ingress.pipeline_metrics import GAUGES, MAX_AGE_S, PATIENCE_S, PipelineMetrics
from resources.index.memory import MemoryIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.index.types import DeadLetter, Intake, ObjectNotice, OutboxMessage
from resources.lake.layout import Signal
from tests.support import patience
from tests.support.exposition_parser import parse

ORG = 'ac"me\\'


@dataclass
class CountingIndex(MemoryIndex):
    readings: int = 0
    down: bool = False
    now: float = field(default=0.0)
    slow_s: float = 0.0

    def __post_init__(self) -> None:
        super().__init__()

    def backlog(self):
        self.readings += 1
        self.now += self.slow_s
        if self.down:
            raise IndexUnavailableError("down")
        return super().backlog()


def given() -> tuple[CountingIndex, PipelineMetrics]:
    index = CountingIndex()
    index.create_organisation(ORG)
    index.take_in(Intake("k", (ObjectNotice("raw", "a", ORG, "c", Signal.LOGS, 0, 10, "e"),)))
    index.append_dead_letters([DeadLetter("webhook", "unknown bucket", b"{}")])
    index.append_outbox([OutboxMessage("t", "k", b"1")])
    index.add_counters({'lakerunner_cook_rows_total{signal="logs"}': 5.0, "not a series{": 1.0})
    return index, PipelineMetrics(index, clock=lambda: index.now)


def test_state_counters_and_backlog_are_served() -> None:
    _, metrics = given()
    found = parse(metrics.render())
    labels = frozenset({("org", ORG), ("signal", "logs")})
    assert found["lakerunner_pipeline_pending_objects", labels] == 1
    assert found["lakerunner_pipeline_pending_bytes", labels] == 10
    assert {name for name, _ in GAUGES.values()} <= {name for name, _ in found}
    assert found["lakerunner_cook_rows_total", frozenset({("signal", "logs")})] == 5
    assert found["lakerunner_dead_letters", frozenset()] == 1
    assert found["lakerunner_outbox_messages", frozenset()] == 1
    assert found["lakerunner_index_up", frozenset()] == 1


def test_one_reading_serves_many_scrapes_and_a_slow_index_is_asked_less() -> None:
    index, metrics = given()
    for _ in range(5):
        metrics.render()
    assert index.readings == 1
    index.now += MAX_AGE_S
    index.slow_s = 3.0
    metrics.render()
    index.now += MAX_AGE_S + 1
    metrics.render()
    assert index.readings == 2
    index.now += 60
    metrics.render()
    assert index.readings == 3


def test_a_silent_index_is_said_and_its_numbers_are_gone() -> None:
    index, metrics = given()
    metrics.render()
    index.down, index.now = True, MAX_AGE_S
    assert parse(metrics.render()) == {("lakerunner_index_up", frozenset()): 0}
    index.down, index.now = False, 3 * MAX_AGE_S
    assert parse(metrics.render())["lakerunner_index_up", frozenset()] == 1


def test_a_hanging_index_is_not_hidden_by_the_last_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    index, metrics = given()
    before = metrics.render()
    asked, answering = threading.Event(), threading.Event()
    monkeypatch.setattr(index, "counters", lambda: (asked.set(), answering.wait(patience.PATIENCE_S), {})[-1])
    index.now += MAX_AGE_S
    reader = threading.Thread(target=metrics.render)
    reader.start()
    try:
        assert asked.wait(patience.PATIENCE_S)
        assert metrics.render() == before
        index.now += PATIENCE_S + 1
        assert parse(metrics.render()) == {("lakerunner_index_up", frozenset()): 0}
    finally:
        answering.set()
        reader.join(patience.PATIENCE_S)
