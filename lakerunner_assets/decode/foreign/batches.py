"""Batches from a Parquet reader are checked before kernels and Arrow's own functions trust them.

pyarrow copies dictionary indices and list levels from the file without a look at what they point to.
Text is the exception: what is not UTF-8 is repaired later, so only its offsets are checked here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.decode.errors import MalformedError


def check_batch(batch: pa.RecordBatch) -> None:
    """Raise unless every index and offset of the batch lies inside what it points to."""
    batch.validate()
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        _check(name, column)


def _check(name: str, column: pa.Array) -> None:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        _check(name, column.storage)
    elif pa.types.is_dictionary(kind):
        _check_indices(name, column)
        _check(name, column.dictionary)
    elif pa.types.is_struct(kind):
        for place in range(kind.num_fields):
            _check(name, column.field(place))
    elif pa.types.is_map(kind):
        _check_offsets(name, column.offsets, len(column.keys))
        _check(name, column.keys)
        _check(name, column.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        _check_offsets(name, column.offsets, len(column.values))
        _check(name, column.values)
    elif pa.types.is_fixed_size_list(kind):
        _check(name, column.values)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        _check_texts(name, column, np.int32)
    elif pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        _check_texts(name, column, np.int64)


def _check_indices(name: str, column: pa.DictionaryArray) -> None:
    ends = pc.min_max(column.indices).as_py()
    low, high, size = ends["min"], ends["max"], len(column.dictionary)
    if low is not None and (low < 0 or high >= size):
        wrong = low if low < 0 else high
        raise MalformedError(
            0, f"Parquet: column {name!r}: dictionary index {wrong} out of bounds, {size} values"
        )


def _check_offsets(name: str, offsets: pa.Array, size: int) -> None:
    found = offsets.to_numpy()
    if len(found) and (found[0] < 0 or found[-1] > size or (found[1:] < found[:-1]).any()):
        raise MalformedError(0, f"Parquet: column {name!r}: list offsets out of bounds, {size} values")


def _check_texts(name: str, column: pa.Array, width: type[np.int32 | np.int64]) -> None:
    _, offsets, text = column.buffers()
    if len(column) == 0 or offsets is None:
        return
    found: Any = np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1]
    size = 0 if text is None else text.size
    if len(found) <= len(column) or found[0] < 0 or found[-1] > size or (found[1:] < found[:-1]).any():
        raise MalformedError(0, f"Parquet: column {name!r}: text offsets out of bounds, {size} bytes")


def unfolded_bytes(column: pa.Array) -> int:
    """Return the bytes of a column when every value of its dictionary is written out.

    >>> unfolded_bytes(pa.array(["abc"] * 10).dictionary_encode()), unfolded_bytes(pa.array([1, 2]))
    (30, 16)
    """
    kind = column.type
    if not pa.types.is_dictionary(kind) or pa.types.is_primitive(kind.value_type):
        return int(column.nbytes)
    if not len(column.dictionary):
        return 0
    counts = np.bincount(column.indices.drop_null().to_numpy(), minlength=len(column.dictionary))
    lengths = pc.fill_null(pc.binary_length(column.dictionary), 0).to_numpy()
    return int(counts.astype(np.int64) @ lengths.astype(np.int64))
