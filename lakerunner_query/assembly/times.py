"""Times of a tree of spans: self times, gaps, the critical path, clock skew.

    span   0────────10   child a  1───4   child b  3─────8
    self   0─1 and 8─10, so 3; the longest gap is 8─10
    path   root 0─1, a 1─3 (b begins at 3), b 3─8, root 8─10: sections that fill the root without overlap

Children count as far as they lie within their parents, so that clocks that disagree make no negative times.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from lakerunner_query.assembly.tree import NONE, SpanColumns, SpanTree

MOST_GAPS = 20


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """A part of a span's time, or of the trace's where `row` is -1."""

    start: int
    end: int
    row: int

    @property
    def width(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Skew:
    """A span that begins before its parent: the clocks of the two disagree."""

    row: int
    parent: int
    width: int
    """Time between the two starts."""


def self_times(spans: SpanColumns, tree: SpanTree) -> list[int]:
    """Return by row the time in which a span runs and none of its children does."""
    idle = [0] * len(spans)
    for row, below in enumerate(tree.children):
        idle[row] = sum(one.width for one in _idle(spans, row, below)) if below else spans.width(row)
    return idle


def find_gaps(spans: SpanColumns, tree: SpanTree, most: int = MOST_GAPS) -> list[Interval]:
    """Return the longest gaps: in which nothing runs, or no child of a span that has some."""
    return heapq.nsmallest(most, _gaps(spans, tree), key=lambda one: (-one.width, one))


def _gaps(spans: SpanColumns, tree: SpanTree) -> Iterator[Interval]:
    at = spans.starts[0] if len(spans) else 0
    for start, end in zip(spans.starts, spans.ends, strict=True):
        if start > at:
            yield Interval(at, start, NONE)
        at = max(at, end)
    for row, below in enumerate(tree.children):
        if below:
            yield from _idle(spans, row, below)


def _idle(spans: SpanColumns, row: int, below: list[int]) -> Iterator[Interval]:
    """Yield the parts of a span in which none of its children runs."""
    at, end = spans.starts[row], spans.ends[row]
    for child in below:
        begin = min(spans.starts[child], end)
        if begin > at:
            yield Interval(at, begin, row)
        at = max(at, min(spans.ends[child], end))
    if end > at:
        yield Interval(at, end, row)


@dataclass(slots=True)
class _Frame:
    """A span of the path, read from its end to its start."""

    row: int
    first: int
    last: int
    """Bounds of the part of the span that is on the path."""
    at: int
    """Time up to which the path is not known yet."""
    waiting: list[int]
    """Children that may come next, the last to end at the end."""


def find_critical_path(spans: SpanColumns, tree: SpanTree, top: int) -> list[Interval]:
    """Return what the end of a span waited for: sections that fill it, in the order of time.

    Read backwards, the path goes to the child that ended last, to its start, and on to the child that ended
    last before that. A child that was still running then delayed nothing.
    """
    if top == NONE:
        return []
    sections: list[Interval] = []
    frames = [_frame(spans, tree, top, spans.starts[top], spans.ends[top])]
    while frames:
        frame = frames[-1]
        found = _next_child(spans, frame)
        begin = found.end if found else frame.first
        if frame.at > begin:
            sections.append(Interval(begin, frame.at, frame.row))
        if found is None:
            frames.pop()
            continue
        frame.at = found.start
        frames.append(_frame(spans, tree, found.row, found.start, found.end))
    return sections[::-1]


def _frame(spans: SpanColumns, tree: SpanTree, row: int, first: int, end: int) -> _Frame:
    waiting = sorted(tree.children[row], key=spans.ends.__getitem__)
    return _Frame(row, first, end, end, waiting)


def _next_child(spans: SpanColumns, frame: _Frame) -> Interval | None:
    """Take the child that ended last before the known part of the path."""
    while frame.waiting:
        child = frame.waiting.pop()
        begin, end = max(spans.starts[child], frame.first), min(spans.ends[child], frame.last)
        if begin < end <= frame.at:
            return Interval(begin, end, child)
    return None


def find_skews(spans: SpanColumns, tree: SpanTree) -> list[Skew]:
    """Return the spans that begin before their parents."""
    return [
        Skew(row, parent, spans.starts[parent] - spans.starts[row])
        for row, parent in enumerate(tree.parents)
        if parent != NONE and spans.starts[row] < spans.starts[parent]
    ]
