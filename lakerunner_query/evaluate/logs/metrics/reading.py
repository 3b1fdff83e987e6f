"""The rows a range aggregation sees: in a window, with a number where one was asked for, without errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from lakerunner_query.evaluate.logs.columns import has_text
from lakerunner_query.evaluate.logs.frame import LogFrame
from lakerunner_query.evaluate.logs.metrics.failures import failing, marked, raise_oldest
from lakerunner_query.evaluate.logs.metrics.times import Grid
from lakerunner_query.evaluate.logs.source import Demand, LogSource
from lakerunner_query.evaluate.logs.unwrapping import unwrapped
from lakerunner_query.lang.logql.ast import LogRange
from resources.arrays import Doubles, Flags


@dataclass(frozen=True, slots=True)
class Numbered:
    """Rows and their numbers; lines that are only counted have none."""

    frame: LogFrame
    numbers: Doubles


@dataclass(frozen=True, slots=True)
class Reading:
    source: LogSource
    wanted: LogRange
    grid: Grid
    keeps_errors: bool
    """The query asks for errors: those of parsers become labels and do not fail it."""

    def frames(self, demand: Demand) -> Iterator[Numbered]:
        """Raises for the first line with an error."""
        for rows in self._rows(demand):
            failed = failing(rows.frame, keeps_errors=self.keeps_errors)
            if failed.any():
                self._fail(rows.frame, failed, demand)
            if rows.frame.count:
                yield Numbered(marked(rows.frame), rows.numbers) if self.keeps_errors else rows

    def _rows(self, demand: Demand) -> Iterator[Numbered]:
        grid, unwrap = self.grid, self.wanted.unwrap
        for whole in self.source.rows(self.wanted.query, grid.from_ns, grid.to_ns, demand):
            frame = in_windows(whole, grid)
            if unwrap is None:
                yield Numbered(frame, np.zeros(0))
            else:
                yield Numbered(*unwrapped(frame.keep(has_text(frame, unwrap.label)), unwrap))

    def _fail(self, frame: LogFrame, failed: Flags, demand: Demand) -> NoReturn:
        """With all labels of the line: where only some were asked for, lines are read once more."""
        if demand.labels is not None:
            for rows in self._rows(Demand(None, demand.line)):
                again = failing(rows.frame, keeps_errors=self.keeps_errors)
                if again.any():
                    raise_oldest(rows.frame, again)
        raise_oldest(frame, failed)


def in_windows(frame: LogFrame, grid: Grid) -> LogFrame:
    """Where windows do not touch, some lines are in none."""
    if grid.steps == 1 or grid.step_ns <= grid.range_ns:
        return frame
    inside: Flags = np.less((frame.tsns - grid.from_ns - 1) % grid.step_ns, grid.range_ns)
    return frame.keep(inside)
