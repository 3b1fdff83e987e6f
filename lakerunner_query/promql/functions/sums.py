"""`sum_over_time` and `avg_over_time`; histograms are added as floats are, rounding kept."""

from __future__ import annotations

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.gotext.strconv import label_set
from lakerunner_query.histogram.arithmetic import divide
from lakerunner_query.histogram.batch_windows import joint_hints, totals
from lakerunner_query.histogram.model import Histogram, IncompatibleHistogramsError
from lakerunner_query.histogram.sums import KahanMean, KahanSum
from lakerunner_query.promql.context import Context, FunctionBody
from lakerunner_query.promql.functions.messages import AGGREGATION, Notes
from lakerunner_query.promql.functions.windows import Mixture, Ranged, answered, are_histograms, ranged
from lakerunner_query.promql.lang.ast import Call
from lakerunner_query.vectors.rows import no_objects
from lakerunner_query.vectors.vector import Labels, Objects, Value
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import Evaluated, MixedTemporalityError
from lakerunner_query.windows.samples import over_samples
from resources.arrays import Doubles, Flags, Int8s


def sum_function(function: Function) -> FunctionBody:
    def apply(context: Context, call: Call) -> Value:
        known = answered(context, call, function)
        if known is not None:
            return known
        windows = ranged(context, call)
        evaluated = over_samples(function, windows.floats, windows.window.grid)
        values, present = evaluated.values, evaluated.present
        histograms: Objects | None = None
        for mixture in windows.mixtures():
            both = mixture.has_floats & mixture.has_histograms
            if both.any():
                windows.notes.mixed_samples(mixture.name)
            present[mixture.row, both] = False
            found = _all_at_once(windows, mixture, function)
            if found is None:
                found = no_objects((values.shape[1],))
                for step in np.flatnonzero(mixture.has_histograms & ~both).tolist():
                    window = list(mixture.histograms[mixture.of_window(step)])
                    found[step] = total_of(window, mixture.name, windows.notes, AGGREGATION, function)
            histograms = no_objects(values.shape) if histograms is None else histograms
            histograms[mixture.row] = found
            present[mixture.row] |= are_histograms(found)
        return windows.answer(values, present, histograms)

    return apply


def _all_at_once(windows: Ranged, mixture: Mixture, function: Function) -> Objects | None:
    """All windows of a series whose histograms have one layout; None where windows are asked one by one."""
    dense = mixture.dense
    numbers = None if dense is None else totals(dense, mixture.times, windows.windows, function)
    if dense is None or numbers is None:
        return None
    found = no_objects(mixture.low.shape)
    steps = np.flatnonzero(mixture.high > mixture.low)
    hints, conflicts = joint_hints(dense.hints, mixture.low[steps], mixture.high[steps])
    if conflicts.any():
        windows.notes.conflicting_resets(AGGREGATION)
    found[steps] = dense.histograms(numbers[steps], hints)
    return found


def total_of(
    histograms: list[Histogram],
    name: str,
    notes: Notes,
    operation: str,
    function: Function = Function.SUM,
) -> Histogram | None:
    """None if exponential and custom buckets are mixed."""
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


# << Samples of delta temporality: they grew by their sum, and nothing is drawn out to the edges of windows.


def delta_rows(windows: Ranged) -> Flags:
    """By series: some of its floats are deltas."""
    found = np.zeros(windows.series.count, np.bool_)
    if windows.floats.is_delta is not None:
        found[windows.floats.series[windows.floats.is_delta]] = True
    return found


def mixed_temporality(labels: Labels, end_ms: int, function: Function) -> EvaluationError:
    return EvaluationError(
        f"series {label_set(labels)}, window ending at {end_ms} ms: delta and cumulative samples together; "
        f"{function.name.lower()} needs one temporality"
    )


def summed_deltas(windows: Ranged, mixture: Mixture, function: Function, step: int) -> Histogram | None:
    """`rate`, `increase` and `delta` of histograms that are deltas."""
    place = mixture.of_window(step)
    if not mixture.is_delta[place].all():
        end = windows.windows.first_end + step * windows.windows.step
        raise mixed_temporality(windows.series.labels[mixture.row], end, function)
    total = total_of(list(mixture.histograms[place]), mixture.name, windows.notes, AGGREGATION)
    if total is None or function != Function.RATE:
        return total
    return divide(total, windows.windows.range / 1000)


# << Windows of floats through the kernels, with room for what they answer.


def over_floats(windows: Ranged, function: Function) -> Evaluated:
    try:
        return over_samples(function, windows.floats, windows.window.grid)
    except MixedTemporalityError as error:
        labels = windows.series.labels[error.series]
        raise mixed_temporality(labels, error.end_ms, function) from error


def room(windows: Ranged, steps: int) -> tuple[Doubles, Int8s]:
    shape = (windows.series.count, steps)
    return np.full(shape, np.nan), np.zeros(shape, np.int8)
