"""The larger and the smaller of two as Go's `math.Max` and `math.Min` have them.

An infinity that decides wins over NaN, any other NaN gives NaN, and -0 is below 0.

>>> larger(np.array([np.inf, 1.0, -0.0]), np.array([np.nan, np.nan, 0.0])).tolist()
[inf, nan, 0.0]
"""

from __future__ import annotations

import numpy as np

from resources.arrays import Doubles


def larger(one: Doubles, other: Doubles) -> Doubles:
    with np.errstate(invalid="ignore"):  # of sums that are not taken
        found: Doubles = np.where((one == 0) & (other == 0), one + other, np.maximum(one, other))
    return np.where((one == np.inf) | (other == np.inf), np.inf, found)


def smaller(one: Doubles, other: Doubles) -> Doubles:
    return -larger(-one, -other)
