"""Spans are in the order of a plain sort, and twins count once."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakerunner_query.worker.spans.order import SpanKeys, order_of

Row = tuple[int, int, int, int, int, int]
"""Trace, start, span, kind, object, position."""
SEGMENT = st.lists(
    st.tuples(
        st.integers(0, 5), st.integers(0, 3), st.integers(0, 4), st.integers(0, 1), st.integers(1, 3),
        st.integers(0, 9),
    ),
    max_size=30,
)  # fmt: skip


def keys_of(rows: list[Row], scale: int = 1) -> SpanKeys:
    columns = [np.array([row[place] for row in rows], np.int64) for place in range(6)]
    trace, start, span, kind, source, position = columns
    return SpanKeys(
        (trace // 2).astype(np.uint64), (trace % 2).astype(np.uint64), span.astype(np.uint64), start,
        kind.astype(np.int8), source * scale, position * scale,
    )  # fmt: skip


def plain(rows: list[Row]) -> list[Row]:
    """The same in so many words."""
    found, seen = [], set()
    for row in sorted(rows, key=lambda one: (one[0], one[4], one[5])):
        trace, start, span, kind, *_ = row
        if span and (trace, start, span, kind) in seen:
            continue
        seen.add((trace, start, span, kind))
        found.append(row)
    return found


@example(
    [[(0, 0, 1, 0, 1, 0), (0, 1, 2, 0, 1, 1)], [(0, 0, 1, 0, 2, 0)]], 1
)  # the end of one, the next one's begin
@given(st.lists(SEGMENT, max_size=4), st.sampled_from([1, 2**31]))
def test_rows_of_several_segments(segments: list[list[Row]], scale: int) -> None:
    rows: list[Row] = []
    sent: set[tuple[int, int]] = set()
    for segment in segments:
        fresh = {one[4:]: one for one in segment if one[4:] not in sent}
        sent |= fresh.keys()
        rows += sorted(fresh.values(), key=lambda one: (one[0], one[1], one[4], one[5]))
    found = [rows[place] for place in order_of(keys_of(rows, scale)).tolist()]
    assert found == plain(rows)
    in_any = [rows[place] for place in order_of(keys_of(rows, scale), is_any=True).tolist()]
    assert sorted(in_any) == sorted(found)
    runs = [one for one, _ in groupby(trace for trace, *_ in in_any)]
    assert len(runs) == len(set(runs)), "each trace is in one run"


@pytest.mark.parametrize("span", [0, 7])
def test_a_span_that_was_sent_twice_counts_once_if_it_has_an_id(span: int) -> None:
    rows: list[Row] = [(1, 5, span, 0, 2, 0), (1, 5, span, 0, 1, 3)]
    assert order_of(keys_of(rows)).tolist() == ([1] if span else [1, 0])
