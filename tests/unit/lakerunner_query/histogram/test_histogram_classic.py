"""Classic histograms: against histograms with custom buckets, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.histogram.classic import bucket_fraction, bucket_quantile
from lakerunner_query.histogram.quantiles import fraction, quantile
from resources.arrays import Doubles, Flags
from tests.support.query.promql.histogram_of_observations import custom

VALUES = st.lists(st.integers(-5, 30), min_size=1, max_size=12)
BOUNDS = st.sets(st.integers(-3, 20).map(float), min_size=1, max_size=5).map(
    lambda found: tuple(sorted(found))
)


def cumulative(values: list[int], le: list[float]) -> Doubles:
    return np.array([[float(sum(value <= bound for value in values))] for bound in le])


def all_of(counts: Doubles) -> Flags:
    return np.ones(counts.shape, np.bool_)


@given(VALUES, BOUNDS, st.floats(0, 1), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_quantiles_are_those_of_custom_buckets(
    values: list[int], bounds: tuple[float, ...], q: float, order: object
) -> None:
    le = [*bounds, math.inf]
    np.random.default_rng(len(values)).shuffle(le)
    counts = cumulative(values, le)
    found = bucket_quantile(np.array([q]), np.array(le), counts, all_of(counts))
    native = quantile(q, custom(values, bounds)).value
    assert not found.is_forced[0]
    # The empty bucket in which a rank may end is passed over by the one and not by the other.
    ranks = counts[:, 0]
    if q * len(values) not in {0.0, *ranks.tolist()}:
        assert found.value[0] == pytest.approx(native, rel=1e-9, abs=1e-9)


@given(VALUES, BOUNDS, st.floats(-6, 25), st.floats(-6, 25))
@settings(max_examples=100)
def test_fractions_are_those_of_custom_buckets(
    values: list[int], bounds: tuple[float, ...], lower: float, upper: float
) -> None:
    positive = tuple(bound for bound in bounds if bound > 0) or (1.0,)
    le = [*positive, math.inf]
    counts = cumulative(values, le)
    found = bucket_fraction(np.array([lower]), np.array([upper]), np.array(le), counts, all_of(counts))
    native = fraction(lower, upper, custom(values, positive)).value
    if lower >= 0 and upper >= 0 and custom(values, positive).positive.size == len(le):
        assert found[0] == pytest.approx(expected_fraction(lower, upper, le, counts), abs=1e-12)
        if lower >= positive[0] and upper >= positive[0]:
            assert found[0] == pytest.approx(native, abs=1e-12)


def expected_fraction(lower: float, upper: float, le: list[float], counts: Doubles) -> float:
    """Compare with numpy: counts are linear between bounds, and all beyond the last one beyond any number."""
    if lower >= upper:
        return 0.0
    edges, reached = [0.0, *le[:-1]], [0.0, *counts[:-1, 0].tolist()]
    low, high = np.interp([lower, upper], edges, reached)
    return float((high - low) / counts[-1, 0])


LE = np.array([math.inf, 0.1, 1.0, 10.0])


def test_by_hand_for_several_steps() -> None:
    """The third step lacks the bucket of 1, the fourth that of +Inf; the fifth has nothing."""
    counts = np.array(
        [
            [8.0, 0.0, 8.0, 8.0, 0.0],
            [2.0, 0.0, 2.0, 2.0, 0.0],
            [4.0, 0.0, 7.0, 4.0, 0.0],
            [6.0, 0.0, 6.0, 6.0, 0.0],
        ]
    )
    present = np.ones(counts.shape, np.bool_)
    present[2, 2] = present[0, 3] = False
    present[:, 4] = False
    found = bucket_quantile(np.full(5, 0.5), LE, counts, present)
    assert found.value[0] == pytest.approx(1.0)
    assert math.isnan(found.value[1])
    assert found.value[2] == pytest.approx(0.1 + 9.9 * 0.5)
    assert np.isnan(found.value[3:]).all()
    assert not found.is_forced.any()


def test_ranks_outside_of_zero_and_one() -> None:
    counts = np.array([[8.0] * 4, [2.0] * 4, [4.0] * 4, [6.0] * 4])
    found = bucket_quantile(np.array([-1.0, 2.0, math.nan, 1.0]), LE, counts, all_of(counts))
    assert found.value[0] == -math.inf
    assert found.value[1] == math.inf
    assert math.isnan(found.value[2])
    assert found.value[3] == 10.0


def test_falling_counts_are_raised_and_told() -> None:
    counts = np.array([[8.0], [4.0], [3.0], [1.0]])
    found = bucket_quantile(np.array([0.75]), LE, counts, all_of(counts))
    assert found.value[0] == 10.0
    assert (found.is_forced[0], found.lowest[0], found.highest[0], found.difference[0]) == (
        True,
        1.0,
        10.0,
        3.0,
    )
    asked_nonsense = bucket_quantile(np.array([2.0]), LE, counts, all_of(counts))
    assert not asked_nonsense.is_forced[0]


def test_differences_by_rounding_are_not_told() -> None:
    counts = np.array([[8.0], [2.0], [2.0 - 1e-13], [6.0]])
    found = bucket_quantile(np.array([0.5]), LE, counts, all_of(counts))
    assert not found.is_forced[0]
    assert found.value[0] == pytest.approx(1.0 + 9.0 * 0.5)


def test_a_bound_that_comes_twice_is_added() -> None:
    le = np.array([1.0, math.inf, 1.0])
    counts = np.array([[1.0], [4.0], [1.0]])
    found = bucket_quantile(np.array([0.25]), le, counts, all_of(counts))
    assert found.value[0] == pytest.approx(0.5)


def test_single_and_missing_infinity() -> None:
    one = np.array([[4.0]])
    assert math.isnan(bucket_quantile(np.array([0.5]), np.array([math.inf]), one, all_of(one)).value[0])
    assert math.isnan(bucket_quantile(np.array([0.5]), np.array([1.0]), one, all_of(one)).value[0])
    assert math.isnan(bucket_fraction(np.array([0.0]), np.array([1.0]), np.array([1.0]), one, all_of(one))[0])


def test_a_first_bucket_at_or_below_zero_begins_nowhere() -> None:
    le, counts = np.array([-2.0, 1.0, math.inf]), np.array([[2.0], [6.0], [8.0]])
    assert bucket_quantile(np.array([0.2]), le, counts, all_of(counts)).value[0] == -2.0
    found = bucket_fraction(np.array([-math.inf]), np.array([-0.5]), le, counts, all_of(counts))
    assert found[0] == pytest.approx((2.0 + 4.0 * 0.5) / 8.0)
    assert bucket_fraction(np.array([-4.0]), np.array([-3.0]), le, counts, all_of(counts))[0] == 0.0
