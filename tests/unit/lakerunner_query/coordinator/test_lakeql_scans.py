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

MS = 1_000_000
BLANK = Segment(
    "s", "k", "acme", "default", Signal.METRICS, "metrics", 0, 0, 0, 0, 0, 1, 1, 0, "", 1, 1, (), (), (), 0,
    0, 0, 0,
)  # fmt: skip
times = st.lists(st.integers(0, 20 * MS), min_size=1, max_size=5)


class Query:
    request = LakeQLRequest("acme")


@given(st.lists(times, min_size=1, max_size=6), st.booleans(), st.sampled_from([0, 10]))
def test_samples_between_milliseconds_are_in_exactly_one_unit(
    sent: list[list[int]], reverse: bool, enough: int
) -> None:
    segments = [
        replace(BLANK, segment_id=f"{n:04}", min_ns=min(each), max_ns=max(each), rows=3_000_000, bytes=10**9)
        for n, each in enumerate(sent)
    ]
    table = TABLES["metrics"]
    read = TableRead(0, table, None, "metrics", (), 0, 2**62)  # type: ignore[arg-type]
    columns = (TableColumn("value", "DOUBLE"),)
    scan = Scan(0, read, "rows", columns, "", enough=enough, is_newest_first=reverse)
    units = [
        cast("TableUnit", unit) for unit in scan_cut(cast("LakeQuery", Query()), scan, segments, ()).units
    ]
    for segment, each in zip(segments, sent, strict=True):
        for at in each:
            shown = at // MS * MS
            holding = [
                unit
                for unit in units
                if any(one.segment_id == segment.segment_id for one in unit.segments)
                and unit.start_ns <= shown <= unit.end_ns
            ]
            assert len(holding) == 1
