"""DDSketches against the protobuf runtime and plain loops: bins, bytes, accuracy, merging."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_assets.rollup.ddsketch import build
from resources.lake.ddsketch import WeightedValues, merged_quantiles, quantiles
from tests.support.rollup.ddsketch_oracle import (
    GAMMA,
    NO_SKETCHES,
    NONE,
    bins_in,
    expected_bytes,
    finite,
    magnitudes,
    merged,
    of_values,
    plain_bins,
    sketch_message,
)

weighted = st.lists(st.tuples(magnitudes, st.integers(0, 1000)), max_size=60)


@settings(max_examples=100)
@given(weighted)
def test_bins_are_those_of_a_plain_loop_and_bytes_those_of_the_protobuf_runtime(
    pairs: list[tuple[float, int]],
) -> None:
    values, weights = [v for v, _ in pairs], [float(w) for _, w in pairs]
    bins = plain_bins(values, weights)
    raw = of_values(values, weights)
    if not bins:
        assert raw is None
    else:
        assert raw is not None
        assert bins_in(raw) == bins
        assert raw == expected_bytes(bins)


@settings(max_examples=60)
@given(finite.filter(lambda value: abs(value) >= sys.float_info.min))
def test_a_bin_holds_its_value_by_exact_arithmetic(value: float) -> None:
    raw = of_values([value])
    assert raw is not None
    [(name, store)] = bins_in(raw).items()
    assert (name == "positiveValues") == (value > 0)
    [(index, count)] = store.items()
    assert count == 1
    with localcontext() as context:
        context.prec = 60
        gamma, size, slack = Decimal(GAMMA), Decimal(abs(value)), 1 + Decimal("1e-12")
        assert gamma ** (index - 1) / slack < size <= gamma**index * slack


def is_near(values: Sequence[float], q: float, found: float) -> bool:
    """Whether it is within 1 % of the sample at the rank below or above."""
    rank = q * (len(values) - 1)
    samples = [sorted(values)[at] for at in (math.floor(rank), math.ceil(rank))]
    # smaller than the smallest normal double is zero here
    samples = [0.0 if abs(sample) < sys.float_info.min else sample for sample in samples]
    return any(abs(float(found) - sample) <= (0.01 + 1e-12) * abs(sample) for sample in samples)


@settings(max_examples=100)
@given(st.lists(finite, min_size=1, max_size=80), st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_quantiles_are_within_one_percent_of_a_sample_at_their_rank(
    values: list[float], qs: list[float]
) -> None:
    for q, found in zip(qs, quantiles(pa.array([of_values(values)]), qs)[0], strict=True):
        assert is_near(values, q, found)


@pytest.mark.parametrize("seed", range(4))
def test_quantiles_of_many_values(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = np.concatenate(
        [random.lognormal(0, 3, 5000), -random.pareto(1, 3000), np.zeros(500), np.repeat(42.0, 700)]
    ).tolist()
    qs = [0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1]
    found = quantiles(pa.array([of_values(values)]), qs)
    assert found.shape == (1, 8)
    assert all(is_near(values, q, v) for q, v in zip(qs, found[0], strict=True))


def test_the_rank_is_the_lower_one() -> None:
    """Rank floor(0.5 * 3) = 1 of four values, and weights are repeated values."""
    found = quantiles(pa.array([of_values([-5, 0, 10, 1000])]), [0, 0.5, 0.67, 1])[0]
    assert found[1] == 0
    assert found == pytest.approx([-5, 0, 10, 1000], rel=0.01)
    same = quantiles(pa.array([of_values([10, -5, 1000], [2, 1, 1])]), [0, 0.4, 0.5, 0.99])[0]
    assert same == pytest.approx([-5, 10, 10, 10], rel=0.01)


@settings(max_examples=60)
@given(st.lists(finite, min_size=1, max_size=40), st.lists(st.integers(0, 4), min_size=40, max_size=40))
def test_merging_in_any_grouping_gives_the_same_bytes(values: list[float], part: list[int]) -> None:
    whole = of_values(values)
    parts: dict[int, list[float]] = {}
    for value, number in zip(values, part, strict=False):
        parts.setdefault(number, []).append(value)
    sketches = [raw for group in parts.values() if (raw := of_values(group)) is not None]
    assert merged(sketches) == whole
    assert merged(sketches[::-1]) == whole
    assert merged([merged(sketches[:2]), *sketches[2:]]) == whole
    assert merged([*sketches[:-2], merged(sketches[-2:])]) == whole


def test_values_and_sketches_of_many_groups() -> None:
    """Groups 0 … 5: values; sketches; both; neither; only NaN; an empty sketch."""
    ones, twos = of_values([1.0, 1.0]), of_values([2.0])
    empty = sketch_message().SerializeToString()
    found = build(
        np.array([3.0, -3.0, 7.0, math.nan, math.inf]),
        np.array([1.0, 2, 1, 1, 1]),
        np.array([0, 0, 2, 4, 4]),
        pa.array([ones, twos, ones, empty], pa.binary()),
        np.array([1, 1, 2, 5]),
        6,
    )
    found.validate(full=True)
    assert found.type == pa.binary()
    assert found.to_pylist() == [
        of_values([3.0, -3, -3]),
        of_values([2.0, 1, 1]),
        of_values([1.0, 7, 1]),
        None,
        None,
        empty,
    ]
    assert np.isnan(quantiles(found, [0.5])[3:]).all()


def test_no_groups() -> None:
    assert build(np.empty(0), np.empty(0), NONE, NO_SKETCHES, NONE, 0).to_pylist() == []
    assert merged_quantiles(NO_SKETCHES, NONE, 0, [0.5]).shape == (0, 1)


def test_many_groups_outgrow_the_first_buffer() -> None:
    random = np.random.default_rng(5)
    values, group = random.normal(0, 1e6, 3000), np.sort(random.integers(0, 9, 3000))
    found = build(values, np.ones(3000), group, NO_SKETCHES, NONE, 9)
    assert found.to_pylist() == [of_values(values[group == number].tolist()) for number in range(9)]


def test_arrays_with_an_offset_and_large_ones() -> None:
    sketches = pa.array([of_values([float(n)]) for n in range(1, 7)], pa.binary())
    for array in (sketches.slice(2, 3), sketches.cast(pa.large_binary()).slice(2, 3)):
        found = build(np.empty(0), np.empty(0), NONE, array, np.zeros(3, np.int64), 1)
        assert found[0].as_py() == of_values([3, 4, 5])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            {"positiveValues": {5: 2.0, -3: 1.0, 0: 4.0}},
            {"positiveValues": (-3, [1, 0, 0, 4, 0, 0, 0, 0, 2])},
        ),
        ({"negativeValues": {7: 1.0}}, {"negativeValues": (6, [0, 1, 0])}),
        ({"positiveValues": {9: 3.0}, "zeroCount": 2.0}, {"positiveValues": (9, [3]), "zeroCount": 2.0}),
    ],
)
def test_both_forms_of_a_store_are_read(one: dict[str, Any], other: dict[str, Any]) -> None:
    first, second = (sketch_message(**stores).SerializeToString() for stores in (one, other))
    assert first != second
    assert merged([first]) == merged([second])
    assert bins_in(merged([second])) == one


def test_both_forms_in_one_store_add_up() -> None:
    message = sketch_message(positiveValues={4: 1.0})
    message.positiveValues.contiguousBinCounts.extend([1.0, 2.0])
    message.positiveValues.contiguousBinIndexOffset = 3
    assert bins_in(merged([message.SerializeToString()])) == {"positiveValues": {3: 1.0, 4: 3.0}}


def test_what_kernels_rely_on_is_checked() -> None:
    one, zero = np.ones(1), np.zeros(1, np.int64)
    for group, groups in (([1, 0], 2), ([0, 2], 2), ([-1, 0], 2), ([0], 1)):
        with pytest.raises(ValueError, match="groups of"):
            build(np.ones(2), np.ones(2), np.array(group), NO_SKETCHES, NONE, groups)
    for weight in (math.nan, math.inf, -1.0):
        with pytest.raises(ValueError, match="value 0 has the weight"):
            build(one, np.array([weight]), zero, NO_SKETCHES, NONE, 1)
    with pytest.raises(ValueError, match="1 values, but 2 weights"):
        build(one, np.ones(2), zero, NO_SKETCHES, NONE, 1)
    with pytest.raises(ValueError, match="1 of 1 sketches are null"):
        build(np.empty(0), np.empty(0), NONE, pa.array([None], pa.binary()), zero, 1)
    with pytest.raises(ValueError, match="expected binary"):
        quantiles(pa.array(["x"]), [0.5])
    for q in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="from 0 to 1"):
            quantiles(pa.array([of_values([1.0])]), [q])


def test_quantiles_of_nulls_are_nan() -> None:
    found = quantiles(pa.array([None, of_values([8.0]), None], pa.binary()), [0.1, 0.9])
    assert np.isnan(found[[0, 2]]).all()
    assert found[1] == pytest.approx([8, 8], rel=0.01)


def test_groups_of_readers_come_in_any_order_with_values_beside() -> None:
    sketches = pa.array([of_values([100.0]), None, of_values([1.0]), of_values([3.0])], pa.binary())
    beside = WeightedValues(np.array([50.0, 2.0]), np.array([1.0, 1.0]), np.array([3, 1]))
    found = merged_quantiles(sketches, np.array([2, 1, 1, 1]), 4, [0, 0.5, 1], beside)
    assert np.isnan(found[0]).all()
    assert found[1] == pytest.approx([1, 2, 3], rel=0.01)
    assert found[2] == pytest.approx([100] * 3, rel=0.01)
    assert found[3] == pytest.approx([50] * 3, rel=0.01)
