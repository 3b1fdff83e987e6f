"""`RowGroup` holds the columns of a metric row group, decoded by Arrow and cached.

Nearly every query needs times and values, so they are decoded for the whole row group and cut by series
afterwards. Histogram columns stay Arrow arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_query.histogram.batch import objects as object_array
from lakerunner_query.histogram.model import Hint
from lakerunner_query.histogram.stored import of_struct
from lakerunner_query.vectors.vector import Objects
from lakerunner_query.windows.functions import STALE_BITS
from resources.arrays import Bytes, Doubles, Flags, Int64s
from resources.lake import metric_values
from resources.lake.columns import (
    CHQ_HIST_BOUNDS,
    CHQ_HIST_COUNT,
    CHQ_HIST_COUNT_FLOAT,
    CHQ_HIST_RESET_HINT,
    CHQ_HIST_SCHEMA,
    CHQ_METRIC_TYPE,
    CHQ_OBJECT,
    CHQ_POSITION,
    CHQ_START_TSNS,
    CHQ_SUMMARY_QUANTILES,
    CHQ_TIMESTAMP,
    CHQ_TSNS,
)
from resources.lake.sample_histograms import HISTOGRAM_COLUMNS, histograms_of_samples

TIMESTAMP, TSNS, START, TYPE, TEMPORALITY = (
    CHQ_TIMESTAMP, CHQ_TSNS, CHQ_START_TSNS, CHQ_METRIC_TYPE, "metric_temporality",
)  # fmt: skip
SUMMARIES, HINT = CHQ_SUMMARY_QUANTILES, CHQ_HIST_RESET_HINT
OBJECTS = (CHQ_OBJECT, CHQ_POSITION)
HISTOGRAM_BYTES = 700
"""Bytes of a histogram as an object."""
HINTS = {int(hint): hint for hint in Hint}
FLOAT, HISTOGRAM, SUMMARY, NOTHING = range(4)
"""Kinds of rows; a stale marker is a float."""
_IS_HISTOGRAM = (CHQ_HIST_COUNT, CHQ_HIST_COUNT_FLOAT, CHQ_HIST_SCHEMA, CHQ_HIST_BOUNDS)
DAMAGE = (pa.ArrowException, OSError, ValueError, KeyError)
"""Errors of reading a damaged file."""
Columns = dict[str, Any]
"""Arrow arrays by name; a word stands for a column that repeats it."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Columns of one row group; None stands for a column in which all rows are equal."""

    time_ms: Int64s
    value: Doubles
    kind: Bytes | None
    """Kinds of rows; None: all floats."""
    is_delta: Flags | None
    """Flags of delta temporality; None: no row has it."""
    derives: Bytes | None
    """HISTOGRAM or SUMMARY where the row, or stale marker, is of such a metric; None: no row is."""
    others: pa.Table | None
    """Columns of histograms and summaries."""
    start_ns: Int64s | None
    """Times at which counting began, 0 where not sent; None: nowhere sent."""
    objects: Objects | None = None
    """Histograms by row, filled as they are read."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory once all histograms are objects."""
        arrays = (self.time_ms, self.value, self.kind, self.is_delta, self.derives, self.start_ns)
        size: int = sum(array.nbytes for array in arrays if array is not None)
        if self.others is None or self.kind is None:
            return size
        return size + int(self.others.nbytes) + HISTOGRAM_BYTES * int((self.kind == HISTOGRAM).sum())

    def histograms(self, rows: Int64s) -> Objects:
        """Return the histograms of these rows, all of which must have one."""
        if self.objects is None or self.others is None:
            raise ValueError("a row group without histograms was asked for some")
        found = self.objects[rows]
        missing = np.flatnonzero(np.equal(found, np.array(None, object)).astype(np.bool_))
        if len(missing):
            absent = rows[missing]
            structs = histograms_of_samples(self.others, pa.array(absent))
            new = object_array(of_struct(structs, self._sent_hints(absent)))
            self.objects[absent] = new
            found[missing] = new
        return found

    def _sent_hints(self, rows: Int64s) -> list[Hint] | None:
        if self.others is None or HINT not in self.others.column_names:
            return None
        sent = self.others.column(HINT).combine_chunks().take(pa.array(rows)).fill_null(int(Hint.UNKNOWN))
        return [HINTS[number] for number in sent.to_pylist()]


def read_row_groups(path: Path, numbers: Sequence[int]) -> list[RowGroup]:
    """Decode these row groups; raises one of `DAMAGE` where the file is damaged."""
    with pq.ParquetFile(path) as file:
        stored = set(file.schema_arrow.names)
        columns = [
            name
            for name in (
                TIMESTAMP, *metric_values.VALUE_COLUMNS, TYPE, TEMPORALITY, START, SUMMARIES, HINT,
                *HISTOGRAM_COLUMNS,
            )
            if name in stored
        ]  # fmt: skip
        return [_decode(_columns(file, number, columns)) for number in numbers]


def read_order(path: Path, numbers: Sequence[int]) -> dict[int, tuple[Int64s, Int64s, Int64s]]:
    """Read (nanoseconds, object, position) of rows: they decide between samples of one millisecond."""
    found: dict[int, tuple[Int64s, Int64s, Int64s]] = {}
    with pq.ParquetFile(path) as file:
        stored = set(file.schema_arrow.names)
        for number in numbers:
            table = file.read_row_group(number, [TIMESTAMP, *OBJECTS, *({TSNS} & stored)], use_threads=False)
            columns = {name: table.column(name).combine_chunks() for name in table.column_names}
            exact = pc.multiply(columns[TIMESTAMP], 1_000_000)
            if TSNS in columns:
                exact = pc.coalesce(columns[TSNS], exact)
            found[number] = (exact.to_numpy(), *(columns[name].to_numpy() for name in OBJECTS))
    return found


def _columns(file: pq.ParquetFile, number: int, names: Sequence[str]) -> Columns:
    """Read columns, except those of nulls or of one word: their statistics suffice."""
    group = file.metadata.row_group(number)
    statistics = {
        column.path_in_schema: column.statistics
        for column in (group.column(place) for place in range(group.num_columns))
        if column.path_in_schema in names and column.statistics is not None
    }
    nulls = {name for name, facts in statistics.items() if _nulls(facts) == group.num_rows}
    words = {
        name: str(statistics[name].min)
        for name in (TYPE, TEMPORALITY)
        if name in statistics and _is_one(statistics[name]) and name not in nulls
    }
    read = [name for name in names if name not in words and name not in nulls]
    table = file.read_row_group(number, read, use_threads=False)
    found: Columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    schema = file.schema_arrow
    found.update((name, pa.nulls(group.num_rows, schema.field(name).type)) for name in nulls)
    found.update(words)
    return found


def _is_one(facts: pq.Statistics) -> bool:
    """Tell whether all rows have the same value."""
    return _nulls(facts) == 0 and bool(facts.has_min_max and facts.min == facts.max)


def _nulls(facts: pq.Statistics) -> int:
    """Return the number of nulls, -1 where it was not counted."""
    return int(facts.null_count) if facts.has_null_count else -1


def _decode(columns: Columns) -> RowGroup:
    values = metric_values.values({name: columns[name] for name in metric_values.VALUE_COLUMNS})
    derives = _derives(columns)
    others = None
    if derives is not None:
        names = [name for name in (*HISTOGRAM_COLUMNS, SUMMARIES, HINT) if name in columns]
        others = pa.table({name: columns[name] for name in names}).combine_chunks()
    numbers = np.frombuffer(values.buffers()[1], np.float64)[values.offset : values.offset + len(values)]
    return RowGroup(
        time_ms=columns[TIMESTAMP].to_numpy(),
        value=numbers,
        kind=_kinds(columns, values),
        is_delta=_deltas(columns),
        derives=derives,
        others=others,
        start_ns=_starts(columns),
        objects=None if others is None else np.full(len(numbers), None, np.object_),
    )


def _kinds(columns: Columns, values: pa.Array) -> Bytes | None:
    if values.null_count == 0:
        return None
    found = np.full(len(values), NOTHING, np.uint8)
    for name in _IS_HISTOGRAM:
        if name in columns:
            found[columns[name].is_valid().to_numpy(zero_copy_only=False)] = HISTOGRAM
    if SUMMARIES in columns:
        found[_words(columns, TYPE, "summary")] = SUMMARY
    found[values.is_valid().to_numpy(zero_copy_only=False)] = FLOAT
    return found


def _derives(columns: Columns) -> Bytes | None:
    found = np.zeros(len(columns[TIMESTAMP]), np.uint8)
    if any(name in columns for name in _IS_HISTOGRAM):
        found[_words(columns, TYPE, "histogram")] = HISTOGRAM
        found[_words(columns, TYPE, "exponential_histogram")] = HISTOGRAM
    if SUMMARIES in columns:
        found[_words(columns, TYPE, "summary")] = SUMMARY
    return found if found.any() else None


def _deltas(columns: Columns) -> Flags | None:
    if TEMPORALITY not in columns:
        return None
    found = _words(columns, TEMPORALITY, "delta")
    return found if found.any() else None


def _starts(columns: Columns) -> Int64s | None:
    if START not in columns or columns[START].null_count == len(columns[START]):
        return None
    found: Int64s = columns[START].fill_null(0).to_numpy()
    return found


def _words(columns: Columns, name: str, word: str) -> Flags:
    """Flag rows with this word; the column is one word, a dictionary or plain."""
    column = columns[name]
    if isinstance(column, str):
        return np.full(len(columns[TIMESTAMP]), column == word)
    if pa.types.is_dictionary(column.type):
        words = column.dictionary.to_pylist()
        if word not in words:
            return np.zeros(len(column), np.bool_)
        found: Flags = (column.indices.fill_null(-1) if column.null_count else column.indices).to_numpy(
            zero_copy_only=False
        ) == words.index(word)
        return found
    plain: Flags = pc.equal(column, word).fill_null(False).to_numpy(zero_copy_only=False)
    return plain


def is_stale(value: Doubles) -> Flags:
    found: Flags = value.view(np.int64) == STALE_BITS
    return found
