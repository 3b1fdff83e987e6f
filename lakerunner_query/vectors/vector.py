"""Expressions evaluate to columns: series by steps.

    sum by (job) (up) at three steps

    labels            values        present
    (("job", "a"),)   [2, 2, 3]     [yes, yes, yes]
    (("job", "b"),)   [1, ?, 1]     [yes, no,  yes]

A cell is a float or a histogram. Histograms are rare and large, so they are objects beside the floats; a
vector without any has `histograms = None` and no code path looks for them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from resources.arrays import Doubles, Flags, Int64s

Labels = tuple[tuple[str, str], ...]
"""Sorted by name, without empty values; `__name__` is one of them."""
Objects = npt.NDArray[np.object_]
NAME = "__name__"
_NO_HISTOGRAM = np.array(None, np.object_)


def histogram_mask(histograms: Objects) -> Flags:
    """Flag the cells with a histogram."""
    found: Flags = np.not_equal(histograms, _NO_HISTOGRAM).astype(np.bool_)
    return found


@dataclass(frozen=True, slots=True)
class Steps:
    """Evaluation times."""

    start_ms: int
    step_ms: int
    count: int

    @property
    def times_ms(self) -> Int64s:
        return self.start_ms + self.step_ms * np.arange(self.count, dtype=np.int64)

    @property
    def end_ms(self) -> int:
        return self.start_ms + self.step_ms * (self.count - 1)


@dataclass(frozen=True, slots=True)
class Vector:
    """An instant vector at every step; two rows may have equal labels as long as they share no step."""

    labels: list[Labels]
    values: Doubles
    """(series, steps); any value in cells that are empty or histograms."""
    present: Flags
    histograms: Objects | None = None
    """(series, steps) of `Histogram`, None in cells that are empty or floats."""
    drop_name: Flags | None = None
    """Series that lose their metric name once the whole query is answered; None: no series."""

    def take(self, rows: npt.NDArray[np.generic]) -> Vector:
        """Select series by index or mask."""
        index = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return Vector(
            [self.labels[i] for i in index.tolist()],
            self.values[index],
            self.present[index],
            None if self.histograms is None else self.histograms[index],
            None if self.drop_name is None else self.drop_name[index],
        )

    def with_labels(self, labels: list[Labels]) -> Vector:
        return replace(self, labels=labels)


@dataclass(frozen=True, slots=True)
class Scalar:
    values: Doubles
    """Values by step."""


@dataclass(frozen=True, slots=True)
class String:
    value: str


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of many series, end to end.

    Series s has the samples `[offsets[s], offsets[s + 1])`, times ascending.
    """

    labels: list[Labels]
    offsets: Int64s
    time_ms: Int64s
    value: Doubles
    """Stale markers are NaN with the bits `STALE_BITS`."""
    histograms: Objects | None = None
    """`Histogram` by sample, or None for floats."""
    is_delta: Flags | None = None
    """Delta temporality by sample; None: all are cumulative."""
    start_ms: Int64s | None = None
    """Start time by sample, 0 where unknown; None: not looked at."""
    drop_name: Flags | None = None
    """Series that lose their name, as in `Vector` (samples of a subquery)."""
    are_real: bool = False
    """No stale markers are among them: nobody needs to look."""

    @property
    def count(self) -> int:
        return len(self.labels)


Value = Scalar | String | Vector | Series
"""`Series` only as an argument, or as the answer to an instant query for a range vector."""
