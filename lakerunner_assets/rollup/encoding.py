"""Rollup columns are encoded like those of metric segments, where they are the same."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.segments.encoding import Encodings
from lakerunner_assets.segments.metrics import ROWS_PER_ENTRY
from resources.lake import rollup_columns as rollup

ALWAYS_DELTA = frozenset(
    {
        rollup.TIMESTAMP,
        rollup.FIRST_TS,
        rollup.LAST_TS,
        rollup.PREV_TS,
        *rollup.SCALED.values(),
        rollup.SQUARES,
    }
)
NEVER_DICTIONARY = frozenset({name for name, kind in rollup.LOGICAL.items() if pa.types.is_floating(kind)})
"""Doubles that hardly ever repeat."""
SKETCH_LEVEL = 7
"""Level of zstd: a quarter less than level 3, for a tenth of a microsecond per sample."""
_FEW = 16


def rollup_encodings(table: pa.Table) -> Encodings:
    """Choose an encoding for every column of the table, each in one chunk."""
    dictionary: list[str] = []
    by_column: dict[str, str] = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        for leaf, kind in _leaves(field.name, field.type):
            encoding = _encoding(kind)
            if leaf.endswith((".bounds.list.element", ".schema", ".key", ".value")) or (
                leaf == field.name and _repeats(field, column.chunk(0))
            ):
                dictionary.append(leaf)
            elif encoding is not None:
                by_column[leaf] = "BYTE_STREAM_SPLIT" if leaf == rollup.SQUARES else encoding
    return Encodings(tuple(dictionary), by_column)


def _encoding(kind: pa.DataType) -> str | None:
    if pa.types.is_integer(kind):
        return "DELTA_BINARY_PACKED"
    return "BYTE_STREAM_SPLIT" if pa.types.is_floating(kind) else None


def _leaves(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield f"{path}.key_value.key", kind.key_type
        yield f"{path}.key_value.value", kind.item_type
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path, kind


def _repeats(field: pa.Field, column: pa.Array) -> bool:
    if field.name in ALWAYS_DELTA | NEVER_DICTIONARY or pa.types.is_boolean(field.type):
        return False
    if pa.types.is_dictionary(field.type):
        distinct = len(column.dictionary)
    elif pa.types.is_primitive(field.type) or pa.types.is_binary(field.type):
        distinct = pc.count_distinct(column).as_py()
    else:
        return False
    return bool(distinct <= max(_FEW, len(column) // ROWS_PER_ENTRY))
