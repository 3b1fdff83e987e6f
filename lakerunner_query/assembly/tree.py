"""`SpanTree` links the spans of one trace, whatever their ids say, without recursion.

    sent        a, b below a, c below x, d below d          x never arrived, d names itself
    tree        a > b; c, an orphan; d, cut out of its cycle

Every span is in the tree once: below its parent, or at the top as root, orphan, or the first of a cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

NONE = -1
SERVER = 2
"""Kind of a server's span, by its number in OTLP."""


@dataclass(frozen=True, slots=True)
class SpanColumns:
    """Spans of one trace, each list by row; rows ascend by start."""

    ids: Sequence[str]
    parent_ids: Sequence[str]
    """Empty: sent without a parent."""
    starts: Sequence[int]
    ends: Sequence[int]
    """No end is before its start."""
    kinds: Sequence[int]
    errors: Sequence[bool]
    services: Sequence[str]

    def __len__(self) -> int:
        return len(self.ids)

    def width(self, row: int) -> int:
        return self.ends[row] - self.starts[row]


@dataclass(frozen=True, slots=True)
class SpanTree:
    """Rows by their place in the tree; children stand in the order of their starts."""

    parents: list[int]
    children: list[list[int]]
    order: list[int] = field(default_factory=list)
    """Every row, each before those below it and behind those that begin earlier beside it."""
    depths: list[int] = field(default_factory=list)
    tops: list[int] = field(default_factory=list)
    """Rows without a parent in the tree: roots, orphans, first spans of cycles."""
    roots: list[int] = field(default_factory=list)
    """Spans that were sent without a parent."""
    orphans: list[int] = field(default_factory=list)
    """Spans whose parent never arrived."""
    cycles: list[int] = field(default_factory=list)
    """Spans that are below themselves; the link of the earliest one of each cycle is cut."""

    @property
    def root(self) -> int:
        """Return the earliest root, else the earliest top; -1 for a trace without spans."""
        return next(iter([*self.roots, *self.tops]), NONE)


def link_spans(spans: SpanColumns) -> SpanTree:
    """Build the tree; where a client's and a server's span share an id, children are the server's."""
    parents = _find_parents(spans)
    cycles = _cut_cycles(parents)
    children: list[list[int]] = [[] for _ in parents]
    tree = SpanTree(parents, children, cycles=cycles)
    is_cut = set(cycles)
    for row, parent in enumerate(parents):
        if parent != NONE:
            children[parent].append(row)
            continue
        tree.tops.append(row)
        if not spans.parent_ids[row]:
            tree.roots.append(row)
        elif row not in is_cut:
            tree.orphans.append(row)
    _walk(tree)
    return tree


def _find_parents(spans: SpanColumns) -> list[int]:
    rows: dict[str, int] = {}
    for row, span_id in enumerate(spans.ids):
        if span_id and (span_id not in rows or spans.kinds[row] == SERVER):
            rows[span_id] = row
    return [rows.get(parent, NONE) if parent else NONE for parent in spans.parent_ids]


def _cut_cycles(parents: list[int]) -> list[int]:
    """Cut one link of every cycle, in place; return the rows that lost their parent."""
    is_done = bytearray(len(parents))
    cut = []
    for row in range(len(parents)):
        path: list[int] = []
        at = row
        while at != NONE and not is_done[at]:
            is_done[at] = 1
            path.append(at)
            at = parents[at]
        places = {each: place for place, each in enumerate(path)} if at != NONE else {}
        if at in places:
            first = min(path[places[at] :])
            parents[first] = NONE
            cut.append(first)
    return sorted(cut)


def _walk(tree: SpanTree) -> None:
    """Fill in the order and the depths."""
    tree.depths.extend([0] * len(tree.parents))
    waiting = tree.tops[::-1]
    while waiting:
        row = waiting.pop()
        tree.order.append(row)
        for child in tree.children[row]:
            tree.depths[child] = tree.depths[row] + 1
        waiting += reversed(tree.children[row])
