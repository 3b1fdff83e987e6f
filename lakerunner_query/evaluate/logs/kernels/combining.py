"""Numbers the combinations of codes that occur: two columns at a time.

0 0 1  with  5 5 5  ->  0 0 1;   first rows 0 and 2
"""

from __future__ import annotations

import numpy as np

from resources.arrays import Int32s, Int64s
from resources.kernel import Integer, kernel

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@kernel
def combine(left: Int32s, right: Int32s, left_count: Integer) -> tuple[Int32s, Int64s]:
    """Numbers of pairs in order of first appearance, and the row of each first appearance.

    `left` has values below `left_count`, `right` any from -1 on.
    """
    codes = np.empty(len(left), np.int32)
    capacity = np.int64(1024)
    while capacity < 4 * left_count:
        capacity *= 2
    table = np.full(capacity, -1, np.int32)
    first = np.empty(capacity // 2, np.int64)
    known = 0
    for row in range(len(left)):
        if row and left[row] == left[row - 1] and right[row] == right[row - 1]:
            codes[row] = codes[row - 1]
            continue
        mask = np.uint64(capacity - 1)
        slot = _hash(left[row], right[row]) & mask
        code = table[np.int64(slot)]
        while code >= 0 and (left[first[code]] != left[row] or right[first[code]] != right[row]):
            slot = (slot + np.uint64(1)) & mask
            code = table[np.int64(slot)]
        if code < 0:
            if known == len(first):
                capacity *= 4
                table = np.full(capacity, -1, np.int32)
                first = np.concatenate((first, np.empty(capacity // 2 - known, np.int64)))
                mask = np.uint64(capacity - 1)
                for other in range(known):
                    slot = _hash(left[first[other]], right[first[other]]) & mask
                    while table[np.int64(slot)] >= 0:
                        slot = (slot + np.uint64(1)) & mask
                    table[np.int64(slot)] = other
                slot = _hash(left[row], right[row]) & mask
                while table[np.int64(slot)] >= 0:
                    slot = (slot + np.uint64(1)) & mask
            code = np.int32(known)
            table[np.int64(slot)] = code
            first[known] = row
            known += 1
        codes[row] = code
    return codes, first[:known].copy()


@kernel
def _hash(left: Integer, right: Integer) -> np.uint64:
    value = (np.uint64(left) << np.uint64(32) | np.uint64(right + 1)) * _MULTIPLIER
    return value ^ (value >> np.uint64(29))
