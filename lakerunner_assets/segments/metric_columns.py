"""Decoded metrics tables are checked against the columns that metric segments may have.

One row per data point. Decoders leave out what they have nothing for; a column without values is not written.
Text may be plain or a dictionary.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakerunner_assets.decode.naming import attribute_of
from resources.lake.columns import Filler, Segments, columns_in, types_of

_DECODED = columns_in(Segments.METRICS, Filler.DECODER, Filler.COOKING, Filler.COMPACTION)
REQUIRED: dict[str, pa.DataType] = types_of(c for c in _DECODED if c.required)
OPTIONAL: dict[str, pa.DataType] = types_of(c for c in _DECODED if not c.required)


def check_table(table: pa.Table) -> pa.Table:
    """Return the table in the order and types above, attributes last, without all-null columns."""
    known = {field.name for field in table.schema if attribute_of(field) is None}
    unknown = known - REQUIRED.keys() - OPTIONAL.keys()
    if unknown or not known >= REQUIRED.keys():
        raise ValueError(
            f"decoded metrics: missing {sorted(REQUIRED.keys() - known)}, unknown {sorted(unknown)}"
        )
    places = {field.name: index for index, field in enumerate(table.schema) if field.name in known}
    columns = {name: table.column(places[name]) for name in (*REQUIRED, *OPTIONAL) if name in places}
    schema: list[pa.Field] = []
    arrays: list[pa.ChunkedArray] = []
    for name, column in columns.items():
        if name in REQUIRED and column.null_count:
            raise ValueError(f"decoded metrics: {column.null_count} nulls in {name}")
        if column.null_count < len(column):
            arrays.append(_check_type(name, column, REQUIRED.get(name) or OPTIONAL[name]))
            schema.append(pa.field(name, arrays[-1].type))
    for field, column in zip(table.schema, table.columns, strict=True):
        if attribute_of(field) is not None:
            schema.append(field)
            arrays.append(column)
    return pa.Table.from_arrays(arrays, schema=pa.schema(schema))


def in_order(names: Sequence[str]) -> list[str]:
    """Sort column names as in a file: those above, then the rest as it came."""
    rank = {name: place for place, name in enumerate((*REQUIRED, *OPTIONAL))}
    return sorted(names, key=lambda name: rank.get(name, len(rank)))


def _check_type(name: str, column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    found = column.type
    plain = found.value_type if pa.types.is_dictionary(found) else found
    if plain != wanted:
        raise ValueError(f"decoded metrics: {name} is {found}, expected {wanted}")
    return column
