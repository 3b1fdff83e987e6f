"""The columns a decoded metrics table may have, beside flat attributes, and their types.

One row per data point. Decoders leave out what they have nothing for; a column without values is not written.
Text may be plain or a dictionary.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakerunner_assets.decode.naming import attribute_of
from resources.lake.columns import (
    CHQ_EXEMPLARS,
    CHQ_FLAGS,
    CHQ_HIST_BOUNDS,
    CHQ_HIST_COUNT,
    CHQ_HIST_COUNT_FLOAT,
    CHQ_HIST_COUNTS,
    CHQ_HIST_MAX,
    CHQ_HIST_MIN,
    CHQ_HIST_NEGATIVE_COUNTS,
    CHQ_HIST_NEGATIVE_COUNTS_FLOAT,
    CHQ_HIST_NEGATIVE_OFFSET,
    CHQ_HIST_POSITIVE_COUNTS,
    CHQ_HIST_POSITIVE_COUNTS_FLOAT,
    CHQ_HIST_POSITIVE_OFFSET,
    CHQ_HIST_RESET_HINT,
    CHQ_HIST_SCHEMA,
    CHQ_HIST_SUM,
    CHQ_HIST_ZERO_COUNT,
    CHQ_HIST_ZERO_COUNT_FLOAT,
    CHQ_HIST_ZERO_THRESHOLD,
    CHQ_METRIC_TYPE,
    CHQ_OBJECT,
    CHQ_POSITION,
    CHQ_QUARANTINE_REASON,
    CHQ_RESOURCE_DROPPED_ATTRIBUTES,
    CHQ_SCOPE_DROPPED_ATTRIBUTES,
    CHQ_SERIES,
    CHQ_START_TSNS,
    CHQ_SUMMARY_QUANTILES,
    CHQ_TID,
    CHQ_TIMESTAMP,
    CHQ_TSNS,
    CHQ_VALUE,
    CHQ_VALUE_INT,
    CHQ_VALUE_KIND,
)
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
    CHQ_TID: _INT,
    CHQ_TIMESTAMP: _INT,
    CHQ_METRIC_TYPE: _TEXT,
    CHQ_OBJECT: _INT,
    CHQ_POSITION: _INT,
    CHQ_SERIES: _TEXT,
}
OPTIONAL: dict[str, pa.DataType] = {
    CHQ_VALUE: _DOUBLE,
    CHQ_TSNS: _INT,
    CHQ_VALUE_INT: _INT,
    CHQ_VALUE_KIND: _TEXT,
    "metric_temporality": _TEXT,
    "metric_is_monotonic": pa.bool_(),
    CHQ_START_TSNS: _INT,
    "metric_unit": _TEXT,
    "metric_description": _TEXT,
    "metric_original_name": _TEXT,
    "metric_metadata": _MAP,
    CHQ_FLAGS: _INT,
    CHQ_HIST_COUNT: _INT,
    CHQ_HIST_COUNT_FLOAT: _DOUBLE,
    CHQ_HIST_SUM: _DOUBLE,
    CHQ_HIST_MIN: _DOUBLE,
    CHQ_HIST_MAX: _DOUBLE,
    CHQ_HIST_BOUNDS: pa.list_(_DOUBLE),
    CHQ_HIST_COUNTS: pa.list_(_INT),
    CHQ_HIST_SCHEMA: pa.int32(),
    CHQ_HIST_ZERO_COUNT: _INT,
    CHQ_HIST_ZERO_COUNT_FLOAT: _DOUBLE,
    CHQ_HIST_ZERO_THRESHOLD: _DOUBLE,
    CHQ_HIST_POSITIVE_OFFSET: pa.int32(),
    CHQ_HIST_POSITIVE_COUNTS: pa.list_(_INT),
    CHQ_HIST_POSITIVE_COUNTS_FLOAT: pa.list_(_DOUBLE),
    CHQ_HIST_NEGATIVE_OFFSET: pa.int32(),
    CHQ_HIST_NEGATIVE_COUNTS: pa.list_(_INT),
    CHQ_HIST_NEGATIVE_COUNTS_FLOAT: pa.list_(_DOUBLE),
    CHQ_HIST_RESET_HINT: pa.int32(),
    CHQ_SUMMARY_QUANTILES: pa.list_(pa.struct([("quantile", _DOUBLE), ("value", _DOUBLE)])),
    CHQ_EXEMPLARS: pa.list_(EXEMPLAR),
    "scope_name": _TEXT,
    "scope_version": _TEXT,
    "scope_schema_url": _TEXT,
    "resource_schema_url": _TEXT,
    CHQ_RESOURCE_DROPPED_ATTRIBUTES: _INT,
    CHQ_SCOPE_DROPPED_ATTRIBUTES: _INT,
    CHQ_QUARANTINE_REASON: _TEXT,
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
