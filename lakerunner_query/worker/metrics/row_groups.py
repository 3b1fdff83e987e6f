"""`FileLayout` says where columns of samples are; `RowGroup` holds them, decoded by Arrow and cached.

Nearly every query needs times and values, so they are decoded for the whole row group and cut by series
afterwards. Histogram columns stay Arrow arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_query.histogram.batch import Sheet, hints_of
from lakerunner_query.histogram.batch import objects as object_array
from lakerunner_query.histogram.model import Hint
from lakerunner_query.histogram.stored import of_struct, sheet_of_struct
from lakerunner_query.vectors.vector import Objects
from lakerunner_query.windows.functions import STALE_BITS
from lakerunner_query.worker.parquet.scaled_groups import ScaledGroup, scaled_group
from lakerunner_query.worker.shared.segment_file import Range, SegmentFile, SegmentUnreadableError
from resources.arrays import Bytes, Doubles, Flags, Int8s, Int64s
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
from resources.objects.errors import StoreError

TIMESTAMP, TSNS, START, TYPE, TEMPORALITY = (
    CHQ_TIMESTAMP, CHQ_TSNS, CHQ_START_TSNS, CHQ_METRIC_TYPE, "metric_temporality",
)  # fmt: skip
SUMMARIES, HINT = CHQ_SUMMARY_QUANTILES, CHQ_HIST_RESET_HINT
ORDER = (TIMESTAMP, TSNS, CHQ_OBJECT, CHQ_POSITION)
"""Columns that order samples of one millisecond."""
FOOTER_END = 8
"""Bytes behind a footer: its length, and four letters."""
HISTOGRAM_BYTES = 700
"""Bytes of a histogram as an object."""
FLOAT, HISTOGRAM, SUMMARY, NOTHING = range(4)
"""Kinds of rows; a stale marker is a float."""
_IS_HISTOGRAM = (CHQ_HIST_COUNT, CHQ_HIST_COUNT_FLOAT, CHQ_HIST_SCHEMA, CHQ_HIST_BOUNDS)
UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, SegmentUnreadableError, StoreError)
"""Errors of reading a segment: a damaged one, or one that the object store does not give."""
Found = TypeVar("Found")
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
            new = object_array(of_struct(structs, hints_of(self._sent_hints(absent))))
            self.objects[absent] = new
            found[missing] = new
        return found

    def sheet(self, rows: Int64s) -> tuple[Sheet, Int8s] | None:
        """Return the histograms of these rows and their hints; None where some have another layout."""
        if self.others is None:
            return None
        sheet = sheet_of_struct(histograms_of_samples(self.others, pa.array(rows)))
        return None if sheet is None else (sheet, self._sent_hints(rows))

    def sends_hints(self, rows: Int64s) -> Flags:
        """Flag rows with a hint about resets, if only that there is none."""
        if self.others is None or HINT not in self.others.column_names:
            return np.zeros(len(rows), np.bool_)
        is_sent = self.others.column(HINT).combine_chunks().is_valid()
        found: Flags = is_sent.to_numpy(zero_copy_only=False)[rows]
        return found

    def _sent_hints(self, rows: Int64s) -> Int8s:
        if self.others is None or HINT not in self.others.column_names:
            return np.full(len(rows), Hint.UNKNOWN, np.int8)
        sent = self.others.column(HINT).combine_chunks().take(pa.array(rows)).fill_null(int(Hint.UNKNOWN))
        found: Int8s = sent.to_numpy(zero_copy_only=False).astype(np.int8)
        return found


_SAMPLES = (
    TIMESTAMP, *metric_values.VALUE_COLUMNS, TYPE, TEMPORALITY, START, SUMMARIES, HINT, *HISTOGRAM_COLUMNS,
)  # fmt: skip


@dataclass(frozen=True)
class FileLayout:
    """The footer of a file: where row groups and their columns are."""

    starts: Int64s
    """First rows of row groups, and the row count behind them."""
    places: Mapping[str, tuple[int, ...]]
    """Stored columns by name, as the numbers of their leaves."""
    metadata: pq.FileMetaData
    _groups: dict[int, tuple[ScaledGroup | None, tuple[str, ...]]] = field(default_factory=dict)
    _made: dict[Hashable, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, metadata: pq.FileMetaData) -> FileLayout:
        sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        places: dict[str, tuple[int, ...]] = {}
        schema = metadata.schema
        for place in range(metadata.num_columns):
            name = schema.column(place).path.partition(".")[0]
            places[name] = (*places.get(name, ()), place)
        return cls(np.concatenate(([0], np.cumsum(sizes))).astype(np.int64), places, metadata)

    @cached_property
    def types(self) -> dict[str, pa.DataType]:
        return {each.name: each.type for each in self.metadata.schema.to_arrow_schema()}

    def once(self, key: Hashable, make: Callable[[], Found]) -> Found:
        """Return what was made of this footer for the key."""
        if key not in self._made:
            self._made[key] = make()
        found: Found = self._made[key]
        return found

    def scaled(self, number: int) -> ScaledGroup | None:
        """Return the pages of a row group of scaled integers alone."""
        return self._group(number)[0]

    def columns(self, number: int) -> tuple[str, ...]:
        """Return the columns of samples that are read of a row group: not those that statistics tell."""
        scaled, columns = self._group(number)
        return self._read(number) if scaled is not None else columns

    def chunks(self, number: int, columns: Iterable[str]) -> Iterator[Range]:
        """Yield the bytes of these columns in one row group."""
        group = self.metadata.row_group(number)
        for name in columns:
            for place in self.places.get(name, ()):
                column = group.column(place)
                start = column.data_page_offset
                if column.has_dictionary_page and 0 < (column.dictionary_page_offset or 0) < start:
                    start = column.dictionary_page_offset
                yield start, start + column.total_compressed_size

    def known(self, number: int) -> Columns:
        """Return the columns of samples that statistics tell: of nulls, or of one word."""
        group, found = self.metadata.row_group(number), Columns()
        for name in _SAMPLES:
            facts = self._facts(group, name)
            if facts is not None and _nulls(facts) == group.num_rows:
                found[name] = pa.nulls(group.num_rows, self.types[name])
            elif facts is not None and name in {TYPE, TEMPORALITY} and _is_one(facts):
                found[name] = str(facts.min)
        return found

    def _group(self, number: int) -> tuple[ScaledGroup | None, tuple[str, ...]]:
        found = self._groups.get(number)
        if found is None:
            scaled = scaled_group(self.metadata, self.places, number)
            columns = self._read(number) if scaled is None else ()
            found = self._groups[number] = scaled, columns
        return found

    def _read(self, number: int) -> tuple[str, ...]:
        known = self.known(number)
        return tuple(name for name in _SAMPLES if name in self.places and name not in known)

    def _facts(self, group: pq.RowGroupMetaData, name: str) -> pq.Statistics | None:
        """Return the statistics of a flat column."""
        places = self.places.get(name, ())
        return group.column(places[0]).statistics if len(places) == 1 else None


def read_layout(file: SegmentFile) -> FileLayout:
    """Read the footer alone: Arrow takes the end of a file for a file."""
    size = file.segment.bytes
    length = int.from_bytes(file.read(size - FOOTER_END, FOOTER_END)[:4], "little") + FOOTER_END
    if length > size:
        raise ValueError(f"a footer of {length} bytes in a file of {size}")
    return FileLayout.of(pq.read_metadata(pa.BufferReader(file.read(size - length, length))))


def read_columns(file: SegmentFile, layout: FileLayout, number: int, names: Iterable[str]) -> pa.Table:
    """Read columns of a row group, one chunk each."""
    with pq.ParquetFile(file.source(), metadata=layout.metadata) as parquet:
        return parquet.read_row_group(number, list(names), use_threads=False).combine_chunks()


def read_row_group(file: SegmentFile, layout: FileLayout, number: int) -> RowGroup:
    """Decode the samples of a row group; raises one of `UNREADABLE` where that cannot be."""
    table = read_columns(file, layout, number, layout.columns(number))
    found: Columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    return _decode(found | layout.known(number))


def read_order(file: SegmentFile, layout: FileLayout, number: int) -> tuple[Int64s, Int64s, Int64s]:
    """Read (nanoseconds, object, position) of rows: they decide between samples of one millisecond."""
    table = read_columns(file, layout, number, (name for name in ORDER if name in layout.places))
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    exact = pc.multiply(columns[TIMESTAMP], 1_000_000)
    if TSNS in columns:
        exact = pc.coalesce(columns[TSNS], exact)
    return exact.to_numpy(), columns[CHQ_OBJECT].to_numpy(), columns[CHQ_POSITION].to_numpy()


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
