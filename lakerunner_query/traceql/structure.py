"""Structural operators flag spans by their relatives in the trace.

    {a} >> {b}     spans of b below a span of a          {a} << {b}     spans of b above one
    {a} >  {b}     ... directly below                    {a} <  {b}     ... directly above
    {a} ~  {b}     ... beside one, with the same parent
    {a} !>> {b}    spans of b that `>>` leaves out       {a} &>> {b}    both sides of `>>`

Spans relate within their span set only. Ancestors are found by nested sets: sorted by set and left number, a
span is below as many spans of `a` as have begun and not ended before it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lakerunner_query.traceql.tree import Tree
from lakerunner_query.traceql.tree_kernels import NONE
from lakerunner_query.traceql.values import Array
from resources.arrays import Flags, Int64s

Relation = Callable[[Tree, Int64s, Flags, Flags], Flags]
"""Flags the spans of the second side that relate to one of the first; sets are numbered by row, -1: none."""


def children(tree: Tree, sets: Int64s, above: Flags, below: Flags) -> Flags:
    parents = tree.parents
    found = below & (parents != NONE) & tree.has_place
    flags: Flags = found & above[parents] & (sets[parents] == sets)
    return flags


def parents(tree: Tree, sets: Int64s, below: Flags, above: Flags) -> Flags:
    is_child = children(tree, sets, above, below)
    found = np.zeros(len(above), np.bool_)
    found[tree.parents[is_child]] = True
    return found


def siblings(tree: Tree, sets: Int64s, ones: Flags, others: Flags) -> Flags:
    """Flag spans of the second side that share a parent with a span of the first."""
    has_parent = (tree.parents != NONE) & tree.has_place
    groups = np.unique(np.stack([sets[has_parent], tree.parents[has_parent]]), axis=1, return_inverse=True)[1]
    found = np.zeros(len(ones), np.bool_)
    if len(groups):
        groups = groups.ravel()
        counts = np.bincount(groups, weights=ones[has_parent])[groups]
        found[has_parent] = counts > ones[has_parent]
    return found & others


def descendants(tree: Tree, sets: Int64s, above: Flags, below: Flags) -> Flags:
    rows = np.flatnonzero((above | below) & tree.has_place)
    found = np.zeros(len(above), np.bool_)
    if len(rows):
        keys = np.concatenate([tree.left[rows], tree.right[rows]])
        both = np.concatenate([rows, rows])
        steps = np.concatenate([above[rows].astype(np.int64), -above[rows].astype(np.int64)])
        order = np.lexsort((keys, sets[both]))
        open_before = np.cumsum(steps[order]) - steps[order]  # every set closes what it opens
        begun = np.empty(len(order), np.int64)
        begun[order] = open_before
        found[rows] = begun[: len(rows)] > 0
    return found & below


def ancestors(tree: Tree, sets: Int64s, below: Flags, above: Flags) -> Flags:
    rows = np.flatnonzero((above | below) & tree.has_place)
    found = np.zeros(len(above), np.bool_)
    if len(rows):
        order = rows[np.lexsort((tree.left[rows], sets[rows]))]
        counts = np.concatenate([[0], np.cumsum(below[order])])
        keys = np.empty(len(order), np.dtype([("set", np.int64), ("left", np.int64)]))
        keys["set"], keys["left"] = sets[order], tree.left[order]
        ends = keys.copy()
        ends["left"] = tree.right[order]
        last = _positions(keys, ends)
        found[order] = counts[last] - counts[np.arange(len(order)) + 1] > 0
    return found & above


def _positions(keys: Array, ends: Array) -> Int64s:
    """Return how many keys, which are sorted, come before each end."""
    both = np.concatenate([keys, ends])
    order = np.lexsort((both["left"], both["set"]))
    is_key = order < len(keys)
    before = np.cumsum(is_key)
    found = np.empty(len(both), np.int64)
    found[order] = before
    return found[len(keys) :]


RELATIONS: dict[str, Relation] = {
    ">": children,
    ">>": descendants,
    "<": parents,
    "<<": ancestors,
    "~": siblings,
}
REVERSED: dict[str, Relation] = {
    ">": parents,
    ">>": ancestors,
    "<": children,
    "<<": descendants,
    "~": siblings,
}
"""Relations that find the first side of the same pairs."""


def relate(tree: Tree, sets: Int64s, op: str, first: Flags, second: Flags) -> Flags:
    """Flag the spans that `first OP second` selects; `op` may begin with `!` or `&`."""
    plain = op.lstrip("!&")
    found = RELATIONS[plain](tree, sets, first, second)
    if op.startswith("!"):
        return second & ~found
    if op.startswith("&"):
        return found | REVERSED[plain](tree, sets, second, first)
    return found
