"""Selectors: their windows, their samples, and the newest sample of an instant selector.

`trim` and `extend_to_edges` turn the samples of a range selector into the answer of a query.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lakerunner_query.errors import SAME_LABELS, EvaluationError, LimitExceededError
from lakerunner_query.histogram.batch import SUM, objects, totals_of
from lakerunner_query.histogram.growth import find_hints
from lakerunner_query.promql.context import Context, SelectorWindow, WindowExpr
from lakerunner_query.promql.lang.ast import (
    Duration,
    Edge,
    Expr,
    Matrix,
    Paren,
    Reach,
    Selector,
    Shift,
    Subquery,
)
from lakerunner_query.promql.lang.functions import RESET_CONTEXT_MS, ResetHints
from lakerunner_query.vectors.labels import drop_metadata
from lakerunner_query.vectors.rows import drop_empty_rows, empty_vector, repeat_steps
from lakerunner_query.vectors.vector import Objects, Series, Vector, histogram_mask
from lakerunner_query.windows.extremes_kernels import ALL, newest
from lakerunner_query.windows.functions import STALE_BITS, Function
from lakerunner_query.windows.grid import Grid
from resources.arrays import Doubles, Flags, Int64s


def trim(series: Series, window: SelectorWindow) -> Series:
    """Keep the samples inside the window, and the series that have any."""
    keep = (series.time_ms > window.grid.from_ms) & (series.time_ms <= window.grid.to_ms)
    return series_at(series, _series_of_samples(series)[keep], np.flatnonzero(keep))


def extend_to_edges(series: Series, window: SelectorWindow) -> Series:
    """Add a sample at either edge of the window: the nearest if `anchored`, interpolated if `smoothed`.

    x[1m] smoothed at 60 s   samples 1 at -10 s, 3 at 10 s, 5 at 70 s   ->   2 at 0 s, 3 at 10 s, 4.7 at 60 s
    """
    if series.histograms is not None:
        raise EvaluationError("smoothed and anchored modifiers do not work with native histograms")
    grid, is_smoothed = window.grid, window.reach == Reach.SMOOTHED
    times, values, owners = [], [], []
    for row, (low, high) in enumerate(pairwise(series.offsets.tolist())):
        at, value = series.time_ms[low:high], series.value[low:high]
        inside = (at > grid.from_ms) & (at < grid.to_ms)
        if not (at > grid.from_ms).any() or not (is_smoothed or (at <= grid.to_ms).any()):
            continue
        edges = [_edge_value(at, value, edge, is_smoothed) for edge in (grid.from_ms, grid.to_ms)]
        times.append(np.concatenate(([grid.from_ms], at[inside], [grid.to_ms])))
        values.append(np.concatenate((edges[:1], value[inside], edges[1:])))
        owners.append(np.full(len(times[-1]), row, np.int64))
    if not times:
        return series_at(series, np.zeros(0, np.int64), np.zeros(0, np.int64))
    flat = replace(
        series, time_ms=np.concatenate(times), value=np.concatenate(values), is_delta=None, start_ms=None
    )
    return series_at(flat, np.concatenate(owners), np.arange(len(flat.time_ms)))


def _edge_value(at: Int64s, value: Doubles, edge: int, is_smoothed: bool) -> float:
    """Return the newest value up to the edge, or the oldest after it."""
    before = int(np.searchsorted(at, edge, side="right")) - 1
    if before < 0 or not is_smoothed or before + 1 == len(at) or at[before] == edge:
        return float(value[max(before, 0)])
    share = float(edge - at[before]) / float(at[before + 1] - at[before])
    with np.errstate(all="ignore"):
        return float(value[before] + (value[before + 1] - value[before]) * share)


def drop_names(series: Series) -> Series:
    """Drop the metric names that have to go, and merge the series that are equal then."""
    drop = np.zeros(series.count, np.bool_) if series.drop_name is None else series.drop_name
    labels = [
        drop_metadata(labels) if drop else labels
        for labels, drop in zip(series.labels, drop.tolist(), strict=True)
    ]
    names = sorted(set(labels))
    number = {name: at for at, name in enumerate(names)}
    codes = np.array([number[name] for name in labels], np.int64)
    owners = codes[_series_of_samples(series)] if len(codes) else _series_of_samples(series)
    order = np.lexsort((series.time_ms, owners)).astype(np.int64)
    times, owned = series.time_ms[order], owners[order]
    if ((times[1:] == times[:-1]) & (owned[1:] == owned[:-1])).any():
        raise EvaluationError(SAME_LABELS)
    return series_at(replace(series, labels=names, drop_name=None), owned, order)


def series_at(series: Series, owners: Int64s, samples: Int64s) -> Series:
    """Take samples by number; `owners` holds their series, and series without samples are left out."""
    present, starts = np.unique(owners, return_index=True)
    return Series(
        [series.labels[at] for at in present.tolist()],
        np.append(starts, len(owners)).astype(np.int64),
        series.time_ms[samples],
        series.value[samples],
        None if series.histograms is None else series.histograms[samples],
        None if series.is_delta is None else series.is_delta[samples],
        None if series.start_ms is None else series.start_ms[samples],
        None if series.drop_name is None else series.drop_name[present],
    )


def _series_of_samples(series: Series) -> Int64s:
    return np.repeat(np.arange(series.count, dtype=np.int64), np.diff(series.offsets))


def strip_parens(expr: Expr) -> Expr:
    """Return the expression inside all parentheses."""
    while isinstance(expr, Paren):
        expr = expr.expr
    return expr


def window_expr(expr: Expr) -> WindowExpr:
    inner = strip_parens(expr)
    if not isinstance(inner, Selector | Matrix | Subquery):
        raise TypeError(f"expected a selector or a range vector, found {type(inner).__name__}")
    return inner


def milliseconds(duration: Duration) -> int:
    if not isinstance(duration, int):
        raise TypeError(f"{duration}: expected milliseconds; the expression is not bound to times")
    return duration


def window(context: Context, expr: Expr) -> SelectorWindow:
    match window_expr(expr):
        case Selector() as selector:
            return _window(context, selector.shift, context.options.lookback_ms, selector.reach)
        case Matrix(selector=selector, range=length):
            return _window(context, selector.shift, milliseconds(length), selector.reach)
        case Subquery(range=length, shift=shift):
            return _window(context, shift, milliseconds(length), Reach.PLAIN)


def _window(context: Context, shift: Shift, range_ms: int, reach: Reach) -> SelectorWindow:
    offset, steps = milliseconds(shift.offset), context.steps
    if isinstance(shift.at, Edge):
        raise TypeError(f"@ {shift.at}(): expected milliseconds; the expression is not bound to times")
    if shift.at is not None:
        return SelectorWindow(Grid(shift.at, 0, 1, range_ms, offset), is_fixed=True, reach=reach)
    return SelectorWindow(
        Grid(steps.start_ms, steps.step_ms, steps.count, range_ms, offset), is_fixed=False, reach=reach
    )


def select_samples(context: Context, expr: Selector | Matrix) -> Series:
    """Read all samples that the windows of a selector or range selector may need."""
    selector = expr.selector if isinstance(expr, Matrix) else expr
    grid, lookback = window(context, expr).grid, context.options.lookback_ms
    from_ms, to_ms = grid.from_ms, grid.to_ms
    if selector.reach != Reach.PLAIN and isinstance(expr, Matrix):
        from_ms -= lookback
    if selector.reach == Reach.SMOOTHED:
        to_ms += lookback
    before = RESET_CONTEXT_MS if context.hints is ResetHints.DETECTED else 0
    series = context.source.select(selector.matchers, from_ms - before, to_ms)
    check_size(context, len(series.time_ms))
    if not before:
        return series
    # edges are drawn between buckets
    series = _detect_hints(series, are_whole=selector.reach != Reach.PLAIN)
    keep = series.time_ms > from_ms
    inside = series_at(series, _series_of_samples(series)[keep], np.flatnonzero(keep))
    return replace(inside, are_real=series.are_real)


def _detect_hints(series: Series, *, are_whole: bool) -> Series:
    if series.histograms is None:
        return series
    found = series.histograms.copy()
    for low, high in pairwise(series.offsets.tolist()):
        hinted = find_hints(
            found[low:high].tolist(), series.time_ms[low:high], RESET_CONTEXT_MS, are_whole=are_whole
        )
        found[low:high] = objects(hinted)
    return replace(series, histograms=found)


def check_size(context: Context, cells: int) -> None:
    limit = context.options.max_cells
    if cells > limit:
        raise LimitExceededError(
            f"the query needs {cells} samples at once, more than {limit}: select fewer series or less time"
        )


def is_stale(series: Series) -> Flags:
    found: Flags = series.value.view(np.int64) == STALE_BITS
    if series.histograms is None:
        return found
    rows = np.flatnonzero(histogram_mask(series.histograms))
    found[rows] = totals_of(series.histograms[rows].tolist(), SUM).view(np.int64) == STALE_BITS
    return found


def drop_stale(series: Series) -> Series:
    """Remove stale markers, which range functions do not see."""
    if series.are_real:
        return series
    stale = is_stale(series)
    return replace(take_samples(series, ~stale) if stale.any() else series, are_real=True)


def take_samples(series: Series, keep: Flags) -> Series:
    """Keep some of the samples and all of the series."""
    before = np.concatenate(([0], np.cumsum(keep)))
    return replace(
        series,
        offsets=before[series.offsets].astype(np.int64),
        time_ms=series.time_ms[keep],
        value=series.value[keep],
        histograms=None if series.histograms is None else series.histograms[keep],
        is_delta=None if series.is_delta is None else series.is_delta[keep],
        start_ms=None if series.start_ms is None else series.start_ms[keep],
    )


def instant_vector(context: Context, selector: Selector) -> Vector:
    """Take the newest sample of the look-back at each step, unless it is stale."""
    where = window(context, selector)
    answer = context.source.over_windows(Function.INSTANT, selector.matchers, where.grid)
    if answer is not None:
        vector = Vector(answer.labels, answer.windows.values, answer.windows.present)
    else:
        series = select_samples(context, selector)
        check_size(context, series.count * where.grid.steps)
        vector = newest_samples(series, where.grid)
    vector = drop_empty_rows(vector)
    check_size(context, len(vector.labels) * context.steps.count)
    return repeat_steps(vector, context.steps) if where.is_fixed else vector


def newest_samples(series: Series, grid: Grid) -> Vector:
    if not series.labels:
        return empty_vector(grid.steps)
    shape = (series.count, grid.steps)
    values, states = np.full(shape, np.nan), np.zeros(shape, np.int8)
    usable, windows = ALL if series.are_real else ~is_stale(series), grid.windows
    if series.histograms is None:
        newest(series.offsets, series.time_ms, series.value, series.time_ms, usable, windows, values, states)
        return Vector(series.labels, values, states != 0)
    rows = np.arange(len(series.value), dtype=np.float64)
    newest(series.offsets, series.time_ms, rows, series.time_ms, usable, windows, values, states)
    found = states != 0
    at = values[found].astype(np.int64)
    values[found] = series.value[at]
    return Vector(series.labels, values, found, _place(series.histograms[at], found))


def _place(histograms: Objects, at: Flags) -> Objects:
    cells: npt.NDArray[np.object_] = np.full(at.shape, None, np.object_)
    cells[at] = histograms
    return cells
