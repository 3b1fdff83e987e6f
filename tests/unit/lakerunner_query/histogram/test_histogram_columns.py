"""Arithmetic of many histograms at once says what that of single ones says."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.histogram.arithmetic import equal
from lakerunner_query.histogram.batch import columns_of
from lakerunner_query.histogram.model import CUSTOM, NO_BUCKETS, Buckets, Hint, Histogram
from lakerunner_query.histogram.quantiles import is_plain, plain_quantiles, quantile
from lakerunner_query.histogram.sums import KahanMean, KahanSum, grid_sums

NUMBERS = st.one_of(
    st.integers(0, 9).map(float), st.floats(0, 1e18, allow_nan=False), st.sampled_from([0.1, 1e100, -1e100])
)


@st.composite
def sides(draw: st.DrawFn, low: int, high: int) -> Buckets:
    index = sorted(draw(st.sets(st.integers(low, high), max_size=6)))
    if not index:
        return NO_BUCKETS
    return Buckets(np.array(index, np.int64), np.array([draw(NUMBERS) for _ in index]))


@st.composite
def histograms(draw: st.DrawFn, is_custom: bool = False, threshold: float = 0.001) -> Histogram:
    totals = [draw(NUMBERS) for _ in range(3)]
    hint = draw(st.sampled_from(list(Hint)))
    if is_custom:
        return Histogram(
            CUSTOM, totals[0], totals[1], 0.0, 0.0, draw(sides(0, 3)), NO_BUCKETS, (1.0, 2.0, 5.0), hint
        )
    negative = draw(sides(-5, 5))
    return Histogram(1, totals[0], totals[1], threshold, totals[2], draw(sides(-5, 5)), negative, (), hint)


@st.composite
def grids(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """(members, steps) of histograms, and where they are; something at every step."""
    members, steps, is_custom = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.booleans())
    cells, present = np.full((members, steps), None, np.object_), np.zeros((members, steps), np.bool_)
    for member in range(members):
        for step in range(steps):
            present[member, step] = member == 0 or draw(st.booleans())
            if present[member, step]:
                cells[member, step] = draw(histograms(is_custom))
    return cells, present


@given(grids(), st.booleans())
def test_sums_and_means_of_grids_are_those_of_each_step(
    grid: tuple[np.ndarray, np.ndarray], is_mean: bool
) -> None:
    cells, present = grid
    found = grid_sums(cells, present, is_mean=is_mean)
    assert found is not None
    totals, conflicts = found
    for step in range(cells.shape[1]):
        first, *others = [one for one in cells[:, step] if one is not None]
        single = KahanMean(first) if is_mean else KahanSum(first)
        for other in others:
            single.add(other)
        assert equal(totals[step], single.result())
        assert totals[step].hint == single.result().hint
        assert conflicts[step] == single.hint_conflict


def test_what_gets_too_large_is_left_to_single_ones() -> None:
    cells = np.array([[Histogram(count=1e308)], [Histogram(count=1e308)]], np.object_)
    assert grid_sums(cells, np.ones((2, 1), np.bool_), is_mean=True) is None


@given(st.lists(st.tuples(histograms(), st.floats(0, 1)), min_size=1, max_size=8), st.booleans())
def test_quantiles_of_many_are_those_of_each(
    drawn: list[tuple[Histogram, float]], counts_add_up: bool
) -> None:
    plain = []
    for one, q in drawn:
        count = one.zero_count + one.positive.count.sum() if counts_add_up else one.count
        histogram = Histogram(
            one.schema, count, one.sum, one.zero_threshold, one.zero_count, one.positive, NO_BUCKETS
        )
        if is_plain(histogram, q):
            plain.append((histogram, q))
    if not plain:
        return
    found = plain_quantiles(np.array([q for _, q in plain]), [one for one, _ in plain])
    for (histogram, q), value in zip(plain, found.tolist(), strict=True):
        expected = quantile(q, histogram).value
        assert (
            value == expected
            or math.isclose(value, expected, rel_tol=1e-12)
            or (math.isnan(value) and math.isnan(expected))
        )


def test_a_zero_bucket_that_overlaps_others_is_left_to_single_ones() -> None:
    wide = Histogram(0, 3, 1, 1.5, 1, Buckets(np.array([0, 3]), np.array([1.0, 1.0])))
    assert columns_of([wide]) is None
    assert columns_of([wide, Histogram()]) is None
