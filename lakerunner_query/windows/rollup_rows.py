"""Rollup rows as the arrays that windows are merged from.

The table is in logical form (`resources.lake.rollup_columns.filled`), sorted by series and bucket.
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
    """The logical columns that the function is answered from, to be read by `filled`.

    Sums are needed for rates of deltas only; `columns_of` refuses deltas without them.
    """
    wanted = _OF_FUNCTION[function]
    if wanted is _COUNTER and not has_deltas:
        wanted = (*_ENDS, names.MIN, names.RESET_SUM, names.RESETS)
    return (names.COUNT, names.HIST_COUNT, *wanted)


def columns_of(table: pa.Table, series: npt.NDArray[np.integer], width_ms: int) -> Columns:
    """The float columns; `series` has the code of each row. Columns that the table lacks are zero."""
    kind = kinds(table)
    lacks_sums = names.RESET_SUM in table.column_names and names.SUM not in table.column_names
    if lacks_sums and (kind != CUMULATIVE).any():
        raise ValueError(f"row {int(np.argmax(kind != CUMULATIVE))}: deltas, and {names.SUM} was not read")
    present = set(table.column_names)
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
        resets=whole(names.RESETS),
        changes=whole(names.CHANGES),
        m2=real(names.M2),
        kind=kind,
        has_others=whole(names.HIST_COUNT) > 0,
    )


def integers(table: pa.Table, name: str) -> Int64s:
    """The column; 0 for null."""
    if name not in table.column_names:
        return np.zeros(table.num_rows, np.int64)
    found: Int64s = names.without_nulls(one(table.column(name)), 0).to_numpy(zero_copy_only=False)
    return found


def doubles(table: pa.Table, name: str) -> Doubles:
    """The column, bits kept; 0 for null, so that no null is taken for a NaN that was sent."""
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
    """Temporality by row, from the column of words."""
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


# << Rollup rows of a file, read as what a function needs; what the footer already says is not read.
# <<
# << column               footer, all row groups                  read
# << metric_temporality   least = greatest = "cumulative"         no: no deltas, so sums are not wanted either
# << chq_rollup_count     least = greatest = 240, no nulls        no: 240 in all rows
# << chq_rollup_resets    greatest = 1                            no: what one drop adds does not depend
# << on order

_TOLD = frozenset({names.COUNT, names.RESETS, names.EXPONENT, TEMPORALITY})
_GROWING = (Function.RATE, Function.INCREASE)
_SEVERAL_DROPS = (names.RESETS, names.MIN)
"""Say whether the order in which several drops were added matters; one drop has no order."""


@dataclass(frozen=True, slots=True)
class Range:
    """What the footer says of a column in all row groups together."""

    least: int | str | bool
    greatest: int | str | bool
    has_nulls: bool

    @property
    def is_one(self) -> bool:
        return self.least == self.greatest and not self.has_nulls


def wanted_columns(file: pq.ParquetFile, function: Function) -> tuple[list[str], tuple[str, ...]]:
    """The stored columns to read for a function, and the logical ones that `filled` is to make of them."""
    stored = set(file.schema_arrow.names)
    told = ranges(file.metadata, _TOLD)
    if _no_deltas(told, stored):
        stored.discard(TEMPORALITY)
    wanted = _wanted(function, told, stored)
    present = [name for name in (names.TIMESTAMP, TEMPORALITY, *names.needed(wanted)) if name in stored]
    return present, wanted


def rows_of(
    file: pq.ParquetFile, function: Function, series: npt.NDArray[np.integer], width_ms: int
) -> Columns:
    """All rows of the file; `series` has the code of each."""
    stored = set(file.schema_arrow.names)
    told = ranges(file.metadata, _TOLD)
    if _no_deltas(told, stored):
        stored.discard(TEMPORALITY)
    wanted = _wanted(function, told, stored)
    present = [name for name in (names.TIMESTAMP, TEMPORALITY, *names.needed(wanted)) if name in stored]
    constant = {name: told[name].least for name in present if name in told and told[name].is_one}
    table = file.read([name for name in present if name not in constant], use_threads=False)
    for name, value in constant.items():
        kind = names.STORED.get(name, pa.string())
        table = table.append_column(name, _repeated(value, kind, table.num_rows))
    return columns_of(names.filled(table, wanted), series, width_ms)


def ranges(footer: pq.FileMetaData, wanted: Collection[str]) -> dict[str, Range]:
    """Of the columns of which every row group tells it; never of doubles, whose zeros and NaN it hides."""
    found: dict[str, Range] = {}
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    if not groups:
        return found
    for index in range(footer.num_columns):
        if (name := footer.schema.column(index).path) in wanted:
            parts = [_range(group.column(index).statistics) for group in groups]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts):
                least, greatest = min(part.least for part in known), max(part.greatest for part in known)
                found[name] = Range(least, greatest, any(part.has_nulls for part in known))
    return found


def _range(told: Any) -> Range | None:
    if told is None or not told.has_min_max or not told.has_null_count:
        return None
    if not isinstance(told.min, int | str):
        return None
    return Range(told.min, told.max, told.null_count > 0)


def _wanted(function: Function, told: dict[str, Range], present: Collection[str]) -> tuple[str, ...]:
    wanted = columns_needed(function, has_deltas=TEMPORALITY in present)
    resets = told.get(names.RESETS)
    once = names.RESETS not in present or (resets is not None and int(resets.greatest) <= 1)
    if function in _GROWING and once:
        wanted = tuple(name for name in wanted if name not in _SEVERAL_DROPS or names.SUM in wanted)
    return wanted


def _no_deltas(told: dict[str, Range], present: Collection[str]) -> bool:
    if TEMPORALITY not in present:
        return True
    words = told.get(TEMPORALITY)
    return words is not None and words.least == words.greatest and words.least not in KINDS


def _repeated(value: int | str | bool, kind: pa.DataType, rows: int) -> pa.Array:
    if pa.types.is_integer(kind):
        return pa.array(np.full(rows, value, kind.to_pandas_dtype()))
    return pa.repeat(pa.scalar(value, kind), rows)
