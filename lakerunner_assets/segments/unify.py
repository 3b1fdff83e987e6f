"""Several decoded tables become one: same columns, same types, one name per attribute.

Names are assigned anew over all tables, because what collides depends on what is in the segment.
Attributes beyond the column limit move to the overflow map, least frequent first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.decode.naming import MAX_COLUMNS, PREFIXES, Attribute, assign, attribute_of
from resources.lake.segment_file import OVERFLOW_COLUMNS, MappedColumn
from resources.otel_text import double_text

MAP = pa.map_(pa.string(), pa.string())

Keyed = dict[str | Attribute, pa.ChunkedArray]
"""Columns of a table: attributes by what they hold, all others by name."""


@dataclass(frozen=True, slots=True)
class Unified:
    """One table, every column in one chunk, and what its flat columns hold."""

    table: pa.Table
    label_map: tuple[MappedColumn, ...]


def unify(tables: Sequence[pa.Table], max_columns: int = MAX_COLUMNS) -> Unified:
    """Join tables: system columns as in the first table, attributes by name, overflow maps."""
    found = [_by_key(table) for table in tables]
    counts: Counter[Attribute] = Counter()
    for columns_of in found:
        for key, column in columns_of.items():
            if isinstance(key, Attribute):
                counts[key] += len(column) - column.null_count
    kept, demoted = split_by_frequency(counts, max_columns)
    names = assign(kept)
    wanted: dict[str | Attribute, str] = {name: name for name in _system_columns(tables)}
    wanted |= {attribute: names[attribute] for attribute in sorted(kept, key=names.__getitem__)}
    columns = {name: _column(tables, found, key) for key, name in wanted.items()}
    for scope, name in OVERFLOW_COLUMNS.items():
        moved = {
            attribute.key: _column(tables, found, attribute)
            for attribute in demoted
            if attribute.scope == scope
        }
        overflow = _overflow(tables, found, name, moved)
        if overflow is not None:
            columns[name] = overflow
    label_map = tuple(
        MappedColumn(names[a], a.scope, a.key, a.kind) for a in sorted(kept, key=names.__getitem__)
    )
    return Unified(pa.table(columns), label_map)


def split_by_frequency(counts: Counter[Attribute], limit: int) -> tuple[list[Attribute], list[Attribute]]:
    """Split attributes into those that get a column and the rest, by scope."""
    kept: list[Attribute] = []
    demoted: list[Attribute] = []
    for scope in PREFIXES:
        ranked = sorted((a for a in counts if a.scope == scope), key=lambda a: (-counts[a], a))
        ranked = [attribute for attribute in ranked if counts[attribute]]  # all null: nothing to keep
        kept += ranked[:limit]
        demoted += ranked[limit:]
    return kept, demoted


def _system_columns(tables: Sequence[pa.Table]) -> list[str]:
    names: dict[str, None] = {}
    for table in tables:
        names |= {f.name: None for f in table.schema if attribute_of(f) is None and f.name not in _OVERFLOWS}
    return list(names)


_OVERFLOWS = frozenset(OVERFLOW_COLUMNS.values())


def _by_key(table: pa.Table) -> Keyed:
    keyed: Keyed = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        key = attribute_of(field) or field.name
        if key in keyed:
            raise ValueError(f"decoded table with two columns of {key}: one of them would be lost")
        keyed[key] = column
    return keyed


def _column(tables: Sequence[pa.Table], found: Sequence[Keyed], key: str | Attribute) -> pa.Array:
    """Join a column of all tables: null where one lacks it, a dictionary only if all have one."""
    parts = [columns.get(key) for columns in found]
    types = [part.type for part in parts if part is not None]
    kind = types[0] if all(found == types[0] for found in types) else pa.string()
    chunks: list[pa.Array] = []
    for part, table in zip(parts, tables, strict=True):
        if part is None:
            chunks.append(pa.nulls(table.num_rows, kind))
        else:
            chunks += (part if part.type == kind else part.cast(kind)).chunks
    whole = pa.chunked_array(chunks, type=kind)
    if pa.types.is_dictionary(kind):
        whole = whole.unify_dictionaries()
    return whole.combine_chunks() if whole.num_chunks != 1 else whole.chunk(0)


def _overflow(
    tables: Sequence[pa.Table], found: Sequence[Keyed], name: str, moved: dict[str, pa.Array]
) -> pa.Array | None:
    existing = _column(tables, found, name) if any(name in columns for columns in found) else None
    return merge_overflow(sum(table.num_rows for table in tables), existing, moved) if moved else existing


def merge_overflow(count: int, existing: pa.MapArray | None, moved: Mapping[str, pa.Array]) -> pa.MapArray:
    """Merge the overflow maps of `count` rows with the columns that move into them."""
    rows: list[np.ndarray] = []
    keys: list[pa.Array] = []
    values: list[pa.Array] = []
    if existing is not None:
        lengths = pc.fill_null(pc.list_value_length(existing.cast(pa.list_(MAP.field(0).type))), 0)
        rows.append(np.repeat(np.arange(count), lengths.to_numpy()))
        keys.append(existing.keys)
        values.append(existing.items)
    for key, column in moved.items():
        present = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        rows.append(present)
        keys.append(pa.array([key] * len(present), pa.string()))
        values.append(_texts(column.take(pa.array(present))))
    row_of_entry = np.concatenate(rows)
    order = pa.array(np.argsort(row_of_entry, kind="stable"))
    per_row = np.bincount(row_of_entry, minlength=count)
    offsets = np.concatenate(([0], np.cumsum(per_row))).astype(np.int32)
    bounds = pa.array(offsets, mask=np.concatenate((per_row == 0, [False])))
    return pa.MapArray.from_arrays(
        bounds, pa.concat_arrays(keys).take(order), pa.concat_arrays(values).take(order)
    )


def _texts(column: pa.Array) -> pa.Array:
    if pa.types.is_floating(column.type):
        return pa.array([double_text(number) for number in column.to_pylist()], pa.string())
    return column.cast(pa.string())
