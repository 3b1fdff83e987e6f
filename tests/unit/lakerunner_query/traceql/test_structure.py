"""Structural operators on random forests, against walks along parents."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.traceql.structure import relate
from lakerunner_query.traceql.tree import Tree, build_tree
from resources.arrays import Flags

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=4)
OPERATORS = [prefix + op for prefix in ("", "!", "&") for op in (">", ">>", "<", "<<", "~")]


def forest(sizes: list[int], choices: list[int]) -> tuple[Tree, list[int]]:
    """Traces of these sizes; a span's parent is any other span of its trace, none, or one that never came."""
    starts = np.concatenate(([0], np.cumsum(sizes)))
    ids, parent_ids, parents = [], [], []
    picks = iter(choices * 10)
    for begin, size in zip(starts[:-1].tolist(), sizes, strict=True):
        for place in range(size):
            choice = next(picks) % (size + 2)
            ids.append(place + 1)
            above = 0 if place == 0 or choice == size else 99 if choice == size + 1 else choice + 1
            above = 0 if above == place + 1 else above
            parent_ids.append(above)
            parents.append(begin + above - 1 if 0 < above < 99 else -1)
    ids_, above_ = np.array(ids, np.uint64), np.array(parent_ids, np.uint64)
    return build_tree(starts, ids_, above_, above_ == 0, np.ones(len(ids), np.int8)), parents


def ancestors_of(row: int, parents: list[int], roots: set[int]) -> list[int] | None:
    """Rows above a row, nearest first; None where no root is above it."""
    found: list[int] = []
    while row not in roots:
        row = parents[row]
        if row < 0 or row in found:
            return None
        found.append(row)
    return found


@pytest.mark.parametrize("op", OPERATORS)
@given(
    sizes=SIZES, choices=st.lists(st.integers(0, 30), min_size=40, max_size=40), seed=st.integers(0, 2**32)
)
def test_relations_are_those_of_walks(op: str, sizes: list[int], choices: list[int], seed: int) -> None:
    tree, parents = forest(sizes, choices)
    size = len(parents)
    rng = np.random.default_rng(seed)
    first, second = rng.random(size) < 0.5, rng.random(size) < 0.5
    sets = np.repeat(np.arange(len(sizes)), sizes)
    above = [ancestors_of(row, parents, set(np.flatnonzero(tree.is_root).tolist())) for row in range(size)]

    def related(left: int, right: int, plain: str) -> bool:
        if above[left] is None or above[right] is None:
            return False
        chains = above[left] or [], above[right] or []
        match plain:
            case ">":
                return chains[1][:1] == [left]
            case ">>":
                return left in chains[1]
            case "<":
                return chains[0][:1] == [right]
            case "<<":
                return right in chains[0]
        return left != right and bool(chains[0]) and chains[0][:1] == chains[1][:1]

    plain = op.lstrip("!&")
    pairs = [
        (left, right) for left in np.flatnonzero(first).tolist() for right in np.flatnonzero(second).tolist()
        if related(left, right, plain)
    ]  # fmt: skip
    rights, lefts = {right for _, right in pairs}, {left for left, _ in pairs}
    expected = {
        "": rights, "!": set(np.flatnonzero(second).tolist()) - rights, "&": rights | lefts,
    }[op.removesuffix(plain)]  # fmt: skip
    found: Flags = relate(tree, sets, op, first, second)
    assert set(np.flatnonzero(found).tolist()) == expected


def test_a_long_chain_is_numbered() -> None:
    size = 100_000
    ids = np.arange(1, size + 1).astype(np.uint64)
    above = ids - np.uint64(1)
    tree = build_tree(np.array([0, size]), ids, above, above == 0, np.ones(size, np.int8))
    assert (tree.left[0], tree.right[0], tree.left[-1]) == (1, 2 * size, size)


def test_equal_ids_cost_no_more_than_others() -> None:
    size = 100_000
    ids = np.full(size, 7, np.uint64)
    above = np.where(np.arange(size) == 0, 0, 7).astype(np.uint64)
    tree = build_tree(np.array([0, size]), ids, above, above == 0, np.ones(size, np.int8))
    assert (tree.parents[1:] == 0).sum() >= size - 2


def test_what_names_a_shared_id_is_below_the_server() -> None:
    ids = np.array([1, 2, 2, 3], np.uint64)
    above = np.array([0, 1, 1, 2], np.uint64)
    tree = build_tree(np.array([0, 4]), ids, above, above == 0, np.array([2, 3, 2, 1], np.int8))
    assert tree.parents.tolist() == [-1, 0, 0, 2]
    assert tree.parent_numbers().tolist() == [-1, 1, 1, 4]
