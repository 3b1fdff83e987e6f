"""The oracle of histogram tests: histograms counted from single observations, by exact arithmetic.

An observation is `(sign, j)`: the value sign * 2^((j + 1/2) / 256), or zero where the sign is zero. It is
never on the edge of a bucket, and its bucket in any schema is a fraction rounded up.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from lakerunner_query.histogram.model import CUSTOM, Buckets, Hint, Histogram, compact

Observation = tuple[int, int]
OBSERVATIONS = st.lists(st.tuples(st.sampled_from((-1, 0, 1)), st.integers(-1500, 1500)), max_size=12)
SCHEMAS = st.integers(0, 8)
THRESHOLDS = st.sampled_from((None, -3, -1, 0, 2))
"""Powers of two, which are edges of buckets in these schemas; None is a threshold of zero."""
VALUES = st.lists(st.integers(-5, 30), max_size=10)
BOUNDS = st.sets(st.integers(0, 20).map(float), max_size=5).map(lambda found: tuple(sorted(found)))
"""Whole numbers, and bounds for them."""


def widest(first: int | None, second: int | None) -> int | None:
    known = [one for one in (first, second) if one is not None]
    return max(known) if known else None


def power(observation: Observation) -> Fraction:
    return Fraction(2 * observation[1] + 1, 512)


def value(observation: Observation) -> float:
    return observation[0] * math.exp2(float(power(observation)))


def is_zero(observation: Observation, threshold: int | None) -> bool:
    return observation[0] == 0 or (threshold is not None and power(observation) < threshold)


def exponential(
    observations: list[Observation], schema: int, threshold: int | None = None, hint: Hint = Hint.UNKNOWN
) -> Histogram:
    places: dict[int, Counter[int]] = {1: Counter(), -1: Counter()}
    zeros = 0
    for one in observations:
        if is_zero(one, threshold):
            zeros += 1
        else:
            places[one[0]][math.ceil(power(one) * Fraction(2) ** schema)] += 1
    return Histogram(
        schema,
        float(len(observations)),
        float(sum(j for _, j in observations)),
        0.0 if threshold is None else 2.0**threshold,
        float(zeros),
        side(places[1]),
        side(places[-1]),
        hint=hint,
    )


def custom(values: list[int], bounds: tuple[float, ...]) -> Histogram:
    """Build a histogram of whole numbers; a value on a bound is in the bucket that ends there."""
    places = Counter(sum(value > bound for bound in bounds) for value in values)
    return Histogram(CUSTOM, float(len(values)), float(sum(values)), positive=side(places), bounds=bounds)


def side(places: Counter[int]) -> Buckets:
    index = sorted(places)
    return Buckets(np.array(index, np.int64), np.array([places[i] for i in index], np.float64))


def facts(histogram: Histogram) -> tuple[object, ...]:
    """Return everything but the hint and empty buckets, for comparison."""
    bare = compact(histogram)
    return (
        bare.schema, bare.count, bare.sum, bare.zero_threshold, bare.zero_count, bare.bounds,
        bare.positive.index.tolist(), bare.positive.count.tolist(),
        bare.negative.index.tolist(), bare.negative.count.tolist(),
    )  # fmt: skip
