"""Sums of doubles are exact: the rounded sum, and what rounding took, say what fractions say."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_assets.materialized.rule_cells import Numbers, exact_parts
from lakerunner_assets.materialized.sum_kernels import sum_exactly

DOUBLES = st.one_of(
    st.floats(-1e280, 1e280),
    st.floats(-10, 10),
    st.integers(-9, 9).map(float),
    st.builds(lambda sign, power: sign * 2.0**power, st.sampled_from((-1, 1)), st.integers(-80, 80)),
)
RUNS = st.lists(st.lists(DOUBLES, max_size=9), min_size=1, max_size=5)


def of_runs(runs: list[list[float]]) -> tuple[np.ndarray, np.ndarray]:
    values = np.array([value for run in runs for value in run], np.float64)
    return values, np.cumsum([0, *map(len, runs)])


def total(values: list[float]) -> Fraction:
    return sum(map(Fraction, values), Fraction(0))


@given(RUNS)
def test_sums_and_rests_are_those_of_fractions(runs: list[list[float]]) -> None:
    values, ends = of_runs(runs)
    sums, rests = np.empty(len(runs)), np.empty(len(runs))
    sum_exactly(values, ends, sums, rests)
    for run, found, rest in zip(runs, sums.tolist(), rests.tolist(), strict=True):
        wanted = total(run)
        assert found == math.fsum(run)
        left = wanted - Fraction(found)
        is_double = Fraction(float(left)) == left
        assert is_double != math.isnan(rest)  # the order of the values decides nothing
        assert not is_double or Fraction(rest) == left


@given(RUNS)
def test_parts_of_a_run_have_its_exact_sum(runs: list[list[float]]) -> None:
    places, parts = exact_parts(*of_runs(runs))
    for number, run in enumerate(runs):
        assert total(parts[places == number].tolist()) == total(run)


def test_values_that_are_not_finite_have_no_rest() -> None:
    values, ends = of_runs([[1.0, math.inf], [math.inf, -math.inf], [math.nan], [1e300, 1e300], []])
    sums, rests = np.empty(5), np.empty(5)
    sum_exactly(values, ends, sums, rests)
    assert repr(sums.tolist()) == repr([math.inf, math.nan, math.nan, 2e300, 0.0])
    assert np.isnan(rests).tolist() == [True] * 4 + [False]


def test_cells_are_chosen_with_all_their_parts() -> None:
    found = Numbers.of_events(np.array([1.0, 1e30, 1.0, 0.1, 0.2, 5.0]), np.array([0, 3, 5]))
    chosen = found.take(np.array([0, 2]))
    assert total(chosen.parts[chosen.places == 0].tolist()) == total([1.0, 1e30, 1.0])
    assert chosen.parts[chosen.places == 1].tolist() == [5.0]
    assert (chosen.least.tolist(), chosen.most.tolist()) == ([1.0, 5.0], [1e30, 5.0])
