"""Sums and differences: histograms of parts against the histogram of the whole."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.histogram.arithmetic import add, divide, equal, negate, reduce_resolution, scale, sub
from lakerunner_query.histogram.growth import growth
from lakerunner_query.histogram.model import (
    CUSTOM,
    Hint,
    Histogram,
    IncompatibleHistogramsError,
    buckets_at,
    compact,
)
from lakerunner_query.histogram.sums import KahanMean, KahanSum
from tests.support.query.promql.histogram_of_observations import (
    BOUNDS,
    OBSERVATIONS,
    SCHEMAS,
    THRESHOLDS,
    VALUES,
    Observation,
    custom,
    exponential,
    facts,
    widest,
)


@given(OBSERVATIONS, OBSERVATIONS, SCHEMAS, SCHEMAS, THRESHOLDS, THRESHOLDS)
@settings(max_examples=100)
def test_a_sum_counts_all_observations_on_the_common_layout(
    some: list[Observation],
    others: list[Observation],
    first: int,
    second: int,
    narrow: int | None,
    wide: int | None,
) -> None:
    found = add(exponential(some, first, narrow), exponential(others, second, wide)).histogram
    expected = exponential(some + others, min(first, second), widest(narrow, wide))
    assert facts(found) == facts(expected)


@given(OBSERVATIONS, OBSERVATIONS, SCHEMAS, SCHEMAS, THRESHOLDS, THRESHOLDS)
@settings(max_examples=100)
def test_a_difference_takes_away_what_was_added(
    some: list[Observation],
    others: list[Observation],
    first: int,
    second: int,
    narrow: int | None,
    wide: int | None,
) -> None:
    whole = exponential(some + others, first, narrow)
    found = sub(whole, exponential(others, second, wide)).histogram
    assert facts(found) == facts(exponential(some, min(first, second), widest(narrow, wide)))


@given(VALUES, VALUES, BOUNDS, BOUNDS)
@settings(max_examples=100)
def test_custom_buckets_are_cut_down_to_common_bounds(
    some: list[int], others: list[int], first: tuple[float, ...], second: tuple[float, ...]
) -> None:
    found = add(custom(some, first), custom(others, second))
    bounds = tuple(sorted(set(first) & set(second)))
    assert facts(found.histogram) == facts(custom(some + others, bounds))
    assert found.bounds_reconciled == (first != second)
    back = sub(custom(some + others, first), custom(others, second)).histogram
    assert facts(back) == facts(custom(some, bounds))


@given(OBSERVATIONS, st.integers(-4, 8), st.integers(-4, 8))
@settings(max_examples=100)
def test_a_lower_resolution_counts_the_same_observations(
    observations: list[Observation], first: int, second: int
) -> None:
    fine, coarse = max(first, second), min(first, second)
    found = reduce_resolution(exponential(observations, fine), coarse)
    assert facts(found) == facts(exponential(observations, coarse))


def test_a_resolution_is_never_raised() -> None:
    with pytest.raises(ValueError, match="schema 2: expected one below"):
        reduce_resolution(Histogram(schema=1), 2)
    with pytest.raises(ValueError, match="expected one below"):
        reduce_resolution(Histogram(schema=CUSTOM), -54)


@given(
    st.lists(st.tuples(OBSERVATIONS, SCHEMAS, THRESHOLDS), min_size=1, max_size=6),
)
@settings(max_examples=60)
def test_a_kept_sum_is_the_whole(parts: list[tuple[list[Observation], int, int | None]]) -> None:
    histograms = [exponential(*part) for part in parts]
    total = KahanSum(histograms[0])
    for one in histograms[1:]:
        total.add(one)
    threshold: int | None = None
    for _, _, wide in parts:
        threshold = widest(threshold, wide)
    everything = [observation for part in parts for observation in part[0]]
    expected = exponential(everything, min(schema for _, schema, _ in parts), threshold)
    assert facts(total.result()) == facts(expected)


@given(st.lists(st.tuples(VALUES, BOUNDS), min_size=1, max_size=6))
@settings(max_examples=60)
def test_a_kept_sum_of_custom_buckets_is_the_whole(parts: list[tuple[list[int], tuple[float, ...]]]) -> None:
    total = KahanSum(custom(*parts[0]))
    for values, bounds in parts[1:]:
        total.add(custom(values, bounds))
    common = tuple(sorted(set.intersection(*(set(bounds) for _, bounds in parts))))
    everything = [value for values, _ in parts for value in values]
    assert facts(total.result()) == facts(custom(everything, common))


@given(st.lists(st.floats(-1e18, 1e18), min_size=1, max_size=8))
@settings(max_examples=60)
def test_a_kept_sum_is_nearer_than_rounding(numbers: list[float]) -> None:
    histograms = [
        Histogram(0, one, one, 0.5, one, buckets_at(3, [one]), buckets_at(1, [one])) for one in numbers
    ]
    total, mean = KahanSum(histograms[0]), KahanMean(histograms[0])
    for one in histograms[1:]:
        total.add(one)
        mean.add(one)
    exact = float(sum(map(Fraction, numbers)))
    found, average = total.result(), mean.result()
    scale_of_inputs = max(map(abs, numbers))
    for number in (
        found.count,
        found.sum,
        found.zero_count,
        found.positive.count[0],
        found.negative.count[0],
    ):
        assert number == pytest.approx(exact, rel=1e-15, abs=scale_of_inputs * 1e-28)
    assert average.sum == pytest.approx(exact / len(numbers), rel=1e-14, abs=scale_of_inputs * 1e-28)


def test_small_numbers_survive_large_ones() -> None:
    def of(number: float) -> Histogram:
        return Histogram(0, number, number, positive=buckets_at(1, [number]))

    total = KahanSum(of(1.0))
    for number in (1e100, 1.0, -1e100):
        total.add(of(number))
    assert facts(total.result()) == facts(Histogram(0, 2.0, 2.0, positive=buckets_at(1, [2.0])))


def test_a_mean_does_not_overflow() -> None:
    mean = KahanMean(Histogram(count=1.7e308, sum=5.0))
    mean.add(Histogram(count=1.7e308, sum=7.0))
    mean.add(Histogram(count=1.7e308, sum=9.0))
    assert mean.result().count == pytest.approx(1.7e308)
    assert mean.result().sum == pytest.approx(7.0)


def test_kept_sums_know_contradicting_hints() -> None:
    total = KahanSum(Histogram(hint=Hint.RESET))
    total.add(Histogram(hint=Hint.GAUGE))
    before = total.hint_conflict
    total.add(Histogram(hint=Hint.NO_RESET))
    assert (before, total.hint_conflict) == (False, True)
    assert total.result().hint == Hint.GAUGE


@pytest.mark.parametrize(
    ("first", "second", "joint", "conflict"),
    [
        (Hint.NO_RESET, Hint.NO_RESET, Hint.NO_RESET, False),
        (Hint.GAUGE, Hint.NO_RESET, Hint.GAUGE, False),
        (Hint.UNKNOWN, Hint.GAUGE, Hint.GAUGE, False),
        (Hint.UNKNOWN, Hint.RESET, Hint.UNKNOWN, False),
        (Hint.NO_RESET, Hint.UNKNOWN, Hint.UNKNOWN, False),
        (Hint.RESET, Hint.NO_RESET, Hint.UNKNOWN, True),
        (Hint.NO_RESET, Hint.RESET, Hint.UNKNOWN, True),
    ],
)
def test_hints_of_sums(first: Hint, second: Hint, joint: Hint, conflict: bool) -> None:
    for operation in (add, sub):
        found = operation(Histogram(hint=first), Histogram(hint=second))
        assert (found.histogram.hint, found.hint_conflict) == (joint, conflict)


def test_exponential_and_custom_do_not_add() -> None:
    for operation in (add, sub):
        with pytest.raises(IncompatibleHistogramsError, match="schema 0 and -53"):
            operation(Histogram(), Histogram(schema=CUSTOM))
    total = KahanSum(Histogram(count=2.0))
    with pytest.raises(IncompatibleHistogramsError):
        total.add(Histogram(schema=CUSTOM, count=3.0))
    assert total.result().count == 2.0


def test_a_threshold_in_a_populated_bucket_moves_to_its_end() -> None:
    """Schema -1: buckets (1/4, 1], (1, 4]. A threshold of 2 cuts the second; both sides must be free then."""
    first = Histogram(-1, 6.0, 0.0, 0.25, 1.0, buckets_at(0, [2.0, 3.0]))
    found = add(first, Histogram(-1, 4.0, 0.0, 2.0, 4.0)).histogram
    assert facts(found) == facts(Histogram(-1, 10.0, 0.0, 4.0, 10.0))


def test_a_threshold_in_an_empty_bucket_stays() -> None:
    first = Histogram(-1, 3.0, 0.0, 0.25, 1.0, buckets_at(0, [2.0, 0.0]))
    found = add(first, Histogram(-1, 4.0, 0.0, 2.0, 4.0)).histogram
    assert facts(found) == facts(Histogram(-1, 7.0, 0.0, 2.0, 7.0))


def test_the_negative_side_moves_the_threshold_too() -> None:
    first = Histogram(0, 6.0, 0.0, 0.25, 1.0, buckets_at(0, [2.0]), buckets_at(1, [3.0]))
    found = add(first, Histogram(0, 4.0, 0.0, 1.5, 4.0)).histogram
    assert facts(found) == facts(Histogram(0, 10.0, 0.0, 2.0, 10.0))


def test_multiples() -> None:
    one = Histogram(0, 4.0, 10.0, 0.5, 1.0, buckets_at(0, [1.0, 2.0]), hint=Hint.NO_RESET)
    tripled = Histogram(0, 12.0, 30.0, 0.5, 3.0, buckets_at(0, [3.0, 6.0]))
    assert facts(scale(one, 3.0)) == facts(tripled)
    assert facts(divide(tripled, 3.0)) == facts(one)
    assert scale(one, 3.0).hint == Hint.NO_RESET
    assert negate(one).hint == divide(one, -1.0).hint == Hint.GAUGE
    by_zero = divide(one, 0.0)
    assert (by_zero.count, by_zero.zero_count, by_zero.positive.size) == (math.inf, math.inf, 0)
    assert math.isnan(divide(Histogram(), 0.0).sum)


def test_equality_tells_an_empty_bucket_from_none() -> None:
    one = Histogram(0, 1.0, 1.0, positive=buckets_at(1, [1.0]))
    assert equal(one, replace(one, hint=Hint.GAUGE))
    assert not equal(one, replace(one, positive=buckets_at(1, [1.0, 0.0])))
    assert not equal(one, replace(one, positive=buckets_at(2, [1.0])))
    assert not equal(one, replace(one, sum=2.0))
    assert equal(replace(one, sum=math.nan), replace(one, sum=math.nan))
    assert not equal(replace(one, sum=0.0), replace(one, sum=-0.0))
    assert equal(compact(replace(one, positive=buckets_at(0, [0.0, 1.0, 0.0]))), one)


def test_nothing_is_changed_in_place() -> None:
    one, other = exponential([(1, 5), (-1, 3)], 3), exponential([(1, 5), (0, 0)], 1, 2)
    before = facts(one), facts(other)
    for operation in (add, sub):
        operation(one, other)
    total = KahanSum(one)
    total.add(other)
    growth([one, other], is_counter=True)
    assert (facts(one), facts(other)) == before
    assert np.shares_memory(one.positive.count, one.with_hint(Hint.GAUGE).positive.count)
