"""Raw objects shaped like a segment are compared with the format: columns and label map.

Anybody can write a file with our footer. What it holds goes to the segment writer without another look, so a
column of another type or a label map that names what is not there would fail the neighbours' rows, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakerunner_assets.decode.errors import MalformedError
from lakerunner_assets.decode.naming import PREFIXES, Attribute
from resources.lake.columns import Column, Segments, columns_in
from resources.lake.layout import Signal
from resources.lake.segment_file import MappedColumn

KINDS: Mapping[str, pa.DataType] = {
    "int": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    **dict.fromkeys(("string", "array", "kvlist", "bytes", "empty"), pa.string()),
}
"""Type of an attribute's column by its kind."""


def attributes_of(label_map: Sequence[MappedColumn]) -> dict[str, Attribute]:
    """Return the attribute of each flat column."""
    found: dict[str, Attribute] = {}
    for entry in label_map:
        if entry.scope not in PREFIXES or entry.kind not in KINDS:
            raise _refused(f"its label map says {entry.scope!r}, {entry.kind!r} of column {entry.column!r}")
        if not isinstance(entry.key, str) or not isinstance(entry.column, str) or entry.column in found:
            raise _refused(f"its label map has no text, or one twice: {entry.column!r}, {entry.key!r}")
        found[entry.column] = Attribute(entry.scope, entry.key, entry.kind)
    return found


class Expected:
    """The columns that a segment of this signal may and must have."""

    def __init__(self, signal: Signal, attributes: Mapping[str, Attribute]) -> None:
        stored = [each for each in columns_in(Segments(signal.value)) if each.is_stored]
        self._columns: dict[str, Column] = {each.name: each for each in stored}
        self._attributes = attributes
        if both := attributes.keys() & self._columns.keys():
            raise _refused(f"its label map names columns of the format: {sorted(both)}")

    def check(self, batch: pa.RecordBatch) -> None:
        """Raise unless every column is known, of its type, and complete where it must be."""
        batch.validate(full=True)
        names = batch.schema.names
        for name, column in zip(names, batch.columns, strict=True):
            kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
            wanted = self._type(name)
            if kind != wanted:
                raise _refused(f"column {name!r} is {kind}; expected {wanted}")
            if column.null_count and name in self._columns and self._columns[name].required:
                raise _refused(f"column {name!r} is null in {column.null_count} rows; expected values")
        if len(set(names)) != len(names):
            raise _refused("it has a column twice")
        required = {name for name, each in self._columns.items() if each.required}
        if missing := sorted(required - set(names)):
            raise _refused(f"it lacks the columns {missing}")

    def _type(self, name: str) -> pa.DataType:
        if name in self._columns:
            return self._columns[name].type
        if name not in self._attributes:
            raise _refused(f"column {name!r} is neither of the format nor in its label map")
        return KINDS[self._attributes[name].kind]


def _refused(what: str) -> MalformedError:
    return MalformedError(0, f"Parquet: a damaged segment of Lakerunner: {what}")
