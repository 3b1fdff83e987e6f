"""What native histograms tell in one number. Floats drop out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.functions.arguments import vector_of
from lakerunner_query.evaluate.functions.results import without_names
from lakerunner_query.evaluate.functions.simple import Implementation
from lakerunner_query.histogram.batch import COUNT, SUM, totals_of
from lakerunner_query.histogram.model import Histogram
from lakerunner_query.histogram.quantiles import stddev, stdvar
from lakerunner_query.lang.promql.ast import Call
from lakerunner_query.vectors.rows import is_histogram
from lakerunner_query.vectors.vector import Value, Vector
from resources.arrays import Doubles, Flags


def of_histograms(function: Callable[[Histogram], float]) -> Implementation:
    def apply(context: Context, call: Call) -> Value:
        vector = vector_of(context, call)
        present = vector.present & is_histogram(vector)
        return without_names(vector.labels, each(vector, present, function), present)

    return apply


def of_totals(function: Callable[[Sequence[Histogram]], Doubles]) -> Implementation:
    """What needs no buckets is told for all at once."""

    def apply(context: Context, call: Call) -> Value:
        vector = vector_of(context, call)
        present = vector.present & is_histogram(vector)
        values = np.full(present.shape, np.nan)
        if vector.histograms is not None and present.any():
            values[present] = function(vector.histograms[present].tolist())
        return without_names(vector.labels, values, present)

    return apply


def _means(histograms: Sequence[Histogram]) -> Doubles:
    with np.errstate(all="ignore"):
        return totals_of(histograms, SUM) / totals_of(histograms, COUNT)


def each(vector: Vector, present: Flags, function: Callable[[Histogram], float]) -> Doubles:
    values = np.full(vector.present.shape, np.nan)
    if vector.histograms is not None:
        values[present] = [function(one) for one in vector.histograms[present]]
    return values


HISTOGRAMS: dict[str, Implementation] = {
    "histogram_count": of_totals(lambda histograms: totals_of(histograms, COUNT)),
    "histogram_sum": of_totals(lambda histograms: totals_of(histograms, SUM)),
    "histogram_avg": of_totals(_means),
    "histogram_stddev": of_histograms(stddev),
    "histogram_stdvar": of_histograms(stdvar),
}
