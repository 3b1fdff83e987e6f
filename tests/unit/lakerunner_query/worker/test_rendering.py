"""Numbers, times and series as text: what Prometheus' API has, digit by digit."""

from __future__ import annotations

import doctest
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.promql.functions import numbers
from lakerunner_query.vectors.vector import Vector
from lakerunner_query.worker.shared import render_samples as render
from lakerunner_query.worker.shared.render_samples import number_texts, time_text, vector_series


def test_examples() -> None:
    assert doctest.testmod(render).failed == 0


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
@settings(max_examples=200, deadline=None)
def test_finite_numbers_come_back_to_the_bit_and_have_exponents_only_at_the_ends(values: list[float]) -> None:
    texts = number_texts(np.array(values)).to_pylist()
    for value, text in zip(values, texts, strict=True):
        assert np.float64(text).tobytes() == np.float64(value).tobytes()
        assert ("e" in text) == (value != 0 and not 1e-6 <= abs(value) < 1e21)
        assert not text.endswith(".0")


@given(st.lists(st.integers(-(10**17), 10**17), min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
def test_whole_numbers_have_no_fraction(values: list[int]) -> None:
    texts = number_texts(np.array(values, np.float64)).to_pylist()
    assert [float(text) for text in texts] == [float(value) for value in values]
    assert all(text.removeprefix("-").isdigit() for text in texts)
    exact = [(value, text) for value, text in zip(values, texts, strict=True) if abs(value) < 2**53]
    assert all(int(text) == value for value, text in exact)


@pytest.mark.parametrize(("ms", "text"), [(0, "0"), (1500, "1.500"), (-1, "-0.001"), (61_000, "61")])
def test_times(ms: int, text: str) -> None:
    assert time_text(ms) == text


def test_a_series_without_samples_is_left_out_and_gaps_are_gaps() -> None:
    present = np.array([[True, False, True], [False, False, False]])
    vector = Vector([(("a", "1"),), (("a", "2"),)], np.array([[1.0, 2.0, 3.5], [0.0, 0.0, 0.0]]), present)
    found = vector_series(vector, np.array([1000, 2000, 3000]))
    assert [(s.labels, json.loads(b"[" + s.floats + b"]"), s.points) for s in found] == [
        ((("a", "1"),), [[1, "1"], [3, "3.5"]], 2)
    ]


def test_what_is_no_time_is_where_a_clock_of_64_bits_ends() -> None:
    seconds = numbers._seconds(np.array([np.nan, np.inf, -1e300]))
    assert numbers.year(seconds).tolist() == [292277026596] * 3
    assert (numbers.month(seconds)[0], numbers.day_of_month(seconds)[0], numbers.hour(seconds)[0]) == (
        12,
        4,
        15,
    )
    assert (numbers.minute(seconds)[0], numbers.day_of_year(seconds)[0]) == (30, 339)
    assert (numbers.day_of_week(seconds)[0], numbers.days_in_month(seconds)[0]) == (0, 31)


def test_bytes_that_are_no_text_become_replacement_characters() -> None:
    vector = Vector([(("a", "\udcff"),)], np.array([[1.0]]), np.array([[True]]))
    assert vector_series(vector, np.array([0]))[0].labels == (("a", "\ufffd"),)
