"""Columns of a table: the agreed ones, whatever order files come and go in."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from lakerunner_assets.tables.columns import (
    ColumnTypeError,
    TableColumns,
    attributes_of,
    evolved,
    name_mapping,
    system_schema,
)

NAMES = st.sampled_from(["attr_a", "attr_b", "resource_c"])
KINDS = st.sampled_from(["long", "string", "double"])
FILES = st.lists(st.dictionaries(NAMES, KINDS), max_size=8)
SYSTEM = Schema(NestedField(1, "chq_tsns", LongType(), required=False))


def ids(columns: TableColumns, file: dict[str, str]) -> list[int]:
    return [columns.registry[name][kind][0] for name, kind in file.items()]


@given(FILES, FILES)
def test_schema_is_what_all_live_files_agree_on(stay: list[dict[str, str]], go: list[dict[str, str]]) -> None:
    """Oracle: look at the live files alone. A column that none has any more may stay."""
    columns = TableColumns({}, 1).with_files([*stay, *go])
    left = columns.without_files(ids(columns, file) for file in go)
    kinds: dict[str, set[str]] = {}
    for file in stay:
        for name, kind in file.items():
            kinds.setdefault(name, set()).add(kind)
    agreed = {name: kind for name, (kind, _) in left.agreed(100).items()}
    assert {n: k for n, k in agreed.items() if n in kinds} == {
        name: next(iter(found)) for name, found in kinds.items() if len(found) == 1
    }
    assert left.left_out(100) == {n: tuple(sorted(f)) for n, f in sorted(kinds.items()) if len(f) > 1}


@given(FILES)
def test_every_name_has_an_id_and_no_id_has_two_names(files: list[dict[str, str]]) -> None:
    columns = TableColumns({}, 1).with_files(files)
    schema = evolved(SYSTEM, columns, 2, 1)
    mapping = {name: field.field_id for field in name_mapping(schema, columns) for name in field.names}
    assert mapping.keys() == {"chq_tsns", *(name for file in files for name in file)}
    assert len(set(mapping.values())) == len(mapping)
    assert all(mapping[field.name] == field.field_id for field in schema.fields)
    assert len(schema.fields) <= 3
    assert evolved(schema, columns, 2, 2) is schema


@given(FILES)
def test_registry_survives_the_properties(files: list[dict[str, str]]) -> None:
    columns = TableColumns({}, 1).with_files(files)
    again = TableColumns.of({"lakerunner.columns": columns.text()}, 1)
    assert again.registry == columns.registry
    assert again.with_files(files).registry.keys() == columns.registry.keys()


def test_ids_are_never_given_twice() -> None:
    """A column that is left out is in no schema, so the table's own counter does not know its id."""
    columns = TableColumns({}, 5).with_files([{"attr_a": "long"}, {"attr_a": "string"}])
    later = TableColumns.of({"lakerunner.columns": columns.text()}, 5).with_files([{"attr_b": "long"}])
    assert later.registry["attr_b"]["long"][0] == 8


def test_columns_of_a_file() -> None:
    system = system_schema("logs").names
    file = pa.schema([
        ("chq_tsns", pa.int64()),
        ("attr_route", pa.dictionary(pa.int32(), pa.string())),
        ("resource_overflow", pa.map_(pa.string(), pa.string())),
        ("scope_name", pa.string()),
        ("attr_n", pa.float64()),
    ])  # fmt: skip
    assert attributes_of(file, system) == {"attr_route": "string", "attr_n": "double"}
    with pytest.raises(ColumnTypeError, match="neither the system's nor attributes: what"):
        attributes_of(pa.schema([("what", pa.int64())]), system)
    with pytest.raises(ColumnTypeError, match="unknown to open tables"):
        attributes_of(pa.schema([("attr_x", pa.time32("s"))]), system)


def test_system_columns_of_all_kinds_of_tables() -> None:
    assert "log_message" in system_schema("logs").names
    assert "chq_value_scaled" in system_schema("metrics").names
    assert {"chq_rollup_count", "chq_sketch"} <= set(system_schema("metrics-1h").names)
    assert "span_events" in system_schema("traces").names
