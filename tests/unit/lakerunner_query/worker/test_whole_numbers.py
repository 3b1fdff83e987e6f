"""Whole numbers are spelled by a kernel as they would be one by one, and others are left to Arrow."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.vectors.vector import Vector
from lakerunner_query.worker.shared.render_kernels import whole_blocks
from lakerunner_query.worker.shared.render_samples import log_vector_series

CELL = st.one_of(st.none(), st.integers(-(2**53) + 1, 2**53 - 1), st.integers(-20, 200))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(CELL, min_size=4, max_size=4), max_size=5))
def test_every_sample_is_spelled(cells: list[list[int | None]]) -> None:
    present = np.array([[cell is not None for cell in row] for row in cells], np.bool_).reshape(-1, 4)
    values = np.array([[cell or 0 for cell in row] for row in cells], np.float64).reshape(-1, 4)
    found = whole_blocks(values, present, pa.array(["0", "1.500", "1735689600", "-60"]))
    assert found is not None
    times = (0, 1.5, 1735689600, -60)
    assert [json.loads(b"[" + block + b"]") for block in found] == [
        [[at, str(cell)] for at, cell in zip(times, row, strict=True) if cell is not None] for row in cells
    ]


@pytest.mark.parametrize("odd", [0.5, -0.0, float("nan"), float("inf"), float("-inf"), 2.0**53])
def test_other_numbers_are_not(odd: float) -> None:
    values = np.array([[1.0, 2.0], [odd, 3.0]])
    times = pa.array(["1", "2"])
    assert whole_blocks(values, np.ones((2, 2), np.bool_), times) is None
    blocks = whole_blocks(values, np.array([[True, True], [False, True]]), times)
    assert blocks == [b'[1,"1"],[2,"2"]', b'[2,"3"]']


@pytest.mark.parametrize(("half", "text"), [(1.0, "1"), (0.5, "0.5")])
def test_vectors_are_spelled_either_way(half: float, text: str) -> None:
    present = np.array([[True, False], [False, False], [True, True]])
    vector = Vector([(("a", one),) for one in "xyz"], np.array([[2.0, 9], [9, 9], [half, 4]]), present)
    found = [
        (one.labels, one.floats, one.points) for one in log_vector_series(vector, np.array([1000, 2500]))
    ]
    assert found == [
        ((("a", "x"),), b'[1,"2"]', 1),
        ((("a", "z"),), f'[1,"{text}"],[2.500,"4"]'.encode(), 2),
    ]
