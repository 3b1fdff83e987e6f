"""Rows of up to four samples say them all, or have a sketch."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.lake import rollup_columns as rollup
from resources.lake.few_samples import POINT_COLUMNS, hold_all_samples, samples_of, sketch_points
from tests.support.rollup.cases import paths, rolled, row, sample_segment, sketch_of, stepped

VALUES = st.one_of(
    st.integers(-(10**6), 10**6).map(float),
    st.decimals(-1000, 1000, places=3).map(float),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, 1e-300, 5e-324, 1e300, 0.1, 0.2, 1e16]),
)


def columns(values: list[float]) -> dict[str, np.ndarray]:
    """A row of these samples, by exact sums."""
    finite = all(math.isfinite(value) for value in values)
    total = math.fsum(values) if finite and max(map(abs, values)) < 1e307 else sum(values)
    rest = math.fsum([*values, -total]) if math.isfinite(total) else 0.0
    changes = sum(a != b and not (math.isnan(a) and math.isnan(b)) for a, b in pairwise(values))
    cells = {
        rollup.COUNT: len(values), rollup.FIRST: values[0], rollup.LAST: values[-1], rollup.SUM: total,
        rollup.PREV: values[-2] if len(values) > 1 else 0.0, rollup.SUM_C: rest, rollup.CHANGES: changes,
    }  # fmt: skip
    return {name: np.array([cell]) for name, cell in cells.items()}


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_a_row_that_says_all_gives_its_samples(values: list[float]) -> None:
    row_ = columns(values)
    if not hold_all_samples(row_)[0]:
        assert len(values) == 4
        return
    found = samples_of(row_)
    told = np.repeat(found.values, found.weights.astype(np.int64))
    real = np.array([value for value in values if math.isfinite(value)])
    assert len(told) == len(values)
    told = told[np.isfinite(told)]
    assert np.allclose(np.sort(told), np.sort(real), rtol=1e-8, atol=0.0)


@given(st.lists(st.floats(0.01, 1000.0), min_size=4, max_size=4))
def test_ordinary_values_need_no_sketch(values: list[float]) -> None:
    assert hold_all_samples(columns(values))[0]


@pytest.mark.parametrize(
    ("values", "without"),
    [
        ([1.0, 0.0, 5.0, 6.0], True),  # whole numbers: the sum is exact
        ([0.1, 0.0, 0.2, 0.3], False),  # rounding could have made that zero
        ([1e16, 1.0, 1e16, 3.0], False),
        ([1.0, math.nan, 2.0, 3.0], False),
        ([math.nan, 1.0, math.inf], True),
        ([1e308, 1e308, 1e308, 1e308], True),  # nothing changed, though the sum is beyond doubles
        ([1e308, 2.0, 1e308, 1e308], False),
    ],
)
def test_what_is_certain(values: list[float], without: bool) -> None:
    assert hold_all_samples(columns(values))[0] == without


def test_sketches_of_rows_above_are_those_of_all_samples(tmp_path: Path) -> None:
    values = [0.1, 0.0, 0.2, 0.3, 17.25, 3.5, 2.125, 9.75]
    rows = [row(n, 15_000 * n + 1, value) for n, value in enumerate(values)]
    source = sample_segment(tmp_path, "s", rows)
    (tens,) = paths(rolled(tmp_path, [source], 0, 10_000))
    (minutes,) = paths(rolled(tmp_path, [tens], 10_000, 60_000))
    stored = pq.read_table(minutes).column(rollup.SKETCH).to_pylist()
    assert stored == [sketch_of(values[:4]), None]
    (hour,) = stepped(tmp_path, rows, [10_000, 60_000, 300_000]).values()
    assert hour[rollup.SKETCH] == sketch_of(values)


def test_points_of_rows_without_a_sketch() -> None:
    cells = {
        rollup.COUNT: [2, 0, 4, 7, 5], rollup.FIRST: [1.0, None, 1.0, 2.0, 1.0],
        rollup.PREV: [1.0, None, 5.0, 2.0, 3.0], rollup.LAST: [3.0, None, 6.0, 2.0, 4.0],
        rollup.SUM: [4.0, None, 14.0, 14.0, 12.0], rollup.SUM_C: [0.0] * 5,
        rollup.CHANGES: [1, 0, 3, 0, 4], rollup.SKETCH: [None, None, None, None, b"x"],
    }  # fmt: skip
    table = pa.table({name: pa.array(cell, rollup.LOGICAL[name]) for name, cell in cells.items()})
    found = sketch_points(table)
    told = sorted(zip(found.group.tolist(), found.values.tolist(), found.weights.tolist(), strict=True))
    assert told == [(0, 1.0, 1), (0, 3.0, 1), (2, 1.0, 1), (2, 2.0, 1), (2, 5.0, 1), (2, 6.0, 1), (3, 2.0, 7)]
    with pytest.raises(rollup.RollupColumnsError, match=rollup.CHANGES):
        sketch_points(table.drop_columns([rollup.CHANGES]))
    assert set(POINT_COLUMNS) <= set(rollup.LOGICAL)
