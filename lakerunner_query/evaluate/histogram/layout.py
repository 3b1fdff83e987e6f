"""Buckets put on a common layout.

schema 1: [1:3, 2:1, 3:5]   as schema 0: [1:4, 2:5]
bounds [1, 2, 3]: [2, 3, 4, 1]   as bounds [2]: [5, 5]
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.evaluate.histogram.bounds import exponential_bounds
from lakerunner_query.evaluate.histogram.model import NO_BUCKETS, Buckets
from resources.arrays import Doubles, Int64s


def coarser_index(index: Int64s, schema: int, target: int) -> Int64s:
    """The buckets of schema `target` that hold these ones."""
    return ((index - 1) >> (schema - target)) + 1


def reduced(buckets: Buckets, schema: int, target: int) -> Buckets:
    """The same observations in fewer buckets."""
    if schema == target or not buckets.size:
        return buckets
    wide = coarser_index(buckets.index, schema, target)
    starts = np.flatnonzero(np.concatenate(([True], wide[1:] != wide[:-1])))
    return Buckets(wide[starts], np.add.reduceat(buckets.count, starts))


def beyond(buckets: Buckets, schema: int, threshold: float) -> Buckets:
    """Without the buckets that end within the zero bucket."""
    if threshold == 0 or not buckets.size:
        return buckets
    keep = exponential_bounds(buckets.index, schema) > threshold
    return buckets if bool(keep.all()) else Buckets(buckets.index[keep], buckets.count[keep])


def on_index(buckets: Buckets, index: Int64s) -> Doubles:
    """The counts at these places, which include all of the buckets'."""
    found = np.zeros(len(index))
    found[np.searchsorted(index, buckets.index)] = buckets.count
    return found


def joint_index(first: Buckets, second: Buckets) -> Int64s:
    """All places that either has."""
    if first.size == second.size and bool((first.index == second.index).all()):
        return first.index
    return np.union1d(first.index, second.index)


def added(first: Buckets, second: Buckets, sign: float = 1.0) -> Buckets:
    """`first + sign * second`; a place that only one has is kept even if it counts zero."""
    if not second.size:
        return first
    index = joint_index(first, second)
    with np.errstate(all="ignore"):
        return Buckets(index, on_index(first, index) + sign * on_index(second, index))


def common_bounds(first: tuple[float, ...], second: tuple[float, ...]) -> tuple[float, ...]:
    """Bounds that both have.

    >>> common_bounds((2.0, 4.0, 6.0), (1.0, 2.0, 6.0))
    (2.0, 6.0)
    """
    known = set(second)
    return tuple(bound for bound in first if bound in known)


def place_in(index: Int64s, bounds: tuple[float, ...], target: tuple[float, ...]) -> Int64s:
    """The buckets of `target` that hold these of `bounds`; all bounds of `target` are among `bounds`."""
    upper = np.array((*bounds, np.inf))[np.minimum(index, len(bounds))]
    return np.searchsorted(np.array(target), upper, side="left").astype(np.int64)


def mapped(buckets: Buckets, bounds: tuple[float, ...], target: tuple[float, ...]) -> Doubles:
    """The counts of all buckets that `target` makes, the one to infinity last."""
    found = np.zeros(len(target) + 1)
    np.add.at(found, place_in(buckets.index, bounds, target), buckets.count)
    return found


def sparse(counts: Doubles) -> Buckets:
    """The buckets that count something, of all from index 0 on."""
    index = np.flatnonzero(counts != 0)
    return Buckets(index, counts[index]) if len(index) else NO_BUCKETS
