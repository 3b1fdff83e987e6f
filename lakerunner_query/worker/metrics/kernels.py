"""Loops over runs of rows: finding their part of a time range, and laying them behind each other."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from resources.arrays import Int64s
from resources.kernel import Integer, kernel


@kernel
def cut_runs(time_ms: Int64s, begin: Int64s, end: Int64s, from_ms: Integer, to_ms: Integer) -> None:
    """Narrow each `[begin, end)`, ascending in time, to the rows in `(from_ms, to_ms]`."""
    for run in range(len(begin)):
        low, high = begin[run], end[run]
        while low < high:
            middle = (low + high) // 2
            if time_ms[middle] <= from_ms:
                low = middle + 1
            else:
                high = middle
        begin[run] = low
        high = end[run]
        while low < high:
            middle = (low + high) // 2
            if time_ms[middle] <= to_ms:
                low = middle + 1
            else:
                high = middle
        end[run] = low


@kernel
def copy_runs(
    source: npt.NDArray[Any], begin: Int64s, end: Int64s, to: Int64s, target: npt.NDArray[Any]
) -> None:
    """`source[begin[i]:end[i]]` goes to `target` from `to[i]` on."""
    for run in range(len(begin)):
        shift = to[run] - begin[run]
        for row in range(begin[run], end[run]):
            target[row + shift] = source[row]
