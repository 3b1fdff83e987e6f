"""Kernels of the merge compare sort keys: rows of signed 64-bit words, from left to right.

`python -m benchmarks.kernels.segments`, 200,000 rows: `merge_runs` takes 25 ms for 16 runs (`numpy.lexsort`
and a comparison 69 ms), `first_disorder` 0.4 ms (NumPy 3.3 ms), `places_of` 0.8 ms (`numpy.searchsorted` 2.4
ms), `add_facts` 0.2 ms (Arrow's `group_by` 1.6 ms), `run_starts` 0.04 ms (0.06 ms), `label_hashes` 0.4 ms for
20,000 sets (0.9 ms).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from resources.arrays import Int32s, Int64s
from resources.kernel import Integer, inlined, kernel

Keys = npt.NDArray[np.int64]
"""A row per row, a column per word."""


@inlined
def is_before(keys: Keys, left: Integer, other: Keys, right: Integer) -> bool:
    """Tell if the left key is less than the right one."""
    less = False
    for word in range(keys.shape[1]):
        one, two = keys[np.uint64(left), np.uint64(word)], other[np.uint64(right), np.uint64(word)]
        if one != two:
            less = one < two
            break
    return less


@inlined
def is_equal(keys: Keys, left: Integer, other: Keys, right: Integer) -> bool:
    """Compare from the back, where the row id is: that is where keys differ."""
    same = True
    for word in range(keys.shape[1] - 1, -1, -1):
        if keys[np.uint64(left), np.uint64(word)] != other[np.uint64(right), np.uint64(word)]:
            same = False
            break
    return same


@kernel
def first_disorder(keys: Keys, before: Keys) -> int:
    """Return the first row that is less than the one before it, or -1.

    `before` is the key before the first row, or none.
    """
    if len(before) and len(keys) and is_before(keys, 0, before, 0):
        return 0
    for row in range(1, len(keys)):
        if is_before(keys, row, keys, row - 1):
            return row
    return -1


@kernel
def rows_up_to(keys: Keys, bound: Keys) -> int:
    """Count the rows of sorted keys that are not behind the bound."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if is_before(bound, 0, keys, middle):
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def merge_runs(keys: Keys, borders: Int64s, last: Keys) -> tuple[Int64s, Int64s]:
    """Merge sorted runs between `borders`; return row numbers in order, and repeated rows apart.

    A row is repeated if the one before it in that order has the same key; `last` is the key before them all,
    or none. Of equal rows that of the first run stays.
    """
    order = np.empty(len(keys), np.int64)
    repeated = np.empty(len(keys), np.int64)
    count, left_out = 0, 0
    row_of = borders[:-1].copy()
    heap = heap_of(keys, borders)
    size = len(heap)
    while size:
        run = heap[0]
        row, end = row_of[run], borders[run + 1]
        rival: Integer = np.int64(-1)
        if size > 1:
            rival = heap[1]
            if size > 2 and comes_first(keys, row_of, heap[2], rival):
                rival = heap[2]
        while True:
            if repeats(keys, row, order, count, last):
                repeated[left_out] = row
                left_out += 1
            else:
                order[count] = row
                count += 1
            row += 1
            if row == end or (rival >= 0 and not goes_on(keys, row, run, row_of[rival], rival)):
                break
        row_of[run] = row
        if row == end:
            size -= 1
            heap[0] = heap[size]
        sink(keys, row_of, heap, 0, size)
    return order[:count], repeated[:left_out]


@kernel
def heap_of(keys: Keys, borders: Int64s) -> Int64s:
    """Build a heap of the runs that have rows, the least on top."""
    heap = np.flatnonzero(borders[:-1] < borders[1:]).astype(np.int64)
    for place in range(len(heap) // 2 - 1, -1, -1):
        sink(keys, borders, heap, place, len(heap))
    return heap


@inlined
def repeats(keys: Keys, row: Integer, order: Int64s, count: Integer, last: Keys) -> bool:
    """Tell if the row has the key of the last one in `order`, else of `last`."""
    if count:
        answer = is_equal(keys, row, keys, order[count - 1])
    else:
        answer = len(last) > 0 and is_equal(keys, row, last, 0)
    return answer


@inlined
def goes_on(keys: Keys, row: Integer, run: Integer, other_row: Integer, other: Integer) -> bool:
    """Tell if the row of this run comes first; of equal ones that of the earlier run does."""
    answer = bool(run < other)
    for word in range(keys.shape[1]):
        one, two = keys[np.uint64(row), np.uint64(word)], keys[np.uint64(other_row), np.uint64(word)]
        if one != two:
            answer = bool(one < two)
            break
    return answer


@inlined
def comes_first(keys: Keys, row_of: Int64s, one: Integer, other: Integer) -> bool:
    return goes_on(keys, row_of[one], one, row_of[other], other)


@kernel
def sink(keys: Keys, row_of: Int64s, heap: Int64s, place: int, size: int) -> None:
    """Move the run at `place` down to where it belongs."""
    run = heap[place] if size else 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and comes_first(keys, row_of, heap[child + 1], heap[child]):
            child += 1
        if not comes_first(keys, row_of, heap[child], run):
            break
        heap[place] = heap[child]
        place = child
    if size:
        heap[place] = run


@kernel
def places_of(ids: Int64s, known: Int64s) -> Int32s:
    """Find each id in a sorted list, -1 where it is missing; ids often come in runs."""
    found = np.full(len(ids), -1, np.int32)
    place = np.int64(0)
    for row in range(len(ids)):
        wanted = ids[row]
        if place >= len(known) or known[place] != wanted:
            place = np.searchsorted(known, wanted)
        if place < len(known) and known[place] == wanted:
            found[row] = place
    return found


@kernel
def add_facts(facts: Int64s, codes: Int32s, times: Int64s) -> None:
    """Add rows, first and last time of each code to its three columns."""
    for row in range(len(codes)):
        fact = facts[np.uint64(codes[row])]
        time = times[row]
        if fact[0] == 0:
            fact[1] = fact[2] = time
        fact[0] += 1
        fact[1] = min(fact[1], time)
        fact[2] = max(fact[2], time)


@kernel
def run_starts(codes: Int32s) -> Int64s:
    """Return the rows at which another code begins, the first row too."""
    starts = np.empty(len(codes), np.int64)
    count = 0
    for row in range(len(codes)):
        if row == 0 or codes[row] != codes[row - 1]:
            starts[count] = row
            count += 1
    return starts[:count].copy()


@kernel
def label_hashes(
    offsets: Int64s, names: Int32s, values: Int32s, name_hash: Int64s, value_hash: Int64s
) -> Int64s:
    """Hash each label set from the hashes of its names and values, in order."""
    found = np.empty(len(offsets) - 1, np.int64)
    multiplier, mix = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
    for row in range(len(found)):
        state = np.uint64(offsets[row + 1] - offsets[row])
        for entry in range(offsets[row], offsets[row + 1]):
            for half in (np.uint64(name_hash[names[entry]]), np.uint64(value_hash[values[entry]])):
                state = (state ^ half) * multiplier
                state = (state ^ (state >> np.uint64(29))) * mix
                state ^= state >> np.uint64(32)
        found[row] = np.int64(state)
    return found
