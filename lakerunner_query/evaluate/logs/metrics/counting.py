"""Lines and bytes in windows, without keeping a row: each line says when it enters the windows and leaves.

    windows of 3 steps' width, a line between the first and the second step:   0 +1 0 0 -1     marks
                                                                              0  1 1 1  0     their sum

Whole numbers: the sums are exact in whatever order rows come.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakerunner_query.evaluate.logs.metrics.times import Grid
from lakerunner_query.windows.edges import Windows
from resources.arrays import Int64s
from resources.kernel import kernel

Marks = npt.NDArray[np.int64]
"""(series, steps + 1)."""
NO_SIZES = np.zeros(0, np.int64)


@kernel
def mark(series: Int64s, times: Int64s, sizes: Int64s, windows: Windows, lines: Marks, totals: Marks) -> None:
    """Without `sizes`, lines only."""
    for row in range(len(times)):
        before = windows.first_end - times[row]
        enters = max(-(before // windows.step), 0)
        leaves = min(-((before - windows.range) // windows.step), windows.steps)
        if enters >= leaves:
            continue
        one = series[row]
        lines[one, enters] += 1
        lines[one, leaves] -= 1
        if len(sizes):
            totals[one, enters] += sizes[row]
            totals[one, leaves] -= sizes[row]


@dataclass(frozen=True, slots=True)
class Counted:
    """By series and window."""

    lines: Int64s
    bytes: Int64s


class LineCounter:
    """Grows with the series that frames bring along."""

    def __init__(self, grid: Grid, *, with_bytes: bool) -> None:
        self._grid = grid
        self._with_bytes = with_bytes
        self._series = 0
        self._lines = self._marks(0)
        self._totals = self._marks(0)

    def add(self, series: Int64s, count: int, times: Int64s, sizes: Int64s) -> None:
        """Lines of series below `count`."""
        self._make_room(count)
        mark(series, times, sizes, self._grid.windows, self._lines, self._totals)

    def counted(self) -> Counted:
        lines = np.cumsum(self._lines[: self._series, :-1], axis=1)
        return Counted(lines, np.cumsum(self._totals[: self._series, :-1], axis=1))

    def _marks(self, series: int) -> Marks:
        return np.zeros((series, self._grid.steps + 1), np.int64)

    def _make_room(self, count: int) -> None:
        self._series = max(self._series, count)
        missing = count - len(self._lines)
        if missing <= 0:
            return
        more = self._marks(max(missing, len(self._lines)))
        self._lines = np.concatenate((self._lines, more))
        if self._with_bytes:
            self._totals = np.concatenate((self._totals, more))
