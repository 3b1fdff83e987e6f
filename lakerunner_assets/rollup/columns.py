"""Names of the places in the arrays that rollup kernels fill: one array per column, one entry per bucket.

Kept apart from the kernels, whose compiled form is thrown away when their module changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from resources.arrays import Doubles, Int64s

NOTHING, REAL, STALE, HISTOGRAM, SUMMARY = range(5)
"""What a sample is."""
STALE_BITS = 0x7FF0000000000002

SUM, SUM_C, MIN, MAX, FIRST, LAST, PREV, RESET_SUM, M2 = range(9)
DOUBLES = 9
COUNT, FIRST_TS, LAST_TS, PREV_TS, RESETS, CHANGES, LAST_STALE, HIST_COUNT, SUMMARIES, TIMED = range(10)
NUMBERS = 10
"""TIMED: how many real samples of any kind, so whether there are times."""


class Buckets(NamedTuple):
    """The rows that count, in order, and where each bucket begins among them."""

    rows: Int64s
    starts: Int64s
    """One more than there are buckets."""
    ends_ms: Int64s
    """The label of each bucket."""
    repeated: int
    """A row whose series and time the row before it has as well, -1: none."""


class Statistics(NamedTuple):
    """Of each bucket; what an entry means where there are no samples is nobody's business."""

    doubles: Doubles
    numbers: Int64s


def statistics(buckets: int) -> Statistics:
    """Room for them; kernels write every entry."""
    return Statistics(np.empty((DOUBLES, buckets)), np.empty((NUMBERS, buckets), np.int64))
