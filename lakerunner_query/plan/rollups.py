"""Which rollups may answer a query at all, told from its text and its times alone.

    sum by (job) (increase(errors_total[1h])), step 1 h, at whole hours  ->  1h, 5m, 1m, 10s
    rate(errors_total[5m]), step 15 s                                    ->  none: windows cut through buckets

Whether they say the same as samples is decided by `windows.choice` and the kernels; asking the index about
rollups that cannot serve any window would be in vain.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakerunner_query.promql.lang.ast import Expr, Matrix, Reach, Selector, Shift, Subquery, children
from lakerunner_query.vectors.vector import Steps
from lakerunner_query.windows.functions import Grid
from lakerunner_query.windows.rollup_choice import serving_of
from resources.lake.frequency import HOUR, ROLLUPS, TEN_SECONDS


def rollups_for(expr: Expr, steps: Steps, lookback_ms: int) -> tuple[int, ...]:
    """Frequencies in ms that divide the windows of some selector, with all that they are built from."""
    widest = max(
        (_coarsest(grid, look_back) for grid, look_back in _grids(expr, steps, lookback_ms)), default=0
    )
    return tuple(rollup.frequency_ms for rollup in ROLLUPS if rollup.frequency_ms <= widest)


def _coarsest(grid: Grid, look_back: bool) -> int:
    if grid.steps == 1 and grid.range_ms < HOUR:
        return 0  # a handful of samples is read faster than the index is asked
    serving = [
        rollup.frequency_ms
        for rollup in serving_of(grid, look_back=look_back)
        if grid.range_ms >= rollup.frequency_ms
    ]
    return max(serving, default=0)


def _grids(expr: Expr, steps: Steps, lookback_ms: int) -> Iterator[tuple[Grid, bool]]:
    match expr:
        case Selector() if expr.reach is Reach.PLAIN:
            yield _grid(expr.shift, steps, lookback_ms), True
        case Matrix(selector=selector) if selector.reach is Reach.PLAIN and isinstance(expr.range, int):
            yield _grid(selector.shift, steps, expr.range), False
        case Subquery():
            # the grid inside is an absolute one; samples are read at its own steps
            yield Grid(0, TEN_SECONDS, 1, lookback_ms), True
        case _:
            for child in children(expr):
                yield from _grids(child, steps, lookback_ms)


def _grid(shift: Shift, steps: Steps, range_ms: int) -> Grid:
    offset = shift.offset if isinstance(shift.offset, int) else 0
    if isinstance(shift.at, int):
        return Grid(shift.at, 0, 1, max(1, range_ms), offset)
    return Grid(steps.start_ms, steps.step_ms, steps.count, max(1, range_ms), offset)
