"""Range functions, the windows they are asked for, and their answers.

Windows are left-open, `(t - range, t]`, one per evaluation time; a function gives one value per series and
window, or none.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from resources.arrays import Doubles, Flags, Int64s
from resources.kernel import kernel

# << Where the rows of each series begin, and whether rows are in the order that all kernels here rely on.


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


STALE_BITS = 0x7FF0000000000002
"""The NaN that says "this series ended"; no other NaN does."""


class Function(IntEnum):
    """Every function that rollups answer exactly; numbers, because kernels compare them."""

    INSTANT = 0
    """The instant selector: the range of its grid is the look-back."""
    TIMESTAMP = 1
    """When the sample of the instant selector was taken, in seconds."""
    FIRST = 2
    LAST = 3
    COUNT = 4
    PRESENT = 5
    MIN = 6
    MAX = 7
    SUM = 8
    AVG = 9
    STDDEV = 10
    STDVAR = 11
    RATE = 12
    INCREASE = 13
    DELTA = 14
    RESETS = 15
    CHANGES = 16
    IRATE = 17
    IDELTA = 18


BY_SELECTOR = frozenset({Function.INSTANT, Function.TIMESTAMP})
BY_EXTREME = frozenset({Function.MIN, Function.MAX})
BY_SUM = frozenset({Function.SUM, Function.AVG, Function.STDDEV, Function.STDVAR})


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
        """Where the first window ends."""
        return self.start_ms - self.offset_ms

    @property
    def from_ms(self) -> int:
        """Where the first window begins."""
        return self.first_end_ms - self.range_ms

    @property
    def to_ms(self) -> int:
        """Where the last window ends."""
        return self.first_end_ms + (self.steps - 1) * self.step_ms

    def is_cut_by(self, width_ms: int, *, look_back: bool = False) -> bool:
        """Whether every window is a union of buckets of this width.

        A look-back may begin inside of a bucket: the time of its newest sample decides then.
        """
        edges = [self.first_end_ms] if look_back else [self.first_end_ms, self.range_ms]
        if self.steps > 1:
            edges.append(self.step_ms)
        return all(edge % width_ms == 0 for edge in edges)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Values by series and window; where `present` is false there is none, whatever the number says."""

    values: Doubles
    present: Flags


def absent(present: Flags) -> Flags:
    """Windows in which no series has anything: where `absent` and `absent_over_time` are 1.

    >>> absent(np.array([[True, False], [False, False]])).tolist()
    [False, True]
    """
    found: Flags = np.logical_not(present.any(axis=0))
    return found
