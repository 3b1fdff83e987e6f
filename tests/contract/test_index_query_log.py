"""The log of queries means the same in PostgreSQL and in memory."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from resources.index.memory import MemoryIndex
from resources.index.postgres import PostgresIndex
from resources.index.query_log import AskedQuery
from resources.lake.timecut import DAY_NS

Index = MemoryIndex | PostgresIndex
DAY = 20_000 * DAY_NS
ONE = AskedQuery(
    "acme", DAY, "logql", 'sum(rate({a="ä"}[5m]))', True, 1, 0, 0.5, 1000.0, 3, 300.0, 7, DAY + 5
)


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def index(request: pytest.FixtureRequest) -> Index:
    found: Index = MemoryIndex() if request.param == "memory" else request.getfixturevalue("postgres_index")
    for org in ("acme", "beta"):
        found.create_organisation(org)
    return found


def texts(index: Index, since_ns: int = 0, most: int = 100, org: str = "acme") -> list[str]:
    return [one.query for one in index.asked_queries(org, since_ns, most)]


def test_nothing_was_asked_at_first(index: Index) -> None:
    assert index.add_asked([], 10) == 0
    assert index.asked_queries("acme", 0, 10) == []


def test_what_is_asked_again_adds_up_within_a_batch_over_batches_and_over_days(index: Index) -> None:
    again = replace(ONE, seconds=0.25, series=3, served=1, last_ns=DAY + 9)
    tomorrow = replace(ONE, day_ns=DAY + DAY_NS, last_ns=DAY + DAY_NS)
    assert index.add_asked([ONE, again], 10) == 0
    assert index.add_asked([ONE, tomorrow], 10) == 0
    assert index.asked_queries("acme", 0, 10) == [
        replace(ONE, asked=4, served=1, seconds=1.75, read_bytes=4000.0, segments=12, window_s=1200.0,
                last_ns=DAY + DAY_NS)
    ]  # fmt: skip
    assert index.asked_queries("acme", DAY + 1, 10) == [tomorrow]
    assert index.asked_queries("beta", 0, 10) == []


def test_texts_languages_and_alignment_tell_queries_apart_and_the_costly_come_first(index: Index) -> None:
    others = [
        replace(ONE, is_aligned=False, seconds=2.0),
        replace(ONE, language="promql", seconds=3.0),
        replace(ONE, query="x" * 20_000, seconds=4.0),
        replace(ONE, org="beta"),
    ]
    assert index.add_asked([ONE, *others], 10) == 0
    assert [one.seconds for one in index.asked_queries("acme", 0, 10)] == [4.0, 3.0, 2.0, 0.5]
    assert [one.seconds for one in index.asked_queries("acme", 0, 2)] == [4.0, 3.0]


def test_an_organisation_has_so_much_room_a_day(index: Index) -> None:
    def some(day_ns: int, *numbers: int, org: str = "acme") -> Sequence[AskedQuery]:
        return [replace(ONE, query=str(n), seconds=float(n), day_ns=day_ns, org=org) for n in numbers]

    assert index.add_asked(some(DAY, 1, 2), 3) == 0
    assert index.add_asked(some(DAY, 2, 3, 4), 3) == 1  # the dearest of the new ones stays
    assert sorted(texts(index)) == ["1", "2", "4"]
    assert index.add_asked([*some(DAY, 1, 5), *some(DAY + DAY_NS, 5), *some(DAY, 5, org="beta")], 3) == 1
    assert sorted(texts(index, DAY + 1)) == ["5"]
    assert texts(index, org="beta") == ["5"]


def test_queries_of_organisations_that_are_not_there_are_left_out(index: Index) -> None:
    assert index.add_asked([replace(ONE, org="gone"), ONE], 10) == 1
    assert index.asked_queries("gone", 0, 10) == []


def test_old_days_are_forgotten(index: Index) -> None:
    index.add_asked([ONE, replace(ONE, day_ns=DAY + DAY_NS), replace(ONE, org="beta")], 10)
    assert index.forget_asked(DAY) == 0
    assert index.forget_asked(DAY + 1) == 2
    assert [one.asked for one in index.asked_queries("acme", 0, 10)] == [1]
    assert index.asked_queries("beta", 0, 10) == []


def test_many_may_add_at_once(index: Index) -> None:
    batch = [replace(ONE, query=str(number)) for number in range(20)]
    with ThreadPoolExecutor(4) as pool:
        left = list(pool.map(lambda n: index.add_asked(batch if n % 2 else batch[::-1], 100), range(8)))
    assert left == [0] * 8
    assert {one.asked for one in index.asked_queries("acme", 0, 100)} == {8}


@pytest.mark.integration
def test_texts_that_postgresql_cannot_hold_are_kept_otherwise(postgres_index: PostgresIndex) -> None:
    postgres_index.create_organisation("acme")
    assert postgres_index.add_asked([replace(ONE, query="a\0b\ud800")], 10) == 0
    assert [one.query for one in postgres_index.asked_queries("acme", 0, 10)] == ["a\\x00b\\ud800"]
