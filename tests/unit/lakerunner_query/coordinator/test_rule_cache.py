"""The query side asks for rules seldom, and never waits long for them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from lakerunner_query.coordinator import rules as rules_module
from lakerunner_query.coordinator.rules import RuleCache, active_rules
from lakerunner_query.rules.catalog import to_document
from lakerunner_query.rules.documents import DerivedMetric, RuleGroup
from resources.index.postgres import IndexUnavailableError
from resources.index.rule_types import RuleKind, RuleSet, StoredRule
from resources.lake.layout import Signal

METRIC = DerivedMetric("errors", Signal.LOGS, '{app="web"} |= "error"')


def stored(number: int, kind: RuleKind, document: dict[str, object]) -> StoredRule:
    return StoredRule(number, "acme", kind, "", "r", 3, document, 0, 0)


RULES = RuleSet(
    1,
    (
        stored(1, RuleKind.DERIVED, to_document(METRIC)),
        stored(2, RuleKind.GROUP, to_document(RuleGroup("g", ()))),
        stored(3, RuleKind.DERIVED, {**to_document(METRIC), "unheard_of": 1}),
    ),
)


class Index:
    def __init__(self, answer: Callable[[], RuleSet]) -> None:
        self.asked = 0
        self._answer = answer

    def rules(self, org: str) -> RuleSet:
        assert org == "acme"
        self.asked += 1
        return self._answer()


def cache_of(index: Index, good_s: float = 100.0) -> RuleCache:
    return RuleCache(cast("Any", index), good_s)


def test_derived_metrics_that_this_version_can_read_are_active() -> None:
    assert [(one.rule_id, one.version, one.metric.metric) for one in active_rules(RULES)] == [
        (1, 3, "errors")
    ]


def test_rules_are_asked_for_once_in_a_while() -> None:
    index = Index(lambda: RULES)

    async def ask() -> list[int]:
        cache = cache_of(index)
        found = [len(await cache.find("acme")) for _ in range(5)]
        cache.close()
        return found

    assert asyncio.run(ask()) == [1, 1, 1, 1, 1]
    assert index.asked == 1


def test_an_index_that_is_away_has_no_rules() -> None:
    def fail() -> RuleSet:
        raise IndexUnavailableError("away")

    index = Index(fail)

    async def ask() -> int:
        cache = cache_of(index)
        found = await cache.find("acme")
        cache.close()
        return len(found)

    assert asyncio.run(ask()) == 0


def test_only_the_first_query_waits_for_an_index_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules_module, "WAIT_S", 0.2)
    release = threading.Event()

    def hang() -> RuleSet:
        release.wait(30)
        return RULES

    async def ask() -> float:
        cache = cache_of(Index(hang))
        assert await cache.find("acme") == ()
        began = time.monotonic()
        for _ in range(10):
            assert await cache.find("acme") == ()
        took = time.monotonic() - began
        release.set()
        cache.close()
        return took

    assert asyncio.run(ask()) < 0.2
