"""Doubles of rollup rows that are decimal numbers are stored as integers.

    last   first   sum            exponent  base  last_scaled  first_scaled  sum_scaled
    17.5   17.25   34.75                 2  1700           50           -25           0

The last value is split like that of a sample; the others are so many steps away from where those of a counter
would be. A value of a row whose last one stays a double stays one too.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakerunner_assets.rollup.samples import doubles_of
from lakerunner_assets.segments import metric_values
from resources.arrays import Int32s
from resources.lake import metric_values as parts
from resources.lake.rollup_columns import (
    BASE,
    COUNT,
    EXPONENT,
    FIRST,
    LAST,
    M2,
    SCALED,
    SQUARES,
    counted_from,
    unscaled_squares,
)

_LARGEST = 2.0**53
_EPSILON = float(np.finfo(np.float64).eps)
_NEAR = 1e-12
"""Share that rounding takes from the squared deviations when they are added up."""
_MINUS_ZERO = np.uint64(1 << 63)


def stored_columns(table: pa.Table, codes: Int32s) -> pa.Table:
    """Return the rows in stored form; `codes` are their series, one after the other."""
    if LAST not in table.column_names:
        return table
    last = table.column(LAST).chunk(0)
    series = np.cumsum(np.concatenate(([False], codes[1:] != codes[:-1]))).astype(np.int32)
    split = metric_values.split(last, series, np.arange(len(series)), int(series[-1]) + 1)
    columns = {name: table.column(name).chunk(0) for name in table.column_names}
    columns[LAST] = split.columns[parts.DOUBLE]
    scaled = split.columns[parts.SCALED]
    if scaled.null_count < len(scaled):
        columns |= {SCALED[LAST]: scaled, BASE: split.columns[parts.BASE]}
        columns[EXPONENT] = split.columns[parts.EXPONENT]
        whole = scaled.fill_null(0).to_numpy() + columns[BASE].to_numpy()
        count = table.column(COUNT).chunk(0).to_numpy()
        exponent, first = columns[EXPONENT].to_numpy(), whole
        for name in SCALED:  # the first value before those that are counted from it
            if name != LAST and name in columns:
                reference = counted_from(name, whole, first, count)
                integers, doubles = _apart(columns[name], scaled, exponent, reference)
                columns |= {name: doubles, SCALED[name]: integers}
                if name == FIRST:
                    first = whole + integers.fill_null(0).to_numpy()
        if M2 in columns:
            squares, doubles = _squares(columns[M2], scaled, whole / parts.POWERS[exponent], exponent, count)
            columns |= {M2: doubles, SQUARES: squares}
    return table_of(table.schema, columns)


def table_of(schema: pa.Schema, columns: dict[str, pa.Array]) -> pa.Table:
    """Build a table; fields of the schema keep their attributes."""
    known = set(schema.names)
    fields = [
        schema.field(name).with_type(column.type) if name in known else pa.field(name, column.type)
        for name, column in columns.items()
    ]
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))


def _squares(
    column: pa.Array, last: pa.Array, lasts: np.ndarray, exponent: np.ndarray, count: np.ndarray
) -> tuple[pa.Array, pa.Array]:
    """Scale the squared deviations; the integer need only be as near as rounding was."""
    present = column.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(present & last.is_valid().to_numpy(zero_copy_only=False))
    values, counts, exponents = doubles_of(column)[rows], count[rows], exponent[rows]
    with np.errstate(invalid="ignore", over="ignore"):
        numbers = np.rint(values * counts * parts.POWERS[exponents] * parts.POWERS[exponents])
        small = numbers <= _LARGEST
    integers = np.where(small, numbers, 0.0).astype(np.int64)
    with np.errstate(invalid="ignore"):
        rounding = values * _NEAR + 8 * _EPSILON * np.abs(lasts[rows]) * np.sqrt(values * counts)
        near = np.abs(unscaled_squares(integers, counts, exponents) - values) <= rounding
    rows = rows[small & near]
    squares, missing = np.zeros(len(column), np.int64), np.ones(len(column), np.bool_)
    squares[rows], missing[rows] = integers[small & near], False
    doubles = pa.array(doubles_of(column), mask=~present | ~missing, from_pandas=False)
    return pa.array(squares, mask=missing), doubles


def _apart(
    column: pa.Array, last: pa.Array, exponent: np.ndarray, reference: np.ndarray
) -> tuple[pa.Array, pa.Array]:
    """Split a column into integers counted from the reference, and doubles that stay."""
    present = column.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(present & last.is_valid().to_numpy(zero_copy_only=False))
    values, power = doubles_of(column)[rows], parts.POWERS[exponent[rows]]
    with np.errstate(invalid="ignore", over="ignore"):
        numbers = np.rint(values * power)
        small = np.abs(numbers) <= _LARGEST
    integers = np.where(small, numbers, 0.0).astype(np.int64)
    exact = small & (integers / power == values) & (values.view(np.uint64) != _MINUS_ZERO)
    scaled, missing = np.zeros(len(column), np.int64), np.ones(len(column), np.bool_)
    rows = rows[exact]
    scaled[rows] = integers[exact] - reference[rows]
    missing[rows] = False
    doubles = pa.array(doubles_of(column), mask=~present | ~missing, from_pandas=False)
    return pa.array(scaled, mask=missing), doubles
