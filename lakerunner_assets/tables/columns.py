"""A table has the system's columns, and attributes on whose type all its files agree.

    files with attr_code as    int64    int64, text    text
    column attr_code           bigint   -              string

A reader of Iceberg casts nothing but narrow numbers to wide ones, so a column with two types in live files is
left out of the schema until one of the types is gone. Segments have no field ids: the table's name mapping
gives them, also to columns that are left out, since some readers refuse files with names that it lacks.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping, create_mapping_from_schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
)

from resources.lake.columns import CHQ_QUARANTINE_REASON, Segments, columns_in

EVENT_DATE, EVENT_HOUR = "event_date", "event_hour"
"""Columns of the partition: they are in no file, their values stand in the manifests."""
COLUMNS_PROPERTY = "lakerunner.columns"
PREFIXES = ("resource_", "scope_", "attr_")

Use = tuple[int, int]
"""Field id of an attribute, and number of live files that have it with this type."""
Registry = Mapping[str, Mapping[str, Use]]
"""Attributes that any file ever had: name, then type."""

_PRIMITIVES: dict[pa.DataType, PrimitiveType] = {
    pa.string(): StringType(),
    pa.int64(): LongType(),
    pa.int32(): IntegerType(),
    pa.float64(): DoubleType(),
    pa.bool_(): BooleanType(),
    pa.binary(): BinaryType(),
}


class ColumnTypeError(ValueError):
    """A column of a file has a type that tables cannot have."""


def kind_of(dataset: str) -> Segments:
    """Return the kind of a dataset's segments.

    >>> kind_of("metrics-1h").value
    'rollups'
    """
    return Segments.ROLLUPS if dataset.startswith("metrics-") else Segments(dataset)


def system_schema(dataset: str) -> pa.Schema:
    """Return the columns that every table of the dataset has, in order."""
    partition = [pa.field(EVENT_DATE, pa.date32()), pa.field(EVENT_HOUR, pa.int32())]
    stored = [c for c in columns_in(kind_of(dataset)) if c.is_stored and c.name != CHQ_QUARANTINE_REASON]
    return pa.schema([*partition, *(pa.field(c.name, c.type) for c in stored)])


def primitive_of(type_: pa.DataType) -> PrimitiveType:
    """Return the type of an attribute in the table."""
    plain = type_.value_type if pa.types.is_dictionary(type_) else type_
    found = _PRIMITIVES.get(plain)
    if found is None:
        raise ColumnTypeError(f"attributes of type {type_} are unknown to open tables")
    return found


def attributes_of(file: pa.Schema, system: Iterable[str]) -> dict[str, str]:
    """Return the attributes of a file with their types, as the registry spells them."""
    known = set(system)
    strange = [name for name in file.names if name not in known and not name.startswith(PREFIXES)]
    if strange:
        raise ColumnTypeError(f"columns that are neither the system's nor attributes: {', '.join(strange)}")
    return {
        field.name: str(primitive_of(field.type))
        for field in file
        if field.name not in known and field.name.startswith(PREFIXES)
    }


@dataclass(frozen=True, slots=True)
class TableColumns:
    """Registry of a table, and what follows from it."""

    registry: dict[str, dict[str, Use]]
    last_id: int

    @classmethod
    def of(cls, properties: Mapping[str, str], last_column_id: int) -> TableColumns:
        """Read the registry from the properties of a table."""
        raw = json.loads(properties.get(COLUMNS_PROPERTY, "{}"))
        registry = {
            name: {kind: (int(one[0]), int(one[1])) for kind, one in kinds.items()}
            for name, kinds in raw.items()
        }
        ids = [one[0] for kinds in registry.values() for one in kinds.values()]
        return cls(registry, max([last_column_id, *ids]))

    def text(self) -> str:
        return json.dumps(self.registry, separators=(",", ":"), sort_keys=True)

    def with_files(self, files: Iterable[Mapping[str, str]]) -> TableColumns:
        """Add the attributes of files; new pairs of name and type get new ids."""
        counts = Counter(pair for file in files for pair in file.items())
        registry = {name: dict(kinds) for name, kinds in self.registry.items()}
        last_id = self.last_id
        for (name, kind), count in sorted(counts.items()):
            kinds = registry.setdefault(name, {})
            if kind not in kinds:
                last_id += 1
            field_id, files_before = kinds.get(kind, (last_id, 0))
            kinds[kind] = (field_id, files_before + count)
        return TableColumns(registry, last_id)

    def without_files(self, files: Iterable[Iterable[int]]) -> TableColumns:
        """Subtract files, given as the field ids that each has."""
        counts = Counter(field_id for file in files for field_id in file)
        registry = {
            name: {kind: (one[0], one[1] - counts[one[0]]) for kind, one in kinds.items()}
            for name, kinds in self.registry.items()
        }
        return TableColumns(registry, self.last_id)

    def agreed(self, most: int) -> dict[str, tuple[str, int]]:
        """Return type and id of the attributes of the schema: the first `most` that have one type."""
        found: dict[str, tuple[str, int]] = {}
        for name, kinds in sorted(
            self.registry.items(), key=lambda item: min(u[0] for u in item[1].values())
        ):
            live = [kind for kind, one in kinds.items() if one[1] > 0] or list(kinds)
            if len(live) == 1 and len(found) < most:
                found[name] = (live[0], kinds[live[0]][0])
        return found

    def left_out(self, most: int) -> dict[str, tuple[str, ...]]:
        """Return the attributes that are in live files and not in the schema, with their types."""
        inside = self.agreed(most)
        return {
            name: tuple(sorted(kind for kind, one in kinds.items() if one[1] > 0))
            for name, kinds in sorted(self.registry.items())
            if name not in inside and any(one[1] > 0 for one in kinds.values())
        }


def evolved(schema: Schema, columns: TableColumns, most: int, schema_id: int) -> Schema:
    """Return the schema with the agreed attributes; the very same object if it has them already."""
    agreed = columns.agreed(most)
    present = {f.name: (str(f.field_type), f.field_id) for f in schema.fields if f.name.startswith(PREFIXES)}
    present = {name: pair for name, pair in present.items() if name in columns.registry}
    if present == agreed:
        return schema
    system = [f for f in schema.fields if f.name not in columns.registry]
    kinds = {str(kind): kind for kind in _PRIMITIVES.values()}
    attributes = [
        NestedField(field_id, name, kinds[kind], required=False)
        for name, (kind, field_id) in sorted(agreed.items(), key=lambda item: item[1][1])
    ]
    return Schema(*system, *attributes, schema_id=schema_id)


def name_mapping(schema: Schema, columns: TableColumns) -> NameMapping:
    """Map every name that a file may have to a field id."""
    inside = {field.name for field in schema.fields}
    hidden = [
        MappedField.model_validate({"field-id": max(one[0] for one in kinds.values()), "names": [name]})
        for name, kinds in sorted(columns.registry.items())
        if name not in inside
    ]
    return NameMapping([*create_mapping_from_schema(schema).root, *hidden])
