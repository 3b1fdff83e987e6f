"""The bins of DDSketches: which one a value is in, their dense array, and ranks in it.

All sketches have one mapping: gamma = 1.01 / 0.99, and bin i holds gamma^(i-1) < |v| <= gamma^i. So the bins
of any sketch are slots of one array, in the order of their values:

    slot    0 … WIDTH - 1        WIDTH    WIDTH + 1 … SLOTS - 1
    bin     negative, index      zero     positive, index
            BOUND … -BOUND                -BOUND … BOUND
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np

from resources.arrays import Doubles, Int64s
from resources.kernel import Integer, inlined, scanner

GAMMA = 1.01 / 0.99
LOG_GAMMA = math.log(GAMMA)
SMALLEST = sys.float_info.min
"""Anything closer to zero counts as zero."""
LARGEST = sys.float_info.max
BOUND = 35_500
"""Doubles have the indices -35 418 to 35 488."""
WIDTH = 2 * BOUND + 1
SLOTS = 2 * WIDTH + 1

_GAPS = (44842, 19930, 8858, 3937, 1750, 701, 301, 132, 57, 23, 10, 4, 1)  # of Shell's sort


class Bins(NamedTuple):
    """What one group holds so far."""

    counts: Doubles
    """Per slot."""
    slots: Int64s
    """Those with a count: the first `held[0]`, sorted only after `sort_slots`."""
    held: Int64s


@inlined
def slot_of(value: float) -> Integer:
    """The slot of a finite value. The only place that computes an index."""
    size = abs(value)
    if size < SMALLEST:
        return WIDTH
    index = np.int64(math.ceil(math.log(size) / LOG_GAMMA))
    return WIDTH + 1 + BOUND + index if value > 0 else BOUND - index


@inlined
def value_of(slot: Integer) -> float:
    """Within 1 % of all values in the bin."""
    if slot == WIDTH:
        return 0.0
    index = slot - WIDTH - 1 - BOUND if slot > WIDTH else BOUND - slot
    # gamma^index itself is beyond the largest double in the last bin
    size = min(GAMMA ** np.float64(index - 1) * (2 * GAMMA / (1 + GAMMA)), LARGEST)
    return size if slot > WIDTH else -size


@inlined
def add(bins: Bins, slot: Integer, count: float) -> None:
    if count > 0:
        if bins.counts[np.uint64(slot)] == 0:
            bins.slots[np.uint64(bins.held[0])] = slot
            bins.held[0] += 1
        bins.counts[np.uint64(slot)] += count


@scanner
def clear(bins: Bins) -> None:
    for place in range(bins.held[0]):
        bins.counts[np.uint64(bins.slots[np.uint64(place)])] = 0
    bins.held[0] = 0


@scanner
def sort_slots(bins: Bins) -> None:
    """Shell's sort: most sketches have a few bins, and those of a stored one come in order."""
    slots, size = bins.slots, bins.held[0]
    for gap in _GAPS:
        for place in range(gap, size):
            slot = slots[np.uint64(place)]
            before: Integer = place - gap
            while before >= 0 and slots[np.uint64(before)] > slot:
                slots[np.uint64(before + gap)] = slots[np.uint64(before)]
                before -= gap
            slots[np.uint64(before + gap)] = slot


@scanner
def at_rank(bins: Bins, rank: float) -> float:
    """The value of the first bin that more than `rank` values lie in or below; bins are sorted."""
    passed = 0.0
    slot = np.int64(WIDTH)
    for place in range(bins.held[0]):
        slot = bins.slots[np.uint64(place)]
        passed += bins.counts[np.uint64(slot)]
        if passed > rank:
            break
    return value_of(slot)
