"""Kernels that fold rows of one group into one row, step by step, in the order of the rows.

values   codes      sum
1  2     0          4  2
3  .     0          5  6
5  6     1
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.windows.compensated import add
from resources.arrays import Doubles, Flags, Int64s
from resources.kernel import kernel


@kernel
def any_of_code(codes: Int64s, present: Flags, count: int) -> Flags:
    """By code and step: whether any row is present."""
    found = np.zeros((count, present.shape[1]), np.bool_)
    for row in range(len(codes)):
        code = codes[row]
        for step in range(present.shape[1]):
            found[code, step] |= present[row, step]
    return found


@kernel
def count_of_code(codes: Int64s, present: Flags, count: int) -> Int64s:
    """By code and step: how many rows are present."""
    counts = np.zeros((count, present.shape[1]), np.int64)
    for row in range(len(codes)):
        code = codes[row]
        for step in range(present.shape[1]):
            counts[code, step] += present[row, step]
    return counts


@kernel
def sum_of_code(codes: Int64s, values: Doubles, present: Flags, count: int) -> Doubles:
    """Sums that keep what rounding loses, added from the first value on."""
    steps = values.shape[1]
    totals, lost = np.zeros((count, steps)), np.zeros((count, steps))
    begun = np.zeros((count, steps), np.bool_)
    for row in range(len(codes)):
        code = codes[row]
        for step in range(steps):
            if not present[row, step]:
                continue
            if begun[code, step]:
                totals[code, step], lost[code, step] = add(
                    values[row, step], totals[code, step], lost[code, step]
                )
            else:
                begun[code, step] = True
                totals[code, step] = values[row, step]
    return totals + lost


@kernel
def mean_of_code(codes: Int64s, values: Doubles, present: Flags, count: int) -> Doubles:
    """Sum by count; from the addition on that would overflow, a mean that is corrected step by step."""
    steps = values.shape[1]
    totals, lost = np.zeros((count, steps)), np.zeros((count, steps))
    counts = np.zeros((count, steps))
    stepwise = np.zeros((count, steps), np.bool_)
    for row in range(len(codes)):
        code = codes[row]
        for step in range(steps):
            if not present[row, step]:
                continue
            number = values[row, step]
            counts[code, step] += 1.0
            members = counts[code, step]
            if members == 1.0:
                totals[code, step] = number
                continue
            if not stepwise[code, step]:
                after, after_lost = add(number, totals[code, step], lost[code, step])
                if not np.isinf(after):
                    totals[code, step], lost[code, step] = after, after_lost
                    continue
                stepwise[code, step] = True
                totals[code, step] /= members - 1.0
                lost[code, step] /= members - 1.0
            share = (members - 1.0) / members
            totals[code, step], lost[code, step] = add(
                number / members, share * totals[code, step], share * lost[code, step]
            )
    for code in range(count):
        for step in range(steps):
            members = 1.0 if stepwise[code, step] else max(counts[code, step], 1.0)
            totals[code, step] = totals[code, step] / members + lost[code, step] / members
    return totals


@kernel
def extreme_of_code(codes: Int64s, values: Doubles, present: Flags, count: int, is_max: bool) -> Doubles:
    """The largest or smallest; NaN only where there is nothing else."""
    steps = values.shape[1]
    found = np.full((count, steps), np.nan)
    for row in range(len(codes)):
        code = codes[row]
        for step in range(steps):
            if present[row, step]:
                number, best = values[row, step], found[code, step]
                if np.isnan(best) or (number > best if is_max else number < best):
                    found[code, step] = number
    return found


@kernel
def variance_of_code(codes: Int64s, values: Doubles, present: Flags, count: int) -> Doubles:
    """Welford's; a first value that is not finite leaves nothing to say."""
    steps = values.shape[1]
    squares, means, counts = np.zeros((count, steps)), np.zeros((count, steps)), np.zeros((count, steps))
    for row in range(len(codes)):
        code = codes[row]
        for step in range(steps):
            if not present[row, step]:
                continue
            number = values[row, step]
            counts[code, step] += 1.0
            if counts[code, step] == 1.0:
                means[code, step] = number
                squares[code, step] = 0.0 if np.isfinite(number) else np.nan
                continue
            delta = number - means[code, step]
            means[code, step] += delta / counts[code, step]
            squares[code, step] += delta * (number - means[code, step])
    for code in range(count):
        for step in range(steps):
            squares[code, step] /= max(counts[code, step], 1.0)
    return squares
