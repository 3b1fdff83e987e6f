"""Slices: disjoint, ordered, complete, bounded; and what a query does with them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.plan.slices import FEW_SEGMENTS, RowSliceSizes, Slice, cut_slices, first_few
from resources.index.types import Segment
from resources.lake.layout import Signal

BLANK = Segment(
    "s", "k", "acme", "default", Signal.LOGS, "logs", 0, 0, 0, 0, 0, 1, 1, 0, "", 1, 1, (), (), (), 0, 0, 0, 0
)


def segment(number: int, low: int, high: int, rows: int) -> Segment:
    return replace(BLANK, segment_id=f"{number:04}", min_ns=low, max_ns=high, rows=rows, bytes=rows * 50)


segments = st.lists(
    st.tuples(st.integers(-500, 500), st.integers(0, 300), st.integers(1, 5000)), max_size=25
).map(lambda found: [segment(i, low, low + width, rows) for i, (low, width, rows) in enumerate(found)])
sizes = st.builds(
    RowSliceSizes,
    st.integers(1, 5000),
    st.integers(100, 100_000),
    st.integers(1, 50),
    st.sampled_from([0.01, 0.5, 1]),
    st.just(2.0),
)
bounds = st.tuples(st.integers(-600, 600), st.integers(-600, 600)).map(sorted)


@given(segments, sizes, bounds, st.booleans())
def test_every_instant_of_every_segment_is_in_exactly_one_slice(
    given_segments: list[Segment], size: RowSliceSizes, bound: list[int], reverse: bool
) -> None:
    start, end = bound
    parts = list(cut_slices(given_segments, start, end, reverse=reverse, sizes=size))
    assert_complete(given_segments, parts[::-1] if reverse else parts, start, end)


@given(segments, st.booleans())
def test_the_first_few_segments_come_alone_and_none_is_cut(
    given_segments: list[Segment], reverse: bool
) -> None:
    parts = list(first_few(given_segments, -600, 900, reverse=reverse))
    assert_complete(given_segments, parts[::-1] if reverse else parts, -600, 900)
    held = [one.segment_id for part in parts for one in part.segments]
    assert sorted(held) == sorted(one.segment_id for one in given_segments)
    spread = [segment(number, 10 * number, 10 * number + 5, 1) for number in range(3 * FEW_SEGMENTS)]
    first = next(first_few(spread, 0, 900, reverse=reverse))
    assert len(first.segments) == FEW_SEGMENTS
    assert (spread[-1] if reverse else spread[0]) in first.segments


def assert_complete(
    given_segments: list[Segment], ordered: list[Slice[Segment]], start: int, end: int
) -> None:
    for part in ordered:
        assert start <= part.start_ns < part.end_ns <= end
    for earlier, later in pairwise(ordered):
        assert earlier.end_ns <= later.start_ns
    for one in given_segments:
        low, high = max(one.min_ns, start), min(one.max_ns + 1, end)
        covered = [
            (max(low, part.start_ns), min(high, part.end_ns))
            for part in ordered
            if part.start_ns < high and part.end_ns > low
        ]
        overlapping = [part for part in ordered if part.start_ns < high and part.end_ns > low]
        assert all(one in part.segments for part in overlapping)
        assert sum(b - a for a, b in covered) == max(0, high - low)


@given(segments, bounds, st.booleans())
def test_a_slice_lists_only_segments_that_overlap_it(
    given_segments: list[Segment], bound: list[int], reverse: bool
) -> None:
    for part in cut_slices(given_segments, *bound, reverse=reverse, sizes=RowSliceSizes(100, 10_000)):
        assert part.segments
        assert all(s.min_ns < part.end_ns and s.max_ns >= part.start_ns for s in part.segments)


def test_the_first_slices_are_small_and_then_they_grow() -> None:
    whole = [segment(1, 0, 10**12, 100_000_000)]
    parts = list(
        cut_slices(whole, 0, 10**13, reverse=True, sizes=RowSliceSizes(rows=2_000_000, bytes=1 << 62))
    )
    widths = [part.end_ns - part.start_ns for part in parts]
    assert parts[0].end_ns == 10**12 + 1
    assert [round(w / widths[0]) for w in widths[:6]] == [1, 2, 4, 8, 16, 16]


def test_many_small_segments_share_a_slice() -> None:
    small = [segment(i, i * 100, i * 100 + 99, 10) for i in range(1000)]
    counts = [len(part.segments) for part in cut_slices(small, 0, 10**9, reverse=False)]
    assert [round(count / 10) for count in counts] == [3, 6, 12, 25, 50, 4]


def test_nothing_to_cut() -> None:
    assert list(cut_slices([], 0, 10, reverse=False)) == []
    assert list(cut_slices([segment(1, 0, 5, 1)], 6, 10, reverse=True)) == []
