"""Columns left out by the footer do not change answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import Grid
from lakerunner_query.windows.rollup_buckets import Buckets, over_buckets
from lakerunner_query.windows.rollup_rows import (
    TEMPORALITY,
    columns_needed,
    columns_of,
    columns_to_read,
    ranges,
)
from resources.lake.rollup_columns import COUNT, LAST, RESETS, filled
from tests.support.rollup.cases import NOON, rolled, row, sample_segment
from tests.support.segments.metric_tables import Row

SERIES = 3
GRID = Grid(NOON + 60_000, 60_000, 5, 60_000)


def regular(rng: np.random.Generator, **more: Any) -> list[Row]:
    """A sample a second and series, which grow and begin again once."""
    rows = []
    for n in range(SERIES):
        values = np.cumsum(rng.integers(0, 9, 300))
        values[150:] -= values[150]
        rows += [
            row(n * 300 + k, 1_000 * k + 1, float(value), {"__name__": "m", "x": str(n)}, **more)
            for k, value in enumerate(values.tolist())
        ]
    return rows


def odd(rng: np.random.Generator) -> list[Row]:
    """Gaps, values below zero that fall often, deltas beside others."""
    rows = regular(rng, metric_temporality="cumulative")
    rows = [each for each in rows if rng.random() < 0.5]
    return [
        {**each, "chq_value": float(rng.normal())}
        if '"x","0"' in each["chq_series"]
        else {**each, "metric_temporality": "delta"} if '"x","1"' in each["chq_series"] else each
        for each in rows
    ]  # fmt: skip


CASES = {
    "gauges": regular,
    "counters": lambda rng: regular(rng, metric_temporality="cumulative"),
    "deltas": lambda rng: regular(rng, metric_temporality="delta"),
    "odd": odd,
}


@pytest.mark.parametrize("case", CASES)
def test_every_function_answers_alike(tmp_path: Path, case: str) -> None:
    rows = CASES[case](np.random.default_rng(3))
    (part,) = rolled(tmp_path, [sample_segment(tmp_path, "s", rows)], 0, 60_000)
    file, whole = pq.ParquetFile(part.path), pq.read_table(part.path)
    names = [f'"x","{n}"' for n in range(SERIES)]
    ids = {each["chq_tid"]: n for each in rows for n, name in enumerate(names) if name in each["chq_series"]}
    order = {tid: code for code, tid in enumerate(dict.fromkeys(whole.column("chq_tid").to_pylist()))}
    assert len(ids) == len(order) == SERIES
    codes = np.array([order[tid] for tid in whole.column("chq_tid").to_pylist()], np.int64)
    answered = 0
    for function in Function:
        needed = columns_needed(function)
        expected = columns_of(filled(whole, needed), codes, 60_000)
        stored, logical = columns_to_read(file.metadata, function)
        found = columns_of(filled(file.read(stored), logical), codes, 60_000)
        told, wanted = (over_buckets(function, Buckets(c, SERIES), GRID) for c in (found, expected))
        assert np.array_equal(told.present, wanted.present), function
        assert np.array_equal(told.needs_samples, wanted.needs_samples), function
        assert np.array_equal(told.values[told.present], wanted.values[wanted.present], equal_nan=True)
        answered += int(told.present.sum())
    assert answered > 100


def test_what_the_footer_tells(tmp_path: Path) -> None:
    rows = regular(np.random.default_rng(3), metric_temporality="cumulative")
    (part,) = rolled(tmp_path, [sample_segment(tmp_path, "s", rows)], 0, 60_000)
    told = ranges(pq.read_metadata(part.path), {COUNT, RESETS, TEMPORALITY, LAST})
    assert (told[COUNT].least, told[COUNT].greatest) == (60, 60)
    assert told[TEMPORALITY].least == told[TEMPORALITY].greatest == "cumulative"
    assert told[RESETS].greatest == 1
    assert LAST not in told
