"""Rollup rows have a logical and a stored form; this module defines both and fills the logical one.

A null means a default and only that, so that a bucket with one sample costs little more than the sample:

    stored   count  last   first  min   max   sum        logical  count  last  first  min  max  sum
                 1   4.5    null  null  null  null                     1   4.5    4.5  4.5  4.5  4.5
                 2   4.5     4.0  4.0   null   8.5                     2   4.5    4.0  4.0  4.5  8.5
                 0  null    null  null  null  null  (stale)            0  null   null null null null

Values that are decimal numbers of a few digits are stored as integers, like those of samples
(`metric_values.py`): the last one as `(last_scaled + base) / 10^exponent`, the others by how far they are
from it, or from what a counter would have there. Where that would not give back the very same double, the
column of doubles holds the value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from resources.arrays import Doubles, Int64s
from resources.lake.columns import (
    CHQ_HIST_COUNT,
    CHQ_HIST_FIRST,
    CHQ_HIST_LAST,
    CHQ_HIST_MIXED,
    CHQ_HIST_RESETS,
    CHQ_HIST_SUM,
    CHQ_ROLLUP_BASE,
    CHQ_ROLLUP_CHANGES,
    CHQ_ROLLUP_COUNT,
    CHQ_ROLLUP_EXPONENT,
    CHQ_ROLLUP_FIRST,
    CHQ_ROLLUP_FIRST_SCALED,
    CHQ_ROLLUP_FIRST_TS,
    CHQ_ROLLUP_LAST,
    CHQ_ROLLUP_LAST_SCALED,
    CHQ_ROLLUP_LAST_STALE,
    CHQ_ROLLUP_LAST_TS,
    CHQ_ROLLUP_M2,
    CHQ_ROLLUP_M2_SCALED,
    CHQ_ROLLUP_MAX,
    CHQ_ROLLUP_MAX_SCALED,
    CHQ_ROLLUP_MIN,
    CHQ_ROLLUP_MIN_SCALED,
    CHQ_ROLLUP_PREV,
    CHQ_ROLLUP_PREV_SCALED,
    CHQ_ROLLUP_PREV_TS,
    CHQ_ROLLUP_RESET_SUM,
    CHQ_ROLLUP_RESET_SUM_SCALED,
    CHQ_ROLLUP_RESETS,
    CHQ_ROLLUP_SUM,
    CHQ_ROLLUP_SUM_C,
    CHQ_ROLLUP_SUM_SCALED,
    CHQ_SKETCH,
    CHQ_TIMESTAMP,
    HISTOGRAM,
    Filler,
    Segments,
    arrow_types,
    columns_in,
    types_of,
)
from resources.lake.metric_values import POWERS

HIST = arrow_types()[HISTOGRAM]
"""Type of one histogram."""
TIMESTAMP = CHQ_TIMESTAMP
"""End of the bucket, ms: the row covers `(end - width, end]`."""

COUNT, SUM, SUM_C, MIN, MAX = (
    CHQ_ROLLUP_COUNT, CHQ_ROLLUP_SUM, CHQ_ROLLUP_SUM_C, CHQ_ROLLUP_MIN, CHQ_ROLLUP_MAX,
)  # fmt: skip
FIRST, FIRST_TS, LAST, LAST_TS = (
    CHQ_ROLLUP_FIRST, CHQ_ROLLUP_FIRST_TS, CHQ_ROLLUP_LAST, CHQ_ROLLUP_LAST_TS,
)  # fmt: skip
LAST_STALE, PREV, PREV_TS = CHQ_ROLLUP_LAST_STALE, CHQ_ROLLUP_PREV, CHQ_ROLLUP_PREV_TS
RESET_SUM, RESETS, CHANGES, M2 = (
    CHQ_ROLLUP_RESET_SUM, CHQ_ROLLUP_RESETS, CHQ_ROLLUP_CHANGES, CHQ_ROLLUP_M2,
)  # fmt: skip
SKETCH = CHQ_SKETCH
HIST_COUNT, HIST_FIRST, HIST_LAST, HIST_SUM, HIST_RESETS, HIST_MIXED = (
    CHQ_HIST_COUNT, CHQ_HIST_FIRST, CHQ_HIST_LAST, CHQ_HIST_SUM, CHQ_HIST_RESETS, CHQ_HIST_MIXED,
)  # fmt: skip
BASE, EXPONENT = CHQ_ROLLUP_BASE, CHQ_ROLLUP_EXPONENT
"""Base and exponent of the scaled columns, the same in all rows of a series that were written together."""
SCALED = {
    LAST: CHQ_ROLLUP_LAST_SCALED,
    FIRST: CHQ_ROLLUP_FIRST_SCALED,
    PREV: CHQ_ROLLUP_PREV_SCALED,
    MIN: CHQ_ROLLUP_MIN_SCALED,
    MAX: CHQ_ROLLUP_MAX_SCALED,
    SUM: CHQ_ROLLUP_SUM_SCALED,
    RESET_SUM: CHQ_ROLLUP_RESET_SUM_SCALED,
}
"""Column of doubles -> its column of integers."""
SQUARES = CHQ_ROLLUP_M2_SCALED
"""`M2` times count times 10^(2 exponent): an integer, if all values are integers times 10^-exponent."""

_FILLED = tuple(c for c in columns_in(Segments.ROLLUPS, Filler.ROLLUP) if c.name != TIMESTAMP)
STORED: dict[str, pa.DataType] = types_of(_FILLED)
"""Columns that a file may have, in order; only `COUNT` is always there and never null."""
LOGICAL: dict[str, pa.DataType] = {
    name: kind for name, kind in STORED.items() if name not in {BASE, EXPONENT, SQUARES, *SCALED.values()}
}
"""Statistics of a row, beside its series and its bucket."""

_DEFAULTS = {c.name: c.default for c in _FILLED if c.name in LOGICAL and c.default is not None}
BY_LAST = {n: d for n, d in _DEFAULTS.items() if isinstance(d, str) and LOGICAL[n] != HIST}
"""Columns of which a null means: the same as that other column."""
SINGLE = {n: d for n, d in _DEFAULTS.items() if isinstance(d, str) and LOGICAL[n] == HIST}
"""Columns of which a null means, where the bucket has one histogram: the same as that other column."""
FALSE = tuple(n for n, d in _DEFAULTS.items() if d is False)
ZEROS = {n: d for n, d in _DEFAULTS.items() if isinstance(d, int | float) and n not in FALSE}
FOUR_VALUES = (FIRST, PREV, LAST, SUM, SUM_C, CHANGES)
"""Columns that know all values of up to four samples: a null in `M2` follows from them."""


class RollupColumnsError(ValueError):
    """The columns are not those of a rollup segment."""


def needed(names: Iterable[str] = LOGICAL) -> frozenset[str]:
    """Return the stored columns that `filled` reads for these logical ones; a file has some of them.

    >>> needed([FIRST_TS]) == {COUNT, FIRST_TS, LAST_TS}
    True
    """
    wanted: set[str] = {COUNT}
    for name in names:
        if name not in LOGICAL:
            raise RollupColumnsError(f"{name} is no column of rollups: expected one of {sorted(LOGICAL)}")
        wanted |= {name, *({SINGLE[name], HIST_COUNT} if name in SINGLE else ())}
        wanted |= {BY_LAST[name]} if name in BY_LAST else set()
        if name in SCALED:
            wanted |= {SCALED[name], LAST, SCALED[LAST], SCALED[FIRST], BASE, EXPONENT}
        if name == M2:
            wanted |= {SQUARES, EXPONENT, *needed(FOUR_VALUES)}
    return frozenset(wanted)


def filled(table: pa.Table, names: Collection[str] = tuple(LOGICAL)) -> pa.Table:
    """Return the logical form: these columns, complete and typed, behind all others of the table.

    In rows without float samples (count 0) values and times of them stay null. `SKETCH` stays as stored: null
    means that the row says all its samples (`few_samples.sketch_points`).
    """
    if COUNT not in table.column_names:
        raise RollupColumnsError(f"no column {COUNT} among {table.column_names}: not of a rollup segment")
    table = table.combine_chunks()
    stored = {name: _whole(table.column(name)) for name in table.column_names if name in STORED}
    kept = {name: table.column(name) for name in table.column_names if name not in STORED}
    return pa.table({**kept, **_logical(stored, names, table.num_rows)})


def _logical(stored: dict[str, pa.Array], names: Collection[str], rows: int) -> dict[str, pa.Array]:
    needed(names)
    values = _values(stored, names, rows)

    def column(name: str) -> pa.Array:
        found = values.get(name, stored.get(name))
        return pa.nulls(rows, LOGICAL[name]) if found is None else _cast(name, found)

    found: dict[str, pa.Array] = {}
    for name in names:
        whole = column(name)
        if name in BY_LAST:
            whole = _or(whole, column(BY_LAST[name]))
        elif name in SINGLE and HIST_LAST in stored:
            once = pc.equal(column(HIST_COUNT), 1).fill_null(False)
            whole = _or(whole, pc.if_else(once, column(HIST_LAST), pa.scalar(None, HIST)))
        elif name == M2:
            whole = _squares(whole, stored, rows)
        elif name in ZEROS:
            whole = without_nulls(whole, ZEROS[name])
        elif name in FALSE:
            whole = without_nulls(whole, False)
        found[name] = whole
    return found


def _values(stored: dict[str, pa.Array], names: Collection[str], rows: int) -> dict[str, pa.Array]:
    """Decode the columns that are stored as integers."""
    wanted = {BY_LAST.get(name, name) for name in names} | set(names)
    wanted = {name for name in wanted if SCALED.get(name) in stored}
    if not wanted:
        return {}
    power = _powers(stored.get(EXPONENT), rows)
    last = _numbers(stored.get(SCALED[LAST]), rows) + _numbers(stored.get(BASE), rows)
    first, count = last, _numbers(stored[COUNT], rows)
    if wanted & {FIRST, MIN, SUM}:
        first = last + _numbers(stored.get(SCALED[FIRST]), rows)
    found: dict[str, pa.Array] = {}
    for name in sorted(wanted):
        scaled, numbers = stored[SCALED[name]], last
        if name == FIRST:
            numbers = first
        elif name != LAST:
            numbers = _numbers(scaled, rows) + counted_from(name, last, first, count)
        decimal = pa.array(numbers / power, from_pandas=False)
        if scaled.null_count:
            decimal = pc.if_else(scaled.is_valid(), decimal, stored.get(name, pa.nulls(rows, pa.float64())))
        found[name] = decimal
    return found


def _powers(exponent: pa.Array | None, rows: int) -> Doubles | np.float64:
    """Return the divisor of each row, or one number for all of them."""
    exponents = _numbers(exponent, rows, np.int32)
    if len(exponents) and (exponents == exponents[0]).all():
        return np.float64(POWERS[exponents[0]])
    powers: Doubles = POWERS[exponents]
    return powers


def counted_from(name: str, last: Int64s, first: Int64s, count: Int64s) -> Int64s:
    """Return the reference that the integers of a column are offsets from.

    Sums that leave 64 bits wrap, there and back.

    The least value of a counter is its first, and its values lie about half way between first and last.
    `first` is the last one, where the first is no integer.
    """
    if name == RESET_SUM:
        return np.zeros_like(last)
    if name == SUM:
        return (first + last) * count >> 1
    return first if name == MIN else last


def unscaled_squares(integers: Int64s, count: Int64s, exponent: Int64s) -> Doubles:
    """Compute `M2` from the integers of `SQUARES`."""
    power = POWERS[exponent]
    squares: Doubles = integers / (np.maximum(count, 1) * power * power)
    return squares


def squares_of_few(columns: Mapping[str, npt.NDArray[Any]]) -> Doubles:
    """Compute the squared deviations of up to four samples from `FOUR_VALUES` and `COUNT`; 0 elsewhere."""
    count, first, last = columns[COUNT], columns[FIRST], columns[LAST]
    with np.errstate(all="ignore"):
        total = columns[SUM] + columns[SUM_C]
        third = np.where(count > 2, columns[PREV], 0.0)
        fourth = np.where(count > 3, columns[SUM] - first - last - third + columns[SUM_C], 0.0)
        mean = total / count
        found = (first - mean) ** 2 + (last - mean) ** 2
        found += np.where(count > 2, (third - mean) ** 2, 0.0)
        found += np.where(count > 3, (fourth - mean) ** 2, 0.0)
    squares: Doubles = np.where((count > 1) & (count < 5) & (columns[CHANGES] > 0), found, 0.0)
    return squares


def _squares(whole: pa.Array, stored: dict[str, pa.Array], rows: int) -> pa.Array:
    """Fill `M2` from its integers, then from the other columns."""
    if SQUARES in stored:
        exponent, count = _numbers(stored.get(EXPONENT), rows, np.int32), _numbers(stored[COUNT], rows)
        squares = unscaled_squares(_numbers(stored[SQUARES], rows), count, exponent)
        whole = pc.if_else(stored[SQUARES].is_valid(), pa.array(squares, from_pandas=False), whole)
    if not whole.null_count:
        return whole
    known = _logical(stored, FOUR_VALUES, rows)
    columns = {name: column.fill_null(0).to_numpy(zero_copy_only=False) for name, column in known.items()}
    few = squares_of_few({**columns, COUNT: _numbers(stored[COUNT], rows)})
    return pc.coalesce(whole, pa.array(few, from_pandas=False))


def _numbers(column: pa.Array | None, rows: int, kind: type[np.integer] = np.int64) -> Int64s:
    if column is None:
        return np.zeros(rows, kind)
    numbers: Int64s = without_nulls(column, 0).to_numpy(zero_copy_only=False)
    return numbers


def without_nulls(column: pa.Array, default: float | bool) -> pa.Array:
    """Fill nulls; a column without any is not copied."""
    return column.fill_null(default) if column.null_count else column


def _or(whole: pa.Array, default: pa.Array) -> pa.Array:
    return pc.coalesce(whole, default) if whole.null_count else whole


def _cast(name: str, column: pa.Array) -> pa.Array:
    """Cast a column whose list items a Parquet reader named differently."""
    return column if column.type == LOGICAL[name] else column.cast(LOGICAL[name])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
