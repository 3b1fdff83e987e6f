"""Contract of the index with open tables, in PostgreSQL and in memory."""

from __future__ import annotations

import threading

import psycopg
import pytest

from resources.index.memory import MemoryIndex
from resources.index.open_tables import TableChanges
from resources.index.postgres import PostgresIndex
from resources.index.types import BatchKind, Publication
from resources.lake.timecut import HOUR_NS
from tests.support.sweep_index import (
    HOUR,
    Clocked,
    Index,
    cook,
    numbers,
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


def changes(index: Index, known: tuple[int, int] | None = None) -> TableChanges:
    found = index.table_changes("acme", "metrics", known)
    assert found is not None
    return found


def seen(found: TableChanges) -> tuple[bool, list[int], list[int], int, int]:
    added, removed = (numbers([file.key for file in files]) for files in (found.added, found.removed))
    return found.is_whole, added, removed, found.segments, found.rows


def test_table_is_opened_once_and_listed_by_organisation(index: Index) -> None:
    assert index.add_table("beta", "logs")
    assert index.add_table("acme", "metrics")
    assert not index.add_table("acme", "metrics")
    assert [(t.org, t.dataset, t.version, t.committed) for t in index.list_tables()] == [
        ("acme", "metrics", 0, -1),
        ("beta", "logs", 0, -1),
    ]
    assert [t.org for t in index.list_tables("beta")] == ["beta"]
    assert index.list_tables()[0].committed_s == float("inf")
    assert index.table_changes("acme", "logs", None) is None
    assert index.remove_table("acme", "metrics")
    assert not index.remove_table("acme", "metrics")
    assert index.list_tables("acme") == []


def test_first_look_sees_all_that_is_live(index: Index) -> None:
    for number in (1, 2, 3):
        cook(index, number)
    retire(index, 1, 2)
    index.add_table("acme", "metrics")
    found = changes(index)
    assert seen(found) == (True, [3, 90], [], 2, 10)
    assert (found.version, found.added[0].hour_ns, found.added[0].width_ns) == (0, HOUR, HOUR_NS)


def test_later_looks_see_what_came_and_went(index: Index) -> None:
    index.add_table("acme", "metrics")
    cook(index, 1)
    start = changes(index)
    assert start.version == 1
    known = (start.table_id, start.version)
    cook(index, 2)
    cook(index, 3)
    retire(index, 1, 2)  # 2 came and went between two looks
    found = changes(index, known)
    assert seen(found) == (False, [3, 90], [1], 2, 10)
    assert found.version == 4
    assert seen(changes(index, (found.table_id, found.version))) == (False, [], [], 2, 10)


def test_unknown_versions_get_everything(index: Index) -> None:
    """Another catalog, an index out of a backup, a table that was closed and opened again."""
    index.add_table("acme", "metrics")
    cook(index, 1)
    found = changes(index)
    assert seen(changes(index, (found.table_id, found.version + 1)))[0]
    assert seen(changes(index, (found.table_id + 1, found.version)))[:2] == (True, [1])
    index.remove_table("acme", "metrics")
    index.add_table("acme", "metrics")
    assert changes(index).table_id != found.table_id


def test_other_organisations_and_datasets_change_nothing(index: Index) -> None:
    index.add_table("acme", "metrics")
    index.add_table("acme", "metrics-10s")
    index.add_table("beta", "metrics")
    cook(index, 1)
    claim = work(index, BatchKind.ROLLUP)
    rolled = segment(70, dataset="metrics-10s", frequency_ms=10_000)
    index.publish(Publication(claim, (rolled,), frequency_ms=10_000))
    assert [(t.org, t.dataset, t.version) for t in index.list_tables()] == [
        ("acme", "metrics", 1),
        ("acme", "metrics-10s", 1),
        ("beta", "metrics", 0),
    ]
    other = index.table_changes("acme", "metrics-10s", None)
    assert other is not None
    assert seen(other)[1] == [70]


def test_waiting_ends_with_the_commit_of_the_last_change(clocked: Clocked) -> None:
    index = clocked.index
    index.add_table("acme", "metrics")
    found = changes(index)
    index.note_commit(found.table_id, found.version, found.version)
    (table,) = index.list_tables()
    assert (table.committed, table.waited_s) == (0, 0.0)
    assert table.committed_s < 60
    cook(index, 1)
    seen_at = changes(index, (found.table_id, found.version))
    cook(index, 2)
    index.note_commit(found.table_id, seen_at.version, found.version)
    (table,) = index.list_tables()
    assert (table.version, table.committed) == (2, 1)
    index.note_commit(found.table_id, 2, 2)
    index.note_commit(found.table_id, 1, 0)  # a late one takes nothing back
    assert index.list_tables()[0].committed == 2


def test_files_stay_until_no_snapshot_names_them(clocked: Clocked) -> None:
    index = clocked.index
    index.add_table("acme", "metrics")
    cook(index, 1)
    cook(index, 2)
    first = changes(index)
    index.note_commit(first.table_id, first.version, first.version)
    retire(index, 1, 2)
    clocked.pass_seconds(1000)
    gone: list[str] = []
    assert index.retired_segments(60, "", 10) == []
    assert index.delete_retired(["db/1", "db/2"], 60, gone.extend) == []
    second = changes(index, (first.table_id, first.version))
    index.note_commit(first.table_id, second.version, first.version)  # both snapshots can be read
    assert index.list_tables()[0].held == 2
    assert index.retired_segments(60, "", 10) == []
    index.note_commit(first.table_id, second.version, second.version)  # the first one expired
    assert numbers([f.key for f in index.retired_segments(60, "", 10)]) == [1, 2]
    assert len(index.delete_retired(["db/1", "db/2"], 60, gone.extend)) == 2
    assert numbers(gone) == [1, 2]


def test_closing_a_table_lets_go_of_files(clocked: Clocked) -> None:
    index = clocked.index
    index.add_table("acme", "metrics")
    cook(index, 1)
    retire(index, 1)
    clocked.pass_seconds(1000)
    assert index.retired_segments(60, "", 10) == []
    index.remove_table("acme", "metrics")
    assert numbers([f.key for f in index.retired_segments(60, "", 10)]) == [1]


def test_expired_segments_are_changes(index: Index) -> None:
    index.add_table("acme", "metrics")
    cook(index, 1)
    start = changes(index)
    old = tier(HOUR + HOUR_NS)
    assert index.expire(old, whole(index, old))
    assert seen(changes(index, (start.table_id, start.version))) == (False, [], [1], 0, 0)


@pytest.mark.integration
def test_opening_waits_for_publications_under_way(postgres_index: PostgresIndex, index_dsn: str) -> None:
    """One that inserted before could not see the table, and nobody would tell it of the segment."""
    postgres_index.create_organisation("acme")
    with psycopg.connect(index_dsn) as other:
        other.execute("LOCK TABLE lakerunner.segment IN ROW EXCLUSIVE MODE")
        opener = threading.Thread(target=postgres_index.add_table, args=("acme", "metrics"))
        opener.start()
        opener.join(0.3)
        assert opener.is_alive()
        other.commit()
        opener.join(10)
    assert not opener.is_alive()
    assert len(postgres_index.list_tables()) == 1
