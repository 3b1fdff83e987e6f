"""Recorded samples become a table in the form of decoded metrics.

(("__name__", "job:errors"), ("job", "a")), 12:01, 3.0   →   a row of a gauge, without a raw object
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from lakerunner_query.histogram.model import CUSTOM, Buckets, Histogram
from lakerunner_query.rules.evaluation import RecordedSample
from lakerunner_query.rules.memory_source import STALE
from lakerunner_query.vectors.vector import Labels
from resources.lake.columns import (
    CHQ_HIST_BOUNDS,
    CHQ_HIST_COUNT_FLOAT,
    CHQ_HIST_NEGATIVE_COUNTS_FLOAT,
    CHQ_HIST_NEGATIVE_OFFSET,
    CHQ_HIST_POSITIVE_COUNTS_FLOAT,
    CHQ_HIST_POSITIVE_OFFSET,
    CHQ_HIST_RESET_HINT,
    CHQ_HIST_SCHEMA,
    CHQ_HIST_SUM,
    CHQ_HIST_ZERO_COUNT_FLOAT,
    CHQ_HIST_ZERO_THRESHOLD,
    CHQ_METRIC_TYPE,
    CHQ_OBJECT,
    CHQ_POSITION,
    CHQ_SERIES,
    CHQ_TID,
    CHQ_TIMESTAMP,
    CHQ_VALUE,
)
from resources.lake.series import NAME_LABEL
from resources.lake.streams import canonical, labels_to_text, stream_id

NO_OBJECT = 0
"""Raw object of recorded rows: they have none."""
_GAUGE, _HISTOGRAM = "gauge", "exponential_histogram"
_DOUBLES = pa.list_(pa.float64())


def sample_table(samples: Sequence[RecordedSample]) -> pa.Table:
    """Return one row per sample; a stale marker is the number that marks it."""
    numbers: dict[Labels, int] = {}
    codes = np.array([numbers.setdefault(one.labels, len(numbers)) for one in samples], np.int32)
    named = [canonical(dict(labels)) for labels in numbers]
    histograms = [one.value if isinstance(one.value, Histogram) else None for one in samples]
    columns = {
        "metric_name": pa.DictionaryArray.from_arrays(
            pa.array(codes), pa.array([dict(each).get(NAME_LABEL, "") for each in named])
        ),
        CHQ_TID: np.array([stream_id(each) for each in named], np.int64)[codes],
        CHQ_TIMESTAMP: np.array([one.at_ms for one in samples], np.int64),
        CHQ_OBJECT: np.full(len(samples), NO_OBJECT),
        CHQ_POSITION: np.arange(len(samples)),
        CHQ_SERIES: pa.DictionaryArray.from_arrays(
            pa.array(codes), pa.array([labels_to_text(each) for each in named])
        ),
        CHQ_METRIC_TYPE: pa.array([_GAUGE if one is None else _HISTOGRAM for one in histograms]),
        CHQ_VALUE: _values(samples),
    }
    if any(one is not None for one in histograms):
        columns |= _histogram_columns(histograms)
    return pa.table(columns)


def _values(samples: Sequence[RecordedSample]) -> pa.Array:
    is_histogram = np.array([isinstance(one.value, Histogram) for one in samples], np.bool_)
    numbers = [one.value if isinstance(one.value, float) else STALE for one in samples]
    return pa.array(np.array(numbers, np.float64), mask=is_histogram, from_pandas=False)


def _histogram_columns(histograms: Sequence[Histogram | None]) -> dict[str, pa.Array]:
    def each(kind: pa.DataType, read: Callable[[Histogram], object]) -> pa.Array:
        return pa.array([None if one is None else read(one) for one in histograms], kind)

    sums = np.array([0.0 if one is None else one.sum for one in histograms])
    are_none = np.array([one is None for one in histograms])
    return {
        CHQ_HIST_COUNT_FLOAT: each(pa.float64(), lambda h: h.count),
        CHQ_HIST_SUM: pa.array(sums, mask=are_none, from_pandas=False),  # NaN stays NaN
        CHQ_HIST_SCHEMA: each(pa.int32(), lambda h: h.schema),
        CHQ_HIST_BOUNDS: each(_DOUBLES, lambda h: list(h.bounds) if h.schema == CUSTOM else None),
        CHQ_HIST_ZERO_COUNT_FLOAT: each(pa.float64(), lambda h: h.zero_count),
        CHQ_HIST_ZERO_THRESHOLD: each(pa.float64(), lambda h: h.zero_threshold),
        CHQ_HIST_POSITIVE_OFFSET: each(pa.int32(), lambda h: _first(h, h.positive)),
        CHQ_HIST_POSITIVE_COUNTS_FLOAT: each(_DOUBLES, lambda h: _dense(h.positive)),
        CHQ_HIST_NEGATIVE_OFFSET: each(pa.int32(), lambda h: _first(h, h.negative)),
        CHQ_HIST_NEGATIVE_COUNTS_FLOAT: each(_DOUBLES, lambda h: _dense(h.negative)),
        CHQ_HIST_RESET_HINT: each(pa.int32(), lambda h: int(h.hint)),
    }


def _first(histogram: Histogram, side: Buckets) -> int:
    """OpenTelemetry numbers exponential buckets by their lower bound, Prometheus by the upper one."""
    if not side.size:
        return 0
    return int(side.index[0]) - (histogram.schema != CUSTOM)


def _dense(side: Buckets) -> list[float]:
    if not side.size:
        return []
    counts = np.zeros(int(side.index[-1] - side.index[0]) + 1)
    counts[side.index - side.index[0]] = side.count
    return [float(count) for count in counts]
