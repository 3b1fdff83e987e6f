"""Clients of Flight SQL ask what there is: catalogs, tables, keys, and what the server can do.

The tables are those of `information_schema`, so that every door shows the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import pyarrow as pa

TABLES_QUERY = """
SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables
ORDER BY table_catalog, table_schema, table_name"""
TableRow = Mapping[str, str]
BASE_TABLE = "BASE TABLE"


def _needed(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


_REFERENCES = pa.schema(
    [
        ("pk_catalog_name", pa.string()), ("pk_db_schema_name", pa.string()),
        _needed("pk_table_name", pa.string()), _needed("pk_column_name", pa.string()),
        ("fk_catalog_name", pa.string()), ("fk_db_schema_name", pa.string()),
        _needed("fk_table_name", pa.string()), _needed("fk_column_name", pa.string()),
        _needed("key_sequence", pa.int32()), ("fk_key_name", pa.string()), ("pk_key_name", pa.string()),
        _needed("update_rule", pa.uint8()), _needed("delete_rule", pa.uint8()),
    ]
)  # fmt: skip
_TABLES = [
    ("catalog_name", pa.string()), ("db_schema_name", pa.string()),
    _needed("table_name", pa.string()), _needed("table_type", pa.string()),
]  # fmt: skip
_INFO_VALUES = (
    ("string_value", pa.string()), ("bool_value", pa.bool_()), ("bigint_value", pa.int64()),
    ("int32_bitmask", pa.int32()), ("string_list", pa.list_(pa.string())),
    ("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
)  # fmt: skip
_TEXT, _BOOL, _NUMBER = 0, 1, 3
"""Places of values in that union."""
SCHEMAS: Mapping[str, pa.Schema] = {
    "CommandGetCatalogs": pa.schema([_needed("catalog_name", pa.string())]),
    "CommandGetDbSchemas": pa.schema(
        [("catalog_name", pa.string()), _needed("db_schema_name", pa.string())]
    ),
    "CommandGetTables": pa.schema(_TABLES),
    "CommandGetTableTypes": pa.schema([_needed("table_type", pa.string())]),
    "CommandGetSqlInfo": pa.schema(
        [
            _needed("info_name", pa.uint32()),
            _needed("value", pa.dense_union([pa.field(*one) for one in _INFO_VALUES])),
        ]
    ),
    "CommandGetPrimaryKeys": pa.schema(
        [
            ("catalog_name", pa.string()), ("db_schema_name", pa.string()),
            _needed("table_name", pa.string()), _needed("column_name", pa.string()),
            _needed("key_sequence", pa.int32()), ("key_name", pa.string()),
        ]
    ),
    "CommandGetExportedKeys": _REFERENCES,
    "CommandGetImportedKeys": _REFERENCES,
    "CommandGetCrossReference": _REFERENCES,
    "CommandGetXdbcTypeInfo": pa.schema(
        [
            _needed("type_name", pa.string()), _needed("data_type", pa.int32()), ("column_size", pa.int32()),
            ("literal_prefix", pa.string()), ("literal_suffix", pa.string()),
            ("create_params", pa.list_(_needed("item", pa.string()))), _needed("nullable", pa.int32()),
            _needed("case_sensitive", pa.bool_()), _needed("searchable", pa.int32()),
            ("unsigned_attribute", pa.bool_()), _needed("fixed_prec_scale", pa.bool_()),
            ("auto_increment", pa.bool_()), ("local_type_name", pa.string()),
            ("minimum_scale", pa.int32()), ("maximum_scale", pa.int32()),
            _needed("sql_data_type", pa.int32()), ("datetime_subcode", pa.int32()),
            ("num_prec_radix", pa.int32()), ("interval_precision", pa.int32()),
        ]
    ),
}  # fmt: skip
"""Columns of the answer to each command; keys and types of other databases have no rows here."""
_INFO: Mapping[int, tuple[int, Any]] = {
    0: (_TEXT, "Lakerunner"),
    1: (_TEXT, version("lakerunner")),
    2: (_TEXT, pa.__version__),
    3: (_BOOL, True),  # read only
    4: (_BOOL, True),  # SQL
    5: (_BOOL, False),  # Substrait
    8: (_NUMBER, 0),  # no transactions
    9: (_BOOL, True),  # cancellation
    500: (_BOOL, False),  # no statements that change catalogs, schemas or tables
    501: (_BOOL, False),
    502: (_BOOL, False),
    503: (_NUMBER, 1),  # names are the same in upper and lower case
    504: (_TEXT, '"'),
    505: (_NUMBER, 1),
    506: (_BOOL, True),  # every listed table can be read
    507: (_NUMBER, 3),  # nulls come last
}


def schema_of(name: str, command: Any) -> pa.Schema:
    """Return the columns of the answer to a command of this name."""
    if name == "CommandGetTables" and command.include_schema:
        return pa.schema([*_TABLES, _needed("table_schema", pa.binary())])
    return SCHEMAS[name]


def answer_from(
    name: str, command: Any, tables: Sequence[TableRow], columns_of: Callable[[TableRow], pa.Schema]
) -> pa.Table:
    """Answer a command about the tables, or about the server.

    Without `tables` it is about the server; `columns_of` is called for tables whose columns are asked for.
    """
    schema = schema_of(name, command)
    if name == "CommandGetSqlInfo":
        return _server_info(tuple(command.info), schema)
    if name == "CommandGetCatalogs":
        return _rows(schema, sorted({(row["table_catalog"],) for row in tables}))
    if name == "CommandGetDbSchemas":
        found = {(row["table_catalog"], row["table_schema"]) for row in tables if _is_asked(row, command)}
        return _rows(schema, sorted(found))
    if name == "CommandGetTableTypes":
        return _rows(schema, sorted({(_type(row),) for row in tables}))
    if name == "CommandGetTables":
        return _rows(schema, _asked_tables(command, tables, columns_of))
    return schema.empty_table()


def _asked_tables(
    command: Any, tables: Sequence[TableRow], columns_of: Callable[[TableRow], pa.Schema]
) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    kinds = set(command.table_types)
    for row in tables:
        if not _is_asked(row, command) or (kinds and _type(row) not in kinds):
            continue
        if not _is_like(row["table_name"], command, "table_name_filter_pattern"):
            continue
        columns = (columns_of(row).serialize().to_pybytes(),) if command.include_schema else ()
        found.append((row["table_catalog"], row["table_schema"], row["table_name"], _type(row), *columns))
    return found


def _type(row: TableRow) -> str:
    """Name the type as drivers ask for it."""
    return "TABLE" if row["table_type"] == BASE_TABLE else row["table_type"]


def _is_asked(row: TableRow, command: Any) -> bool:
    if command.HasField("catalog") and command.catalog != row["table_catalog"]:
        return False
    return _is_like(row["table_schema"], command, "db_schema_filter_pattern")


def _is_like(name: str, command: Any, field: str) -> bool:
    return not command.HasField(field) or is_like(name, getattr(command, field))


def is_like(name: str, pattern: str) -> bool:
    r"""Compare as ILIKE does; a backslash takes the next character literally.

    >>> is_like("metrics_10s", r"metrics\_1%"), is_like("LOGS", "_ogs"), is_like("logs", r"log\_")
    (True, True, False)
    """
    reached = {0}
    symbols = iter(pattern.casefold())
    name = name.casefold()
    for symbol in symbols:
        if symbol == "%":
            reached = set(range(min(reached), len(name) + 1))
            continue
        wanted = next(symbols, symbol) if symbol == "\\" else symbol
        is_any = symbol == "_"
        reached = {at + 1 for at in reached if at < len(name) and (is_any or name[at] == wanted)}
        if not reached:
            return False
    return len(name) in reached


def _rows(schema: pa.Schema, rows: Sequence[tuple[object, ...]]) -> pa.Table:
    columns = [[row[place] for row in rows] for place in range(len(schema))]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _server_info(asked: tuple[int, ...], schema: pa.Schema) -> pa.Table:
    """Answer with what is known of the numbers asked for; without any, with everything."""
    chosen = [number for number in asked or _INFO if number in _INFO]
    values: list[list[object]] = [[] for _ in _INFO_VALUES]
    places, offsets = [], []
    for number in chosen:
        place, value = _INFO[number]
        places.append(place)
        offsets.append(len(values[place]))
        values[place].append(value)
    union = pa.UnionArray.from_dense(
        pa.array(places, pa.int8()),
        pa.array(offsets, pa.int32()),
        [pa.array(one, kind) for one, (_, kind) in zip(values, _INFO_VALUES, strict=True)],
        [name for name, _ in _INFO_VALUES],
    )
    return pa.Table.from_arrays([pa.array(chosen, pa.uint32()), union], schema=schema)
