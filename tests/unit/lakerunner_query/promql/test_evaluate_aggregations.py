"""Aggregations: sums that are exact enough, choices among rows, labels of groups."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.errors import EvaluationError
from lakerunner_query.histogram.model import Histogram, buckets_at
from tests.support.query.promql.evaluating import Written, ask, said, table

JOBS = Written(
    {
        "up{instance=1,job=a}": {0: 1.0, 600: 5.0},
        "up{instance=2,job=a}": {0: 3.0},
        "up{instance=1,job=b}": {0: 10.0, 600: 20.0},
    }
)
_numbers = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)
_many = st.lists(_numbers, min_size=1, max_size=12)


def of_one_metric(numbers: list[float]) -> Written:
    return Written({f"x{{i={i:02d}}}": {0: number} for i, number in enumerate(numbers)})


def only(source: Written, text: str) -> float:
    ((cells),) = table(ask(source, text)).values()
    value = cells[0]
    assert isinstance(value, float)
    return value


def test_groups_by_label_at_each_step() -> None:
    assert table(ask(JOBS, "sum by (job) (up)", step=600, count=2)) == {
        "{job=a}": [4.0, 5.0],
        "{job=b}": [10.0, 20.0],
    }
    assert table(ask(JOBS, "count without (instance) (up)", step=600, count=2)) == {
        "{job=a}": [2.0, 1.0],
        "{job=b}": [1.0, 1.0],
    }
    assert table(ask(JOBS, "max by (nothing) (up)", step=600, count=2)) == {"{}": [10.0, 20.0]}


@settings(max_examples=60, deadline=None)
@given(numbers=_many)
def test_sum_and_average_keep_what_rounding_loses(numbers: list[float]) -> None:
    source = of_one_metric(numbers)
    exact = sum(map(Fraction, numbers), Fraction(0))
    magnitude = sum((abs(Fraction(number)) for number in numbers), Fraction(0))
    if magnitude >= Fraction(2) ** 1023:
        return
    allowed = magnitude * Fraction(1, 10**30) + abs(exact) * Fraction(1, 10**12)
    assert abs(Fraction(only(source, "sum(x)")) - exact) <= allowed
    assert abs(Fraction(only(source, "avg(x)")) - exact / len(numbers)) <= allowed + Fraction(1, 2**1074)


def test_average_of_what_cannot_be_summed() -> None:
    assert only(of_one_metric([1.7e308, 1.7e308, 1.7e308]), "avg(x)") == pytest.approx(1.7e308)
    assert only(of_one_metric([1.7e308, 1.7e308]), "sum(x)") == math.inf


@settings(max_examples=60, deadline=None)
@given(numbers=_many, q=st.floats(0, 1))
def test_quantile_lies_between_ranks(numbers: list[float], q: float) -> None:
    scaled = [number / 1e200 for number in numbers]
    expected = float(np.quantile(scaled, q))
    assert only(of_one_metric(scaled), f"quantile({q!r}, x)") == pytest.approx(expected, rel=1e-9, abs=1e-280)


def test_quantile_outside_of_its_range() -> None:
    answer = ask(of_one_metric([1.0, 2.0]), "quantile(2, x)")
    assert table(answer) == {"{}": [math.inf]}
    assert said(answer.annotations, "quantile(2, x)") == [
        "PromQL warning: quantile value should be between 0 and 1, got 2 (1:10)"
    ]


def test_nan_ranks_lowest_and_is_never_an_extreme() -> None:
    source = of_one_metric([math.nan, 2.0, 1.0])
    assert only(source, "min(x)") == 1.0
    assert only(source, "max(x)") == 2.0
    assert math.isnan(only(source, "quantile(0, x)"))
    assert table(ask(source, "topk(2, x)")) == {"x{i=01}": [2.0], "x{i=02}": [1.0]}
    assert table(ask(source, "bottomk(2, x)")) == {"x{i=02}": [1.0], "x{i=01}": [2.0]}


@settings(max_examples=60, deadline=None)
@given(numbers=st.lists(st.integers(-50, 50), min_size=1, max_size=20), k=st.integers(1, 22))
def test_topk_are_the_largest_in_order(numbers: list[int], k: int) -> None:
    answer = ask(of_one_metric([float(number) for number in numbers]), f"topk({k}, x)")
    assert answer.is_ordered
    assert [cells[0] for cells in table(answer).values()] == sorted(map(float, numbers), reverse=True)[:k]
    answer = ask(of_one_metric([float(number) for number in numbers]), f"bottomk({k}, x)")
    assert [cells[0] for cells in table(answer).values()] == sorted(map(float, numbers))[:k]


def test_how_many_may_change_from_step_to_step() -> None:
    source = Written({"x{i=1}": {0: 1.0, 600: 1.0}, "x{i=2}": {0: 2.0, 600: 2.0}, "k{}": {0: 1.0, 600: 2.0}})
    expected = {"x{i=1}": [None, 1.0], "x{i=2}": [2.0, 2.0]}
    assert table(ask(source, "topk(scalar(k), x)", step=600, count=2)) == expected
    expected = {"x{i=1}": [1.0, 1.0], "x{i=2}": [None, 2.0]}
    assert table(ask(source, "limitk(scalar(k), x)", step=600, count=2)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topk(NaN, x)", "Parameter value is NaN"),
        ("topk(1e20, x)", "Scalar value 1e+20 overflows int64"),
        ("limit_ratio(NaN, x)", "Ratio value is NaN"),
        ('count_values("", x)', 'invalid label name ""'),
    ],
)
def test_parameters_that_make_no_sense(text: str, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        ask(of_one_metric([1.0]), text)
    assert caught.value.message == message


@settings(max_examples=30, deadline=None)
@given(ratio=st.floats(0.01, 0.99))
def test_ratios_of_both_signs_complete_each_other(ratio: float) -> None:
    source = of_one_metric([float(i) for i in range(40)])
    low = table(ask(source, f"limit_ratio({ratio!r}, x)"))
    high = table(ask(source, f"limit_ratio({ratio - 1!r}, x)"))
    assert low.keys() | high.keys() == table(ask(source, "x")).keys()
    assert not low.keys() & high.keys()


def test_count_values_names_numbers_as_go_does() -> None:
    source = of_one_metric([1.0, 1e21, 1.0, math.inf, 0.1])
    assert table(ask(source, 'count_values("v", x)')) == {
        "{v=1}": [2.0],
        "{v=1000000000000000000000}": [1.0],
        "{v=+Inf}": [1.0],
        "{v=0.1}": [1.0],
    }


def histogram(count: float) -> Histogram:
    return Histogram(schema=0, count=count, sum=count, positive=buckets_at(0, [count]))


def test_histograms_are_summed_unless_floats_are_among_them() -> None:
    source = Written(
        {
            "h{i=1}": {0: histogram(1.0), 600: histogram(2.0)},
            "h{i=2}": {0: histogram(4.0), 600: 3.0},
        }
    )
    answer = ask(source, "sum(h)", step=600, count=2)
    ((total, nothing),) = table(answer).values()
    assert isinstance(total, Histogram)
    assert (total.count, nothing) == (5.0, None)
    assert said(answer.annotations, "sum(h)") == [
        "PromQL warning: encountered a mix of histograms and floats for aggregation (1:5)"
    ]
    answer = ask(source, "max(h)", step=600, count=2)
    assert table(answer) == {"{}": [None, 3.0]}
    assert said(answer.annotations, "max(h)") == ["PromQL info: ignored histogram in max aggregation (1:5)"]
