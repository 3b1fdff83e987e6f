"""Assembly of random and hostile traces agrees with plain walks over the same spans."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.assembly.trace import AssembledTrace, assemble
from lakerunner_query.assembly.tree import NONE, SERVER, SpanColumns

Sent = tuple[str, str, int, int, bool]
"""Id, parent, start, end, error."""


def columns(sent: Sequence[Sent], kinds: Sequence[int] = ()) -> SpanColumns:
    rows = sorted(zip(sent, kinds or [0] * len(sent), strict=True), key=lambda one: (one[0][2], -one[0][3]))
    spans = [one for one, _ in rows]
    return SpanColumns(
        ids=[one[0] for one in spans],
        parent_ids=[one[1] for one in spans],
        starts=[one[2] for one in spans],
        ends=[one[3] for one in spans],
        kinds=[kind for _, kind in rows],
        errors=[one[4] for one in spans],
        services=[f"s{ord(one[0][0]) % 3}" if one[0] else "none" for one in spans],
    )


ids = st.sampled_from(["", *"abcdefgh"])
spans = st.builds(
    lambda own, parent, start, width, error: (own, parent, start, start + width, error),
    ids, ids, st.integers(0, 20), st.integers(0, 20), st.booleans(),
)  # fmt: skip
traces = st.lists(spans, max_size=14).map(columns)


def intervals(found: AssembledTrace, row: int) -> set[int]:
    """Units of time in which a span runs."""
    return set(range(found.spans.starts[row], found.spans.ends[row]))


@given(traces)
def test_every_span_is_in_the_tree_once_and_below_its_parent(sent: SpanColumns) -> None:
    tree = assemble(sent).tree
    assert sorted(tree.order) == list(range(len(sent)))
    assert sorted([*tree.tops, *(row for below in tree.children for row in below)]) == sorted(tree.order)
    place = {row: number for number, row in enumerate(tree.order)}
    for row, parent in enumerate(tree.parents):
        if parent == NONE:
            assert tree.depths[row] == 0
            continue
        assert place[parent] < place[row]
        assert tree.depths[row] == tree.depths[parent] + 1
        assert sent.ids[parent] == sent.parent_ids[row]
    assert sorted([*tree.roots, *tree.orphans, *tree.cycles]) == tree.tops
    assert all(sent.parent_ids[row] not in sent.ids for row in tree.orphans)
    assert [row for row, parent in enumerate(sent.parent_ids) if not parent] == tree.roots


@given(traces)
def test_self_times_are_what_no_child_covers(sent: SpanColumns) -> None:
    found = assemble(sent)
    for row, below in enumerate(found.tree.children):
        covered = set().union(*(intervals(found, child) for child in below))
        assert found.self_ns[row] == len(intervals(found, row) - covered)
    assert sum(one.self_ns for one in found.services().values()) == sum(found.self_ns)


def slow_path(found: AssembledTrace, row: int, first: int, last: int) -> list[tuple[int, int, int]]:
    """The critical path by its definition, recursively, from the end."""
    sections, at = [], last
    while True:
        ended = [
            (min(found.spans.ends[child], last), found.spans.ends[child], place, child)
            for place, child in enumerate(found.tree.children[row])
            if max(found.spans.starts[child], first) < min(found.spans.ends[child], last) <= at
        ]
        if not ended:
            return [(first, at, row)] * (first < at) + sections
        end, _, _, child = max(ended)
        begin = max(found.spans.starts[child], first)
        sections = slow_path(found, child, begin, end) + [(end, at, row)] * (end < at) + sections
        at = begin


@given(traces)
def test_the_critical_path_fills_the_root_and_is_the_slow_one(sent: SpanColumns) -> None:
    found = assemble(sent)
    path = [(one.start, one.end, one.row) for one in found.critical_path]
    if found.root == NONE:
        assert path == []
        return
    first, last = sent.starts[found.root], sent.ends[found.root]
    assert sum(found.critical_ns) == last - first
    assert [end for _, end, _ in path[:-1]] == [start for start, _, _ in path[1:]]
    assert path == slow_path(found, found.root, first, last)


@given(traces)
def test_gaps_are_where_nothing_runs(sent: SpanColumns) -> None:
    found = assemble(sent)
    running = set().union(*(intervals(found, row) for row in range(len(sent))))
    for gap in found.gaps:
        units = set(range(gap.start, gap.end))
        assert units
        below = found.tree.children[gap.row] if gap.row != NONE else []
        busy = set().union(*(intervals(found, row) for row in below)) if gap.row != NONE else running
        assert not units & busy
    whole = sum(one.width for one in found.gaps if one.row == NONE)
    if len(found.gaps) < 20:
        assert whole == found.end_ns - found.start_ns - len(running)


@given(traces)
def test_errors_lead_from_the_top_to_one_that_has_none_below(sent: SpanColumns) -> None:
    found = assemble(sent)
    assert bool(found.error_origins) == any(sent.errors)
    if not any(sent.errors):
        return
    for parent, child in zip(found.error_path, found.error_path[1:], strict=False):
        assert found.tree.parents[child] == parent
    origin = found.error_path[-1]
    assert found.error_path[0] in found.tree.tops
    assert sent.ends[origin] == min(sent.ends[row] for row in found.error_origins)
    waiting = [child for row in found.error_origins for child in found.tree.children[row]]
    while waiting:
        row = waiting.pop()
        assert not sent.errors[row]
        waiting += found.tree.children[row]


@given(traces)
def test_skew_is_every_child_before_its_parent(sent: SpanColumns) -> None:
    found = assemble(sent)
    expected = {
        row: sent.starts[parent] - sent.starts[row]
        for row, parent in enumerate(found.tree.parents)
        if parent != NONE and sent.starts[row] < sent.starts[parent]
    }
    assert {one.row: one.width for one in found.skews} == expected


def test_a_span_that_names_itself_is_at_the_top() -> None:
    found = assemble(columns([("a", "a", 0, 5, False), ("b", "a", 1, 2, False)]))
    assert (found.tree.cycles, found.tree.children[0]) == ([0], [1])


def test_children_of_a_shared_id_are_the_servers() -> None:
    sent = [("a", "", 0, 9, False), ("b", "a", 1, 8, False), ("b", "a", 2, 7, False), ("c", "b", 3, 4, False)]
    found = assemble(columns(sent, [0, 3, SERVER, 0]))
    assert found.tree.parents == [NONE, 0, 0, 2]


def test_missing_parents_are_counted() -> None:
    sent = [("a", "", 0, 9, False), ("b", "x", 1, 8, False), ("c", "x", 2, 7, False)]
    found = assemble(columns(sent))
    assert (found.missing_parents, found.tree.orphans) == ({"x": 2}, [1, 2])


def chain(count: int) -> SpanColumns:
    last = count - 1
    return columns([(f"{n}", f"{n - 1}" if n else "", n, 2 * count - n, n == last) for n in range(count)])


def star(count: int) -> SpanColumns:
    spans = [("root", "", 0, count + 1, False)]
    return columns([*spans, *((f"{n}", "root", n, n + 1, n % 2 == 0) for n in range(1, count))])


def circle(count: int) -> SpanColumns:
    return columns([(f"{n}", f"{(n + 1) % count}", n, n + 5, True) for n in range(count)])


def same_id(count: int) -> SpanColumns:
    return columns([("a", "a", n, n + 5, True) for n in range(count)])


def overlapping(count: int) -> SpanColumns:
    spans = [("root", "", 0, count, False)]
    return columns([*spans, *((f"{n}", "root", -n, 2 * count + n, False) for n in range(1, count))])


def forest(count: int) -> SpanColumns:
    draw = random.Random(7)
    return columns(
        [(f"{n}", f"{draw.randrange(count)}", draw.randrange(count), 2 * count, False) for n in range(count)]
    )


@pytest.mark.parametrize("shape", [chain, star, circle, same_id, overlapping, forest])
def test_hostile_shapes_cost_no_more_than_their_size(shape: object) -> None:
    """Eight times the spans may take some 8 times as long; a square would take 64 times."""

    def seconds(count: int) -> float:
        sent = shape(count)  # type: ignore[operator]
        best = 1e9
        for _ in range(3):
            began = time.process_time()
            found = assemble(sent)
            best = min(best, time.process_time() - began)
            assert len(found.tree.order) == count
        return best

    assert seconds(40_000) < 25 * seconds(5_000) + 0.05
