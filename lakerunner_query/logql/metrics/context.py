"""Evaluation of metric queries over logs: steps, windows, limits and label sets; times in nanoseconds.

steps 12:00, 12:01 … of `[5m] offset 1h`:   (10:55, 11:00], (10:56, 11:01] …
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.logql.frame import LogFrame, grouped_rows
from lakerunner_query.logql.lang.ast import Grouping, LogRange, Matching, RangeAggregation, SampleExpr
from lakerunner_query.logql.pipeline import LogSource
from lakerunner_query.vectors.labels import Groups, drop_labels, group_series, number_keys
from lakerunner_query.vectors.labels import keep_labels as kept_labels
from lakerunner_query.vectors.vector import Labels, Vector
from lakerunner_query.windows.functions import Windows
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
class LogGrid:
    """Windows `(end - range, end]` for end = first_end, first_end + step, …"""

    first_end_ns: int
    step_ns: int
    steps: int
    range_ns: int

    @classmethod
    def of(cls, steps: LogSteps, ranged: LogRange) -> LogGrid:
        return cls(steps.start_ns - ranged.offset_ns, max(steps.step_ns, 1), steps.count, ranged.range_ns)

    @property
    def from_ns(self) -> int:
        """Begin of the first window."""
        return self.first_end_ns - self.range_ns

    @property
    def to_ns(self) -> int:
        """End of the last window."""
        return self.first_end_ns + (self.steps - 1) * self.step_ns

    @property
    def windows(self) -> Windows:
        """Windows as kernels take them."""
        return Windows(self.first_end_ns, self.step_ns, self.steps, self.range_ns)


@dataclass(frozen=True, slots=True)
class Options:
    """Limits of an evaluation."""

    max_series: int = 200_000
    """Series of any part of an expression."""
    max_cells: int = 50_000_000
    """Series x steps, or samples, of any part."""


@dataclass(frozen=True, slots=True)
class Context:
    """Steps, source and limits of one evaluation."""

    steps: LogSteps
    source: LogSource
    options: Options
    cache: dict[tuple[RangeAggregation, Grouping | None], Vector] = field(default_factory=dict, repr=False)
    """Range aggregations that have been evaluated; the same one often stands on both sides of an operator."""
    known: Mapping[SampleExpr, Vector] = field(default_factory=dict, repr=False)
    """Parts of the expression that were evaluated elsewhere."""

    def check_series(self, count: int) -> None:
        """Refuse more series than allowed, before room is made for them."""
        if count > self.options.max_series:
            raise LimitExceededError(
                f"the query gives more than {self.options.max_series} series: aggregate by fewer labels, or "
                "drop those that differ from line to line"
            )
        self.check_cells(count * self.steps.count)

    def check_cells(self, count: int) -> None:
        if count > self.options.max_cells:
            raise LimitExceededError(
                f"the query needs more than {self.options.max_cells} values at once: narrow the time range, "
                "use a larger step, or select fewer streams"
            )


@dataclass(frozen=True, slots=True)
class Naming:
    """Labels that tell series apart: these, or all but these."""

    names: frozenset[str]
    is_without: bool
    drops_empty: bool = False
    """Labels without a value count as absent."""


class SeriesTable:
    """Numbers of series, the same for every frame.

        app   status            series
        web   200               0        app="web", status="200"
        db    (absent)          1        app="db"
        web   200               0

    Label sets become Python's objects once per series of a frame, not once per row.
    """

    def __init__(self, naming: Naming) -> None:
        self._naming = naming
        self._codes: dict[Labels, int] = {}

    @property
    def labels(self) -> list[Labels]:
        return list(self._codes)

    @property
    def count(self) -> int:
        return len(self._codes)

    def numbers(self, frame: LogFrame) -> Int64s:
        """Return the series of each row."""
        codes, labels = grouped_rows(frame, self._naming.names, without=self._naming.is_without)
        if self._naming.drops_empty:
            labels = [tuple(pair for pair in one if pair[1]) for one in labels]
        return number_keys(labels, self._codes)[codes]


def without_empty(labels: Labels) -> Labels:
    """Drop empty values, which LogQL keeps until an operation builds new labels.

    >>> without_empty((("a", ""), ("b", "1")))
    (('b', '1'),)
    """
    return labels if all(value for _, value in labels) else tuple(one for one in labels if one[1])


def key_of(matching: Matching) -> Callable[[Labels], Labels]:
    """Return the function that gives the labels by which two sides meet; an empty label counts as absent.

    >>> key_of(Matching(on=True, labels=("a",)))((("a", "1"), ("b", "2")))
    (('a', '1'),)
    """
    chosen = frozenset(matching.labels)
    if matching.on:
        return lambda labels: without_empty(kept_labels(labels, chosen))
    return lambda labels: without_empty(drop_labels(labels, chosen))


def groups_of(vector: Vector, grouping: Grouping | None) -> Groups:
    """Group series by labels, without labels, or all together."""
    if grouping is None:
        return group_series(vector.labels, (), is_without=False)
    if not grouping.without:
        return group_series(vector.labels, grouping.labels, is_without=False)
    return group_series([without_empty(labels) for labels in vector.labels], grouping.labels, is_without=True)


def by_labels(vector: Vector) -> Vector:
    """Order rows by their labels."""
    order = sorted(range(len(vector.labels)), key=vector.labels.__getitem__)
    return vector.take(np.array(order, np.int64))
