"""What the parts of a LogQL expression are evaluated in."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.evaluate.logs.metrics.times import LogSteps
from lakerunner_query.evaluate.logs.source import LogSource
from lakerunner_query.lang.logql.ast import Grouping, RangeAggregation
from lakerunner_query.vectors.vector import Vector


@dataclass(frozen=True, slots=True)
class Options:
    max_series: int = 200_000
    """Of any part of an expression."""
    max_cells: int = 50_000_000
    """Series x steps, or samples, that one part may have."""


@dataclass(frozen=True, slots=True)
class Context:
    steps: LogSteps
    source: LogSource
    options: Options
    answered: dict[tuple[RangeAggregation, Grouping | None], Vector] = field(default_factory=dict, repr=False)
    """What has been evaluated already; one and the same is often asked twice."""

    def check_series(self, count: int) -> None:
        """Refuse what does not fit before room is made for it."""
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
