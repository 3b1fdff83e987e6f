"""HyperLogLog sketches count the series and label values of a metric per hour and day.

    metric_name  label     end of bucket  frequency_ms  estimate  sketch
    up           ''        13:00          1 h              1203   …       distinct series
    up           instance  13:00          1 h               400   …       distinct values of the label

The end of the bucket is in ms. Sketches are those of Apache DataSketches (HLL_4, 4096
registers: a standard error of 1.6 %), fed with series ids as integers and label values as strings. They are
stored settled: the estimate then follows from what is inside, and not from the order in which it came.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from datasketches import hll_sketch, hll_union, tgt_hll_type  # type: ignore[import-untyped]

from resources.lake.columns import CHQ_TIMESTAMP
from resources.lake.frequency import CARDINALITY_DATASET
from resources.lake.segment_file import read_facts

LOG_REGISTERS = 12
FORM = tgt_hll_type.HLL_4
STANDARD_ERROR = 1.04 / 2 ** (LOG_REGISTERS / 2)
"""Relative, of one estimate."""

SERIES = ""
"""The label of rows that count series."""
SORT_VERSION = 1
SORT_ORDER = ("metric_name", "label", CHQ_TIMESTAMP)
SCHEMA = pa.schema(
    [
        pa.field("metric_name", pa.string(), nullable=False),
        pa.field("label", pa.string(), nullable=False),
        pa.field(CHQ_TIMESTAMP, pa.int64(), nullable=False),
        pa.field("frequency_ms", pa.int64(), nullable=False),
        pa.field("estimate", pa.float64(), nullable=False),
        pa.field("sketch", pa.binary(), nullable=False),
    ]
)


class CardinalityError(ValueError):
    """The file or sketch is not one of cardinalities."""


def read(path: Path) -> pa.Table:
    """Read and check a cardinality segment: one row per metric, label and bucket, in that order."""
    with path.open("rb") as source:
        try:
            return _read(source)
        except (pa.ArrowException, OSError, ValueError, TypeError) as error:
            raise CardinalityError(f"cardinality segment {path}: {error}") from error


def deserialize(sketch: bytes) -> hll_sketch:
    """Deserialize a stored sketch."""
    try:
        found = hll_sketch.deserialize(sketch)
    except (ValueError, RuntimeError, MemoryError) as error:
        raise CardinalityError(f"sketch of {len(sketch)} bytes: {error}") from error
    if (found.lg_config_k, found.tgt_type) != (LOG_REGISTERS, FORM):
        raise CardinalityError(
            f"sketch of {len(sketch)} bytes: expected 2^{LOG_REGISTERS} registers as HLL_4, "
            f"found 2^{found.lg_config_k} as {found.tgt_type.name}"
        )
    return found


def merge_sketches(sketches: Iterable[bytes]) -> hll_sketch:
    """Merge stored sketches into a settled one."""
    union = hll_union(LOG_REGISTERS)
    for sketch in sketches:
        union.update(deserialize(sketch))
    return settle(union.get_result(FORM))


def settle(sketch: hll_sketch) -> hll_sketch:
    """Return the same content without its history.

    A sketch that was fed estimates from the order of arrivals, one that was merged from its registers: a day
    would not agree with its hours. A union with itself adds nothing and leaves only registers.
    """
    union = hll_union(LOG_REGISTERS)
    union.update(sketch)
    union.update(sketch)
    return union.get_result(FORM)


def _read(source: BinaryIO) -> pa.Table:
    with pq.ParquetFile(source) as file:
        facts, table = read_facts(file.metadata), file.read()
    if facts.dataset != CARDINALITY_DATASET:
        raise CardinalityError(f"it is of dataset {facts.dataset!r}, expected {CARDINALITY_DATASET!r}")
    return check_rows(table)


def check_rows(table: pa.Table) -> pa.Table:
    """Return the rows in our types and one chunk; refuse what a segment may not hold."""
    if table.column_names != SCHEMA.names:
        raise CardinalityError(f"columns {table.column_names}, expected {SCHEMA.names}")
    table = table.cast(SCHEMA).combine_chunks()
    table.validate(full=True)
    _check(table)
    return table


def _check(table: pa.Table) -> None:
    for name in SCHEMA.names:
        if table.column(name).null_count:
            raise CardinalityError(f"{table.column(name).null_count} rows without {name}")
    if table.num_rows and not (pc.min(table.column("estimate")).as_py() >= 0):
        raise CardinalityError("an estimate is negative or not a number")
    equal, rising = pa.scalar(True), pa.scalar(False)
    for name in SORT_ORDER:
        before, after = table.column(name).slice(0, max(table.num_rows - 1, 0)), table.column(name).slice(1)
        rising = pc.or_(rising, pc.and_(equal, pc.less(before, after)))
        equal = pc.and_(equal, pc.equal(before, after))
    if table.num_rows > 1 and not pc.all(rising).as_py():
        at = pc.index(rising, False).as_py() + 1
        raise CardinalityError(f"row {at} is not behind the one before it by {', '.join(SORT_ORDER)}")
