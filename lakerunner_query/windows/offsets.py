"""Where the rows of each series begin, and whether rows are in the order that all kernels here rely on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from resources.arrays import Int64s
from resources.kernel import kernel


def offsets_of(series: npt.NDArray[np.integer], times: Int64s, count: int) -> Int64s:
    """Series s has the rows `[offsets[s], offsets[s + 1])`.

    >>> offsets_of(np.array([0, 0, 2]), np.array([5, 6, 1]), 3).tolist()
    [0, 2, 2, 3]
    """
    offsets = np.zeros(count + 1, np.int64)
    fault = _fill(series, times, offsets)
    if fault >= 0:
        raise ValueError(
            f"row {fault} of {len(series)}: series {series[fault]} at {times[fault]} ms; expected series in "
            f"[0, {count}), none before the one above it, and times that grow within a series"
        )
    return offsets


@kernel
def _fill(series: npt.NDArray[np.integer], times: Int64s, offsets: Int64s) -> int:
    """The first row out of order, or -1."""
    count = len(offsets) - 1
    at = 0
    for row in range(len(series)):
        code = series[row]
        if code < 0 or code >= count:
            return row
        if row > 0 and (code < series[row - 1] or (code == series[row - 1] and times[row] <= times[row - 1])):
            return row
        while at < code:
            at += 1
            offsets[at] = row
    while at < count:
        at += 1
        offsets[at] = len(series)
    return -1
