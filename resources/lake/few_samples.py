"""Rollup rows of few samples hold all of them, and have no sketch.

    count  first  prev  last  sum     samples           sketch stored
        3      1     5     6   12     1, 5, 6           no
        4      1     5     6   14     1, 2, 5, 6        no
        4      1     5     6   12     1, 0?, 5, 6       only if rounding could have made that zero
        7      2     2     2   14     seven times 2     no: nothing changed

The samples are first, last but one and last, and for four the rest of the sum. Readers add them to the
sketches of other rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from resources.arrays import Doubles
from resources.lake.ddsketch import WeightedValues
from resources.lake.rollup_columns import (
    CHANGES,
    COUNT,
    FIRST,
    LAST,
    PREV,
    SKETCH,
    SUM,
    SUM_C,
    RollupColumnsError,
    without_nulls,
)

POINT_COLUMNS = (COUNT, FIRST, PREV, LAST, SUM, SUM_C, CHANGES, SKETCH)
"""Logical columns that `sketch_points` reads."""

_SHARE = 1e-6
"""Share from which a fourth sample is off by 1e-9 of itself at most."""
_LARGEST = 2.0**52
Columns = Mapping[str, npt.NDArray[Any]]


def sketch_points(table: pa.Table) -> WeightedValues:
    """Return the samples of rows without a sketch; the group is the row."""
    if missing := set(POINT_COLUMNS) - set(table.column_names):
        raise RollupColumnsError(f"no columns {sorted(missing)}: expected {list(POINT_COLUMNS)}")
    table = table.select(POINT_COLUMNS).combine_chunks()
    rows = np.flatnonzero(table.column(SKETCH).is_null().to_numpy())
    columns = {
        name: without_nulls(table.column(name), 0).to_numpy()[rows]
        for name in POINT_COLUMNS
        if name != SKETCH
    }
    found = samples_of(columns)
    return WeightedValues(found.values, found.weights, rows[found.group])


def hold_all_samples(columns: Columns) -> npt.NDArray[np.bool_]:
    """Flag the rows of which `samples_of` knows every sample: they need no sketch."""
    count = columns[COUNT]
    found: npt.NDArray[np.bool_] = (count < 4) | (columns[CHANGES] == 0)
    four = np.flatnonzero(~found & (count == 4))
    found[four] = _is_certain({name: columns[name][four] for name in (FIRST, PREV, LAST, SUM, SUM_C)})
    return found


def samples_of(columns: Columns) -> WeightedValues:
    """Return the samples of rows that hold all of them, also not finite ones; the group is the row."""
    count, last = columns[COUNT], columns[LAST]
    few = (count > 1) & (count < 5) & (columns[CHANGES] > 0)
    ends, pairs = np.flatnonzero(count > 0), np.flatnonzero(few)
    three, four = np.flatnonzero(few & (count > 2)), np.flatnonzero(few & (count == 4))
    fourth = _fourth({name: columns[name][four] for name in (FIRST, PREV, LAST, SUM, SUM_C)})
    values = np.concatenate((last[ends], columns[FIRST][pairs], columns[PREV][three], fourth))
    weights = np.ones(len(values))
    weights[: len(ends)] = np.where(few[ends], 1, count[ends])
    rows = np.concatenate((ends, pairs, three, four))
    order = np.argsort(rows, kind="stable")
    return WeightedValues(values[order], weights[order], rows[order])


def _fourth(columns: Columns) -> Doubles:
    with np.errstate(all="ignore"):
        rest: Doubles = columns[SUM] - columns[FIRST] - columns[LAST] - columns[PREV] + columns[SUM_C]
    return rest


def _is_certain(columns: Columns) -> npt.NDArray[np.bool_]:
    """Flag rows whose fourth sample survived rounding: it is not small, or all are whole numbers."""
    fourth = np.abs(_fourth(columns))
    parts = [columns[name] for name in (FIRST, PREV, LAST, SUM)]
    with np.errstate(all="ignore"):
        size = np.sum(np.abs(parts), axis=0)
        whole = (size < _LARGEST) & (columns[SUM_C] == 0)
        for part in parts:
            whole &= np.floor(part) == part
        found: npt.NDArray[np.bool_] = np.isfinite(size) & ((fourth >= _SHARE * size) | whole)
    return found
