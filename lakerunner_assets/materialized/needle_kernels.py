"""Many texts are looked for in lines at once.

`python -m benchmarks.rules`: 21 texts in a million lines take a third of the CPU that they take one after the
other; 100 rules take 1.2 s instead of 1.6 s.
"""

from __future__ import annotations

import numpy as np

from resources.arrays import Bytes, Flags, Int16s, Int32s, Int64s
from resources.kernel import Integer, inlined, kernel

SLOTS = 4096
"""Slots of pairs of bytes; texts whose pairs share a slot are compared one after the other."""


@kernel
def mark_needles(
    data: Bytes,
    offsets: Int32s,
    needles: Bytes,
    starts: Int64s,
    anchors: Int64s,
    window: int,
    skips: Bytes,
    heads: Int16s,
    following: Int64s,
    found: Flags,
) -> None:
    """Flag lines by needle: each is looked for where the last pair of a window of it stands.

    Needle n is `needles[starts[n]:starts[n + 1]]`, the last pair of its window begins at `anchors[n]` within.
    `skips` has for each slot how far behind a pair the next window may end; where it may end here, `heads`
    has the first needle of the slot and `following` the next one, or -1.
    """
    for row in range(len(offsets) - 1):
        begin, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        at = begin + window - 2
        while at < end - 1:
            first, second = np.uint64(data[np.uint64(at)]), np.uint64(data[np.uint64(at + 1)])
            slot = ((first << np.uint64(4)) ^ second) & np.uint64(SLOTS - 1)
            skip = np.int64(skips[slot])
            if skip:
                at += skip
                continue
            needle = np.int64(heads[slot])
            while needle >= 0:
                start, behind = starts[np.uint64(needle)], starts[np.uint64(needle + 1)]
                place = at - anchors[np.uint64(needle)]
                inside = place >= begin and place + behind - start <= end
                if inside and _stands(data, place, needles, start, behind - start):
                    found[needle, row] = True
                needle = following[np.uint64(needle)]
            at += 1


@inlined
def _stands(data: Bytes, at: Integer, needles: Bytes, start: Integer, length: Integer) -> bool:
    """Compare from the end: needles of one pair tend to begin alike."""
    for place in range(length - 1, -1, -1):
        if data[np.uint64(at + place)] != needles[np.uint64(start + place)]:
            return False
    return True
