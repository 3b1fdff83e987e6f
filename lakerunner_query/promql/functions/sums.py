"""`sum_over_time` and `avg_over_time`, and the sums that samples of delta temporality grow by.

Histograms are added like floats, with compensated rounding.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.gotext.strconv import label_set
from lakerunner_query.histogram.arithmetic import divide
from lakerunner_query.histogram.batch_windows import joint_hints, totals
from lakerunner_query.histogram.model import Histogram, IncompatibleHistogramsError
from lakerunner_query.histogram.sums import KahanMean, KahanSum
from lakerunner_query.promql.context import Context, FunctionBody
from lakerunner_query.promql.functions.messages import AGGREGATION, ArgumentAnnotations
from lakerunner_query.promql.functions.windows import (
    MixedSeries,
    RangeVector,
    histogram_flags,
    range_vector,
    source_vector,
)
from lakerunner_query.promql.lang.ast import Call
from lakerunner_query.vectors.rows import empty_objects
from lakerunner_query.vectors.vector import Labels, Objects, Value
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import MixedTemporalityError, WindowValues
from lakerunner_query.windows.samples import over_samples
from resources.arrays import Doubles, Flags, Int8s


def sum_function(function: Function) -> FunctionBody:
    """Build `sum_over_time` or `avg_over_time`."""

    def apply(context: Context, call: Call) -> Value:
        known = source_vector(context, call, function)
        if known is not None:
            return known
        windows = range_vector(context, call)
        evaluated = over_samples(function, windows.floats, windows.window.grid)
        values, present = evaluated.values, evaluated.present
        histograms: Objects | None = None
        for mixed in windows.mixed_series():
            both = mixed.has_floats & mixed.has_histograms
            if both.any():
                windows.notes.mixed_samples(mixed.name)
            present[mixed.row, both] = False
            found = _batch_totals(windows, mixed, function)
            if found is None:
                found = empty_objects((values.shape[1],))
                for step in np.flatnonzero(mixed.has_histograms & ~both).tolist():
                    window = list(mixed.histograms[mixed.window_slice(step)])
                    found[step] = total_histogram(window, mixed.name, windows.notes, AGGREGATION, function)
            histograms = empty_objects(values.shape) if histograms is None else histograms
            histograms[mixed.row] = found
            present[mixed.row] |= histogram_flags(found)
        return windows.to_vector(values, present, histograms)

    return apply


def _batch_totals(windows: RangeVector, mixed: MixedSeries, function: Function) -> Objects | None:
    """Compute all windows of a series at once; None unless its histograms share a layout."""
    dense = mixed.dense
    numbers = None if dense is None else totals(dense, mixed.times, windows.windows, function)
    if dense is None or numbers is None:
        return None
    found = empty_objects(mixed.low.shape)
    steps = np.flatnonzero(mixed.high > mixed.low)
    hints, conflicts = joint_hints(dense.hints, mixed.low[steps], mixed.high[steps])
    if conflicts.any():
        windows.notes.conflicting_resets(AGGREGATION)
    found[steps] = dense.histograms(numbers[steps], hints)
    return found


def total_histogram(
    histograms: list[Histogram],
    name: str,
    notes: ArgumentAnnotations,
    operation: str,
    function: Function = Function.SUM,
) -> Histogram | None:
    """Add histograms; None if exponential and custom buckets are mixed."""
    total = (KahanMean if function == Function.AVG else KahanSum)(histograms[0])
    try:
        for histogram in histograms[1:]:
            total.add(histogram)
    except IncompatibleHistogramsError:
        notes.mixed_layouts(name)
        return None
    if total.hint_conflict:
        notes.conflicting_resets(operation)
    if total.bounds_reconciled:
        notes.reconciled_bounds(operation)
    return total.result()


def delta_rows(windows: RangeVector) -> Flags:
    """Flag the series with floats of delta temporality."""
    found = np.zeros(windows.series.count, np.bool_)
    if windows.floats.is_delta is not None:
        found[windows.floats.series[windows.floats.is_delta]] = True
    return found


def mixed_temporality_error(labels: Labels, end_ms: int, function: Function) -> EvaluationError:
    return EvaluationError(
        f"series {label_set(labels)}, window ending at {end_ms} ms: delta and cumulative samples together; "
        f"{function.name.lower()} needs one temporality"
    )


def sum_deltas(windows: RangeVector, mixed: MixedSeries, function: Function, step: int) -> Histogram | None:
    """Compute the growth of delta histograms: their sum, without extrapolation."""
    place = mixed.window_slice(step)
    if not mixed.is_delta[place].all():
        end = windows.windows.first_end + step * windows.windows.step
        raise mixed_temporality_error(windows.series.labels[mixed.row], end, function)
    total = total_histogram(list(mixed.histograms[place]), mixed.name, windows.notes, AGGREGATION)
    if total is None or function != Function.RATE:
        return total
    return divide(total, windows.windows.range / 1000)


def over_float_samples(windows: RangeVector, function: Function) -> WindowValues:
    """Compute windows of floats in the kernels."""
    try:
        return over_samples(function, windows.floats, windows.window.grid)
    except MixedTemporalityError as error:
        labels = windows.series.labels[error.series]
        raise mixed_temporality_error(labels, error.end_ms, function) from error


def empty_cells(windows: RangeVector, steps: int) -> tuple[Doubles, Int8s]:
    """Allocate values and states for the kernels to fill."""
    shape = (windows.series.count, steps)
    return np.full(shape, np.nan), np.zeros(shape, np.int8)
