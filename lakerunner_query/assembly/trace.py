"""`assemble` derives tree, times, errors and services of one trace from its spans."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from lakerunner_query.assembly.times import (
    Interval,
    Skew,
    find_critical_path,
    find_gaps,
    find_skews,
    self_times,
)
from lakerunner_query.assembly.tree import NONE, SpanColumns, SpanTree, link_spans


@dataclass(slots=True)
class ServiceTimes:
    """Totals of one service within a trace."""

    spans: int = 0
    errors: int = 0
    self_ns: int = 0
    critical_ns: int = 0


@dataclass(frozen=True, slots=True)
class AssembledTrace:
    """One trace; lists are by row, rows by start."""

    spans: SpanColumns
    tree: SpanTree
    start_ns: int
    end_ns: int
    self_ns: list[int]
    critical_path: list[Interval]
    critical_ns: list[int]
    """Time of each span on the critical path."""
    gaps: list[Interval]
    skews: list[Skew]
    error_origins: list[int]
    """Spans with an error that have none below them, in the order of their ends."""
    error_path: list[int]
    """Spans from the top down to the origin that ended first."""
    missing_parents: dict[str, int] = field(default_factory=dict)
    """Number of orphans by the id of the span that never arrived."""

    @property
    def root(self) -> int:
        return self.tree.root

    def services(self) -> dict[str, ServiceTimes]:
        """Return totals by service, those with the most time on the critical path first."""
        found: dict[str, ServiceTimes] = {}
        for row, name in enumerate(self.spans.services):
            one = found.setdefault(name, ServiceTimes())
            one.spans += 1
            one.errors += self.spans.errors[row]
            one.self_ns += self.self_ns[row]
            one.critical_ns += self.critical_ns[row]
        return dict(sorted(found.items(), key=lambda each: (-each[1].critical_ns, -each[1].self_ns, each[0])))


def assemble(spans: SpanColumns) -> AssembledTrace:
    """Put one trace together; rows must ascend by start."""
    tree = link_spans(spans)
    path = find_critical_path(spans, tree, tree.root)
    critical_ns = [0] * len(spans)
    for section in path:
        critical_ns[section.row] += section.width
    origins = _find_origins(spans, tree)
    return AssembledTrace(
        spans=spans,
        tree=tree,
        start_ns=min(spans.starts, default=0),
        end_ns=max(spans.ends, default=0),
        self_ns=self_times(spans, tree),
        critical_path=path,
        critical_ns=critical_ns,
        gaps=find_gaps(spans, tree),
        skews=find_skews(spans, tree),
        error_origins=origins,
        error_path=_path_to(tree, origins[0]) if origins else [],
        missing_parents=dict(Counter(spans.parent_ids[row] for row in tree.orphans)),
    )


def _find_origins(spans: SpanColumns, tree: SpanTree) -> list[int]:
    """Return the spans with an error and without one below them."""
    has_error_below = bytearray(len(spans))
    found = []
    for row in reversed(tree.order):
        is_error, parent = spans.errors[row], tree.parents[row]
        if is_error and not has_error_below[row]:
            found.append(row)
        if parent != NONE and (is_error or has_error_below[row]):
            has_error_below[parent] = 1
    return sorted(found, key=lambda row: (spans.ends[row], row))


def _path_to(tree: SpanTree, row: int) -> list[int]:
    """Return the rows from the top down to this one."""
    path = []
    while row != NONE:
        path.append(row)
        row = tree.parents[row]
    return path[::-1]
