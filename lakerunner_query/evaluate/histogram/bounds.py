"""Where buckets end.

schema 1, index 3:  2^(3 / 2) = 2.83          custom bounds [5, 10], index 2:  +Inf
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.evaluate.histogram.model import HIGHEST, Histogram
from resources.arrays import Doubles, Int64s

_PARTS = 1 << HIGHEST
_FRACTIONS = np.exp2(np.arange(_PARTS) / _PARTS - 1)
"""2^(i / 256 - 1), so that one exact power of two gives the bound."""
_LAST = 1024
"""The bucket that would end at 2^1024 ends at the largest number there is; the next one at infinity."""


def exponential_bounds(index: Int64s, schema: int) -> Doubles:
    """The distance from zero at which each bucket ends.

    >>> exponential_bounds(np.array([-1, 0, 2]), 0).tolist()
    [0.5, 1.0, 4.0]
    """
    if schema < 0:
        powers, is_last = index << -schema, (index << -schema) == _LAST
        fractions: Doubles = np.ones(len(index))
    else:
        part = (index & ((1 << schema) - 1)) << (HIGHEST - schema)
        fractions, powers = _FRACTIONS[part], (index >> schema) + 1
        is_last = (part == 0) & (powers == _LAST + 1)
    with np.errstate(over="ignore", under="ignore"):
        found = np.ldexp(fractions, np.clip(powers, -2000, 2000).astype(np.int32))
    return np.where(is_last, np.finfo(np.float64).max, found)


def custom_bounds(index: Int64s, bounds: tuple[float, ...]) -> Doubles:
    """The upper bound of each custom bucket; index -1 is where the first one begins."""
    framed = np.array((-np.inf, *bounds, np.inf))
    found: Doubles = framed[np.clip(index + 1, 0, len(framed) - 1)]
    return found


def ends(histogram: Histogram, index: Int64s) -> Doubles:
    """Where the buckets of either side end, as distance from zero (custom: as they are)."""
    if histogram.is_custom:
        return custom_bounds(index, histogram.bounds)
    return exponential_bounds(index, histogram.schema)
