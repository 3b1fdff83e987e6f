"""The instant selector: the newest sample of the look-back, unless it says that the series ended.

bucket end   last sample   stale after it   at t = 12:10:00, look-back 5 min
12:04        12:03:50      no
12:08        12:07:50      no               value of 12:07:50; with "stale after it": none
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.windows.edges import PRESENT, Windows
from resources.arrays import Doubles, Flags, Int8s, Int64s
from resources.kernel import kernel

ALL: Flags = np.zeros(0, np.bool_)
"""As `usable`: every row is."""


@kernel
def newest(
    offsets: Int64s,
    ends: Int64s,
    answers: Doubles,
    last_ts: Int64s,
    usable: Flags,
    windows: Windows,
    values: Doubles,
    states: Int8s,
) -> None:
    """`ends` are of all rows, stale ones too; `answers` is what a usable row gives."""
    are_all = len(usable) == 0
    for series in range(len(offsets) - 1):
        high, end = offsets[series], offsets[series + 1]
        for step in range(windows.steps):
            until = windows.first_end + step * windows.step
            while high < end and ends[high] <= until:
                high += 1
            row = high - 1
            if row >= offsets[series] and (are_all or usable[row]) and last_ts[row] > until - windows.range:
                values[series, step] = answers[row]
                states[series, step] = PRESENT
