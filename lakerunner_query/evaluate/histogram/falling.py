"""Where counters of histograms fall, told from rows of numbers (`sheets.py`)."""

from __future__ import annotations

import numpy as np

from resources.arrays import Doubles, Flags
from resources.kernel import kernel

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
