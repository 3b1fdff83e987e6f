"""A check compares samples and sums of a rollup with those it was built from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from resources.lake.columns import CHQ_ROLLUP_COUNT, CHQ_ROLLUP_SUM, CHQ_ROLLUP_SUM_C, CHQ_TIMESTAMP
from resources.lake.rollup_columns import filled, needed

COLUMNS = (CHQ_ROLLUP_COUNT, CHQ_ROLLUP_SUM, CHQ_ROLLUP_SUM_C)
TOLERANCE = 1e-12
NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Totals:
    samples: int = 0
    total: float = 0.0
    magnitude: float = 0.0
    """Sum of the absolute sums of all rows, the scale of rounding."""

    def agrees(self, other: Totals) -> bool:
        if self.samples != other.samples:
            return False
        if not (math.isfinite(self.total) and math.isfinite(other.total)):
            return True  # infinities and NaN have no sum to compare
        return abs(self.total - other.total) <= TOLERANCE * max(self.magnitude, other.magnitude)


def totals(paths: Iterable[Path], start_ns: int, end_ns: int) -> Totals:
    """Sum up the rows whose bucket ends in `(start, end]`."""
    samples, sums, magnitude = 0, [0.0], 0.0
    for path in paths:
        with pq.ParquetFile(path) as file:
            present = set(file.schema_arrow.names)
            wanted = [name for name in (*needed(COLUMNS), CHQ_TIMESTAMP) if name in present]
            table = filled(_within(file.read(wanted), start_ns, end_ns), COLUMNS)
        values = np.nan_to_num(_doubles(table, CHQ_ROLLUP_SUM), nan=0.0, posinf=np.inf, neginf=-np.inf)
        values = values + _doubles(table, CHQ_ROLLUP_SUM_C)
        samples += pc.sum(table.column(CHQ_ROLLUP_COUNT)).as_py() or 0
        sums.append(math.fsum(values) if np.isfinite(values).all() else math.nan)
        magnitude += float(np.abs(values).sum())
    return Totals(samples, math.fsum(sums), magnitude)


def _within(table: pa.Table, start_ns: int, end_ns: int) -> pa.Table:
    ends = table.column(CHQ_TIMESTAMP)
    inside = pc.and_(pc.greater(ends, start_ns // NS_PER_MS), pc.less_equal(ends, end_ns // NS_PER_MS))
    return table.filter(inside)


def _doubles(table: pa.Table, name: str) -> np.ndarray:
    values: np.ndarray = table.column(name).fill_null(0.0).to_numpy()
    return values
