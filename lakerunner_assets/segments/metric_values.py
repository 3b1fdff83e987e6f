"""Writers split each value into the four columns that are stored.

How many digits a series is scaled by is decided over all its values: the fewest that hold nearly all of
them, since one digit more costs three bits in every row and a value left out costs eight bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_assets.decode.naming import Attribute
from lakerunner_assets.segments.metric_columns import OPTIONAL, REQUIRED
from lakerunner_assets.segments.segment_kernels import needed_digits, scale
from resources.arrays import Int32s, Int64s
from resources.lake import metric_values, series, streams
from resources.lake.columns import CHQ_SERIES, CHQ_VALUE
from resources.lake.metric_values import BASE, DOUBLE, EXPONENT, POWERS, SCALED
from resources.lake.segment_file import read_facts, read_label_map


def read_metric_segment(path: Path) -> pa.Table:
    """Read a segment back as its decoded table, in the order of the segment.

    For writers of segments from segments and for tests; queries read by series and not by file.
    """
    with pq.ParquetFile(path) as file:
        table = file.read().combine_chunks()
        facts = read_facts(file.metadata)
        attributes = {
            column.column: Attribute(column.scope, column.key, column.kind)
            for column in read_label_map(file.metadata)
        }
    columns: dict[str, pa.Array] = {name: table.column(name).chunk(0) for name in table.column_names}
    stored = {name: columns.pop(name) for name in metric_values.VALUE_COLUMNS}
    columns[CHQ_VALUE] = metric_values.values(stored)
    columns[CHQ_SERIES] = _label_sets(path, facts.series_offset, facts.series_length, facts.rows)
    wanted = REQUIRED | OPTIONAL
    arrays, schema = [], []
    for name, column in columns.items():
        attribute = attributes.get(name)
        if attribute is None:
            arrays.append(column if name == CHQ_SERIES else column.cast(wanted[name]))
            schema.append(pa.field(name, arrays[-1].type))
        else:
            arrays.append(column)
            schema.append(attribute.field(name, column.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(schema))


def _label_sets(path: Path, offset: int, length: int, rows: int) -> pa.DictionaryArray:
    with path.open("rb") as file:
        file.seek(offset)
        found = series.decode(file.read(length), rows)
    codes = np.repeat(np.arange(len(found), dtype=np.int32), [each.rows for each in found])
    texts = pa.array([streams.labels_to_text(each.labels) for each in found], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes), texts)


SCALED_SHARE = 4 / 5
"""Least share of scalable values of a series: below it two columns cost more than one."""
LEFT_OUT_SHARE = 1 / 32
JOINED_ROWS = 16
"""Rows per series from which on a base, eight bytes a series, costs less than the jumps between series."""


@dataclass(frozen=True, slots=True)
class SplitValues:
    columns: dict[str, pa.Array]
    base: Int64s
    """Base of each series code."""
    exponent: Int64s


def split(column: pa.Array, codes: Int32s, order: Int64s, count: int) -> SplitValues:
    """Split the values of `count` series; `order` is that of the rows in the file."""
    missing = column.is_null().to_numpy(zero_copy_only=False)
    values = _doubles(column)
    digits = fewest_digits(needed_digits(values, missing, codes, order, count, POWERS))
    joined = len(values) >= JOINED_ROWS * len(np.unique(codes))
    base, started = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    scaled, unscaled, _ = scale(values, missing, codes, order, digits, POWERS, joined, base, started, 0)
    exponent = np.maximum(digits, 0)
    columns = {
        SCALED: pa.array(scaled, mask=unscaled),
        BASE: pa.array(base[codes]),
        EXPONENT: pa.array(exponent[codes].astype(np.int32)),
        DOUBLE: pa.array(values, mask=missing | ~unscaled, from_pandas=False),
    }
    return SplitValues(columns, base, exponent)


class Splitter:
    """Split values that come in pieces, in segment order; a series may go on in the next piece."""

    def __init__(self, exponent: Int64s, joined: bool) -> None:
        """`exponent` is that of each series; `joined` gives them a base."""
        self._exponent, self._joined = exponent, joined
        self._previous = 0
        self._open, self._base = -1, 0
        """Last series so far, and its base."""

    def split(self, column: pa.Array, series: Int32s, rows: Int64s) -> SplitValues:
        """Split a piece: each of `series` has so many `rows`, and gets a base and an exponent."""
        values, missing = _doubles(column), column.is_null().to_numpy(zero_copy_only=False)
        exponent = self._exponent[series]
        base, started = np.zeros(len(series), np.int64), np.zeros(len(series), np.bool_)
        if series[0] == self._open:  # rows of it are written: its base stands
            base[0], started[0] = self._base, True
        codes = np.repeat(np.arange(len(series), dtype=np.int32), rows)
        order = np.arange(len(values))
        scaled, unscaled, previous = scale(
            values, missing, codes, order, exponent, POWERS, self._joined, base, started, self._previous
        )
        self._previous, self._open, self._base = int(previous), int(series[-1]), int(base[-1])
        columns = {
            SCALED: pa.array(scaled, mask=unscaled),
            BASE: pa.array(np.repeat(base, rows)),
            EXPONENT: pa.array(np.repeat(exponent.astype(np.int32), rows)),
            DOUBLE: pa.array(values, mask=missing | ~unscaled, from_pandas=False),
        }
        return SplitValues(columns, base, exponent)


def fewest_digits(needed: Int64s) -> Int64s:
    """Choose the digits after the point for each series; -1 leaves its values as they are.

    >>> fewest_digits(np.array([[90, 10, *[0] * 8, 0], [99, 1, *[0] * 8, 0], [1, 0, *[0] * 8, 9]])).tolist()
    [1, 0, -1]
    """
    total = needed.sum(axis=1)
    scalable = np.cumsum(needed[:, :-1], axis=1)
    enough = scalable >= (scalable[:, -1] - total * LEFT_OUT_SHARE)[:, None]
    digits = np.argmax(enough, axis=1)
    return np.where((scalable[:, -1] >= total * SCALED_SHARE) & (total > 0), digits, -1)


def _doubles(column: pa.Array) -> np.ndarray:
    """View the bits of a column; nulls hold anything."""
    raw = np.frombuffer(column.buffers()[1], np.float64)
    return raw[column.offset : column.offset + len(column)]
