"""Queries that derived metrics could serve are counted behind their answers; nothing waits for that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lakerunner_query.coordinator import query_log
from lakerunner_query.coordinator.query_log import QueryLog
from lakerunner_query.plan.suggestions import suggest
from resources.index.memory import MemoryIndex
from resources.index.postgres import IndexUnavailableError
from resources.index.query_log import AskedQuery
from resources.lake.timecut import SECOND_NS
from tests.support.patience import wait_for
from tests.support.query.lake import BASE, Line
from tests.support.query.rewriting.lake import ORG, UNPRICED, Answer, RuleLake

START, END, STEP = BASE + 600 * SECOND_NS, BASE + 1200 * SECOND_NS, 60 * SECOND_NS
ERRORS = 'sum by (service_name)(rate({service_name=~".+"} |= "error"[5m]))'


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[RuleLake]:
    made = RuleLake(tmp_path)
    services = ("web", "shop", "web")
    made.lake.write(
        ORG, [Line(n * SECOND_NS, "error" if n % 2 else "ok", services[n % 3]) for n in range(1, 1201)]
    )
    made.engine._log = QueryLog(made.index)
    yield made
    made.close()


class AwayIndex(MemoryIndex):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def add_asked(self, queries: Sequence[AskedQuery], most: int) -> int:
        raise self.error


def log_of(lake: RuleLake) -> QueryLog:
    log = lake.engine._log
    assert log is not None
    return log


def counted(lake: RuleLake) -> list[AskedQuery]:
    lake._runner.run(log_of(lake).flush())
    return lake.index.asked_queries(ORG, 0, 100)


def ask(lake: RuleLake, text: str, step_ns: int = STEP) -> Answer:
    found = lake.ask(text, START, END, step_ns, guards=UNPRICED)
    assert not found.error
    return found


def test_a_query_is_counted_in_normal_form_with_what_it_took(lake: RuleLake) -> None:
    ask(lake, ERRORS)
    ask(lake, ERRORS.replace("by (service_name)(", "  by(service_name) ( ", 1))
    assert lake.index.asked_queries(ORG, 0, 100) == []
    (one,) = counted(lake)
    assert (one.query, one.language, one.is_aligned) == (ERRORS, "logql", True)
    assert (one.asked, one.served, one.series, one.segments) == (2, 0, 2, 2)
    assert one.window_s == 2 * 900
    assert one.seconds > 0 < one.read_bytes
    assert counted(lake) == [one]


def test_only_what_could_be_derived_is_counted(lake: RuleLake) -> None:
    ask(lake, "1 + 1")
    ask(lake, ERRORS, 7 * SECOND_NS)
    assert [one.is_aligned for one in counted(lake)] == [False]


def test_texts_that_are_too_long_are_not_kept(lake: RuleLake) -> None:
    ask(lake, f'sum(rate({{service_name="web"}} |= "{"x" * query_log.MAX_TEXT}"[5m]))')
    assert counted(lake) == []


def test_a_full_list_loses_queries_and_counts_them(lake: RuleLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_log, "MAX_WAITING", 2)
    for _ in range(5):
        ask(lake, ERRORS)
    assert [one.asked for one in counted(lake)] == [2]
    monkeypatch.setattr(query_log, "MAX_SEGMENTS", 0)
    ask(lake, ERRORS)
    ask(lake, ERRORS)
    assert [one.asked for one in counted(lake)] == [3]
    assert log_of(lake).gauges() == {
        "lakerunner_query_log_lost_total": 4.0,
        "lakerunner_query_log_without_room_total": 0.0,
    }


@pytest.mark.parametrize(
    "error", [IndexUnavailableError("away"), OSError("gone"), ZeroDivisionError("defect")]
)
def test_a_batch_that_cannot_be_sent_is_lost_and_no_query_fails(lake: RuleLake, error: Exception) -> None:
    log = lake.engine._log = QueryLog(AwayIndex(error))
    for _ in range(3):
        assert ask(lake, ERRORS).points
    lake._runner.run(log.flush())
    assert log.lost == 3
    assert ask(lake, ERRORS).points


def test_what_waits_is_sent_at_the_end(lake: RuleLake) -> None:
    async def live() -> None:
        log_of(lake).open()
        await asyncio.sleep(0)
        await log_of(lake).close()

    ask(lake, ERRORS)
    lake._runner.run(live())
    assert [one.asked for one in lake.index.asked_queries(ORG, 0, 100)] == [1]


def test_a_suggested_rule_that_is_applied_answers_what_it_was_suggested_for(lake: RuleLake) -> None:
    texts = [
        'sum by (service_name)(count_over_time({service_name="web"} |= "error"[5m]))',
        'sum(rate({service_name="shop"} |= "error"[1m])) * 60',
    ]
    before = [ask(lake, text) for text in texts]
    assert all(answer.served == 0 and answer.points for answer in before)
    found = suggest([replace(one, read_bytes=1e9) for one in counted(lake)])
    lake.put(*(one.metric for one in found.proposals))
    lake.derive_as_product()
    wait_for(lambda: lake._runner.run(lake.rules.find(ORG)), "the rules are known")
    after = [ask(lake, text) for text in texts]
    assert [answer.served for answer in after] == [11, 11]
    assert [one.differs(other) for one, other in zip(after, before, strict=True)] == ["", ""]
    assert [(one.asked, one.served) for one in counted(lake)] == [(2, 1), (2, 1)]
    assert suggest(counted(lake), lake._runner.run(lake.rules.find(ORG))).has_rules == 2
