"""`| unwrap duration(latency)`: the label that becomes the sample.

latency="250ms"  ->  0.25;   no latency: no sample;   latency="x"  ->  0 and an error
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lakerunner_query.evaluate.logs.columns import column_of
from lakerunner_query.evaluate.logs.frame import LogFrame
from lakerunner_query.evaluate.logs.stages.failures import SAMPLE_EXTRACTION, failed
from lakerunner_query.evaluate.logs.stages.label_filters import tested
from lakerunner_query.gotext.conversions import converted, duration_seconds, number, size
from lakerunner_query.lang.logql.ast import Conversion, Unwrap
from resources.arrays import Doubles

_CONVERT: dict[Conversion, Callable[[str], float]] = {
    Conversion.NONE: number,
    Conversion.DURATION: duration_seconds,
    Conversion.BYTES: size,
}


def unwrapped(frame: LogFrame, unwrap: Unwrap) -> tuple[LogFrame, Doubles]:
    """The rows that have the label, and its numbers; the filters behind `unwrap` have been applied.

    The label itself stays in the frame: whether it is part of a series depends on the grouping. Rows whose
    value is no number have `__error__="SampleExtractionErr"` and the number 0.
    """
    column = column_of(frame, unwrap.label)
    there = column.codes >= 0
    frame, codes = frame.keep(there), column.codes[there]
    if not len(codes):
        return frame, np.zeros(0)
    found = converted(column.values, _CONVERT[unwrap.conversion])
    wrong = np.zeros(len(column.values), np.bool_)
    wrong[list(found.failures)] = True
    rows = np.flatnonzero(wrong[codes]).astype(np.int64)
    texts = [found.failures.get(code, "") for code in range(len(column.values))]
    frame = failed(frame, rows, SAMPLE_EXTRACTION, codes[rows], texts)
    numbers = found.numbers[codes]
    for stage in unwrap.filters:
        frame, kept = tested(frame, stage.condition)
        frame, numbers = frame.keep(kept), numbers[kept]
    return frame, numbers
