"""The operators on floats, cell by cell, as IEEE 754 and Go's `math` have them.

Comparisons give the left side and say where it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from resources.arrays import Doubles, Flags

ARITHMETIC: Mapping[str, Callable[[Doubles, Doubles], Doubles]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": np.power,
    "atan2": np.arctan2,
}
COMPARISONS: Mapping[str, Callable[[Doubles, Doubles], Flags]] = {
    "==": np.equal,
    "!=": np.not_equal,
    ">": np.greater,
    "<": np.less,
    ">=": np.greater_equal,
    "<=": np.less_equal,
}
TRIMS = frozenset({"</", ">/"})
"""They cut histograms off at a float."""
SETS = frozenset({"and", "or", "unless"})


def of_scalars(op: str, left: Doubles, right: Doubles) -> Doubles:
    with np.errstate(all="ignore"):
        if op in ARITHMETIC:
            return ARITHMETIC[op](left, right)
        return COMPARISONS[op](left, right).astype(np.float64)
