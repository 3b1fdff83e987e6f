"""Rollup rows become the arrays that windows are merged from.

Tables are in logical form (`resources.lake.rollup_columns.filled`), sorted by series and bucket. Only the
columns that a function needs are read, and none that the file's footer already answers for.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.windows.functions import CUMULATIVE, IS_DELTA, MIXED, Function
from lakerunner_query.windows.rollup_buckets import Columns
from resources.arrays import Doubles, Flags, Int8s, Int64s
from resources.lake import rollup_columns as names

TEMPORALITY = "metric_temporality"
KINDS = {"delta": IS_DELTA, "mixed": MIXED}
"""Any other word, and none, is cumulative: gauges have no temporality."""
UNKNOWN_RESETS = -1
_TIMES = (names.FIRST_TS, names.LAST_TS)
_ENDS = (names.FIRST, names.LAST, *_TIMES)
_SUMS = (names.SUM, names.SUM_C, names.MIN, names.MAX)
_COUNTER = (*_ENDS, *_SUMS, names.RESET_SUM, names.RESETS)
_LAST_TWO = (names.FIRST, names.LAST, names.LAST_TS, names.PREV, names.PREV_TS)
_NEWEST = (names.LAST, names.LAST_TS, names.LAST_STALE)
_OF_FUNCTION: dict[Function, tuple[str, ...]] = {
    Function.INSTANT: _NEWEST,
    Function.TIMESTAMP: _NEWEST,
    Function.FIRST: (names.FIRST,),
    Function.LAST: (names.LAST,),
    Function.COUNT: (),
    Function.PRESENT: (),
    Function.MIN: (names.MIN,),
    Function.MAX: (names.MAX,),
    Function.SUM: _SUMS,
    Function.AVG: _SUMS,
    Function.STDDEV: (*_SUMS, names.M2),
    Function.STDVAR: (*_SUMS, names.M2),
    Function.RATE: _COUNTER,
    Function.INCREASE: _COUNTER,
    Function.DELTA: _ENDS,
    Function.RESETS: (names.FIRST, names.LAST, names.RESETS),
    Function.CHANGES: (names.FIRST, names.LAST, names.CHANGES),
    Function.IRATE: _LAST_TWO,
    Function.IDELTA: _LAST_TWO,
}


def columns_needed(function: Function, *, has_deltas: bool = True) -> tuple[str, ...]:
    """Return the logical columns that answer the function, to be read by `filled`.

    Sums are needed for rates of deltas only; `columns_of` refuses deltas without them.
    """
    columns = _OF_FUNCTION[function]
    if columns is _COUNTER and not has_deltas:
        columns = (*_ENDS, names.MIN, names.RESET_SUM, names.RESETS)
    return (names.COUNT, names.HIST_COUNT, *columns)


def columns_of(table: pa.Table, series: npt.NDArray[np.integer], width_ms: int) -> Columns:
    """Return the float columns; `series` has the code of each row.

    Columns that the table lacks are zero, but the number of resets is unknown beside a sum of resets.
    """
    kind = kinds(table)
    lacks_sums = names.RESET_SUM in table.column_names and names.SUM not in table.column_names
    if lacks_sums and (kind != CUMULATIVE).any():
        raise ValueError(f"row {int(np.argmax(kind != CUMULATIVE))}: deltas, and {names.SUM} was not read")
    present = set(table.column_names)
    knows_resets = names.RESETS in present or names.RESET_SUM not in present
    no_integers, no_doubles = np.zeros(table.num_rows, np.int64), np.zeros(table.num_rows)

    def whole(name: str) -> Int64s:
        return integers(table, name) if name in present else no_integers

    def real(name: str) -> Doubles:
        return doubles(table, name) if name in present else no_doubles

    return Columns(
        series=series,
        end_ms=whole(names.TIMESTAMP),
        width_ms=np.full(table.num_rows, width_ms, np.int64),
        count=whole(names.COUNT),
        sum=real(names.SUM),
        sum_c=real(names.SUM_C),
        min=real(names.MIN),
        max=real(names.MAX),
        first=real(names.FIRST),
        first_ts=whole(names.FIRST_TS),
        last=real(names.LAST),
        last_ts=whole(names.LAST_TS),
        last_stale=flags(table, names.LAST_STALE),
        prev=real(names.PREV),
        prev_ts=whole(names.PREV_TS),
        reset_sum=real(names.RESET_SUM),
        resets=whole(names.RESETS) if knows_resets else np.full(table.num_rows, UNKNOWN_RESETS, np.int64),
        changes=whole(names.CHANGES),
        m2=real(names.M2),
        kind=kind,
        has_others=whole(names.HIST_COUNT) > 0,
    )


def integers(table: pa.Table, name: str) -> Int64s:
    """Return the column; 0 for null."""
    if name not in table.column_names:
        return np.zeros(table.num_rows, np.int64)
    found: Int64s = names.without_nulls(one(table.column(name)), 0).to_numpy(zero_copy_only=False)
    return found


def doubles(table: pa.Table, name: str) -> Doubles:
    """Return the column bit by bit; 0 for null, so that no null is taken for a NaN that was sent."""
    if name not in table.column_names:
        return np.zeros(table.num_rows)
    found: Doubles = names.without_nulls(one(table.column(name)), 0.0).to_numpy(zero_copy_only=False)
    return found


def flags(table: pa.Table, name: str) -> Flags:
    if name not in table.column_names:
        return np.zeros(table.num_rows, np.bool_)
    found: Flags = names.without_nulls(one(table.column(name)), False).to_numpy(zero_copy_only=False)
    return found


def kinds(table: pa.Table) -> Int8s:
    """Return the temporality by row, from the column of words."""
    found = np.full(table.num_rows, CUMULATIVE, np.int8)
    if TEMPORALITY in table.column_names:
        words = one(table.column(TEMPORALITY))
        if not pa.types.is_dictionary(words.type):
            words = words.dictionary_encode()
        known = words.dictionary.to_pylist()
        if not KINDS.keys() & set(known):
            return found
        of_code = np.array([*(KINDS.get(word, CUMULATIVE) for word in known), CUMULATIVE], np.int8)
        found = of_code[names.without_nulls(words.indices, len(known)).to_numpy(zero_copy_only=False)]
    return found


def one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


_BOUNDED = frozenset({names.COUNT, names.RESETS, names.EXPONENT, TEMPORALITY})
_GROWING = (Function.RATE, Function.INCREASE)
_SEVERAL_DROPS = (names.RESETS, names.MIN)
"""They say whether the order in which several drops were added matters; one drop has no order."""


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds of a column over all row groups, from the footer."""

    least: int | str | bool
    greatest: int | str | bool


def columns_to_read(footer: pq.FileMetaData, function: Function) -> tuple[list[str], tuple[str, ...]]:
    """Return the stored columns to read for a function, and the logical ones for `filled` to make of them.

    A column that the footer answers for is left out:

    column        footer, all row groups           read
    temporality   least = greatest = "cumulative"  no, and no sums: they are for deltas
    resets        greatest = 1                     no: a sum of one drop does not depend on the order
    """
    stored = {footer.schema.column(place).path.partition(".")[0] for place in range(footer.num_columns)}
    bounds = ranges(footer, _BOUNDED)
    if _no_deltas(bounds, stored):
        stored.discard(TEMPORALITY)
    logical = _logical(function, bounds, stored)
    columns = (names.TIMESTAMP, TEMPORALITY, *names.needed(logical))
    return [name for name in columns if name in stored], logical


def ranges(footer: pq.FileMetaData, columns: Collection[str]) -> dict[str, Range]:
    """Return the bounds that every row group tells; never of doubles, whose zeros and NaN a footer hides."""
    found: dict[str, Range] = {}
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    if not groups:
        return found
    for index in range(footer.num_columns):
        if (name := footer.schema.column(index).path) in columns:
            parts = [_range(group.column(index).statistics) for group in groups]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts):
                least, greatest = min(part.least for part in known), max(part.greatest for part in known)
                found[name] = Range(least, greatest)
    return found


def _range(statistics: Any) -> Range | None:
    if statistics is None or not statistics.has_min_max or not statistics.has_null_count:
        return None
    if not isinstance(statistics.min, int | str):
        return None
    return Range(statistics.min, statistics.max)


def _logical(function: Function, bounds: dict[str, Range], stored: Collection[str]) -> tuple[str, ...]:
    columns = columns_needed(function, has_deltas=TEMPORALITY in stored)
    resets = bounds.get(names.RESETS)
    once = names.RESETS not in stored or (resets is not None and int(resets.greatest) <= 1)
    if function in _GROWING and once:
        columns = tuple(name for name in columns if name not in _SEVERAL_DROPS or names.SUM in columns)
    return columns


def _no_deltas(bounds: dict[str, Range], stored: Collection[str]) -> bool:
    if TEMPORALITY not in stored:
        return True
    words = bounds.get(TEMPORALITY)
    return words is not None and words.least == words.greatest and words.least not in KINDS
