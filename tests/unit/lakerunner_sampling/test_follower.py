"""A follower finds every new span once, whatever happens to snapshots and files."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

from lakerunner_sampling.follower import Follower, Position, TableCommit, TableError, open_catalog
from resources.lake.segment_file import SPAN_SORT_ORDER, SegmentFacts
from tests.support.span_tables import NAME, SpanRow, append, catalog_properties, make_table, swap, trace_id


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return make_table(tmp_path)


def follow(tmp_path: Path, shape: str = "canonical", **options: object) -> Follower:
    follower = Follower(open_catalog("lakerunner", catalog_properties(tmp_path)), NAME, shape, **options)  # type: ignore[arg-type]
    follower.refresh()
    return follower


def commits(follower: Follower, sequence: int = 0) -> list[TableCommit]:
    follower.refresh()
    return list(follower.commits_after(Position(sequence)))


def rows_of(found: list[TableCommit]) -> dict[int, int]:
    return {one.sequence: sum(file.rows for file in one.files) for one in found}


def test_commits_come_in_order_and_once(tmp_path: Path, table: Table) -> None:
    follower = follow(tmp_path)
    assert commits(follower) == []
    append(table, SpanRow(1), SpanRow(2), SpanRow(3))
    append(table, SpanRow(1))
    assert rows_of(commits(follower)) == {1: 3, 2: 1}
    append(table, SpanRow(4), SpanRow(5))
    assert rows_of(commits(follower, 2)) == {3: 2}
    assert commits(follower, 3) == []


def test_copies_bring_no_new_spans(tmp_path: Path, table: Table) -> None:
    follower = follow(tmp_path)
    append(table, SpanRow(1), SpanRow(2))
    append(table, SpanRow(1))
    swap(table, SpanRow(1), SpanRow(2), SpanRow(1))
    table.delete(EqualTo("trace_id", trace_id(2)))
    append(table, SpanRow(9))
    found = rows_of(commits(follower, 2))
    assert sum(found.values()) == 1
    assert found[max(found)] == 1
    files = follower.files_between(1, 2)
    assert sum(one.rows for one in files) == 2, "the copies of what is left of commits 1 and 2"


def test_an_overwrite_that_adds_more_than_it_deletes_counts_as_new(tmp_path: Path, table: Table) -> None:
    follower = follow(tmp_path)
    append(table, SpanRow(1))
    swap(table, SpanRow(1), SpanRow(2))
    assert sum(rows_of(commits(follower, 1)).values()) == 2


def test_files_of_expired_snapshots_are_still_found(tmp_path: Path, table: Table) -> None:
    follower = follow(tmp_path)
    for number in range(1, 6):
        append(table, SpanRow(number))
    old = [one.snapshot_id for one in table.snapshots()[:4]]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    assert rows_of(commits(follower, 2)) == {3: 1, 4: 1, 5: 1}
    assert rows_of(commits(follower, 4)) == {5: 1}
    assert follower.start(0).sequence == 4


def test_a_sampler_begins_a_window_before_the_newest_commit(tmp_path: Path, table: Table) -> None:
    append(table, SpanRow(1))
    append(table, SpanRow(2))
    follower = follow(tmp_path)
    assert follower.start(3_600_000).sequence == 0
    assert follower.start(-1).sequence == 2


def test_a_table_that_was_made_anew_is_an_error(tmp_path: Path, table: Table) -> None:
    append(table, SpanRow(1))
    with pytest.raises(TableError, match="another sampler name"):
        commits(follow(tmp_path), 7)
    follower = follow(tmp_path)
    table.catalog.drop_table(NAME)
    make_table(tmp_path)
    with pytest.raises(TableError, match="another sampler name"):
        follower.refresh()


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"no table default\.spans"):
        follow(tmp_path)


def test_files_are_chosen_by_commit_and_bucket(tmp_path: Path) -> None:
    table = make_table(tmp_path, buckets=4)
    for _ in range(3):
        append(table, *(SpanRow(number) for number in range(40)))
    follower = follow(tmp_path)
    assert {one.sequence for one in follower.files_between(2, 3)} == {2, 3}
    buckets = follower.buckets_of([trace_id(7)])
    assert len(buckets) == 1
    chosen = follower.files_between(1, 3, buckets)
    assert len(chosen) == 3
    assert {one.bucket for one in chosen} == set(buckets)


def facts(objects: tuple[int, ...], generation: int, low: int = 0, high: int = 10) -> SegmentFacts:
    return SegmentFacts(
        "s", "acme", "c", "traces", 0, generation, 1, 1, SPAN_SORT_ORDER, objects, 1, low, high, 0, 0, 0, 0
    )


def test_merged_segments_of_the_lake_bring_only_what_was_never_read(tmp_path: Path, table: Table) -> None:
    known: dict[str, SegmentFacts | None] = {}
    follower = follow(tmp_path, "lake", footers=known.get)
    for number in (1, 2):
        append(table, SpanRow(number))
    for commit in commits(follower):
        known |= {file.path: facts((commit.sequence,), 0) for file in commit.files}

    swap(table, SpanRow(1), SpanRow(2))
    merged = [one.file for one in follower_added(follower)]
    known |= {file.path: facts((1, 2), 1) for file in merged}
    assert [one.files for one in commits(follower, 2) if one.files] == []

    known |= {file.path: facts((1, 2, 3), 1) for file in merged}
    found = [file for one in commits(follower, 2) for file in one.files]
    assert {file.without for file in found} == {(1, 2)}, "object 3 came and was merged between two commits"

    known |= {file.path: facts((3, 4), 0) for file in merged}
    found = [file for one in commits(follower, 2) for file in one.files]
    assert {file.without for file in found} == {()}, "a late segment beside deleted ones"

    known |= {file.path: facts((1, 2), 1, 50, 60) for file in merged}
    assert [file for one in commits(follower, 2) for file in one.files], "the same objects at another time"


def follower_added(follower: Follower) -> list[object]:
    follower.refresh()
    snapshots = [one for one in follower.table.snapshots() if one.sequence_number > 2]
    return [entry for one in snapshots for entry in follower._changes(one)[0]]
