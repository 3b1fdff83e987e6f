"""Doubles are summed exactly, so that their order does not show.

`np.add.reduceat` rounds after each: what was derived at once and what was derived in parts would differ in
the last digit. `math.fsum` gives the same sums for about 100 ns a value; this kernel takes some 10.
"""

from __future__ import annotations

import math

import numpy as np

from resources.arrays import Doubles, Int64s
from resources.kernel import kernel

MOST_PARTIALS = 48
"""Doubles that do not overlap fit this often between the least and the greatest exponent."""
HUGE = 1e290
"""Absolute value beyond which a sum could overflow."""


@kernel
def sum_exactly(values: Doubles, starts: Int64s, sums: Doubles, rests: Doubles) -> None:
    """Write the rounded sum of each run and what rounding took, which is NaN where no double holds it.

    Run n is `values[starts[n]:starts[n + 1]]`. Values that are not finite or huge are summed as they stand.
    """
    partials = np.zeros(MOST_PARTIALS)
    for run in range(len(starts) - 1):
        count, plain, is_exact = 0, 0.0, True
        for place in range(starts[run], starts[run + 1]):
            value = values[place]
            plain += value
            if not -HUGE < value < HUGE:
                is_exact = False
            if not is_exact:
                continue
            used = 0
            for at in range(count):
                other = partials[at]
                if abs(value) < abs(other):
                    value, other = other, value
                high = value + other
                low = other - (high - value)
                if low != 0.0:
                    partials[used] = low
                    used += 1
                value = high
            partials[used] = value
            count = min(used + 1, MOST_PARTIALS - 1)
        if not is_exact:
            sums[run], rests[run] = plain, math.nan
            continue
        _round(partials, count, sums, rests, run)


@kernel
def _round(partials: Doubles, count: int, sums: Doubles, rests: Doubles, run: int) -> None:
    """Round partials that do not overlap, which are ordered by size, half to even."""
    high, low, at = 0.0, 0.0, count
    while at > 0:
        at -= 1
        value = high
        high = value + partials[at]
        low = partials[at] - (high - value)
        if low != 0.0:
            break
    if at > 0 and ((low < 0.0 and partials[at - 1] < 0.0) or (low > 0.0 and partials[at - 1] > 0.0)):
        twice = low * 2.0
        rounded = high + twice
        if twice == rounded - high:
            high, low = rounded, -low
    rest = low
    for below in range(at - 1, -1, -1):
        if partials[below] != 0.0:
            total = rest + partials[below]
            left = partials[below] - (total - rest) if abs(rest) >= abs(partials[below]) else math.nan
            rest = total if left == 0.0 else math.nan
    sums[run], rests[run] = high + 0.0, rest
