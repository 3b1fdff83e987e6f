"""Rollups and samples agree, function by function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import Grid, MixedTemporalityError, WindowValues
from lakerunner_query.windows.rollup_buckets import Buckets, BucketValues, over_buckets
from lakerunner_query.windows.samples import over_samples
from tests.support.query.windows.generated import samples
from tests.support.query.windows.oracle import Point, is_stale

NEVER_ASKS = frozenset(Function) - {
    Function.SUM, Function.AVG, Function.STDDEV, Function.STDVAR, Function.RATE, Function.INCREASE,
    Function.IRATE, Function.RESETS,
}  # fmt: skip
"""Exact from buckets, whatever the values."""


def check(buckets: Buckets, all_points: Sequence[Sequence[Point]], grid: Grid) -> None:
    """Every function over every window: the same from both, or only from samples for a reason."""
    for function in Function:
        merged = over_buckets(function, buckets, grid)
        for code, points in enumerate(all_points):
            _check_series(function, merged, code, points, grid)


def _check_series(
    function: Function, merged: BucketValues, code: int, points: Sequence[Point], grid: Grid
) -> None:
    for step in range(grid.steps):
        window = Grid(grid.start_ms + step * grid.step_ms, 0, 1, grid.range_ms, grid.offset_ms)
        end = window.first_end_ms
        inside = [p for p in points if end - grid.range_ms < p.ts <= end and not is_stale(p.value)]
        where = (function.name, code, step, grid)
        if merged.needs_samples[code, step]:
            assert may_ask(function, inside), where
            continue
        expected: WindowValues = over_samples(function, samples([points]), window)
        assert merged.present[code, step] == expected.present[0, 0], where
        if expected.present[0, 0]:
            found, wanted = float(merged.values[code, step]), float(expected.values[0, 0])
            assert agrees(function, inside, found, wanted, grid.range_ms), (*where, found, wanted)


def may_ask(function: Function, inside: Sequence[Point]) -> bool:
    """Test whether buckets may leave the answer to samples."""
    numbers = [point.value for point in inside]
    if function in NEVER_ASKS or not inside:
        return False
    if len({point.delta for point in inside}) > 1 and function not in (
        Function.SUM, Function.AVG, Function.STDDEV, Function.STDVAR,
    ):  # fmt: skip
        return True
    finite = [number for number in numbers if math.isfinite(number)]
    size = max((abs(number) for number in finite), default=0.0)
    overflowing = len(finite) < len(numbers) or size * len(numbers) >= 1e308
    if function in (Function.STDDEV, Function.STDVAR):
        spread = max(finite, default=0.0) - min(finite, default=0.0)
        # the deviation is at least spread / sqrt(2 n); one certain digit more than the rule itself
        return (
            overflowing
            or spread < 1e-100
            or spread > 1e100
            or size * math.sqrt(2 * len(numbers)) > 1e3 * spread
        )
    if function in (Function.SUM, Function.AVG):
        return overflowing
    if function in (Function.RATE, Function.INCREASE):
        return overflowing or (not inside[0].delta and min(finite) < 0)
    return False


def agrees(function: Function, inside: Sequence[Point], found: float, wanted: float, range_ms: int) -> bool:
    """To the bit, but for sums."""
    if found == wanted or (math.isnan(found) and math.isnan(wanted)):
        return math.isnan(found) or math.copysign(1, found) == math.copysign(1, wanted) or found != 0
    size = sum(abs(point.value) for point in inside)
    if function == Function.SUM:
        return abs(found - wanted) <= 1e-12 * size
    if function == Function.AVG:
        return abs(found - wanted) <= 1e-12 * size / len(inside)
    if function in (Function.STDDEV, Function.STDVAR):
        return abs(found - wanted) <= 1e-9 * abs(wanted)
    if function in (Function.RATE, Function.INCREASE):
        return _rates_agree(function, inside, found, wanted, range_ms)
    return False


def _rates_agree(
    function: Function, inside: Sequence[Point], found: float, wanted: float, range_ms: int
) -> bool:
    """Compare rates: the sum of two drops or more is rounded in another order; deltas are sums."""
    size = sum(abs(point.value) for point in inside)
    drops = sum(b.value < a.value for a, b in pairwise(inside))
    if not inside[0].delta and drops < 2:
        return False
    most = 1.0 if inside[0].delta else range_ms / (inside[-1].ts - inside[0].ts)
    by = range_ms / 1000 if function == Function.RATE else 1.0
    return abs(found - wanted) <= 1e-12 * size * most / by


def refuses(function: Function, points: Sequence[Point], grid: Grid) -> bool:
    """Test whether samples answer with an error, as a window mixes temporalities."""
    try:
        over_samples(function, samples([points]), grid)
    except MixedTemporalityError:
        return True
    return False
