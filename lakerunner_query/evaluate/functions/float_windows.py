"""Windows of floats through the kernels, with room for what they answer."""

from __future__ import annotations

import numpy as np

from lakerunner_query.evaluate.functions.deltas import mixed_temporality
from lakerunner_query.evaluate.functions.ranged import Ranged
from lakerunner_query.windows.functions import Evaluated, Function, MixedTemporalityError
from lakerunner_query.windows.samples import over_samples
from resources.arrays import Doubles, Int8s


def over_floats(windows: Ranged, function: Function) -> Evaluated:
    try:
        return over_samples(function, windows.floats, windows.window.grid)
    except MixedTemporalityError as error:
        labels = windows.series.labels[error.series]
        raise mixed_temporality(labels, error.end_ms, function) from error


def room(windows: Ranged, steps: int) -> tuple[Doubles, Int8s]:
    shape = (windows.series.count, steps)
    return np.full(shape, np.nan), np.zeros(shape, np.int8)
