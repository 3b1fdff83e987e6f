"""Rollup rows: a window through a bucket is refused, what floats alone cannot answer goes to the samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import Grid
from lakerunner_query.windows.rollup_buckets import Buckets, over_buckets
from lakerunner_query.windows.rollup_rows import columns_needed, columns_of
from resources.lake import rollup_columns as names
from tests.support.query.windows import oracle
from tests.support.query.windows.oracle import Point

MINUTE = 60_000
ROWS = oracle.columns([oracle.rows_of([Point(30_000, 1.0), Point(90_000, 5.0)], MINUTE)])


@pytest.mark.parametrize(
    "grid",
    [
        Grid(MINUTE + 1, MINUTE, 2, MINUTE),
        Grid(MINUTE, MINUTE, 2, 30_000),
        Grid(MINUTE, 30_000, 2, MINUTE),
        Grid(90_000, 0, 1, MINUTE),
        Grid(2 * MINUTE, 0, 1, 90_000),
    ],
)
def test_a_window_that_cuts_through_a_bucket_is_refused(grid: Grid) -> None:
    with pytest.raises(ValueError, match=r"no unions of them|on both sides of"):
        over_buckets(Function.SUM, Buckets(ROWS, 1), grid)


def test_a_look_back_may_begin_inside_of_a_bucket() -> None:
    """The newest sample is of 90 s: in (80 s, 120 s], not in (90 s, 120 s]."""
    for range_ms, present in ((40_000, True), (30_000, False)):
        found = over_buckets(Function.INSTANT, Buckets(ROWS, 1), Grid(120_000, 0, 1, range_ms))
        assert found.present.tolist() == [[present]]


def test_windows_with_histograms_beside_floats_go_to_the_samples() -> None:
    others = replace(ROWS, has_others=np.array([False, True]))
    found = over_buckets(Function.COUNT, Buckets(others, 1), Grid(MINUTE, MINUTE, 3, MINUTE))
    assert found.needs_samples.tolist() == [[False, True, False]]
    assert found.present.tolist() == [[True, False, False]]


def test_deltas_without_their_sums_are_refused() -> None:
    read = columns_needed(Function.RATE, has_deltas=False)
    table = pa.table(
        {names.TIMESTAMP: [60_000], "metric_temporality": ["delta"]}
        | {name: pa.array([0], names.LOGICAL[name]) for name in read}
    )
    with pytest.raises(ValueError, match="row 0: deltas"):
        columns_of(table, np.array([0]), MINUTE)
