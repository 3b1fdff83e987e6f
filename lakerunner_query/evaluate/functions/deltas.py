"""Samples of delta temporality: they grew by their sum, and nothing is drawn out to the edges of windows."""

from __future__ import annotations

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.evaluate.functions.messages import AGGREGATION
from lakerunner_query.evaluate.functions.ranged import Mixture, Ranged
from lakerunner_query.evaluate.functions.summing import total_of
from lakerunner_query.gotext.strconv import label_set
from lakerunner_query.histogram.arithmetic import divide
from lakerunner_query.histogram.model import Histogram
from lakerunner_query.vectors.vector import Labels
from lakerunner_query.windows.functions import Function
from resources.arrays import Flags


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
