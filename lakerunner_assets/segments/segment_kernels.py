"""Kernels of the segment writers: sorting, facts about each series, and values as scaled integers.

`python -m benchmarks.kernels.segments`, 200,000 rows: sorting by two keys 5.8 ms (`numpy.lexsort` 31 ms),
digits 2.9 ms (NumPy, a pass per digit, 10 ms), scaling 0.7 ms (1.6 ms), facts 0.4 ms (Arrow's `group_by` 7.3
ms), the check of an order 0.12 ms (0.21 ms).
"""

from __future__ import annotations

import numpy as np

from resources.arrays import Doubles, Flags, Int32s, Int64s, UInt64s
from resources.kernel import Integer, inlined, kernel

ROWS, TID, NAME, FIRST_MS, LAST_MS, MIN_NS, MAX_NS, ODD_ROW = range(8)
SERIES_WIDTH = 8

_LOST = 32
"""Unscalable values at the start of a series after which the rest is not tried."""
_LARGEST = 2.0**53
_FARTHEST = 1 << 60
_MINUS_ZERO = np.uint64(1 << 63)


@kernel
def series_facts(
    codes: Int32s, tids: Int64s, names: Int32s, times_ms: Int64s, times_ns: Int64s, count: int
) -> Int64s:
    """Return a row per code: rows, id, name, time bounds, and a contradicting row or -1."""
    facts = np.zeros((count, SERIES_WIDTH), np.int64)
    facts[:, ODD_ROW] = -1
    for row in range(len(codes)):
        fact = facts[np.uint64(codes[row])]
        ms, ns = times_ms[row], times_ns[row]
        if fact[ROWS] == 0:
            fact[TID], fact[NAME] = tids[row], names[row]
            fact[FIRST_MS] = fact[LAST_MS] = ms
            fact[MIN_NS] = fact[MAX_NS] = ns
        elif fact[TID] != tids[row] or fact[NAME] != names[row]:
            fact[ODD_ROW] = row
        fact[ROWS] += 1
        fact[FIRST_MS], fact[LAST_MS] = min(fact[FIRST_MS], ms), max(fact[LAST_MS], ms)
        fact[MIN_NS], fact[MAX_NS] = min(fact[MIN_NS], ns), max(fact[MAX_NS], ns)
    return facts


@inlined
def is_lossless(value: float, bits: np.uint64, power: float) -> bool:
    """Tell if rounding value * power and dividing by power gives the same double."""
    number = np.rint(value * power)
    held = abs(number) <= _LARGEST and np.float64(np.int64(number)) / power == value
    return bool(held and bits != _MINUS_ZERO)


@kernel
def needed_digits(
    values: Doubles, missing: Flags, codes: Int32s, order: Int64s, count: int, powers: Doubles
) -> Int64s:
    """Count per series the values that need 0, 1, … digits after the point.

    The last column counts values that cannot be scaled.
    """
    unscalable = len(powers)
    bits = values.view(np.uint64)
    found = np.zeros((count, unscalable + 1), np.int64)
    for row in order:
        if missing[row]:
            continue
        series = found[np.uint64(codes[row])]
        digits: Integer = 0
        if series[unscalable] >= _LOST and series[:unscalable].sum() == 0:
            digits = unscalable
        while digits < unscalable and not is_lossless(values[row], bits[row], powers[digits]):
            digits += 1
        series[digits] += 1
    return found


@kernel
def scale(
    values: Doubles,
    missing: Flags,
    codes: Int32s,
    order: Int64s,
    digits: Int64s,
    powers: Doubles,
    joined: bool,
    base: Int64s,
    started: Flags,
    previous: int,
) -> tuple[Int64s, Flags, int]:
    """Scale values; return them, the rows that have none, and the last one. Rows are taken in `order`.

    `digits` per series, -1 for one that is not scaled. `joined`: whether a series gets a base at all. `base`
    of each series is filled in where it is not `started`; `previous`: the scaled value before the first.
    """
    bits = values.view(np.uint64)
    scaled = np.zeros(len(values), np.int64)
    unscaled = np.ones(len(values), np.bool_)
    for row in order:
        code = np.uint64(codes[row])
        places = digits[code]
        if missing[row] or places < 0 or not is_lossless(values[row], bits[row], powers[np.uint64(places)]):
            continue
        number = np.int64(np.rint(values[row] * powers[np.uint64(places)]))
        if not started[code]:
            started[code] = True
            if joined and abs(previous) < _FARTHEST:
                base[code] = number - previous
        previous = number - base[code]
        scaled[row] = previous
        unscaled[row] = False
    return scaled, unscaled, previous


_DIGIT_BITS = 11


@kernel
def is_ordered(major: Int64s, minor: Int64s) -> bool:
    for row in range(1, len(major)):
        if major[row] < major[row - 1] or (major[row] == major[row - 1] and minor[row] < minor[row - 1]):
            return False
    return True


@kernel
def radix_sorted(order: Int64s, key: UInt64s) -> Int64s:
    """Sort `order` stably by `key[order]`; digits that are zero everywhere cost nothing."""
    highest = np.uint64(0)
    for value in key:
        highest = max(highest, value)
    digit_mask = np.uint64((1 << _DIGIT_BITS) - 1)
    shift = np.uint64(0)
    spare = np.empty_like(order)
    while shift < 64 and (highest >> shift) > 0:
        starts = np.zeros((1 << _DIGIT_BITS) + 1, np.int64)
        for value in key:
            starts[np.int64((value >> shift) & digit_mask) + 1] += 1
        for lower in range(1 << _DIGIT_BITS):
            starts[lower + 1] += starts[lower]
        for row in order:
            digit = np.int64((key[row] >> shift) & digit_mask)
            spare[starts[digit]] = row
            starts[digit] += 1
        order, spare = spare, order.copy() if shift == 0 else order
        shift += np.uint64(_DIGIT_BITS)
    return order
