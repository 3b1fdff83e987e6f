"""Functions of one number at a time, the registry, dates and scalars."""

from __future__ import annotations

import math
from calendar import monthrange
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.errors import EvaluationError
from lakerunner_query.gotext.conversions import larger, smaller
from lakerunner_query.promql.functions import numbers
from lakerunner_query.promql.functions.numbers import cosh, sinh
from lakerunner_query.promql.functions.registry import IMPLEMENTATIONS
from lakerunner_query.promql.lang.functions import FUNCTIONS, VECTOR
from lakerunner_query.vectors.vector import Steps
from tests.support.query.promql.functions_at_hand import (
    answer,
    asked,
    is_nan,
    labels,
    ranged,
    said,
    source_of,
)

BOUND = {"start", "end", "step", "range"}
"""Numbers once a query is bound to its times."""


def test_every_function_of_the_language_is_there() -> None:
    assert set(IMPLEMENTATIONS) == set(FUNCTIONS) - BOUND


def test_hyperbolic_functions_are_infinite_where_the_power_of_e_is() -> None:
    values = np.array([0.0, 709.7, 710.0, -710.0, np.inf, np.nan])
    with np.errstate(all="ignore"):
        assert np.isinf(cosh(values)).tolist() == [False, False, True, True, True, False]
        assert sinh(values)[2:5].tolist() == [np.inf, -np.inf, np.inf]
        assert sinh(values)[:2].tolist() == np.sinh(values[:2]).tolist()
        assert np.isnan(sinh(values)[5])


@settings(max_examples=100, deadline=None)
@given(st.integers(-62_135_596_800, 253_402_300_799))
def test_dates_are_those_of_the_calendar(second: int) -> None:
    one = np.array([second])
    date = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    assert [part[0] for part in numbers.civil(one)] == [date.year, date.month, date.day]
    assert numbers.day_of_year(one)[0] == date.timetuple().tm_yday
    assert numbers.day_of_week(one)[0] == date.isoweekday() % 7
    assert (numbers.hour(one)[0], numbers.minute(one)[0]) == (date.hour, date.minute)
    assert numbers.days_in_month(one)[0] == monthrange(date.year, date.month)[1]


def test_dates_cut_towards_zero_and_know_no_nan() -> None:
    assert asked("", "minute(vector(-0.5))") == {(): 0.0}
    assert asked("", "minute(vector(119.9))") == {(): 1.0}
    assert asked("", "year(vector(NaN))") == asked("", "year(vector(-Inf))")


def test_without_argument_dates_are_those_of_each_step() -> None:
    assert ranged("", "hour()", 3_599, 7_199, 3_600) == {(): [0.0, 1.0]}


SOME = """
    m{of="float"} 2.5
    m{of="histogram"} {{schema:0 sum:1 count:1}}
"""


SIMPLE = [
    name
    for name, one in FUNCTIONS.items()
    if one.signature.arguments[:1] == (VECTOR,)
    and one.signature.returns == VECTOR
    and IMPLEMENTATIONS[name].body.__module__ == numbers.__name__
]
"""Functions of one float at a time."""


@pytest.mark.parametrize("name", sorted(set(SIMPLE) - {"clamp", "clamp_min", "clamp_max"}))
def test_simple_functions_drop_histograms_and_names(name: str) -> None:
    assert list(asked(SOME, f"{name}(m)")) == [labels(of="float")]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("abs(vector(-2.5))", 2.5),
        ("ceil(vector(-2.5))", -2.0),
        ("exp(vector(1000))", math.inf),
        ("ln(vector(0))", -math.inf),
        ("log2(vector(8))", 3.0),
        ("deg(vector(pi()))", 180.0),
        ("round(vector(2.5))", 3.0),
        ("round(vector(-2.5))", -2.0),
        ("round(vector(7), 5)", 5.0),
        ("round(vector(1.27), 0.1)", 1.3),
        ("clamp(vector(7), 1, 5)", 5.0),
        ("clamp_min(vector(NaN), Inf)", math.inf),
        ("clamp_max(vector(NaN), -Inf)", -math.inf),
        ("sgn(vector(-0.1))", -1.0),
        ("max_of(Inf, NaN)", math.inf),
        ("min_of(NaN, -Inf)", -math.inf),
        ("scalar(vector(4))", 4.0),
    ],
)
def test_values_are_as_defined(text: str, value: float) -> None:
    assert asked("", text) == {(): pytest.approx(value, rel=1e-15)}


@pytest.mark.parametrize(
    "text",
    ["ln(vector(-1))", "clamp(vector(1), NaN, 5)", "max_of(1, NaN)", "round(vector(1), 0)", "scalar(m)"],
)
def test_what_is_undefined_is_nan(text: str) -> None:
    [value] = asked("", text).values()
    assert is_nan(value)


def test_a_clamp_whose_ends_are_swapped_has_no_answer() -> None:
    assert asked("m 1", "clamp(m, 5, 1)") == {}
    assert ranged("m 1 1", "clamp(m, time(), 30)", 0, 60, 60) == {(): [1.0, None]}


def test_zeros_keep_their_signs() -> None:
    one, other = np.array([0.0, -0.0]), np.array([-0.0, 0.0])
    assert not np.signbit(larger(one, other)).any()
    assert np.signbit(smaller(one, other)).all()


def test_scalar_takes_the_only_float_of_each_step() -> None:
    some = """
        m{a="1"} 5 6 _
        m{a="2"} _ 7 {{sum:1 count:1}}
        m{a="3"} stale stale 9
    """
    values = ranged(some, "scalar(m @ 0)", 0, 0, 60)[()]
    assert values == [5.0]
    last = asked(some, "scalar(m{a=~'2|3'})", at=120)
    assert last == {(): 9.0}
    assert is_nan(asked(some, "scalar(m)", at=60)[()])


def test_absent_tells_the_labels_that_are_sure() -> None:
    text = 'absent(m{a="1", b="2", b="3", c=~"x", d!="y", e=""})'
    assert asked("x 1", text) == {labels(a="1"): 1.0}
    assert asked("m 1", "absent(m)") == {}
    assert asked("m 1", 'absent(n{a!~".*", a="1"})') == {(("a", "1"),): 1.0}
    assert asked("m 1", 'absent(n{a="1", a!~".*"})') == {(): 1.0}
    assert asked("m 1", 'absent(n{a!~".+", a="1"})') == {(): 1.0}, "what only takes away comes last"
    assert ranged("m 1 _ _", "absent_over_time((m[30s]))", 0, 120, 60) == {(): [None, 1.0, 1.0]}
    assert ranged("m{a='1'} 1".replace("'", '"'), 'absent_over_time(m{a="1"}[30s])', 0, 60, 60) == {
        labels(a="1"): [None, 1.0]
    }


def test_only_some_functions_take_anchored_and_smoothed() -> None:
    for text, word in (
        ("sum_over_time(m[1m] anchored)", "anchored modifier can only be used with: changes, delta, "),
        (
            "resets((m[1m] smoothed))",
            "smoothed modifier can only be used with: delta, increase, rate - not with resets",
        ),
    ):
        with pytest.raises(EvaluationError, match=word):
            asked("m 1", text)


def test_sorting_puts_nan_last_and_histograms_nowhere() -> None:
    some = """
        m{a="1"} NaN
        m{a="2"} 3
        m{a="3"} 1
        m{a="4"} {{sum:1 count:1}}
    """
    assert [one[1][1] for one in asked(some, "sort(m)")] == ["3", "2", "1"]
    assert [one[1][1] for one in asked(some, "sort_desc(m)")] == ["2", "3", "1"]


def test_sorting_by_label_counts_as_people_do() -> None:
    some = """
        m{host="node10"} 1
        m{host="node9"} 1
        m{host="node9b"} 1
        m 1
    """
    order = [dict(one).get("host", "") for one in asked(some, 'sort_by_label(m, "host")')]
    assert order == ["", "node9", "node9b", "node10"]
    assert [dict(one).get("host", "") for one in asked(some, 'sort_by_label_desc(m, "host")')] == order[::-1]


def test_sorting_a_range_query_is_remarked_on() -> None:
    found = answer(source_of("m 1 2"), "abs(sort(m))", Steps(0, 60_000, 2))
    assert [one.render("abs(sort(m))") for one in found.annotations] == [
        "PromQL warning: sort is ineffective for range queries since results are always ordered "
        "by labels (1:5)"
    ]
    assert said("m 1 2", "sort(m)") == []


def test_timestamps_are_of_samples_or_of_steps() -> None:
    some = "m 1 _ {{sum:1 count:1}} stale"
    assert ranged(some, "timestamp(m)", 0, 180, 60) == {(): [0.0, 0.0, 120.0, None]}
    assert ranged(some, "timestamp((m) * 1)", 0, 60, 60) == {(): [0.0, 60.0]}
    assert ranged(some, "timestamp(m @ 60)", 0, 60, 60) == {(): [0.0, 0.0]}


def test_timestamps_at_a_time_with_an_offset_are_read_back_there_and_looked_for_at_the_time() -> None:
    some = "m 1 2 3 4 5 6 7 8"
    assert ranged(some, "timestamp(m @ 240 offset 1m)", 0, 60, 60) == {(): [180.0, 180.0]}
    assert ranged(some, "timestamp(m @ 240 offset -1m)", 0, 60, 60) == {(): [240.0, 240.0]}
    assert ranged(some, "timestamp(m @ 400 offset 10m)", 0, 60, 60) == {}
