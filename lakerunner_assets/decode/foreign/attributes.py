"""Values that no role took become flat attribute columns or an overflow map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.decode.attributes import OVERFLOWN
from lakerunner_assets.decode.foreign.mapping import Fields, Key, valid
from lakerunner_assets.decode.foreign.times import TIME
from lakerunner_assets.decode.foreign.values import text_of, with_dictionary, without_dictionary
from lakerunner_assets.decode.naming import MAX_COLUMNS, Attribute
from lakerunner_assets.decode.otlp.owners import FlatColumn

Entries = list[tuple[np.ndarray, pa.Array, pa.Array]]
"""Rows, keys and values of the overflow map."""


def record_attributes(fields: Fields, notes: Counter[str], limit: int = MAX_COLUMNS) -> list[FlatColumn]:
    """Build the columns, most frequent first when there are too many, and the overflow map."""
    return flat_columns(list(fields.rest()), fields.rows.overflow, fields.count, notes, limit)


def flat_columns(
    columns: Sequence[tuple[Key, pa.Array]],
    overflow: pa.MapArray | None,
    count: int,
    notes: Counter[str],
    limit: int = MAX_COLUMNS,
) -> list[FlatColumn]:
    """Build attributes of the record from raw columns."""
    ranked = sorted(_by_attribute(columns), key=lambda pair: (pair[1].null_count, pair[0]))
    flat: list[FlatColumn] = [("record", *_column(key, column)) for key, column in ranked[:limit]]
    if not ranked[limit:]:
        return flat if overflow is None else [*flat, ("record", None, overflow)]
    entries = [_entries(key, column) for key, column in ranked[limit:]]
    notes[OVERFLOWN] += sum(len(rows) for rows, _, _ in entries)
    if overflow is not None:
        entries.append(_entries_of_map(overflow))
    return [*flat, ("record", None, _map(entries, count))]


def _by_attribute(columns: Sequence[tuple[Key, pa.Array]]) -> list[tuple[Key, pa.Array]]:
    """Join a column of times with the texts of those values that are no times."""
    found: dict[Key, pa.Array] = {}
    for (name, kind), column in columns:
        key = (name, "string") if kind == TIME else (name, kind)
        values = text_of(kind, column) if kind == TIME else column
        found[key] = (
            pc.coalesce(without_dictionary(found[key]), without_dictionary(values))
            if key in found
            else values
        )
    return list(found.items())


def _column(key: Key, column: pa.Array) -> tuple[Attribute, pa.Array]:
    """Write bytes as base64 text."""
    name, kind = key
    if kind == "bytes":
        return Attribute("record", name, kind), with_dictionary(text_of(kind, column))
    return Attribute("record", name, kind), column


def _entries(key: Key, column: pa.Array) -> tuple[np.ndarray, pa.Array, pa.Array]:
    rows = np.flatnonzero(valid(column))
    values = without_dictionary(text_of(key[1], column.take(pa.array(rows))))
    return rows, pa.array([key[0]] * len(rows), pa.string()), values


def _entries_of_map(column: pa.MapArray) -> tuple[np.ndarray, pa.Array, pa.Array]:
    rows = np.repeat(np.arange(len(column)), np.diff(column.offsets.to_numpy()))
    return rows, column.keys, column.items


def _map(entries: Entries, count: int) -> pa.MapArray:
    rows = np.concatenate([each[0] for each in entries])
    order = pa.array(np.argsort(rows, kind="stable"))
    per_row = np.bincount(rows, minlength=count)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(per_row, out=offsets[1:])
    return pa.MapArray.from_arrays(
        pa.array(offsets, mask=np.concatenate((per_row == 0, [False]))),
        pa.concat_arrays([each[1] for each in entries]).take(order),
        pa.concat_arrays([each[2] for each in entries]).take(order),
    )
