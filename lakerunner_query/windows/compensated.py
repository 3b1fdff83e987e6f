"""Sums that keep what rounding loses: Kahan's, improved by Neumaier, with Prometheus' rule for infinity."""

from __future__ import annotations

import numpy as np

from resources.kernel import inlined


@inlined
def add(number: float, total: float, lost: float) -> tuple[float, float]:
    """The new total, and what all additions so far lost; an infinite total has lost nothing."""
    after = total + number
    if np.isinf(after):
        lost = 0.0
    elif abs(total) >= abs(number):
        lost += (total - after) + number
    else:
        lost += (number - after) + total
    return after, lost
