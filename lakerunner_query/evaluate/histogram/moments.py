"""Mean and spread of a histogram's observations, each bucket taken as one value.

custom (2, 4] -> 3      exponential (2, 8] -> 4      zero bucket -> 0
"""

from __future__ import annotations

import math

import numpy as np

from lakerunner_query.evaluate.histogram.kahan import plus_one
from lakerunner_query.evaluate.histogram.model import Histogram
from lakerunner_query.evaluate.histogram.walk import Bucket, buckets


def mean(histogram: Histogram) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(histogram.sum) / np.float64(histogram.count))


def stdvar(histogram: Histogram) -> float:
    """The population variance."""
    average = mean(histogram)
    total, lost = 0.0, 0.0
    for bucket in buckets(histogram):
        if bucket.count == 0:
            continue
        distance = _middle(bucket, histogram) - average
        total, lost = plus_one(bucket.count * distance * distance, total, lost)
    with np.errstate(all="ignore"):
        return float(np.float64(total + lost) / np.float64(histogram.count))


def stddev(histogram: Histogram) -> float:
    variance = stdvar(histogram)
    return math.sqrt(variance) if variance >= 0 else math.nan


def _middle(bucket: Bucket, histogram: Histogram) -> float:
    if histogram.is_custom:
        return (bucket.upper + bucket.lower) / 2
    if bucket.lower <= 0 <= bucket.upper:
        return 0.0
    middle = math.sqrt(bucket.upper * bucket.lower)
    return -middle if bucket.upper < 0 else middle
