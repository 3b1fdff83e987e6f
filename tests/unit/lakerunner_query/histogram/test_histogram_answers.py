"""Quantiles, fractions, moments and trimming: against observations, and by hand."""

from __future__ import annotations

import hashlib
import math
import sys
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.histogram.model import (
    CUSTOM,
    HIGHEST,
    LOWEST,
    Histogram,
    buckets,
    buckets_at,
    exponential_bounds,
)
from lakerunner_query.histogram.quantiles import NanFact, fraction, mean, quantile, stddev, stdvar
from lakerunner_query.histogram.trim import trim_lower, trim_upper
from tests.support.query.promql.histogram_of_observations import (
    OBSERVATIONS,
    SCHEMAS,
    THRESHOLDS,
    Observation,
    custom,
    exponential,
    facts,
    power,
    value,
)

ONE_TWO_ONE = Histogram(0, 4.0, 5.0, positive=buckets_at(0, [1.0, 2.0, 1.0]))
"""(0.5, 1] 1, (1, 2] 2, (2, 4] 1."""
NANS = Histogram(0, 10.0, math.nan, positive=buckets_at(0, [2.0, 6.0]))
"""Two of ten observations are NaN."""


@pytest.mark.parametrize(
    ("schema", "index", "bound"),
    [
        (0, 0, 1.0),
        (0, -3, 0.125),
        (0, 1023, 2.0**1023),
        (0, 1024, np.finfo(np.float64).max),
        (0, 1025, math.inf),
        (1, 1, math.sqrt(2.0)),
        (2, -1, 2.0**-0.25),
        (8, 256, 2.0),
        (8, 255, 2.0 ** (255 / 256)),
        (8, 262144, np.finfo(np.float64).max),
        (-1, 1, 4.0),
        (-1, 512, np.finfo(np.float64).max),
        (-4, -1, 2.0**-16),
        (-4, 64, np.finfo(np.float64).max),
        (-4, 65, math.inf),
        (-4, -100, 0.0),
    ],
)
def test_where_exponential_buckets_end(schema: int, index: int, bound: float) -> None:
    found = float(exponential_bounds(np.array([index]), schema)[0])
    assert found == pytest.approx(bound, rel=1e-15)


FACTORS = (
    "1.414213562373095", "1.189207115002721", "1.0905077326652577", "1.0442737824274138",
    "1.0218971486541166", "1.0108892860517005", "1.0054299011128027", "1.0027112750502025",
)  # fmt: skip
"""Ends of the first buckets above 1 of schemas 1 to 8, as Prometheus 3.15 prints them."""
BETWEEN_HALF_AND_ONE = "9de5914e4bc19f96dd1f461efa1b8f3fd6bfe80297b3a5a46302dac8a388c730"
"""SHA-256 of the 256 ends of schema 8 from 0.5 on, as doubles, of the same Prometheus."""


def rounded_product(index: int, schema: int) -> float:
    """Multiply the factors of the binary digits in exact arithmetic, and round after each."""
    power, part = (index << -schema, 0) if schema < 0 else divmod(index, 1 << schema)
    if (power, part) == (1024, 0):
        return sys.float_info.max
    found = Fraction(1)
    for digit in range(1, schema + 1):
        if part >> (schema - digit) & 1:
            found = Fraction(float(found * Fraction(float(FACTORS[digit - 1]))))
    try:
        return float(found * Fraction(2) ** power)
    except OverflowError:
        return math.inf


@pytest.mark.parametrize("schema", range(LOWEST, HIGHEST + 1))
def test_every_bound_is_the_one_of_prometheus_to_the_last_digit(schema: int) -> None:
    width = 2.0**schema
    near = range(-600, 600)
    edges = (
        int(power * width) + part for power in (-1080, -1074, -1022, 1023, 1024) for part in range(-9, 9)
    )
    wide = range(int(-1080 * width), int(1030 * width) + 1, max(1, int(7 * width) + 1))
    index = np.array(sorted({*near, *edges, *wide}), np.int64)
    expected = [rounded_product(each, schema) for each in index.tolist()]
    assert exponential_bounds(index, schema).tolist() == expected


def test_bounds_of_the_finest_schema_are_recorded() -> None:
    found = exponential_bounds(np.arange(-256, 0), HIGHEST).astype("<f8")
    assert hashlib.sha256(found.tobytes()).hexdigest() == BETWEEN_HALF_AND_ONE


@given(OBSERVATIONS, SCHEMAS, THRESHOLDS)
@settings(max_examples=60)
def test_buckets_hold_their_observations_and_do_not_overlap(
    observations: list[Observation], schema: int, threshold: int | None
) -> None:
    found = list(buckets(exponential(observations, schema, threshold)))
    for lower, upper in pairwise(found):
        assert lower.upper <= upper.lower
    for one in found:
        inside = [o for o in observations if one.lower < value(o) < one.upper or value(o) == 0 == one.lower]
        assert len(inside) == one.count


def test_a_bucket_that_reaches_into_the_zero_bucket_is_cut_off() -> None:
    one = Histogram(0, 3.0, 0.0, 1.5, 1.0, buckets_at(1, [1.0]), buckets_at(1, [1.0]))
    assert [(b.lower, b.upper) for b in buckets(one)] == [(-2.0, -1.5), (-1.5, 1.5), (1.5, 2.0)]


@given(OBSERVATIONS.filter(bool), SCHEMAS, st.floats(0, 1))
@settings(max_examples=100)
def test_a_quantile_is_in_the_bucket_of_its_observation(
    observations: list[Observation], schema: int, q: float
) -> None:
    histogram = exponential(observations, schema)
    found = quantile(q, histogram).value
    values = sorted(map(value, observations))
    rank = q * len(values)
    # The rank on an edge may fall to either side.
    low = values[max(math.ceil(rank - 1e-6) - 1, 0)]
    high = values[min(math.floor(rank + 1e-6), len(values) - 1)]
    edges = [(b.lower, b.upper) for b in buckets(histogram)]
    lowest = min(b[0] for b in edges if b[1] >= low)
    highest = max(b[1] for b in edges if b[0] <= high)
    assert lowest * (1 + 1e-12 * (1 if lowest < 0 else -1)) <= found
    assert found <= highest * (1 + 1e-12 * (1 if highest > 0 else -1))


@given(OBSERVATIONS.filter(bool), SCHEMAS, st.lists(st.floats(0, 1), min_size=2, max_size=5))
@settings(max_examples=60)
def test_quantiles_rise_with_their_rank(
    observations: list[Observation], schema: int, qs: list[float]
) -> None:
    histogram = exponential(observations, schema, 0)
    found = [quantile(q, histogram).value for q in sorted(qs)]
    assert found == pytest.approx(sorted(found), rel=1e-9, abs=1e-12)


@given(OBSERVATIONS.filter(bool), SCHEMAS, THRESHOLDS, st.floats(0.01, 0.99))
@settings(max_examples=100)
def test_the_fraction_below_a_quantile_is_its_rank(
    observations: list[Observation], schema: int, threshold: int | None, q: float
) -> None:
    histogram = exponential(observations, schema, threshold)
    if histogram.zero_threshold == 0:
        histogram = replace(histogram, zero_threshold=2.0**-40)
    below = fraction(-math.inf, quantile(q, histogram).value, histogram).value
    assert below == pytest.approx(q, rel=1e-6, abs=1e-9)


@given(OBSERVATIONS.filter(bool), SCHEMAS, st.integers(-6, 6), st.integers(-6, 6), st.booleans())
@settings(max_examples=100)
def test_fractions_between_edges_are_counted(
    observations: list[Observation], schema: int, first: int, second: int, is_negative: bool
) -> None:
    low, high = sorted((2.0**first, 2.0**second), key=lambda edge: -edge if is_negative else edge)
    low, high = (-low, -high) if is_negative else (low, high)
    inside = sum(low < value(one) < high for one in observations)
    found = fraction(low, high, exponential(observations, schema)).value
    assert found == pytest.approx(inside / len(observations), abs=1e-12)


def test_quantiles_by_hand() -> None:
    assert quantile(0.5, ONE_TWO_ONE).value == pytest.approx(math.sqrt(2))
    assert quantile(0.0, ONE_TWO_ONE).value == 0.5
    assert quantile(1.0, ONE_TWO_ONE).value == 4.0
    assert quantile(-0.1, ONE_TWO_ONE).value == -math.inf
    assert quantile(1.1, ONE_TWO_ONE).value == math.inf
    assert math.isnan(quantile(math.nan, ONE_TWO_ONE).value)
    assert math.isnan(quantile(0.5, Histogram()).value)


def test_the_zero_bucket_is_linear_and_ends_at_zero_beside_one_side_only() -> None:
    both = Histogram(0, 4.0, 0.0, 0.5, 4.0)
    right = replace(both, count=5.0, positive=buckets_at(1, [1.0]))
    left = replace(both, count=5.0, negative=buckets_at(1, [1.0]))
    assert quantile(0.25, both).value == pytest.approx(-0.25)
    assert quantile(0.4, right).value == pytest.approx(0.25)
    assert quantile(0.6, left).value == pytest.approx(-0.25)
    assert fraction(-0.25, 0.5, both).value == pytest.approx(0.75)
    assert fraction(-0.25, 0.25, right).value == pytest.approx(0.4)


def test_custom_quantiles_by_hand() -> None:
    one = Histogram(CUSTOM, 4.0, 30.0, positive=buckets_at(0, [1.0, 2.0, 1.0]), bounds=(5.0, 10.0))
    assert quantile(0.5, one).value == pytest.approx(7.5)
    assert quantile(0.125, one).value == pytest.approx(2.5)
    assert quantile(0.9, one).value == 10.0
    assert fraction(0.0, 7.5, one).value == pytest.approx(0.5)
    below_zero = replace(one, bounds=(-5.0, 10.0))
    assert quantile(0.1, below_zero).value == -5.0


def test_observations_of_nan_are_told() -> None:
    assert quantile(0.4, NANS).nan == NanFact.SKEW
    assert quantile(0.4, NANS).value == pytest.approx(2.0 ** (2 / 6))
    assert (math.isnan(quantile(0.9, NANS).value), quantile(0.9, NANS).nan) == (True, NanFact.RESULT)
    infinite = replace(NANS, count=8.0)
    assert quantile(0.5, infinite).nan == NanFact.NONE
    assert fraction(-math.inf, math.inf, NANS).value == pytest.approx(0.8)
    assert fraction(-math.inf, math.inf, NANS).has_nans
    assert not fraction(-math.inf, math.inf, infinite).has_nans


def test_fractions_of_nothing() -> None:
    assert math.isnan(fraction(0, 1, Histogram()).value)
    assert math.isnan(fraction(math.nan, 1, ONE_TWO_ONE).value)
    assert fraction(2, 1, ONE_TWO_ONE).value == 0.0


def test_moments_by_hand() -> None:
    """Middles sqrt(0.5), sqrt(2), sqrt(8); the mean is the exact one."""
    middles = [math.sqrt(0.5), math.sqrt(2.0), math.sqrt(2.0), math.sqrt(8.0)]
    expected = sum((middle - 1.25) ** 2 for middle in middles) / 4
    assert mean(ONE_TWO_ONE) == 1.25
    assert stdvar(ONE_TWO_ONE) == pytest.approx(expected)
    assert stddev(ONE_TWO_ONE) == pytest.approx(math.sqrt(expected))
    mirrored = Histogram(0, 4.0, -5.0, negative=ONE_TWO_ONE.positive)
    assert stdvar(mirrored) == pytest.approx(expected)
    zero = Histogram(0, 2.0, 2.0, 1.0, 2.0)
    assert stdvar(zero) == pytest.approx(1.0)
    by_bounds = Histogram(CUSTOM, 2.0, 10.0, positive=buckets_at(1, [2.0]), bounds=(4.0, 8.0))
    assert stdvar(by_bounds) == pytest.approx(1.0)
    assert math.isnan(stddev(Histogram()))
    assert stddev(replace(ONE_TWO_ONE, sum=math.inf)) == math.inf


@given(OBSERVATIONS, SCHEMAS, st.integers(-6, 6), st.booleans())
@settings(max_examples=100)
def test_trimming_at_an_edge_counts_what_is_there(
    observations: list[Observation], schema: int, edge: int, is_negative: bool
) -> None:
    at = -(2.0**edge) if is_negative else 2.0**edge
    whole = exponential(observations, schema)
    below, above = trim_upper(whole, at), trim_lower(whole, at)
    assert facts(replace(below, sum=0.0))[1:] == counted([o for o in observations if value(o) < at], schema)
    assert facts(replace(above, sum=0.0))[1:] == counted([o for o in observations if value(o) > at], schema)


def counted(observations: list[Observation], schema: int) -> tuple[object, ...]:
    return facts(replace(exponential(observations, schema), sum=0.0))[1:]


@given(OBSERVATIONS, SCHEMAS, THRESHOLDS, st.floats(-40, 40))
@settings(max_examples=100)
def test_both_trims_together_count_everything(
    observations: list[Observation], schema: int, threshold: int | None, at: float
) -> None:
    whole = exponential(observations, schema, threshold)
    if threshold is None and at == 0:
        return
    below, above = trim_upper(whole, at).count, trim_lower(whole, at).count
    assert below + above == pytest.approx(whole.count, rel=1e-9, abs=1e-9)
    if whole.count:
        assert below == pytest.approx(fraction(-math.inf, at, whole).value * whole.count, rel=1e-6, abs=1e-6)


def test_trimming_nothing_changes_nothing() -> None:
    for trimmed in (
        trim_upper(ONE_TWO_ONE, 4.0),
        trim_lower(ONE_TWO_ONE, 0.5),
        trim_upper(ONE_TWO_ONE, 99.0),
    ):
        assert trimmed is ONE_TWO_ONE


def test_trimming_estimates_the_sum() -> None:
    found = trim_upper(ONE_TWO_ONE, 2.0)
    assert facts(found)[1] == 3.0
    assert found.sum == pytest.approx(math.sqrt(0.5) + 2 * math.sqrt(2))


@pytest.mark.parametrize(
    ("at", "upper", "lower"),
    [
        (-1.0, (0.0, 0.0), (2.0, 7.0 + 10.0)),
        (4.0, (1.0, 2.0 + 0.0), (2.0, 7.0 + 10.0)),
        (2.0, (0.5, 0.5), (2.5, 1.5 + 7.0 + 10.0)),
        (12.0, (2.0, 2.0 + 7.0), (1.0, 12.0)),
        (math.inf, None, (0.0, 0.0)),
        (-math.inf, (0.0, 0.0), None),
        (math.nan, (0.0, 0.0), (0.0, 0.0)),
    ],
)
def test_trimming_custom_buckets(
    at: float, upper: tuple[float, float] | None, lower: tuple[float, float] | None
) -> None:
    """(-inf, 4] 1, (4, 10] 1, (10, inf) 1. The first one is taken to begin at zero, if the cut is above zero;
    what is infinite otherwise is not cut but dropped, or kept if it is the upper part of the last one."""
    whole = custom([2, 7, 11], (4.0, 10.0))
    for found, expected in ((trim_upper(whole, at), upper), (trim_lower(whole, at), lower)):
        if expected is None:
            assert found is whole
        else:
            assert found.count == pytest.approx(expected[0])
            assert found.sum == pytest.approx(expected[1])


def test_the_powers_of_the_oracle() -> None:
    assert float(power((1, 0))) == pytest.approx(math.log2(value((1, 0))))
