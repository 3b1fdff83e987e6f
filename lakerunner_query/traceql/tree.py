"""`Tree` relates the spans of traces: parents, children, siblings, ancestors.

    trace            row  parent  left  right
    a                0    -1      1     8
    ├── b            1    0       2     5
    │   └── c        2    1       3     4
    └── d            3    0       6     7

Ids are looked up within their trace. A client's and a server's span may share one id: both have the same
parent, and spans below name the server's. Spans that no root leads to have no place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakerunner_query.traceql.tree_kernels import NONE, link_parents, number_spans
from resources.arrays import Flags, Int8s, Int64s, UInt64s


@dataclass(frozen=True, slots=True)
class Tree:
    """Places of spans in the trees of their traces, by row."""

    parents: Int64s
    """Rows of parents; -1: none, or it never arrived."""
    left: Int64s
    right: Int64s
    """Nested sets; 0: the span has no place."""
    starts: Int64s
    is_root: Flags
    """Spans that were sent without a parent."""

    @property
    def has_place(self) -> Flags:
        found: Flags = self.left > 0
        return found

    def parent_numbers(self) -> Int64s:
        """Return the parent's left number; -1 for roots, 0 without a place."""
        found = np.where(self.parents == NONE, NONE, self.left[self.parents])
        return np.where(self.has_place, found, 0)

    def child_counts(self) -> Int64s:
        known = self.parents[self.parents != NONE]
        return np.bincount(known, minlength=len(self.parents)).astype(np.int64)


def build_tree(starts: Int64s, span_ids: UInt64s, parent_ids: UInt64s, is_root: Flags, kinds: Int8s) -> Tree:
    """Link spans, rows in the order of traces, to their parents."""
    size = len(span_ids)
    parents, left, right = np.empty(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    link_parents(starts, span_ids, parent_ids, is_root, kinds, parents)
    roots = np.flatnonzero(is_root)
    number_spans(parents, roots, starts, left, right)
    return Tree(parents, left, right, starts, is_root)
