"""PostgreSQL's JDBC driver at the door, in a Java that Python talks to: the base of all JDBC clients."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyspark
import pytest
from litestar.testing import TestClient
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from lakerunner_cli.command import StackError
from lakerunner_cli.stack.jars import Jar, fetch, find_damaged
from lakerunner_cli.stack.java import find_java
from lakerunner_query.app import create_app
from resources.settings import Settings
from tests.support.query.lake import Lake, Line, Stack, free_port

pytestmark = pytest.mark.integration
DRIVER = Jar(
    "org/postgresql/postgresql/42.7.14/postgresql-42.7.14.jar",
    "73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c",
    1_221_004,
)
HOUR = "timestamp BETWEEN '2026-01-01' AND '2026-01-01 01:00'"
ROWS = 250
SLOW = (
    f"SELECT count(*) FROM {', '.join(f'logs {name}' for name in 'abcde')} "
    f"WHERE {' AND '.join(f'{name}.{HOUR}' for name in 'abcde')} "
    "AND a.attr_bytes + b.attr_bytes + c.attr_bytes < d.attr_bytes + e.attr_bytes"
)
"""A statement that somebody has to stop."""


@dataclass
class Jdbc:
    """A Java with the driver."""

    gateway: JavaGateway
    port: int

    def connect(self, options: str = "", key: str = "key-acme") -> Any:
        properties = self.gateway.jvm.java.util.Properties()
        properties.setProperty("user", "ann")
        properties.setProperty("password", key)
        address = f"jdbc:postgresql://127.0.0.1:{self.port}/lake?{options}"
        return self.gateway.jvm.java.sql.DriverManager.getConnection(address, properties)

    def texts(self, *values: str) -> Any:
        found = self.gateway.new_array(self.gateway.jvm.java.lang.String, len(values))
        for place, value in enumerate(values):
            found[place] = value
        return found

    def moment(self, text: str) -> Any:
        return self.gateway.jvm.java.sql.Timestamp.valueOf(text)


@pytest.fixture(scope="module")
def driver() -> Path:
    """The driver, downloaded once; there is no test where it cannot be."""
    settings = Settings.load()
    cache = settings.download_dir.expanduser()
    try:
        fetch(find_damaged([DRIVER], cache), cache, settings.maven_url, lambda _: None)
    except StackError as error:
        if "checksum" in str(error):
            raise
        pytest.skip(f"no JDBC driver: {error}")
    return DRIVER.in_cache(cache)


@pytest.fixture(scope="module")
def jdbc(driver: Path, lake: Lake, stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jdbc]:
    lake.add_org("acme", "key-acme")
    lines = [
        Line(n * 10**9, f"request {n}", level=(9, 17)[n % 2], attributes={"bytes": n}) for n in range(ROWS)
    ]
    lake.write("acme", lines)
    java = find_java(os.environ, tmp_path_factory.mktemp("java"))
    assert java is not None
    bridge = next((Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar"))
    # a time zone of its own: the driver tells it to the server, and clients convert with it
    port, token = launch_gateway(
        jarpath=str(bridge), classpath=str(driver), java_path=str(java.executable), die_on_exit=True,
        enable_auth=True, javaopts=["-Duser.timezone=Europe/Berlin"],
    )  # fmt: skip
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    settings = replace(stack.settings, query_postgres_port=free_port())
    try:
        with TestClient(create_app(settings, lake.index)):
            yield Jdbc(gateway, settings.query_postgres_port)
    finally:
        gateway.shutdown()


@pytest.fixture
def connection(jdbc: Jdbc) -> Iterator[Any]:
    found = jdbc.connect()
    yield found
    found.close()


def rows(result: Any) -> list[dict[str, str]]:
    """All rows, each value as text."""
    shape = result.getMetaData()
    names = [shape.getColumnLabel(place) for place in range(1, shape.getColumnCount() + 1)]
    found = []
    while result.next():
        found.append({name: result.getString(place) for place, name in enumerate(names, 1)})
    return found


def test_metadata_lists_tables_columns_and_no_keys(jdbc: Jdbc, connection: Any) -> None:
    about = connection.getMetaData()
    assert about.getDatabaseProductName() == "PostgreSQL"
    assert about.getDatabaseMajorVersion() == 15
    assert [one["TABLE_SCHEM"] for one in rows(about.getSchemas(None, "pub%"))] == ["public"]
    tables = rows(about.getTables(None, "public", "%", jdbc.texts("TABLE", "VIEW")))
    assert {"logs", "spans", "metrics", "traces"} <= {one["TABLE_NAME"] for one in tables}
    assert next(one["REMARKS"] for one in tables if one["TABLE_NAME"] == "logs") == "log records"
    columns = rows(about.getColumns(None, "public", "logs", "%"))
    kinds = {one["COLUMN_NAME"]: one["TYPE_NAME"] for one in columns}
    assert kinds["timestamp"] == "timestamp"
    assert kinds["message"] == "text"
    assert kinds["tsns"] == "int8"
    assert [int(one["ORDINAL_POSITION"]) for one in columns] == list(range(1, len(columns) + 1))
    for keys in (about.getPrimaryKeys, about.getImportedKeys, about.getExportedKeys):
        assert rows(keys(None, "public", "logs")) == []
    assert rows(about.getIndexInfo(None, "public", "logs", False, True)) == []


def test_the_rest_of_the_metadata_has_an_answer(connection: Any) -> None:
    about = connection.getMetaData()
    for ask in (
        about.getCatalogs, about.getTableTypes, about.getTypeInfo, about.getClientInfoProperties,
    ):  # fmt: skip
        assert rows(ask())
    assert "ilike" in about.getSQLKeywords()
    assert about.getMaxTableNameLength() == 63
    for result in (
        about.getTablePrivileges(None, "public", "logs"), about.getFunctions(None, None, "%"),
        about.getProcedures(None, None, "%"), about.getUDTs(None, None, "%", None),
        about.getBestRowIdentifier(None, "public", "logs", 0, True),
        about.getCrossReference(None, "public", "logs", None, "public", "spans"),
    ):  # fmt: skip
        rows(result)


@pytest.mark.parametrize(
    "options", ["", "preferQueryMode=simple", "prepareThreshold=1", "preferQueryMode=extendedForPrepared"]
)
def test_prepared_statements_take_parameters(jdbc: Jdbc, options: str) -> None:
    connection = jdbc.connect(options)
    try:
        sql = "SELECT message, attr_bytes FROM logs WHERE timestamp >= ? AND timestamp < ? AND severity = ?"
        prepared = connection.prepareStatement(f"{sql} AND attr_bytes >= ? ORDER BY timestamp LIMIT ?")
        for first in range(7):  # from the fifth on they are named and binary
            prepared.setTimestamp(1, jdbc.moment("2026-01-01 00:00:00"))
            prepared.setObject(2, jdbc.gateway.jvm.java.time.LocalDateTime.parse("2026-01-01T01:00:00"))
            prepared.setString(3, "ERROR")
            prepared.setLong(4, first)
            prepared.setInt(5, 2)
            start = first if first % 2 else first + 1
            expected = [{"message": f"request {n}", "attr_bytes": str(n)} for n in (start, start + 2)]
            assert rows(prepared.executeQuery()) == expected
    finally:
        connection.close()


def test_values_have_their_types_in_java(connection: Any) -> None:
    result = connection.createStatement().executeQuery(
        "SELECT timestamp, 1.5::DOUBLE, true, DATE '2026-01-02', 12.50::DECIMAL(10,2), "
        "INTERVAL '1 day 2 seconds', labels, [1, NULL, 3], NULL "
        f"FROM logs WHERE {HOUR} ORDER BY timestamp LIMIT 1"
    )
    assert result.next()
    assert str(result.getTimestamp(1)) == "2026-01-01 00:00:00.0"
    assert result.getObject(2) == 1.5
    assert result.getObject(3) is True
    assert str(result.getObject(4)) == "2026-01-02"
    assert str(result.getBigDecimal(5)) == "12.50"
    assert result.getObject(6).getDays() == 1
    assert '"service_name":"web"' in str(result.getObject(7)).replace(" ", "")
    assert list(result.getArray(8).getArray()) == [1, None, 3]
    assert result.getObject(9) is None
    assert result.getMetaData().getColumnTypeName(7) == "json"


def test_a_fetch_size_reads_in_portions(connection: Any) -> None:
    connection.setAutoCommit(False)
    statement = connection.createStatement()
    statement.setFetchSize(40)
    result = statement.executeQuery(f"SELECT attr_bytes FROM logs WHERE {HOUR} ORDER BY 1")
    seen = []
    while result.next():
        seen.append(result.getInt(1))
        if len(seen) == 40:  # the connection is free between two portions
            other = connection.createStatement().executeQuery(f"SELECT count(*) AS n FROM logs WHERE {HOUR}")
            assert rows(other) == [{"n": str(ROWS)}]
    connection.commit()
    assert seen == list(range(ROWS))


def test_cancel_and_the_timeout_of_a_query_stop_it_alone(connection: Any) -> None:
    statement = connection.createStatement()
    threading.Timer(0.5, statement.cancel).start()
    with pytest.raises(Py4JJavaError) as caught:
        statement.executeQuery(SLOW)
    assert caught.value.java_exception.getSQLState() == "57014"
    statement.setQueryTimeout(1)
    with pytest.raises(Py4JJavaError) as caught:
        statement.executeQuery(SLOW)
    assert caught.value.java_exception.getSQLState() == "57014"
    assert rows(connection.createStatement().executeQuery("SELECT 1 AS one")) == [{"one": "1"}]


def test_a_connection_takes_what_pools_and_tools_set(connection: Any) -> None:
    connection.setReadOnly(True)
    connection.setTransactionIsolation(2)
    assert connection.getTransactionIsolation() == 2
    connection.setSchema("public")
    assert connection.getSchema() == "public"
    assert connection.getCatalog() == "lake"
    connection.setClientInfo("ApplicationName", "a tool")
    assert connection.isValid(5)


@pytest.mark.parametrize(
    ("statement", "state"),
    [
        ("INSERT INTO logs VALUES (1)", "25006"),
        ("SELECT nope FROM logs", "42601"),
        ("COPY logs TO STDOUT", "0A000"),
    ],
)
def test_what_is_refused_has_its_state(connection: Any, statement: str, state: str) -> None:
    with pytest.raises(Py4JJavaError) as caught:
        connection.createStatement().execute(statement)
    assert caught.value.java_exception.getSQLState() == state


def test_a_wrong_key_is_refused(jdbc: Jdbc) -> None:
    with pytest.raises(Py4JJavaError) as caught:
        jdbc.connect(key="nope")
    assert caught.value.java_exception.getSQLState() == "28P01"
