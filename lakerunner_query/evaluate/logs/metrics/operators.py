"""LogQL's operators on numbers: as Go has them, but that nothing can be divided by zero.

>>> combined("/", np.array([1.0, 6.0]), np.array([0.0, 2.0]), return_bool=False).values.tolist()
[nan, 3.0]
>>> combined(">", np.array([1.0, 6.0]), np.array([2.0, 2.0]), return_bool=False).kept.tolist()
[False, True]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakerunner_query.evaluate.operators import ARITHMETIC, COMPARISONS
from resources.arrays import Doubles, Flags

SETS = frozenset({"and", "or", "unless"})
DIVISIONS = frozenset({"/", "%"})


@dataclass(frozen=True, slots=True)
class Combined:
    values: Doubles
    kept: Flags
    """What a comparison lets through, and all that anything else gives."""


def combined(op: str, left: Doubles, right: Doubles, *, return_bool: bool) -> Combined:
    """A comparison gives the left side where it holds, with `bool` 1 where it does and 0 elsewhere."""
    left, right = np.broadcast_arrays(left, right)
    with np.errstate(all="ignore"):
        if op in COMPARISONS:
            holds = COMPARISONS[op](left, right)
            return (
                Combined(holds.astype(np.float64), np.ones_like(holds))
                if return_bool
                else Combined(left, holds)
            )
        values = ARITHMETIC[op](left, right)
    if op in DIVISIONS:
        values = np.where(right == 0, np.nan, values)
    return Combined(values, np.ones(values.shape, np.bool_))
