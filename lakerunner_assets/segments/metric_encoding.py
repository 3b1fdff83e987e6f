"""How the columns of a metric segment are encoded.

Rows are sorted by series and time, so times, ids and scaled values are runs of small deltas, and whatever
belongs to a series (its id, start time, attributes) is one dictionary entry in a long run.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.segments.encoding import Encodings
from resources.lake.metric_values import DOUBLE, SCALED

ALWAYS_DELTA = frozenset({"chq_timestamp", "chq_tsns", "chq_object", "chq_position", SCALED})
NEVER_DICTIONARY = frozenset({DOUBLE, "chq_hist_sum"})
"""Doubles of which hardly any repeats."""
LISTS = {
    "chq_hist_bounds.list.element": None,
    "chq_hist_counts.list.element": "DELTA_BINARY_PACKED",
    "chq_hist_positive_counts.list.element": "DELTA_BINARY_PACKED",
    "chq_hist_negative_counts.list.element": "DELTA_BINARY_PACKED",
    "chq_summary_quantiles.list.element.quantile": None,
    "chq_summary_quantiles.list.element.value": "BYTE_STREAM_SPLIT",
    "chq_exemplars.list.element.tsns": "DELTA_BINARY_PACKED",
    "chq_exemplars.list.element.attributes.key_value.key": None,
    "metric_metadata.key_value.key": None,
    "metric_metadata.key_value.value": None,
}
"""Leaves of nested columns; None: a dictionary (bounds are the same in every point of a series)."""
ROWS_PER_ENTRY = 4
"""Fewer rows per distinct value than this do not pay for a dictionary."""


def metric_encodings(table: pa.Table) -> Encodings:
    """A choice for every column of the table, each in one chunk."""
    dictionary: list[str] = []
    by_column: dict[str, str] = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_nested(field.type):
            for leaf, encoding in LISTS.items():
                if leaf.startswith(f"{field.name}."):
                    by_column |= {leaf: encoding} if encoding else {}
                    dictionary += [] if encoding else [leaf]
        elif _repeats(field, column.chunk(0)):
            dictionary.append(field.name)
        elif pa.types.is_integer(field.type):
            by_column[field.name] = "DELTA_BINARY_PACKED"
        elif pa.types.is_floating(field.type):
            by_column[field.name] = "BYTE_STREAM_SPLIT"
    return Encodings(tuple(dictionary), by_column)


def _repeats(field: pa.Field, column: pa.Array) -> bool:
    if field.name in ALWAYS_DELTA | NEVER_DICTIONARY or pa.types.is_boolean(field.type):
        return False
    if pa.types.is_dictionary(field.type):
        distinct = len(column.dictionary)
    elif pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
        distinct = pc.count_distinct(column).as_py()
    else:
        return False
    return bool(distinct <= max(16, len(column) // ROWS_PER_ENTRY))
