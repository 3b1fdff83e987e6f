"""When a metric query over logs is evaluated, and where its windows lie; all in nanoseconds.

steps 12:00, 12:01 … of `[5m] offset 1h`:   (10:55, 11:00], (10:56, 11:01] …
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakerunner_query.lang.logql.ast import LogRange
from lakerunner_query.windows.edges import Windows
from resources.arrays import Int64s


@dataclass(frozen=True, slots=True)
class LogSteps:
    """Evaluation times; a step of 0 is an instant query."""

    start_ns: int
    step_ns: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 1 or self.step_ns < 0 or (self.count > 1 and not self.step_ns):
            raise ValueError(f"{self}: expected at least one step, and a step above zero between several")

    @property
    def is_instant(self) -> bool:
        return self.step_ns == 0

    @property
    def times_ns(self) -> Int64s:
        return self.start_ns + self.step_ns * np.arange(self.count, dtype=np.int64)

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.step_ns * (self.count - 1)


@dataclass(frozen=True, slots=True)
class Grid:
    """Windows `(end - range, end]` for end = first_end, first_end + step, …"""

    first_end_ns: int
    step_ns: int
    steps: int
    range_ns: int

    @classmethod
    def of(cls, steps: LogSteps, wanted: LogRange) -> Grid:
        return cls(steps.start_ns - wanted.offset_ns, max(steps.step_ns, 1), steps.count, wanted.range_ns)

    @property
    def from_ns(self) -> int:
        """Where the first window begins."""
        return self.first_end_ns - self.range_ns

    @property
    def to_ns(self) -> int:
        """Where the last window ends."""
        return self.first_end_ns + (self.steps - 1) * self.step_ns

    @property
    def windows(self) -> Windows:
        """For kernels."""
        return Windows(self.first_end_ns, self.step_ns, self.steps, self.range_ns)
