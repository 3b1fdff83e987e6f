"""`*_over_time` functions that count samples, select one, or ignore histograms beside floats.

Histograms beside floats are ignored with an annotation; a window of histograms alone has no value.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.promql.context import Context, FunctionBody
from lakerunner_query.promql.functions.sums import empty_cells
from lakerunner_query.promql.functions.windows import RangeVector, range_vector, scalar_of, source_vector
from lakerunner_query.promql.lang.ast import Call
from lakerunner_query.vectors.vector import Value
from lakerunner_query.windows.extremes_kernels import times_of_extremes
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.ranks_kernels import ranks, smoothings, trends
from lakerunner_query.windows.samples import over_samples
from resources.arrays import Doubles, Int8s, Int64s

NO_ORIGINS = np.zeros(0, np.int64)
NO_QUANTILES = np.zeros(0)


def float_window_function(function: Function) -> FunctionBody:
    """Build `min_over_time` or another function of the floats of a window."""

    def apply(context: Context, call: Call) -> Value:
        found = source_vector(context, call, function)
        if found is not None:
            return found
        windows = range_vector(context, call)
        evaluated = over_samples(function, windows.floats, windows.window.grid)
        annotate_ignored_histograms(windows)
        return windows.to_vector(evaluated.values, evaluated.present)

    return apply


def sample_window_function(function: Function) -> FunctionBody:
    """Build `count_over_time` or `present_over_time`, which count histograms like floats."""

    def apply(context: Context, call: Call) -> Value:
        found = source_vector(context, call, function)
        if found is not None:
            return found
        windows = range_vector(context, call)
        evaluated = windows.over_all_samples(function, windows.series.value)
        return windows.to_vector(evaluated.values, evaluated.present)

    return apply


def selection_function(function: Function) -> FunctionBody:
    """Build `first_over_time` or `last_over_time`; names stay, as with an offset."""

    def apply(context: Context, call: Call) -> Value:
        found = source_vector(context, call, function, keeps_name=True)
        if found is not None:
            return found
        windows = range_vector(context, call)
        if windows.is_histogram is None or windows.series.histograms is None:
            evaluated = over_samples(function, windows.floats, windows.window.grid)
            return windows.to_vector(evaluated.values, evaluated.present, keeps_name=True)
        places = windows.over_all_samples(function, np.arange(len(windows.series.time_ms), dtype=np.float64))
        at = np.where(places.present, places.values, 0).astype(np.int64)
        histograms = windows.series.histograms[at]
        histograms[~places.present] = None
        return windows.to_vector(windows.series.value[at], places.present, histograms, keeps_name=True)

    return apply


def sample_time_function(function: Function) -> FunctionBody:
    """Build `ts_of_first_over_time` or `ts_of_last_over_time`."""

    def apply(context: Context, call: Call) -> Value:
        windows = range_vector(context, call)
        evaluated = windows.over_all_samples(function, windows.series.time_ms / 1000)
        return windows.to_vector(evaluated.values, evaluated.present)

    return apply


def extreme_time_function(is_maximum: bool) -> FunctionBody:
    def apply(context: Context, call: Call) -> Value:
        windows = range_vector(context, call)
        values, states = empty_cells(windows, windows.windows.steps)
        samples = windows.floats
        times_of_extremes(
            is_maximum, samples.offsets, samples.time_ms, samples.value, windows.windows, values, states
        )
        annotate_ignored_histograms(windows)
        return windows.to_vector(values, states != 0)

    return apply


def quantile_over_time(context: Context, call: Call) -> Value:
    quantiles = scalar_of(context, call, 0)
    windows = range_vector(context, call, 1)
    values, states = empty_cells(windows, context.steps.count)
    _fill_ranks(windows, quantiles, values, states)
    present = states != 0
    with np.errstate(invalid="ignore"):
        is_invalid = ~((quantiles >= 0) & (quantiles <= 1))
    for step in np.flatnonzero(is_invalid & present.any(axis=0)).tolist():
        windows.notes.invalid_quantile(float(quantiles[step]))
    annotate_ignored_histograms(windows)
    return windows.to_vector(values, present)


def mad_over_time(context: Context, call: Call) -> Value:
    windows = range_vector(context, call)
    values, states = empty_cells(windows, context.steps.count)
    _fill_ranks(windows, NO_QUANTILES, values, states)
    annotate_ignored_histograms(windows)
    return windows.to_vector(values, states != 0)


def _fill_ranks(windows: RangeVector, quantiles: Doubles, values: Doubles, states: Int8s) -> None:
    samples = windows.floats
    ranks(samples.offsets, samples.time_ms, samples.value, windows.windows_by_step, quantiles, values, states)


def deriv(context: Context, call: Call) -> Value:
    windows = range_vector(context, call)
    slopes, states = empty_cells(windows, windows.windows.steps)
    _fill_trends(windows, NO_ORIGINS, slopes, np.zeros_like(slopes), states)
    return windows.to_vector(slopes, states != 0)


def predict_linear(context: Context, call: Call) -> Value:
    windows = range_vector(context, call)
    ahead = scalar_of(context, call, 1)
    slopes, states = empty_cells(windows, context.steps.count)
    heights = np.zeros_like(slopes)
    _fill_trends(windows, context.steps.times_ms, slopes, heights, states)
    with np.errstate(all="ignore"):
        values = slopes * ahead + heights
    return windows.to_vector(values, states != 0)


def _fill_trends(
    windows: RangeVector, origins: Int64s, slopes: Doubles, heights: Doubles, states: Int8s
) -> None:
    samples = windows.floats
    shape = windows.windows_by_step if len(origins) else windows.windows
    trends(samples.offsets, samples.time_ms, samples.value, shape, origins, slopes, heights, states)
    annotate_ignored_histograms(windows)


def double_exponential_smoothing(context: Context, call: Call) -> Value:
    windows = range_vector(context, call)
    smoothing, trend = scalar_of(context, call, 1), scalar_of(context, call, 2)
    _check_factors(windows, smoothing, trend)
    values, states = empty_cells(windows, context.steps.count)
    samples = windows.floats
    smoothings(
        samples.offsets,
        samples.time_ms,
        samples.value,
        windows.windows_by_step,
        smoothing,
        trend,
        values,
        states,
    )
    annotate_ignored_histograms(windows)
    return windows.to_vector(values, states != 0)


def _check_factors(windows: RangeVector, smoothing: Doubles, trend: Doubles) -> None:
    """Raise for factors outside (0, 1) at steps that have samples."""
    counted = windows.over_all_samples(Function.COUNT, windows.series.value).present.any(axis=0)
    asked = np.broadcast_to(counted, smoothing.shape)
    for name, factors in (("smoothing", smoothing), ("trend", trend)):
        for factor in factors[asked & ((factors <= 0) | (factors >= 1))].tolist():
            short = "sf" if name == "smoothing" else "tf"
            raise EvaluationError(f"invalid {name} factor. Expected: 0 < {short} < 1, got: {factor:f}")


def annotate_ignored_histograms(windows: RangeVector) -> None:
    for mixed in windows.mixed_series():
        if (mixed.has_floats & mixed.has_histograms).any():
            windows.notes.ignored_histograms(mixed.name)
