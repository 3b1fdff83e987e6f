"""Kernels of traces against NumPy: `python -m benchmarks.kernels.traces`.

Each line is the best of five rounds on one core, in processor time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from lakerunner_query.traceql.tree_kernels import NONE, link_parents, number_spans
from resources.arrays import Int64s, UInt64s

SPANS, ROUNDS = 200_000, 5
Case = tuple[str, Callable[[], object], Callable[[], object]]
"""Name, ours, NumPy."""


def forest(width: int, *, is_chain: bool) -> tuple[Int64s, UInt64s, UInt64s]:
    """Return traces of `width` spans: chains, or trees in which any earlier span may be the parent."""
    rng = np.random.default_rng(1)
    starts = np.arange(0, SPANS + 1, width)
    ids = rng.integers(1, 2**63, SPANS).astype(np.uint64)
    place = np.arange(SPANS) % width
    above = place - 1 if is_chain else (rng.random(SPANS) * place).astype(np.int64)
    parents = np.where(place == 0, 0, ids[np.arange(SPANS) - place + above])
    return starts, ids, parents.astype(np.uint64)


def link_by_sorting(starts: Int64s, ids: UInt64s, parent_ids: UInt64s) -> Int64s:
    """Join ids and ids of parents within traces by one sort of both."""
    traces = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    both, of = np.concatenate([ids, parent_ids]), np.concatenate([traces, traces])
    is_wish = np.arange(len(both)) >= len(ids)
    order = np.lexsort((is_wish, both, of))
    known = np.where(is_wish[order], -1, order)
    last = np.maximum.accumulate(np.where(known >= 0, np.arange(len(order)), -1))
    found = np.full(len(both), NONE)
    nearest = order[np.maximum(last, 0)]
    fits = (both[nearest] == both[order]) & (of[nearest] == of[order]) & (last >= 0)
    found[order] = np.where(fits, nearest, NONE)
    return found[len(ids) :]


def number_by_levels(parents: Int64s) -> tuple[Int64s, Int64s]:
    """Number spans level by level: sizes of subtrees from the leaves up, places from the roots down."""
    depth, level = np.zeros(len(parents), np.int64), parents.copy()
    while (level != NONE).any():
        depth += level != NONE
        level = np.where(level == NONE, NONE, parents[level])
    sizes = np.ones(len(parents), np.int64)
    for at in range(int(depth.max()), 0, -1):
        rows = np.flatnonzero(depth == at)
        np.add.at(sizes, parents[rows], sizes[rows])
    left = np.ones(len(parents), np.int64)
    for at in range(1, int(depth.max()) + 1):
        rows = np.flatnonzero(depth == at)
        rows = rows[np.argsort(parents[rows], kind="stable")]
        widths = 2 * sizes[rows]
        before = np.cumsum(widths) - widths
        first = np.searchsorted(parents[rows], parents[rows])
        left[rows] = left[parents[rows]] + 1 + before - before[first]
    return left, left + 2 * sizes - 1


def cases() -> Iterator[Case]:
    for name, width, is_chain in (("trees of 20", 20, False), ("chains of 1,000", 1000, True)):
        starts, ids, parent_ids = forest(width, is_chain=is_chain)
        is_root, kinds = parent_ids == 0, np.ones(SPANS, np.int8)
        parents, left, right = (np.empty(SPANS, np.int64) for _ in range(3))
        link = partial(link_parents, starts, ids, parent_ids, is_root, kinds, parents)
        link()
        assert (parents[~is_root] == link_by_sorting(starts, ids, parent_ids)[~is_root]).all()
        number = partial(number_spans, parents, np.flatnonzero(is_root), starts, left, right)
        number()
        assert (number_by_levels(parents)[0] == left).all()
        yield f"link_parents, {name}", link, partial(link_by_sorting, starts, ids, parent_ids)
        yield f"number_spans, {name}", number, partial(number_by_levels, parents)


def best(work: Callable[[], object]) -> float:
    """Return milliseconds of the fastest round."""
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return 1000 * min(found)


def main() -> None:
    for name, ours, library in cases():
        mine, theirs = best(ours), best(library)
        print(f"{name:32} {mine:8.2f} ms   NumPy {theirs:8.2f} ms   {theirs / mine:5.1f}x")


if __name__ == "__main__":
    main()
