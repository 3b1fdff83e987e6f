"""`sum_over_time` and `avg_over_time`; histograms are added as floats are, rounding kept."""

from __future__ import annotations

import numpy as np

from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.functions.messages import AGGREGATION, Notes
from lakerunner_query.evaluate.functions.ranged import Mixture, Ranged, ranged
from lakerunner_query.evaluate.functions.results import are_histograms
from lakerunner_query.evaluate.functions.simple import Implementation
from lakerunner_query.evaluate.functions.sourced import answered
from lakerunner_query.histogram.batch_windows import joint_hints, totals
from lakerunner_query.histogram.model import Histogram, IncompatibleHistogramsError
from lakerunner_query.histogram.sums import KahanMean, KahanSum
from lakerunner_query.lang.promql.ast import Call
from lakerunner_query.vectors.rows import no_objects
from lakerunner_query.vectors.vector import Objects, Value
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.samples import over_samples


def summing(function: Function) -> Implementation:
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
