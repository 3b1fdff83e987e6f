"""A short form of the hostile list and of the systematic queries: no crash, no status of 500, little CPU."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from benchmarks.hostile import QUICK, measure
from benchmarks.hostile_queries import hostile_queries
from benchmarks.small_lake import SmallLake, Times
from benchmarks.systematic_queries import promql_calls, promql_operators

pytestmark = pytest.mark.integration
FROZE_WORKERS = (
    *("labels of 5,000 digits, sorted", "a trim of two numbers", "3,000 negated alternatives"),
    *("label_replace in label_replace", "a subquery of a second over years"),
)
"""Queries that took minutes or gigabytes, or were answered by a status of 500."""


def test_hostile_queries_burn_little_and_are_answered() -> None:
    every = hostile_queries()
    assert len(every) >= 150
    chosen = [
        one for place, one in enumerate(every) if place % QUICK == 0 or one.name.endswith(FROZE_WORKERS)
    ]
    assert [one for one in measure([one for one in chosen if one.cpu_s <= 4]) if one.is_fault] == []


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    with SmallLake(tmp_path_factory.mktemp("lake")) as small:
        yield small


@pytest.mark.parametrize("part", range(2))
def test_operators_and_functions_of_all_operands_have_an_answer_or_an_error(
    lake: SmallLake, part: int
) -> None:
    chance = random.Random(part)
    texts = [*list(promql_operators())[part::40], *promql_calls(chance, 2)]
    at = Times() if part else Times(600_000, 600_000, 0)
    found = {text: lake.promql(text, at) for text in texts}
    assert {text: one.message for text, one in found.items() if one.is_unexplained} == {}
    assert any(one.code == "" for one in found.values())
