"""Answers about tables and about the server, as drivers of Flight SQL ask for them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakerunner_query.api.flight.catalogue import SCHEMAS, TableRow, answer_from, is_like, schema_of
from resources.proto import flight_sql as sql
from resources.proto.parsing import NotAMessageError

ROWS = [
    {"table_catalog": "lake", "table_schema": "main", "table_name": name, "table_type": kind}
    for name, kind in (("logs", "BASE TABLE"), ("metrics_10s", "BASE TABLE"), ("table_semantics", "VIEW"))
]


def answer(name: str, **fields: Any) -> list[dict[str, Any]]:
    command = sql._SQL[name](**fields)
    found = answer_from(name, command, ROWS, columns_of)
    assert found.schema.equals(schema_of(name, command))
    return found.to_pylist()


def columns_of(row: TableRow) -> pa.Schema:
    return pa.schema([(f"of {row['table_name']}", pa.int64())])


def names(**fields: Any) -> list[str]:
    return [row["table_name"] for row in answer("CommandGetTables", **fields)]


def test_catalogs_schemas_and_types() -> None:
    assert answer("CommandGetCatalogs") == [{"catalog_name": "lake"}]
    assert answer("CommandGetDbSchemas") == [{"catalog_name": "lake", "db_schema_name": "main"}]
    assert answer("CommandGetDbSchemas", catalog="other") == []
    assert answer("CommandGetDbSchemas", db_schema_filter_pattern="m_in") != []
    assert answer("CommandGetTableTypes") == [{"table_type": "TABLE"}, {"table_type": "VIEW"}]


def test_tables_by_name_type_and_schema() -> None:
    assert names() == ["logs", "metrics_10s", "table_semantics"]
    assert names(table_name_filter_pattern="metrics%") == ["metrics_10s"]
    assert names(table_types=["VIEW"]) == ["table_semantics"]
    assert names(catalog="") == []
    assert names(db_schema_filter_pattern="other") == []


def test_columns_come_on_request() -> None:
    (row,) = answer("CommandGetTables", include_schema=True, table_name_filter_pattern="LOGS")
    assert pa.ipc.read_schema(pa.py_buffer(row["table_schema"])).names == ["of logs"]
    assert "table_schema" not in answer("CommandGetTables")[0]


@pytest.mark.parametrize(
    "name", [name for name in SCHEMAS if "Key" in name or name == "CommandGetCrossReference"]
)
def test_there_are_no_keys(name: str) -> None:
    assert answer(name) == []
    assert answer("CommandGetXdbcTypeInfo") == []


def test_the_server_is_read_only_and_cancels() -> None:
    told = {row["info_name"]: row["value"] for row in answer("CommandGetSqlInfo")}
    assert (told[0], told[3], told[4], told[8], told[9]) == ("Lakerunner", True, True, 0, True)
    assert answer("CommandGetSqlInfo", info=[3, 77_777]) == [{"info_name": 3, "value": True}]


@pytest.mark.parametrize(
    ("name", "pattern", "matches"),
    [
        ("logs", "%", True), ("logs", "", False), ("", "%%", True), ("logs", "l%s", True),
        ("logs", "l%g", False), ("logs", "____", True), ("logs", "_____", False), ("LOGS", "logs", True),
        ("a_b", r"a\_b", True), ("axb", r"a\_b", False), ("a%", "a\\%", True), ("aaab", "%a%b", True),
        ("a\\", "a\\", True), ("a" * 200, "%a" * 100 + "b", False),
    ],
)  # fmt: skip
def test_patterns(name: str, pattern: str, matches: bool) -> None:
    assert is_like(name, pattern) is matches


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff", "cut short|no field tag"),
        (b"", "no message of Flight SQL"),
        (sql._Any(type_url="type.googleapis.com/google.protobuf.Any").SerializeToString(), "no message of"),
        (sql._Any(type_url=f"{sql._PREFIX}Nope").SerializeToString(), "no message of Flight SQL"),
        (sql._Any(type_url=f"{sql._PREFIX}CommandGetTables", value=b"\x08").SerializeToString(), "byte"),
    ],
)
def test_other_messages_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(NotAMessageError, match=reason):
        sql.unpack(data)


def test_the_kind_of_a_message_is_checked() -> None:
    packed = sql.pack(sql.StatementTicket(statement_handle=b"x"))
    assert sql.unpack(packed, sql.StatementTicket).statement_handle == b"x"
    with pytest.raises(NotAMessageError, match="expected ActionCancelQueryRequest"):
        sql.unpack(packed, sql.CancelQuery)
