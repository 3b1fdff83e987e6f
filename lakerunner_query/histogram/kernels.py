"""By how much the growth of each of many windows is drawn out to the window's edges."""

from __future__ import annotations

import numpy as np

from lakerunner_query.windows.edge_kernels import extrapolation_factor
from resources.arrays import Doubles, Flags, Int64s
from resources.kernel import kernel

# << Where counters of histograms fall, told from rows of numbers (`sheets.py`).

_SUM = 1


@kernel
def any_fell(numbers: Doubles) -> Flags:
    """By row but the first: whether a count is below that of the row before; sums may be."""
    found = np.zeros(max(len(numbers) - 1, 0), np.bool_)
    for row in range(len(found)):
        for column in range(numbers.shape[1]):
            if column != _SUM and numbers[row + 1, column] < numbers[row, column]:
                found[row] = True
                break
    return found


@kernel
def factors(
    first_ts: Int64s,
    last_ts: Int64s,
    counted: Int64s,
    ends: Int64s,
    width: int,
    is_counter: bool,
    first: Doubles,
    growth: Doubles,
) -> Doubles:
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
