"""The columns of rollup segments: what they mean (logical), how they are stored, and the way between.

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
    CHQ_ROLLUP_FIRST_TS,
    CHQ_ROLLUP_LAST,
    CHQ_ROLLUP_LAST_STALE,
    CHQ_ROLLUP_LAST_TS,
    CHQ_ROLLUP_M2,
    CHQ_ROLLUP_M2_SCALED,
    CHQ_ROLLUP_MAX,
    CHQ_ROLLUP_MIN,
    CHQ_ROLLUP_PREV,
    CHQ_ROLLUP_PREV_TS,
    CHQ_ROLLUP_RESET_SUM,
    CHQ_ROLLUP_RESETS,
    CHQ_ROLLUP_SUM,
    CHQ_ROLLUP_SUM_C,
    CHQ_SKETCH,
    CHQ_TIMESTAMP,
)
from resources.lake.metric_values import POWERS

TIMESTAMP = CHQ_TIMESTAMP
"""The end of the bucket, ms: it holds what happened in `(end - width, end]`."""

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

_NUMBERS = pa.list_(pa.float64())
HIST = pa.struct(
    [
        ("schema", pa.int32()),
        ("bounds", _NUMBERS),
        ("counts", _NUMBERS),
        ("zero_threshold", pa.float64()),
        ("zero_count", pa.float64()),
        ("positive_offset", pa.int32()),
        ("positive_counts", _NUMBERS),
        ("negative_offset", pa.int32()),
        ("negative_counts", _NUMBERS),
        ("count", pa.float64()),
        ("sum", pa.float64()),
    ]
)
"""One histogram. Explicit buckets: bounds and counts, schema null. Custom buckets of native histograms:
schema -53 and bounds, counts on the positive side. Offsets as in samples."""

_INT, _DOUBLE = pa.int64(), pa.float64()
LOGICAL: dict[str, pa.DataType] = {
    COUNT: _INT, SUM: _DOUBLE, SUM_C: _DOUBLE, MIN: _DOUBLE, MAX: _DOUBLE,
    FIRST: _DOUBLE, FIRST_TS: _INT, LAST: _DOUBLE, LAST_TS: _INT, LAST_STALE: pa.bool_(),
    PREV: _DOUBLE, PREV_TS: _INT, RESET_SUM: _DOUBLE, RESETS: _INT, CHANGES: _INT, M2: _DOUBLE,
    SKETCH: pa.binary(),
    HIST_COUNT: _INT, HIST_FIRST: HIST, HIST_LAST: HIST, HIST_SUM: HIST, HIST_RESETS: _INT,
    HIST_MIXED: pa.bool_(),
}  # fmt: skip
"""What a row says, beside whose it is and its bucket."""

BASE, EXPONENT = CHQ_ROLLUP_BASE, CHQ_ROLLUP_EXPONENT
"""Of the scaled columns, the same in all rows of a series that were written together; null: 0."""
SCALED = {name: f"{name}_scaled" for name in (LAST, FIRST, PREV, MIN, MAX, SUM, RESET_SUM)}
"""Column of doubles -> its column of integers."""
SQUARES = CHQ_ROLLUP_M2_SCALED
"""`M2` times count times 10^(2 exponent): an integer, if all values are integers times 10^-exponent."""
STORED: dict[str, pa.DataType] = {
    COUNT: LOGICAL[COUNT],
    BASE: pa.int64(),
    EXPONENT: pa.int32(),
    **dict.fromkeys((*SCALED.values(), SQUARES), pa.int64()),
    **{name: kind for name, kind in LOGICAL.items() if name != COUNT},
}
"""What a file may have; only `COUNT` is always there and never null."""

BY_LAST = {SUM: LAST, MIN: LAST, MAX: LAST, FIRST: LAST, FIRST_TS: LAST_TS}
"""A null means: the same as that column."""
ZEROS = {SUM_C: 0.0, RESET_SUM: 0.0, RESETS: 0, CHANGES: 0, HIST_COUNT: 0, HIST_RESETS: 0}
FOUR_VALUES = (FIRST, PREV, LAST, SUM, SUM_C, CHANGES)
"""A null in `M2` means: as these say, which know all values of up to four samples; 0 beyond four."""
FALSE = (LAST_STALE, HIST_MIXED)
SINGLE = {HIST_FIRST: HIST_LAST, HIST_SUM: HIST_LAST}
"""A null means, where the bucket has one histogram: the same as that column."""


class RollupColumnsError(ValueError):
    """The columns are not those of a rollup segment."""


def needed(names: Iterable[str] = LOGICAL) -> frozenset[str]:
    """The stored columns that `filled` wants for these logical ones; a file has some of them.

    >>> sorted(needed([FIRST_TS]))
    ['chq_rollup_count', 'chq_rollup_first_ts', 'chq_rollup_last_ts']
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
    """The logical form: these columns, complete and of their types, behind all others of the table.

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
        return pa.nulls(rows, LOGICAL[name]) if found is None else _typed(name, found)

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
    """Columns of doubles with what is stored as integers."""
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
            decimal = pc.if_else(scaled.is_valid(), decimal, stored.get(name, pa.nulls(rows, _DOUBLE)))
        found[name] = decimal
    return found


def _powers(exponent: pa.Array | None, rows: int) -> Doubles | np.float64:
    """What integers are divided by: one number, if it is the same in all rows."""
    exponents = _numbers(exponent, rows, np.int32)
    if len(exponents) and (exponents == exponents[0]).all():
        return np.float64(POWERS[exponents[0]])
    powers: Doubles = POWERS[exponents]
    return powers


def counted_from(name: str, last: Int64s, first: Int64s, count: Int64s) -> Int64s:
    """What the integers of a column are counted from; sums that leave 64 bits wrap, there and back.

    The least value of a counter is its first, and its values lie about half way between first and last.
    `first` is the last one, where the first is no integer.
    """
    if name == RESET_SUM:
        return np.zeros_like(last)
    if name == SUM:
        return (first + last) * count >> 1
    return first if name == MIN else last


def unscaled_squares(integers: Int64s, count: Int64s, exponent: Int64s) -> Doubles:
    """`M2` from what `SQUARES` holds."""
    power = POWERS[exponent]
    squares: Doubles = integers / (np.maximum(count, 1) * power * power)
    return squares


def squares_of_few(columns: Mapping[str, npt.NDArray[Any]]) -> Doubles:
    """The sum of squared deviations of up to four samples, by `FOUR_VALUES` and `COUNT`; 0 elsewhere."""
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
    """`M2` with what is stored as integers, and what follows from the other columns."""
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
    """Filling copies even what has no nulls."""
    return column.fill_null(default) if column.null_count else column


def _or(whole: pa.Array, default: pa.Array) -> pa.Array:
    return pc.coalesce(whole, default) if whole.null_count else whole


def _typed(name: str, column: pa.Array) -> pa.Array:
    """Parquet readers may call a list's items something else."""
    return column if column.type == LOGICAL[name] else column.cast(LOGICAL[name])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
