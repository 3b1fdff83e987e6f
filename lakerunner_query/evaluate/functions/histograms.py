"""What native histograms tell in one number. Floats drop out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.functions.arguments import vector_of
from lakerunner_query.evaluate.functions.results import without_names
from lakerunner_query.evaluate.functions.simple import Implementation
from lakerunner_query.evaluate.histogram.model import Histogram
from lakerunner_query.evaluate.histogram.moments import mean, stddev, stdvar
from lakerunner_query.evaluate.rows import is_histogram
from lakerunner_query.evaluate.vectors import Value, Vector
from lakerunner_query.lang.promql.ast import Call
from lakerunner_query.windows.functions import Doubles, Flags


def of_histograms(function: Callable[[Histogram], float]) -> Implementation:
    def apply(context: Context, call: Call) -> Value:
        vector = vector_of(context, call)
        present = vector.present & is_histogram(vector)
        return without_names(vector.labels, each(vector, present, function), present)

    return apply


def each(vector: Vector, present: Flags, function: Callable[[Histogram], float]) -> Doubles:
    values = np.full(vector.present.shape, np.nan)
    if vector.histograms is not None:
        values[present] = [function(one) for one in vector.histograms[present]]
    return values


HISTOGRAMS: dict[str, Implementation] = {
    "histogram_count": of_histograms(lambda histogram: histogram.count),
    "histogram_sum": of_histograms(lambda histogram: histogram.sum),
    "histogram_avg": of_histograms(mean),
    "histogram_stddev": of_histograms(stddev),
    "histogram_stdvar": of_histograms(stdvar),
}
