"""Kernels that choose among the rows of a group, or look at them in order, step by step.

`order` has the rows group by group, in the order of rows within; group g has `[starts[g], starts[g + 1])`.
"""

from __future__ import annotations

import numpy as np

from resources.arrays import Doubles, Flags, Int64s
from resources.kernel import Integer, kernel, scanner


@scanner
def _precedes(first: float, second: float, is_top: bool) -> bool:
    """Whether `first` is the worse one: what a heap of the best has on top, NaN before all."""
    if np.isnan(first):
        return True
    return first < second if is_top else first > second


@scanner
def _swap(numbers: Doubles, rows: Int64s, first: Integer, second: Integer) -> None:
    numbers[first], numbers[second] = numbers[second], numbers[first]
    rows[first], rows[second] = rows[second], rows[first]


@scanner
def _rise(numbers: Doubles, rows: Int64s, at: Integer, is_top: bool) -> None:
    while at > 0:
        above = (at - 1) // 2
        if above == at or not _precedes(numbers[at], numbers[above], is_top):
            break
        _swap(numbers, rows, above, at)
        at = above


@scanner
def _sink(numbers: Doubles, rows: Int64s, size: Integer, is_top: bool) -> None:
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and _precedes(numbers[below + 1], numbers[below], is_top):
            below += 1
        if not _precedes(numbers[below], numbers[at], is_top):
            break
        _swap(numbers, rows, at, below)
        at = below


@kernel
def best_of_group(
    order: Int64s, starts: Int64s, values: Doubles, present: Flags, limits: Int64s, is_top: bool
) -> Flags:
    """The `limits[step]` largest or smallest of each group; a heap decides among equal ones."""
    chosen = np.zeros(present.shape, np.bool_)
    room = max(limits.max(), 1)
    numbers, rows = np.empty(room), np.empty(room, np.int64)
    for group in range(len(starts) - 1):
        for step in range(present.shape[1]):
            limit, size = limits[step], 0
            if limit < 1:
                continue
            for at in range(starts[group], starts[group + 1]):
                row = order[at]
                if not present[row, step]:
                    continue
                number = values[row, step]
                if size < limit:
                    numbers[size], rows[size] = number, row
                    _rise(numbers, rows, size, is_top or size == 0)
                    size += 1
                    continue
                worst = numbers[0]
                is_better = worst < number if is_top else worst > number
                if is_better or (np.isnan(worst) and not np.isnan(number)):
                    numbers[0], rows[0] = number, row
                    _sink(numbers, rows, size, is_top)
            for at in range(size):
                chosen[rows[at], step] = True
    return chosen


@kernel
def first_of_group(order: Int64s, starts: Int64s, present: Flags, limits: Int64s) -> Flags:
    """The first `limits[step]` rows of each group that are present."""
    chosen = np.zeros(present.shape, np.bool_)
    taken = np.zeros(present.shape[1], np.int64)
    for group in range(len(starts) - 1):
        taken[:] = 0
        for at in range(starts[group], starts[group + 1]):
            row = order[at]
            for step in range(present.shape[1]):
                if present[row, step] and taken[step] < limits[step]:
                    chosen[row, step] = True
                    taken[step] += 1
    return chosen


@kernel
def quantile_of_group(
    order: Int64s, starts: Int64s, values: Doubles, present: Flags, quantiles: Doubles
) -> Doubles:
    """Between the two nearest ranks; NaN ranks lowest."""
    groups = len(starts) - 1
    found = np.full((groups, present.shape[1]), np.nan)
    numbers = np.empty(len(order))
    for group in range(groups):
        for step in range(present.shape[1]):
            wanted = quantiles[step]
            size, without_number = 0, 0
            for at in range(starts[group], starts[group + 1]):
                row = order[at]
                if not present[row, step]:
                    continue
                number = values[row, step]
                if np.isnan(number):
                    without_number += 1
                else:
                    numbers[size] = number
                    size += 1
            if size + without_number == 0 or np.isnan(wanted):
                continue
            if wanted < 0 or wanted > 1:
                found[group, step] = -np.inf if wanted < 0 else np.inf
                continue
            numbers[:size].sort()
            rank = wanted * (size + without_number - 1)
            low = int(np.floor(rank))
            high = min(size + without_number - 1, low + 1)
            weight = rank - np.floor(rank)
            lower = np.nan if low < without_number else numbers[low - without_number]
            upper = np.nan if high < without_number else numbers[high - without_number]
            found[group, step] = lower * (1 - weight) + upper * weight
    return found
