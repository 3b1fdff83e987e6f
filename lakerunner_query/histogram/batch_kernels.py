"""Kernels over rows of numbers: drops of counters, extrapolation factors, and the buckets of quantiles.

`python -m benchmarks.kernels.windows` against NumPy on whole columns: drops 4.7 times as fast, factors 4.0,
quantiles of 1,000 histograms of 40 buckets 2.7 times.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.windows.edge_kernels import extrapolation_factor
from resources.arrays import Doubles, Flags, Int8s, Int64s
from resources.kernel import kernel

SUM = 1
"""Place of the sum in a row."""
AS_IT_IS, LINEAR, EXPONENTIAL = range(3)
"""Interpolation within a bucket."""


@kernel
def find_drops(numbers: Doubles) -> Flags:
    """Flag rows but the first in which a count is below that of the row before; sums may be."""
    found = np.zeros(max(len(numbers) - 1, 0), np.bool_)
    for row in range(len(found)):
        for column in range(numbers.shape[1]):
            if column != SUM and numbers[row + 1, column] < numbers[row, column]:
                found[row] = True
                break
    return found


@kernel
def extrapolation_factors(
    first_ts: Int64s,
    last_ts: Int64s,
    counted: Int64s,
    ends: Int64s,
    width: int,
    is_counter: bool,
    first: Doubles,
    growth: Doubles,
) -> Doubles:
    """Return the extrapolation factor of each window."""
    found = np.zeros(len(first_ts))
    for window in range(len(first_ts)):
        found[window] = extrapolation_factor(
            first_ts[window],
            last_ts[window],
            counted[window],
            ends[window],
            width,
            is_counter,
            first[window],
            growth[window],
        )
    return found


@kernel
def find_buckets(
    quantiles: Doubles,
    totals: Doubles,
    offsets: Int64s,
    lower: Doubles,
    upper: Doubles,
    counts: Doubles,
    found: Doubles,
    kinds: Int8s,
) -> None:
    """Fill by histogram the bucket of its quantile, how far into it that lies, and how to interpolate."""
    for one in range(len(kinds)):
        count, threshold, zeros = totals[one, 0], totals[one, 1], totals[one, 2]
        begin, end = offsets[one], offsets[one + 1]
        upwards = quantiles[one] < 0.5
        rank = (quantiles[one] if upwards else 1 - quantiles[one]) * count
        places = end - begin + (1 if zeros > 0 else 0)
        zero_at = -1 if zeros <= 0 else (0 if upwards else places - 1)
        low = high = inside = reached = 0.0
        for place in range(places):
            if place == zero_at:
                low, high, inside = -threshold, threshold, zeros
            else:
                row = begin + place - (1 if zero_at == 0 else 0) if upwards else end - 1 - place
                low, high, inside = lower[row], upper[row], counts[row]
                if 0 < low < threshold:
                    low = threshold
            if inside == 0:
                continue
            reached += inside
            if reached >= rank:
                break
        if low < 0 < high and end > begin:
            low = 0.0
        counted = min(reached, count)
        found[one, 0], found[one, 1], found[one, 2] = low, high, 0.0
        if counted < rank:
            kinds[one] = AS_IT_IS
            continue
        into = rank - (counted - inside) if upwards else counted - rank
        found[one, 2] = into / inside if inside else np.nan
        kinds[one] = LINEAR if low <= 0 <= high else EXPONENTIAL
