"""Intervals cover every row group once, and have as many rows as those before promise to be enough."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.worker.logs.footer import Footer, RowGroups
from lakerunner_query.worker.logs.scan_intervals import IntervalSizes, Pace, scan_intervals
from lakerunner_query.worker.logs.segment_opener import OpenSegment
from lakerunner_query.worker.shared.segment_file import LocalFile, within

ROWS = 1000
SIZES = IntervalSizes(rows=100_000, first=0.01)


def opened(starts: list[int]) -> list[OpenSegment]:
    """Make a file of row groups of 1000 rows that begin at these times and last for ten."""
    low = np.array(starts, np.int64)
    ids = np.zeros(len(low), np.int64)
    groups = RowGroups(np.arange(len(low) + 1) * ROWS, low, low + 9, ids, ids, ids)
    segment = SegmentRef("s", "s", 0, 0, 0, 0, 0)
    footer = Footer({}, (), ROWS * len(low), groups, None)  # type: ignore[arg-type]
    file = LocalFile(segment, within(Path("/"), "s"))
    return [OpenSegment(segment, file, footer, (), has_all_streams=True)]


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=40), st.lists(st.integers(0, 60)), st.booleans())
def test_every_row_group_is_in_one_interval_whatever_is_found(
    starts: list[int], found: list[int], reverse: bool
) -> None:
    files, pace, seen = opened(starts), Pace(SIZES, 100), np.zeros(len(starts), np.int64)
    bounds = []
    for number, one in enumerate(scan_intervals(files, 0, 4000, pace, reverse=reverse)):
        pace.note(one.rows, found[number] if number < len(found) else 0)
        bounds.append((one.start_ns, one.end_ns))
        matching = files[0].matching_groups(one.start_ns, one.end_ns)
        assert one.rows == ROWS * matching.sum()
        seen += matching
    assert (seen == 1).all()
    assert bounds == sorted(bounds, reverse=reverse)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([0, 0, 0], [1, 16, 100]),
        ([10, 0, 0], [1, 12, 100]),
        ([60, 30, 5], [1, 1, 2, 4]),
    ],
)
def test_intervals_grow_by_what_is_missing(found: list[int], expected: list[int]) -> None:
    files, pace = opened([10 * number for number in range(200)]), Pace(SIZES, 100)
    sizes = []
    for number, one in zip(
        range(len(expected)), scan_intervals(files, 0, 4000, pace, reverse=True), strict=False
    ):
        sizes.append(one.rows // ROWS)
        pace.note(one.rows, found[number] if number < len(found) else 0)
    assert sizes == expected
