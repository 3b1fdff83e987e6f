"""Places of rows that lie in runs."""

from __future__ import annotations

import numpy as np

from resources.arrays import Int64s


def ranges(begin: Int64s, sizes: Int64s) -> Int64s:
    """All places of all runs, end to end.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    found: Int64s = np.arange(total) + np.repeat(begin - (ends - sizes), sizes)
    return found
