"""Kernels of DDSketches for readers: what belongs to a group, and its quantiles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from resources.arrays import Bytes, Doubles, Int64s
from resources.kernel import Integer, kernel, scanner
from resources.lake.ddsketch_bins import Bins, add, at_rank, clear, slot_of, sort_slots
from resources.lake.ddsketch_wire import read_sketch


class Given(NamedTuple):
    """Sketches and weighted values; both in the order of their groups."""

    data: Bytes
    ends: Int64s
    """Sketch n is `data[ends[n]:ends[n + 1]]`."""
    group_of_sketch: Int64s
    values: Doubles
    weights: Doubles
    group_of_value: Int64s


@scanner
def gather(given: Given, group: Integer, cursor: Int64s, bins: Bins) -> Integer:
    """Add everything of a group, from `cursor` (next sketch, next value) on, which is moved behind it.

    How many sketches and finite values of weight it was, or the fault of the sketch where the cursor is then.
    """
    found = np.int64(0)
    sketch, sketches = cursor[0], len(given.group_of_sketch)
    while sketch < sketches and given.group_of_sketch[np.uint64(sketch)] == group:
        after = read_sketch(
            given.data, given.ends[np.uint64(sketch)], given.ends[np.uint64(sketch + 1)], bins
        )
        if after < 0:
            cursor[0] = sketch
            return after
        sketch += 1
        found += 1
    value, values = cursor[1], len(given.group_of_value)
    while value < values and given.group_of_value[np.uint64(value)] == group:
        number, weight = given.values[np.uint64(value)], given.weights[np.uint64(value)]
        if np.isfinite(number) and weight > 0:
            add(bins, slot_of(number), weight)
            found += 1
        value += 1
    cursor[0], cursor[1] = sketch, value
    return found


@kernel
def quantiles_of_groups(
    given: Given, groups: int, shares: Doubles, bins: Bins, cursor: Int64s, found: Doubles
) -> Integer:
    """Fill a row of `found` per group, which stays as it is for one without values; negative is a fault."""
    for group in range(groups):
        outcome = gather(given, group, cursor, bins)
        if outcome < 0:
            return outcome
        sort_slots(bins)
        total = 0.0
        for place in range(bins.held[0]):
            total += bins.counts[np.uint64(bins.slots[np.uint64(place)])]
        if total > 0:
            for column in range(len(shares)):
                found[group, column] = at_rank(bins, np.floor(shares[column] * (total - 1)))
        clear(bins)
    return np.int64(0)
