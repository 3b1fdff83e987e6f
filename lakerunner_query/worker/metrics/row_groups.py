"""Decoded columns of row groups, kept in memory between queries: a hot query reads no file.

Times and values are what nearly every query needs, so they are decoded once for a whole row group and cut by
series afterwards. Histogram columns are kept as Arrow has them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_query.histogram.batch import objects
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
HINTS = {int(hint): hint for hint in Hint}
FLOAT, HISTOGRAM, SUMMARY, NOTHING = range(4)
"""What a row is; a stale marker is a float."""
_IS_HISTOGRAM = (CHQ_HIST_COUNT, CHQ_HIST_COUNT_FLOAT, CHQ_HIST_SCHEMA, CHQ_HIST_BOUNDS)
DAMAGE = (pa.ArrowException, OSError, ValueError, KeyError)
"""What reading a file that is not what it should be raises."""
Columns = dict[str, Any]
"""Arrow arrays by name; a word stands for a column of nothing else."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Columns of one row group; None stands for a column in which all rows are the same."""

    time_ms: Int64s
    value: Doubles
    kind: Bytes | None
    """None: all floats."""
    is_delta: Flags | None
    """None: none is."""
    derives: Bytes | None
    """HISTOGRAM or SUMMARY where the row is of such a metric, stale markers too. None: none is."""
    others: pa.Table | None
    """Columns of histograms and summaries."""
    start_ns: Int64s | None
    """When counting began, 0 where it was not said; None: nowhere."""
    made: Objects | None = None
    """Histograms that were made of rows before; filled as they are asked for."""

    @property
    def nbytes(self) -> int:
        """What it takes once all histograms are made."""
        arrays = (self.time_ms, self.value, self.kind, self.is_delta, self.derives, self.start_ns)
        size: int = sum(array.nbytes for array in arrays if array is not None)
        if self.others is None or self.kind is None:
            return size
        return size + int(self.others.nbytes) + HISTOGRAM_BYTES * int((self.kind == HISTOGRAM).sum())

    def histograms(self, rows: Int64s) -> Objects:
        """Those of these rows, which must have some."""
        if self.made is None or self.others is None:
            raise ValueError("a row group without histograms was asked for some")
        found = self.made[rows]
        missing = np.flatnonzero(np.equal(found, np.array(None, object)).astype(np.bool_))
        if len(missing):
            wanted = rows[missing]
            structs = histograms_of_samples(self.others, pa.array(wanted))
            new = objects(of_struct(structs, self._sent_hints(wanted)))
            self.made[wanted] = new
            found[missing] = new
        return found

    def _sent_hints(self, rows: Int64s) -> list[Hint] | None:
        if self.others is None or HINT not in self.others.column_names:
            return None
        sent = self.others.column(HINT).combine_chunks().take(pa.array(rows)).fill_null(int(Hint.UNKNOWN))
        return [HINTS[number] for number in sent.to_pylist()]


class Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


Kept = TypeVar("Kept", bound=Sized)


class RowGroupCache(Generic[Kept]):
    """The most recently used parts of segments, up to so many bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._groups: OrderedDict[tuple[str, Hashable], Kept] = OrderedDict()
        self._bytes = 0

    @property
    def used_bytes(self) -> int:
        with self._lock:
            return self._bytes

    def get(self, key: str, part: Hashable) -> Kept | None:
        with self._lock:
            found = self._groups.get((key, part))
            if found is not None:
                self._groups.move_to_end((key, part))
            return found

    def put(self, key: str, part: Hashable, group: Kept) -> None:
        with self._lock:
            old = self._groups.pop((key, part), None)
            self._bytes += group.nbytes - (old.nbytes if old else 0)
            self._groups[key, part] = group
            while self._bytes > self._max_bytes and len(self._groups) > 1:
                _, gone = self._groups.popitem(last=False)
                self._bytes -= gone.nbytes

    def forget(self, key: str) -> None:
        with self._lock:
            for place in [place for place in self._groups if place[0] == key]:
                self._bytes -= self._groups.pop(place).nbytes


def read_row_groups(path: Path, numbers: Sequence[int]) -> list[RowGroup]:
    """Decode these; `pa.ArrowException` or `OSError` when the file is damaged."""
    with pq.ParquetFile(path) as file:
        stored = set(file.schema_arrow.names)
        wanted = [
            name
            for name in (
                TIMESTAMP, *metric_values.VALUE_COLUMNS, TYPE, TEMPORALITY, START, SUMMARIES, HINT,
                *HISTOGRAM_COLUMNS,
            )
            if name in stored
        ]  # fmt: skip
        return [_decoded(_columns(file, number, wanted)) for number in numbers]


def read_order(path: Path, numbers: Sequence[int]) -> dict[int, tuple[Int64s, Int64s, Int64s]]:
    """(nanoseconds, object, position) of rows, to tell which of two samples of one millisecond counts."""
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


def _columns(file: pq.ParquetFile, number: int, wanted: Sequence[str]) -> Columns:
    """Only what statistics do not tell: nearly always one type, one temporality, and a column of nulls."""
    group = file.metadata.row_group(number)
    told = {
        column.path_in_schema: column.statistics
        for column in (group.column(place) for place in range(group.num_columns))
        if column.path_in_schema in wanted and column.statistics is not None
    }
    nulls = {name for name, facts in told.items() if _nulls(facts) == group.num_rows}
    words = {
        name: str(told[name].min)
        for name in (TYPE, TEMPORALITY)
        if name in told and _is_one(told[name]) and name not in nulls
    }
    read = [name for name in wanted if name not in words and name not in nulls]
    table = file.read_row_group(number, read, use_threads=False)
    found: Columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    schema = file.schema_arrow
    found.update((name, pa.nulls(group.num_rows, schema.field(name).type)) for name in nulls)
    found.update(words)
    return found


def _is_one(facts: pq.Statistics) -> bool:
    """Whether all rows say the same."""
    return _nulls(facts) == 0 and bool(facts.has_min_max and facts.min == facts.max)


def _nulls(facts: pq.Statistics) -> int:
    """-1 where nobody counted."""
    return int(facts.null_count) if facts.has_null_count else -1


def _decoded(columns: Columns) -> RowGroup:
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
        made=None if others is None else np.full(len(numbers), None, np.object_),
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
    """Where the column says this; columns of words are one word, dictionaries or plain."""
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
