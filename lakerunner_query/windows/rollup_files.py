"""Rollup rows of a file, read as what a function needs; what the footer already says is not read.

column               footer, all row groups                  read
metric_temporality   least = greatest = "cumulative"         no: no deltas, so sums are not wanted either
chq_rollup_count     least = greatest = 240, no nulls        no: 240 in all rows
chq_rollup_resets    greatest = 1                            no: what one drop adds does not depend on order
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.windows.buckets import Columns
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.rollup_rows import KINDS, TEMPORALITY, columns_needed, columns_of
from resources.lake import rollup_columns as names

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
