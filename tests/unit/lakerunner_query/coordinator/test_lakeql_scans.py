"""Units of LakeQL hold every row once, whatever its nanoseconds."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.coordinator.lakeql_scans import LakeQuery, scan_cut
from lakerunner_query.lakeql.tables import TABLES, TableColumn
from lakerunner_query.plan.lakeql import LakeQLRequest, TableRead
from lakerunner_query.plan.lakeql_pushdown import Scan
from lakerunner_query.protocol.units import TableUnit
from resources.index.types import Segment
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS

MS = 1_000_000
BLANK = Segment(
    "s", "k", "acme", "default", Signal.METRICS, "metrics", 0, 0, 0, 0, 0, 1, 1, 0, "", 1, 1, (), (), (), 0,
    0, 0, 0,
)  # fmt: skip
times = st.lists(st.integers(0, 20 * MS), min_size=1, max_size=5)


class Query:
    request = LakeQLRequest("acme")


def units_of(name: str, segments: list[Segment], *, reverse: bool, enough: int) -> list[TableUnit]:
    read = TableRead(0, TABLES[name], None, name, (), 0, 2**62)  # type: ignore[arg-type]
    columns = (TableColumn("value", "DOUBLE"),)
    scan = Scan(0, read, "rows", columns, "", enough=enough, is_newest_first=reverse)
    cut = scan_cut(cast("LakeQuery", Query()), scan, segments, (), 3)
    return [cast("TableUnit", unit) for unit in cut.units]


@given(st.lists(times, min_size=1, max_size=6), st.booleans(), st.sampled_from([0, 10]))
def test_samples_between_milliseconds_are_in_exactly_one_unit(
    sent: list[list[int]], reverse: bool, enough: int
) -> None:
    segments = [
        replace(BLANK, segment_id=f"{n:04}", min_ns=min(each), max_ns=max(each), rows=3_000_000, bytes=10**9)
        for n, each in enumerate(sent)
    ]
    units = units_of("metrics", segments, reverse=reverse, enough=enough)
    for segment, each in zip(segments, sent, strict=True):
        for at in each:
            assert len(holders(units, segment, at // MS * MS)) == 1


def holders(units: list[TableUnit], segment: Segment, at: int) -> list[int]:
    return [
        number
        for number, unit in enumerate(units)
        if any(one.segment_id == segment.segment_id for one in unit.segments)
        and unit.start_ns <= at <= unit.end_ns
    ]


@given(
    st.lists(st.tuples(st.integers(0, 4), times, st.integers(1, 9_000_000)), min_size=1, max_size=9),
    st.booleans(),
    st.sampled_from([0, 10]),
)
def test_rows_of_equal_times_are_in_one_unit(
    sent: list[tuple[int, list[int], int]], reverse: bool, enough: int
) -> None:
    """Rows of one microsecond are, too, where later units are not asked once there are enough."""
    segments = [
        replace(
            BLANK, segment_id=f"{n:04}", min_ns=hour * HOUR_NS + min(each), max_ns=hour * HOUR_NS + max(each),
            hour_ns=hour * HOUR_NS, rows=rows, bytes=50 * rows,
        )
        for n, (hour, each, rows) in enumerate(sent)
    ]  # fmt: skip
    units = units_of("logs", segments, reverse=reverse, enough=enough)
    homes: dict[int, set[int]] = {}
    for segment, (hour, each, _) in zip(segments, sent, strict=True):
        for at in each:
            found = holders(units, segment, hour * HOUR_NS + at)
            assert len(found) == 1
            homes.setdefault((hour * HOUR_NS + at) // (1000 if enough else 1), set()).update(found)
    assert all(len(one) == 1 for one in homes.values())
    if enough:
        firsts = [max(homes) if reverse else min(homes)]
        assert homes[firsts[0]] == {0}
    else:
        assert {unit.turn for unit in units} <= {0, 1, 2}


def test_hours_stay_with_their_workers() -> None:
    """A day of logs is shared about evenly, and an hour more moves nothing but itself."""
    segments = [
        replace(
            BLANK, segment_id=f"{hour:04}-{n}", min_ns=hour * HOUR_NS + n * MS,
            max_ns=hour * HOUR_NS + n * MS + 5, hour_ns=hour * HOUR_NS, rows=100_000, bytes=5_000_000,
        )
        for hour in range(25)
        for n in range(4)
    ]  # fmt: skip

    def turns(given: list[Segment]) -> dict[str, int]:
        units = units_of("logs", given, reverse=False, enough=0)
        assert all(one.min_ns >= unit.start_ns for unit in units for one in unit.segments)
        return {one.segment_id: unit.turn for unit in units for one in unit.segments}

    before, after = turns(segments[:96]), turns(segments[4:])
    counts = sorted(list(before.values()).count(turn) for turn in range(3))
    assert counts[2] <= 1.2 * 96 / 3
    common = [name for name in before if name in after]
    assert sum(before[name] == after[name] for name in common) >= 0.8 * len(common)
    assert len(units_of("logs", segments[:4], reverse=False, enough=0)) == 1
    assert {unit.turn for unit in units_of("logs", segments[:8], reverse=False, enough=0)} == {0, 1, 2}
