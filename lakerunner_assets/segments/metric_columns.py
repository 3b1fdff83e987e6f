"""The columns a decoded metrics table may have, beside flat attributes, and their types.

One row per data point. Decoders leave out what they have nothing for; a column without values is not written.
Text may be plain or a dictionary.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakerunner_assets.decode.naming import attribute_of
from resources.lake.segment_file import OVERFLOW_COLUMNS

_TEXT = pa.string()
_MAP = pa.map_(pa.string(), pa.string())
_INT, _DOUBLE = pa.int64(), pa.float64()

EXEMPLAR = pa.struct(
    [
        ("tsns", _INT),
        ("value", _DOUBLE),
        ("value_int", _INT),
        ("trace_id", pa.binary(16)),
        ("span_id", pa.binary(8)),
        ("attributes", _MAP),
    ]
)
REQUIRED: dict[str, pa.DataType] = {
    "metric_name": _TEXT,
    "chq_tid": _INT,
    "chq_timestamp": _INT,
    "chq_metric_type": _TEXT,
    "chq_object": _INT,
    "chq_position": _INT,
    "chq_series": _TEXT,
}
OPTIONAL: dict[str, pa.DataType] = {
    "chq_value": _DOUBLE,
    "chq_tsns": _INT,
    "chq_value_int": _INT,
    "chq_value_kind": _TEXT,
    "metric_temporality": _TEXT,
    "metric_is_monotonic": pa.bool_(),
    "chq_start_tsns": _INT,
    "metric_unit": _TEXT,
    "metric_description": _TEXT,
    "metric_original_name": _TEXT,
    "metric_metadata": _MAP,
    "chq_flags": _INT,
    "chq_hist_count": _INT,
    "chq_hist_count_float": _DOUBLE,
    "chq_hist_sum": _DOUBLE,
    "chq_hist_min": _DOUBLE,
    "chq_hist_max": _DOUBLE,
    "chq_hist_bounds": pa.list_(_DOUBLE),
    "chq_hist_counts": pa.list_(_INT),
    "chq_hist_schema": pa.int32(),
    "chq_hist_zero_count": _INT,
    "chq_hist_zero_count_float": _DOUBLE,
    "chq_hist_zero_threshold": _DOUBLE,
    "chq_hist_positive_offset": pa.int32(),
    "chq_hist_positive_counts": pa.list_(_INT),
    "chq_hist_positive_counts_float": pa.list_(_DOUBLE),
    "chq_hist_negative_offset": pa.int32(),
    "chq_hist_negative_counts": pa.list_(_INT),
    "chq_hist_negative_counts_float": pa.list_(_DOUBLE),
    "chq_hist_reset_hint": pa.int32(),
    "chq_summary_quantiles": pa.list_(pa.struct([("quantile", _DOUBLE), ("value", _DOUBLE)])),
    "chq_exemplars": pa.list_(EXEMPLAR),
    "scope_name": _TEXT,
    "scope_version": _TEXT,
    "scope_schema_url": _TEXT,
    "resource_schema_url": _TEXT,
    "chq_resource_dropped_attributes": _INT,
    "chq_scope_dropped_attributes": _INT,
    "chq_quarantine_reason": _TEXT,
    **dict.fromkeys(OVERFLOW_COLUMNS.values(), _MAP),
}


def checked(table: pa.Table) -> pa.Table:
    """The table in the order and with the types above, attributes behind, without all-null columns."""
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
            arrays.append(_typed(name, column, REQUIRED.get(name) or OPTIONAL[name]))
            schema.append(pa.field(name, arrays[-1].type))
    for field, column in zip(table.schema, table.columns, strict=True):
        if attribute_of(field) is not None:
            schema.append(field)
            arrays.append(column)
    return pa.Table.from_arrays(arrays, schema=pa.schema(schema))


def in_order(names: Sequence[str]) -> list[str]:
    """Columns as they stand in a file: those above, then the rest as it came."""
    rank = {name: place for place, name in enumerate((*REQUIRED, *OPTIONAL))}
    return sorted(names, key=lambda name: rank.get(name, len(rank)))


def _typed(name: str, column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    found = column.type
    plain = found.value_type if pa.types.is_dictionary(found) else found
    if plain != wanted:
        raise ValueError(f"decoded metrics: {name} is {found}, expected {wanted}")
    return column
