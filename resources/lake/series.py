"""The series table of a metric segment maps label sets to row ranges.

It lies inside the Parquet object before the footer. Matchers run on it first; of the columns only the rows
of the series that match are read then. Two label sets whose ids collide are two series here, with rows of
their own: a series is its label set, the id is only its short name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from resources.lake.metric_values import MAX_DIGITS
from resources.lake.streams import Labels

NAME_LABEL = "__name__"
NAME_FIELD = "metric_name"
"""Field of index terms for metric names: stored ones, and those derived from histograms."""

_TEXT = pa.dictionary(pa.int32(), pa.string())
"""Dictionary type: label sets differ in a value or two, so the table is a third of plain text."""
SCHEMA = pa.schema(
    [
        pa.field("tid", pa.int64(), nullable=False),
        pa.field("labels", pa.map_(_TEXT, _TEXT), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("first_ms", pa.int64(), nullable=False),
        pa.field("last_ms", pa.int64(), nullable=False),
        pa.field("base", pa.int64(), nullable=False),
        pa.field("exponent", pa.int32(), nullable=False),
    ]
)
_HERE = pa.ipc.IpcReadOptions(use_threads=False)
"""No threads: handing a few kilobytes to them takes ten times as long as decompressing."""


class SeriesTableError(ValueError):
    """The bytes are no series table, or that of another segment."""


@dataclass(frozen=True, slots=True)
class Series:
    """One row of the table; the series has the rows `[row, row + rows)` of the file."""

    tid: int
    labels: Labels
    row: int
    rows: int
    first_ms: int
    last_ms: int
    base: int
    """Base of its scaled values, the same in all its rows."""
    exponent: int
    """Exponent of its scaled values."""


def build(label_sets: Sequence[Labels], numbers: dict[str, npt.NDArray[np.int64]]) -> pa.Table:
    """Build the table from label sets and the other columns, all in row order."""
    ends = np.cumsum([0, *(len(labels) for labels in label_sets)]).astype(np.int32)
    names, values = (
        pa.array([pair[side] for pair in chain.from_iterable(label_sets)], pa.string()).dictionary_encode()
        for side in (0, 1)
    )
    labels = pa.MapArray.from_arrays(pa.array(ends), names, values)
    columns = {"labels": labels, **{name: pa.array(column) for name, column in numbers.items()}}
    return pa.table([columns[field.name].cast(field.type) for field in SCHEMA], schema=SCHEMA)


def encode(table: pa.Table) -> bytes:
    """Encode the table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=3))
    with pa.ipc.new_stream(sink, SCHEMA, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def read_table(raw: bytes | memoryview | pa.Buffer, rows: int) -> pa.Table:
    """Read and check the table of a segment of `rows` rows, for matchers on columns.

    Row ranges that are not those of the file would answer with samples of another series.
    """
    try:
        with pa.ipc.open_stream(raw, options=_HERE) as reader:
            table = reader.read_all()
        expected = table.schema.equals(SCHEMA)
        if expected:
            table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SeriesTableError(f"series table of {len(raw)} bytes: {error}") from error
    if not expected:
        raise SeriesTableError(f"series table of {len(raw)} bytes: expected the columns {SCHEMA.names}")
    table = table.combine_chunks()
    _check(table, rows)
    return table


def decode(raw: bytes | memoryview | pa.Buffer, rows: int) -> tuple[Series, ...]:
    """Read the table as values."""
    found = read_table(raw, rows).to_pylist()
    return tuple(Series(**{**row, "labels": tuple(row["labels"])}) for row in found)


def _check(table: pa.Table, rows: int) -> None:
    row, count, first, last, exponent = (
        table.column(name).to_numpy() for name in ("row", "rows", "first_ms", "last_ms", "exponent")
    )
    borders = np.append(row, rows)
    wrong = (count < 1) | (borders[1:] - borders[:-1] != count) | (first > last)
    wrong |= (exponent < 0) | (exponent > MAX_DIGITS)
    if wrong.any() or borders[0] != 0:
        at = int(np.argmax(wrong)) if wrong.any() else 0
        found = table.slice(at, 1).drop_columns(["labels"]).to_pylist()
        raise SeriesTableError(
            f"series table of {rows} rows, series {at} of {table.num_rows}: its rows do not follow "
            f"those before it, or its times or exponent are impossible: {found}"
        )
