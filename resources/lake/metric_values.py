"""Metric segments store the values of samples as scaled integers or doubles, without loss.

Most values are decimal numbers of a few digits. As integers, delta-coded, they take a tenth of the space that
doubles do, so a value is stored in one of two ways:

    value                  scaled   base  exponent  double
    17.25                     25    1700         2    null      (25 + 1700) / 10^2
    17.5                      50    1700         2    null
    NaN (stale marker)      null    1700         2     NaN
    0.1 + 0.2               null       0         0     0.30000000000000004

`base` and `exponent` are the same in all rows of a series. The base moves each series to where the one
before it ended, because a jump between series widens the deltas of all its neighbours. A value is scaled only
if the division gives back the very same double; stale markers, other NaNs, infinities and -0.0 never are.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from resources.lake.columns import (
    CHQ_VALUE_BASE,
    CHQ_VALUE_DOUBLE,
    CHQ_VALUE_EXPONENT,
    CHQ_VALUE_SCALED,
    CHQ_VALUE_SQL,
)

SCALED, BASE, EXPONENT, DOUBLE = (
    CHQ_VALUE_SCALED,
    CHQ_VALUE_BASE,
    CHQ_VALUE_EXPONENT,
    CHQ_VALUE_DOUBLE,
)
VALUE_COLUMNS = (SCALED, BASE, EXPONENT, DOUBLE)
"""Columns of every metric segment, even if one is all null: one expression reads every file."""
VALUE_SQL = f"coalesce({DOUBLE}, ({SCALED} + {BASE}) / pow(10, {EXPONENT}))"
"""The value for readers that know SQL (DuckDB, Spark); also in the footer of every metric segment."""
VALUE_SQL_KEY = CHQ_VALUE_SQL.encode()

MAX_DIGITS = 9
POWERS: npt.NDArray[np.float64] = np.float64(10) ** np.arange(MAX_DIGITS + 1)
"""Powers of ten, all exact: a division by one of them is rounded once."""


def values(columns: Mapping[str, pa.Array]) -> pa.Array:
    """Decode values from the four columns (each one chunk); null where neither way has one."""
    scaled, double = columns[SCALED], columns[DOUBLE]
    whole = scaled.fill_null(0) if scaled.null_count else scaled
    numbers = unscaled(whole.to_numpy(), columns[BASE].to_numpy(), columns[EXPONENT].to_numpy())
    if not scaled.null_count and double.null_count == len(double):
        return pa.array(numbers, from_pandas=False)
    present = double.is_valid().to_numpy(zero_copy_only=False)
    numbers[present] = double.drop_null().to_numpy()
    missing = ~present & scaled.is_null().to_numpy(zero_copy_only=False)
    return pa.array(numbers, mask=missing, from_pandas=False)


def unscaled(
    scaled: npt.NDArray[np.int64],
    base: npt.NDArray[np.int64] | int,
    exponent: npt.NDArray[np.int32] | int,
) -> npt.NDArray[np.float64]:
    """Decode scaled values; base and exponent are per row, or those of one series."""
    numbers: npt.NDArray[np.float64] = (scaled + base).astype(np.float64) / POWERS[exponent]
    return numbers
