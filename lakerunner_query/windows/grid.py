"""The grid of windows that a query evaluates, and the values over it.

Windows are left-open, `(t - range, t]`, one per evaluation time; a function gives one value per series and
window, or none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakerunner_query.windows.functions import Function, Windows
from resources.arrays import Doubles, Flags


class MixedTemporalityError(ValueError):
    """A window holds delta and cumulative samples of one series; no rate of that is right."""

    def __init__(self, series: int, end_ms: int, function: Function) -> None:
        super().__init__(
            f"series {series}, window ending at {end_ms} ms: delta and cumulative samples together; "
            f"{function.name.lower()} needs one temporality"
        )
        self.series = series
        self.end_ms = end_ms


@dataclass(frozen=True, slots=True)
class Grid:
    """Windows `(t - offset - range, t - offset]` for t = start, start + step, …; all in milliseconds."""

    start_ms: int
    step_ms: int
    steps: int
    range_ms: int
    offset_ms: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.range_ms < 1 or (self.steps > 1 and self.step_ms < 1):
            raise ValueError(f"{self}: expected at least one step, and a range and step above zero")

    @property
    def first_end_ms(self) -> int:
        """End of the first window."""
        return self.start_ms - self.offset_ms

    @property
    def from_ms(self) -> int:
        """Begin of the first window."""
        return self.first_end_ms - self.range_ms

    @property
    def to_ms(self) -> int:
        """End of the last window."""
        return self.first_end_ms + (self.steps - 1) * self.step_ms

    @property
    def windows(self) -> Windows:
        """The same windows, for kernels."""
        return Windows(self.first_end_ms, self.step_ms, self.steps, self.range_ms)

    def is_cut_by(self, width_ms: int, *, look_back: bool = False) -> bool:
        """Test whether every window is a union of buckets of this width.

        A look-back may begin inside of a bucket: the time of its newest sample decides then.
        """
        edges = [self.first_end_ms] if look_back else [self.first_end_ms, self.range_ms]
        if self.steps > 1:
            edges.append(self.step_ms)
        return all(edge % width_ms == 0 for edge in edges)


@dataclass(frozen=True, slots=True)
class WindowValues:
    """Values by series and window; where `present` is false there is none, whatever the number says."""

    values: Doubles
    present: Flags


def absent(present: Flags) -> Flags:
    """Return the windows in which no series has a value: there `absent` and `absent_over_time` are 1.

    >>> absent(np.array([[True, False], [False, False]])).tolist()
    [False, True]
    """
    found: Flags = np.logical_not(present.any(axis=0))
    return found
