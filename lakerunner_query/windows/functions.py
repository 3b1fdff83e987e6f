"""Range functions, and the constants that their kernels share.

Pure constants: every kernel module may import this one, and an edit here recompiles all window kernels.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

STALE_BITS = 0x7FF0000000000002
"""The NaN that says "this series ended"; no other NaN does."""

ABSENT, PRESENT, IS_SUM, UNSURE = 0, 1, 2, 3
"""State of a window; `IS_SUM`: all samples are deltas, so the answer is their sum."""

CUMULATIVE, IS_DELTA, MIXED = 0, 1, 2
"""Temporality of a run of samples."""


class Function(IntEnum):
    """Every function that rollups answer exactly; numbers, because kernels compare them."""

    INSTANT = 0
    """The instant selector: the range of its grid is the look-back."""
    TIMESTAMP = 1
    """The time of the instant selector's sample, in seconds."""
    FIRST = 2
    LAST = 3
    COUNT = 4
    PRESENT = 5
    MIN = 6
    MAX = 7
    SUM = 8
    AVG = 9
    STDDEV = 10
    STDVAR = 11
    RATE = 12
    INCREASE = 13
    DELTA = 14
    RESETS = 15
    CHANGES = 16
    IRATE = 17
    IDELTA = 18


BY_SELECTOR = frozenset({Function.INSTANT, Function.TIMESTAMP})
BY_EXTREME = frozenset({Function.MIN, Function.MAX})
BY_SUM = frozenset({Function.SUM, Function.AVG, Function.STDDEV, Function.STDVAR})
BY_GROWTH = frozenset({Function.RATE, Function.INCREASE, Function.DELTA})


class Windows(NamedTuple):
    """A grid's windows as plain numbers, in the unit of the times."""

    first_end: int
    step: int
    steps: int
    range: int
