"""Windows of a search grow, lie behind each other, and have every segment with spans of their traces."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.plan.traceql import (
    MAX_NS,
    MIN_NS,
    REACH_NS,
    TracePlan,
    WindowSegments,
    cut_windows,
    is_rare,
    rows_first,
)
from lakerunner_query.traceql.lang.conditions import analyse
from lakerunner_query.traceql.lang.parser import parse
from resources.index.types import Segment
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, MINUTE_NS

START = 1_795_125_600_000_000_000
PLAN = TracePlan(parse("{}"), START, START + 3 * HOUR_NS, REACH_NS)
SPANS = st.tuples(
    st.integers(0, 170).map(lambda minute: START + minute * MINUTE_NS),
    st.integers(0, 40).map(lambda minutes: minutes * MINUTE_NS),
    st.integers(1, 60_000),
    st.booleans(),
)


Drawn = list[tuple[int, int, int, bool]]
"""Begin, length, rows and whether it may decide, by segment."""


def segment(number: int, begin: int, length: int, rows: int) -> Segment:
    name = f"{number:032x}"
    return Segment(
        name, f"{name}.parquet", "acme", "default", Signal.TRACES, "traces", 0, begin // HOUR_NS * HOUR_NS,
        HOUR_NS, begin, begin + length, rows, rows, 0, "cook", 1, 1, (), (), (), 0, 0, 0, 0,
    )  # fmt: skip


def segments_of(drawn: Drawn) -> tuple[list[Segment], set[str]]:
    found = [segment(number, *one[:3]) for number, one in enumerate(drawn)]
    deciding = {one.segment_id for one, (*_, decides) in zip(found, drawn, strict=True) if decides}
    return sorted(found, key=lambda one: one.min_ns), deciding


def range_of(one: WindowSegments) -> tuple[int, int]:
    return one.window.first_ns, one.window.behind_ns


def cut(drawn: Drawn, first_rows: int, *, rare: bool = False) -> list[WindowSegments]:
    found, deciding = segments_of(drawn)
    return list(cut_windows(replace(PLAN, is_rare=rare), found, deciding, 2, first_rows))


@given(st.lists(SPANS, min_size=1, max_size=25), st.sampled_from([0, 1, 5_000, 20_000]), st.booleans())
def test_windows_have_all_that_their_traces_need(drawn: Drawn, first_rows: int, rare: bool) -> None:
    found, deciding = segments_of(drawn)
    windows = cut(drawn, first_rows, rare=rare)
    for newer, older in pairwise(windows):
        same = (newer.window.first_ns, newer.window.behind_ns) == (
            older.window.first_ns,
            older.window.behind_ns,
        )
        assert same != newer.window.is_last
        assert same or older.window.behind_ns <= newer.window.first_ns
    for one in windows:
        window = one.window
        assert window.first_ns < window.behind_ns
        decides = {one.segments[place].segment_id for place in one.deciding}
        assert decides <= deciding
        for each in found:  # a trace that starts in the window has its spans up to an hour behind it
            reaches = each.max_ns >= window.first_ns and each.min_ns < window.behind_ns + REACH_NS
            if reaches:
                assert each in one.segments
                assert (each.segment_id in decides) == (each.segment_id in deciding)
    for each in found:  # where a trace may start there is a window, unless nothing decides
        for start in (each.min_ns, each.max_ns):
            inside = [one for one in windows if one.window.first_ns <= start < one.window.behind_ns]
            if each.segment_id in deciding:
                assert inside


def test_windows_grow_until_the_rest_is_smaller() -> None:
    drawn = [(START + minute * MINUTE_NS, MINUTE_NS - 1, 10_000, True) for minute in range(60)]
    bounds = [range_of(one) for one in cut(drawn, 20_000) if one.window.is_last]
    minutes = [60 if behind == MAX_NS else (behind - START) // MINUTE_NS for _, behind in bounds]
    assert minutes == [60, 58, 54, 46, 30]
    assert bounds[-1][0] == MIN_NS
    assert len({one.window.first_ns for one in cut(drawn, 0)}) == 1
    rare = [one.window.behind_ns for one in cut(drawn, 20_000, rare=True) if one.window.is_last]
    assert len(rare) == 2


def test_a_window_without_a_deciding_segment_is_left_out() -> None:
    drawn = [(START + minute * MINUTE_NS, MINUTE_NS - 1, 30_000, minute == 0) for minute in range(60)]
    (window,) = {range_of(one) for one in cut(drawn, 20_000)}
    assert window[0] == MIN_NS


def test_more_wanted_traces_need_more_spans_at_first() -> None:
    assert rows_first(20) == rows_first(1) == 20_000
    assert rows_first(1_000) == 500_000


def test_texts_of_attributes_are_rare_and_services_are_not() -> None:
    def rare(text: str) -> bool:
        return is_rare(analyse(parse(text)))

    assert rare('{ .user = "u" }')
    assert rare('{ .user = "u" && status = error }')
    assert rare('{ .user = "u" } >> { status = error }')
    assert not rare("{ .code = 500 }")
    assert not rare('{ resource.service.name = "web" }')
    assert not rare('{ .user = "u" || .code = 500 }')
    assert not rare("{}")
