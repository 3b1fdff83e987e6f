"""The Flight SQL door as its drivers see it: ADBC, pandas, polars, and pyarrow's own client."""

from __future__ import annotations

import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import grpc
import msgspec
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from adbc_driver_manager import Error as AdbcError
from litestar.testing import TestClient
from pyarrow import flight

from lakerunner_query.app import create_app
from lakerunner_query.protocol.units import Missing
from resources.proto import flight_sql as sql
from resources.settings import Settings
from tests.support.patience import PATIENCE_S, wait_for
from tests.support.query.fake_lakeql import FakeLakeQL
from tests.support.query.flight_door import DoorProcess, OpenDoor, flight_door
from tests.support.query.flight_wire import SERVICE, Sessions, flight_data
from tests.support.query.lake import Lake, Line, Stack, free_port

pytestmark = pytest.mark.integration
AUTHORIZATION = "adbc.flight.sql.authorization_header"
HEADER = "adbc.flight.sql.rpc.call_header."
SERVICES = "SELECT service_name, count(*) AS n FROM logs GROUP BY 1 ORDER BY 1"


@pytest.fixture(scope="module")
def lakeql() -> Iterator[FakeLakeQL]:
    fake = FakeLakeQL(rows=5000)
    yield fake
    fake.close()


@pytest.fixture(scope="module")
def door(lakeql: FakeLakeQL) -> Iterator[OpenDoor]:
    with flight_door(lakeql, query_max_streams=4) as found:
        yield found


def connect(address: str, key: str = "key-acme", **headers: str) -> Any:
    options = {AUTHORIZATION: f"Bearer {key}", **{HEADER + name: text for name, text in headers.items()}}
    return adbc.connect(address, db_kwargs=options, autocommit=True)


@pytest.fixture
def connection(door: OpenDoor) -> Iterator[Any]:
    with connect(door.address) as found:
        yield found


def fetch(connection: Any, text: str, parameters: tuple[object, ...] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(text, parameters)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


# --- drivers ----------------------------------------------------------------------------------------


def test_rows_and_columns(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(SERVICES)
        assert cursor.fetchall() == [("payments", 2500), ("web", 2500)]
        assert [column[0] for column in cursor.description] == ["service_name", "n"]
        cursor.execute("SELECT * FROM logs")
        table = cursor.fetch_arrow_table()
        assert (table.num_rows, table.schema.field("timestamp").type) == (5000, pa.timestamp("us"))
        assert table["attributes"][1].as_py() == [("user", "ann"), ("i", "1")]


def test_user_and_password(door: OpenDoor) -> None:
    login = {"username": "anybody", "password": "key-acme"}
    with adbc.connect(door.address, db_kwargs=login, autocommit=True) as found:
        assert fetch(found, "SELECT DISTINCT organization_id FROM logs") == [("acme",)]


def test_organisations_see_their_own_rows(door: OpenDoor) -> None:
    with connect(door.address, "key-globex") as found:
        assert fetch(found, "SELECT DISTINCT organization_id FROM logs") == [("globex",)]
    other = {"x-scope-orgid": "globex"}
    with connect(door.address, **other) as found, pytest.raises(AdbcError, match="API key is of 'acme'"):
        fetch(found, SERVICES)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({AUTHORIZATION: "Bearer wrong"}, "unknown, revoked or expired"),
        ({"username": "x", "password": "wrong"}, "unknown, revoked or expired"),
        ({AUTHORIZATION: "Bearer key-writer"}, "role 'write'"),
        ({}, "no API key"),
    ],
)
def test_wrong_keys(door: OpenDoor, options: dict[str, str], reason: str) -> None:
    with pytest.raises(AdbcError, match=reason):  # noqa: SIM117 - opening may fail or asking
        with adbc.connect(door.address, db_kwargs=options, autocommit=True) as found:
            fetch(found, SERVICES)


def test_parameters_and_prepared_statements(connection: Any) -> None:
    text = "SELECT message FROM logs WHERE duration_ms = $1 AND service_name = $2"
    with connection.cursor() as cursor:
        assert cursor.adbc_prepare(text).names == ["1", "2"]
        for number, service in ((7, "payments"), (8, "web"), (9, "web")):
            cursor.execute(text, (number, service))
            assert cursor.fetchall() == ([(f"line {number} of acme",)] if number != 9 else [])
        with pytest.raises(AdbcError, match="2 parameters, 1 are bound"):
            cursor.execute(text, (7,))
        with pytest.raises(AdbcError, match="expected one row of parameters, found 2"):
            cursor.execute(text, pa.record_batch({"1": [7, 8], "2": ["web", "web"]}))


def test_pandas_reads(connection: Any) -> None:
    frame = pd.read_sql(SERVICES, connection)
    assert frame.to_dict("list") == {"service_name": ["payments", "web"], "n": [2500, 2500]}


def test_polars_reads(connection: Any) -> None:
    frame = pl.read_database(SERVICES, connection)
    assert frame.rows() == [("payments", 2500), ("web", 2500)]


def test_what_there_is(connection: Any) -> None:
    assert connection.adbc_get_info()["vendor_name"] == "Lakerunner"
    (catalog,) = connection.adbc_get_objects(depth="columns").read_all().to_pylist()
    tables = {
        table["table_name"]: [column["column_name"] for column in table["table_columns"]]
        for schema in catalog["catalog_db_schemas"]
        for table in schema["db_schema_tables"]
    }
    assert tables["metrics"] == ["timestamp", "organization_id", "metric_name", "value"]
    assert {"logs", "spans"} < tables.keys()
    assert "message" in connection.adbc_get_table_schema("logs").names
    assert connection.adbc_get_table_types() == ["TABLE"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT message,\n  nope FROM logs", "line 2, col 3"),
        ("SELEC", "line 1, col 1"),
        ("SELECT * FROM elsewhere", "elsewhere"),
    ],
)
def test_errors_name_the_place_and_nothing_of_the_server(connection: Any, text: str, reason: str) -> None:
    with pytest.raises(AdbcError, match=reason) as error:
        fetch(connection, text)
    assert "Traceback" not in str(error.value)
    assert ".py" not in str(error.value)


def test_cancelling_ends_the_work(door: OpenDoor, connection: Any) -> None:
    ends: list[Exception] = []

    def wait_for_rows() -> None:
        try:
            cursor.fetchall()
        except (AdbcError, OSError) as error:
            ends.append(error)

    with connection.cursor() as cursor:
        cursor.execute("SELECT 'waiting', message FROM logs")
        waiting = threading.Thread(target=wait_for_rows)
        waiting.start()
        wait_for(lambda: door.lakeql.open_answers)
        cursor.adbc_cancel()
        wait_for(lambda: not door.lakeql.open_answers)
        waiting.join()
        assert len(ends) == 1


def test_a_client_that_goes_away_ends_the_work(door: OpenDoor) -> None:
    found = connect(door.address)
    cursor = found.cursor()
    cursor.execute("SELECT 'endless', message FROM logs")
    reader = cursor.fetch_record_batch()
    assert reader.read_next_batch().num_rows == 1000
    assert door.lakeql.open_answers == 1
    reader.close()
    cursor.close()
    found.close()
    wait_for(lambda: not door.lakeql.open_answers)


def test_partial_answers_end_with_an_error_unless_they_are_taken(door: OpenDoor, lakeql: FakeLakeQL) -> None:
    lakeql.missing = {"s1": Missing("s1", "gone")}
    try:
        with connect(door.address) as found, pytest.raises((AdbcError, OSError), match="s1: gone"):
            fetch(found, "SELECT message FROM logs")
        with connect(door.address, **{"x-lakerunner-partial-response": "true"}) as found:
            assert len(fetch(found, "SELECT message FROM logs")) == 5000
    finally:
        lakeql.missing = {}


# --- the protocol itself ----------------------------------------------------------------------------


@pytest.fixture
def client(door: OpenDoor) -> Iterator[flight.FlightClient]:
    with flight.connect(door.address) as found:
        yield found


def as_key(key: str = "key-acme") -> flight.FlightCallOptions:
    return flight.FlightCallOptions(
        headers=[(b"authorization", f"Bearer {key}".encode())], timeout=PATIENCE_S
    )


def info_of(client: flight.FlightClient, text: str, key: str = "key-acme") -> flight.FlightInfo:
    command = sql.pack(sql._SQL["CommandStatementQuery"](query=text))
    return client.get_flight_info(flight.FlightDescriptor.for_command(command), as_key(key))


def chunks(client: flight.FlightClient, info: flight.FlightInfo, key: str = "key-acme") -> list[Any]:
    return list(client.do_get(info.endpoints[0].ticket, as_key(key)))


def test_the_last_batch_is_empty_and_tells_how_it_went(
    client: flight.FlightClient, lakeql: FakeLakeQL
) -> None:
    lakeql.notices = ["logs: read the last hour"]
    try:
        reader = client.do_get(info_of(client, "SELECT message FROM logs").endpoints[0].ticket, as_key())
        *batches, last = list(reader)
    finally:
        lakeql.notices = []
    assert msgspec.json.decode(reader.schema.metadata[b"notices"]) == ["logs: read the last hour"]
    assert sum(chunk.data.num_rows for chunk in batches) == 5000
    assert last.data.num_rows == 0
    told = msgspec.json.decode(last.app_metadata.to_pybytes())
    assert told["statistics"]["rows"] == 5000
    assert told["notices"] == ["logs: read the last hour"]


def test_a_ticket_is_of_its_organisation(client: flight.FlightClient) -> None:
    info = info_of(client, "SELECT 1 AS one")
    assert chunks(client, info)[0].data.to_pylist() == [{"one": 1}]
    assert chunks(client, info)[0].data.to_pylist() == [{"one": 1}]
    with pytest.raises(flight.FlightServerError, match="unknown ticket"):
        chunks(client, info, "key-globex")


def test_a_prepared_statement_is_of_its_organisation(client: flight.FlightClient) -> None:
    asked = sql.pack(sql.CreatePreparedStatement(query="SELECT 1 AS one"))
    (made,) = client.do_action(("CreatePreparedStatement", asked), as_key())
    handle = sql.unpack(made.body.to_pybytes(), sql.CreatedPreparedStatement).prepared_statement_handle
    closing = sql.pack(sql.ClosePreparedStatement(prepared_statement_handle=handle))
    with pytest.raises(flight.FlightServerError, match="unknown prepared statement"):
        list(client.do_action(("ClosePreparedStatement", closing), as_key("key-globex")))
    assert list(client.do_action(("ClosePreparedStatement", closing), as_key())) == []
    with pytest.raises(flight.FlightServerError, match="unknown prepared statement"):
        list(client.do_action(("ClosePreparedStatement", closing), as_key()))


@pytest.mark.parametrize("action", ["CancelFlightInfo", "CancelQuery"])
def test_cancelling_by_action(client: flight.FlightClient, door: OpenDoor, action: str) -> None:
    info = info_of(client, "SELECT 'endless', message FROM logs")
    reader = client.do_get(info.endpoints[0].ticket, as_key())
    reader.read_chunk()
    raw = info.serialize()
    asked = sql.pack(sql.CancelQuery(info=raw))
    if action == "CancelFlightInfo":
        asked = sql.CancelFlightInfo(info=sql.FlightInfo.FromString(raw)).SerializeToString()
    with pytest.raises(flight.FlightServerError, match="unknown ticket"):
        list(client.do_action((action, asked), as_key("key-globex")))
    assert door.lakeql.open_answers == 1
    (told,) = client.do_action((action, asked), as_key())
    body = told.body.to_pybytes()
    if action == "CancelFlightInfo":
        assert sql.CancelFlightInfoResult.FromString(body).status == sql.CANCELLED
    else:
        assert sql.unpack(body, sql.CancelQueryResult).result == sql.CANCELLED
    wait_for(lambda: not door.lakeql.open_answers)
    with pytest.raises(flight.FlightCancelledError):
        list(reader)
    with pytest.raises(flight.FlightCancelledError):
        client.do_get(info.endpoints[0].ticket, as_key()).read_chunk()


def test_so_many_results_at_a_time(client: flight.FlightClient, door: OpenDoor) -> None:
    info = info_of(client, "SELECT 'endless', message FROM logs")
    readers = [client.do_get(info.endpoints[0].ticket, as_key()) for _ in range(4)]
    for reader in readers:
        reader.read_chunk()
    with pytest.raises(flight.FlightUnavailableError, match="4 results of this organisation"):
        client.do_get(info.endpoints[0].ticket, as_key()).read_chunk()
    theirs = info_of(client, "SELECT 1 AS one", "key-globex")
    assert chunks(client, theirs, "key-globex")[0].data.num_rows == 1
    for reader in readers:
        reader.cancel()
    wait_for(lambda: not door.lakeql.open_answers)


def test_sessions_and_actions(client: flight.FlightClient) -> None:
    (told,) = client.do_action(("CloseSession", b""), as_key())
    assert sql.CloseSessionResult.FromString(told.body.to_pybytes()).status == sql.CLOSED
    assert {"CancelFlightInfo", "CreatePreparedStatement"} < {
        one.type for one in client.list_actions(as_key())
    }
    with pytest.raises(flight.FlightServerError, match="no action 'BeginTransaction'"):
        list(client.do_action(("BeginTransaction", b""), as_key()))


def test_what_is_no_part_of_flight_sql_is_refused(client: flight.FlightClient) -> None:
    with pytest.raises(flight.FlightServerError, match="no list of flights"):
        list(client.list_flights(options=as_key()))
    path = flight.FlightDescriptor.for_path("logs")
    with pytest.raises(flight.FlightServerError, match="no message of Flight SQL"):
        client.get_flight_info(path, as_key())
    writer, reader = client.do_exchange(path, as_key())
    with pytest.raises(flight.FlightServerError, match="nothing is exchanged"):
        reader.read_chunk()
    with pytest.raises(flight.FlightServerError, match="nothing is exchanged"):
        writer.close()


def test_columns_are_told_without_a_result(client: flight.FlightClient, lakeql: FakeLakeQL) -> None:
    command = sql.pack(sql._SQL["CommandStatementQuery"](query="SELECT message, $1 AS given FROM logs"))
    before = len(lakeql.asked)
    found = client.get_schema(flight.FlightDescriptor.for_command(command), as_key())
    assert found.schema.names == ["message", "given"]
    assert len(lakeql.asked) == before


def test_nothing_is_written(client: flight.FlightClient) -> None:
    update = sql.pack(sql._SQL["CommandStatementUpdate"](query="DELETE FROM logs"))
    descriptor = flight.FlightDescriptor.for_command(update)
    with pytest.raises(flight.FlightServerError, match="read-only"):
        client.get_flight_info(descriptor, as_key())
    writer, _ = client.do_put(descriptor, pa.schema([]), as_key())
    with pytest.raises(flight.FlightServerError, match="read-only"):
        writer.close()


def test_large_parameters_are_refused(client: flight.FlightClient) -> None:
    asked = sql.pack(sql.CreatePreparedStatement(query="SELECT $1 AS one"))
    (made,) = client.do_action(("CreatePreparedStatement", asked), as_key())
    handle = sql.unpack(made.body.to_pybytes(), sql.CreatedPreparedStatement).prepared_statement_handle
    command = sql.pack(sql._SQL["CommandPreparedStatementQuery"](prepared_statement_handle=handle))
    batch = pa.record_batch({"1": ["x" * (2 << 20)]})
    writer, reader = client.do_put(flight.FlightDescriptor.for_command(command), batch.schema, as_key())
    with pytest.raises(flight.FlightServerError, match="parameters take more than"):  # noqa: PT012
        writer.write_batch(batch)
        writer.done_writing()
        reader.read()
        writer.close()


def test_parameters_that_lie_about_their_size_are_refused(
    client: flight.FlightClient, door: OpenDoor
) -> None:
    """Offsets beyond a text would show memory of the server as a parameter."""
    asked = sql.pack(sql.CreatePreparedStatement(query="SELECT $1 AS one"))
    (made,) = client.do_action(("CreatePreparedStatement", asked), as_key())
    handle = sql.unpack(made.body.to_pybytes(), sql.CreatedPreparedStatement).prepared_statement_handle
    command = sql.pack(sql._SQL["CommandPreparedStatementQuery"](prepared_statement_handle=handle))
    columns, rows = flight_data(pa.record_batch({"1": ["short"]}), command)
    lying = rows.replace(struct.pack("<ii", 0, 5), struct.pack("<ii", 0, 1 << 20))
    with grpc.insecure_channel(door.address.removeprefix("grpc://")) as channel:
        put = channel.stream_stream(f"{SERVICE}DoPut")
        for sent, reason in ((rows, ""), (lying, "no stream of Arrow batches")):
            call = put(iter([columns, sent]), metadata=[("authorization", "Bearer key-acme")], timeout=120)
            with pytest.raises(grpc.RpcError) if reason else nullcontext() as error:
                list(call)
            assert not reason or reason in error.value.details()


def test_errors_of_get_schema_show_nothing_of_the_server(client: flight.FlightClient) -> None:
    command = sql.pack(sql._SQL["CommandStatementQuery"](query="SELECT nope FROM logs"))
    with pytest.raises(pa.ArrowException, match="line 1, col 8") as error:
        client.get_schema(flight.FlightDescriptor.for_command(command), as_key())
    assert "Traceback" not in str(error.value)
    assert ".py" not in str(error.value)


@pytest.mark.parametrize("seed", [14, 15])
def test_spoiled_messages_are_answered_with_errors(seed: int) -> None:
    """The short form of `benchmarks/fuzz_flight`: no crash, no unforeseen failure, nothing stays behind."""
    with DoorProcess() as door:
        found = next(one for one in Sessions(seed, door.port) if one.calls >= 700 or door.end is not None)
        assert door.end is None, "the server crashed"
        assert door.is_idle()
        assert not door.failures()
    assert door.end == 0
    assert not found.defects
    assert min(found.codes["OK"], found.codes["UNKNOWN"], found.codes["UNAUTHENTICATED"]) > 20, found.codes


def test_tls(lakeql: FakeLakeQL, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-keyout", key, "-out", certificate]
    subprocess.run(["openssl", *new, *subject], check=True, capture_output=True)
    files = {"query_tls_certificate": str(certificate), "query_tls_key": str(key)}
    with flight_door(lakeql, **files) as secure:
        address = f"grpc+tls://localhost:{secure.door.port}"
        options = {
            AUTHORIZATION: "Bearer key-acme",
            "adbc.flight.sql.client_option.tls_root_certs": certificate.read_text(),
        }
        with adbc.connect(address, db_kwargs=options, autocommit=True) as found:
            assert fetch(found, "SELECT 1 AS one") == [(1,)]
        with flight.connect(secure.address) as plain, pytest.raises(flight.FlightError):
            info_of(plain, "SELECT 1")


def test_a_door_closes_while_results_are_read(lakeql: FakeLakeQL) -> None:
    with flight_door(lakeql) as closing, flight.connect(closing.address) as client:
        info = info_of(client, "SELECT 'endless', message FROM logs")
        reader = client.do_get(info.endpoints[0].ticket, as_key())
        reader.read_chunk()
    assert lakeql.open_answers == 0


# --- the whole path ---------------------------------------------------------------------------------


def test_a_lake_is_read_through_the_door_of_the_api(lake: Lake, stack: Stack) -> None:
    lake.add_org("acme", "key-acme")
    lake.add_org("globex", "key-globex")
    lake.write("acme", [Line(1, "GET /"), Line(2, "refused", "payments", 17)])
    lake.write("globex", [Line(1, "theirs")])
    settings = Settings(
        **{name: getattr(stack.settings, name) for name in ("data_dir", "worker_urls", "internal_token")},
        query_flight_port=free_port(),
    )
    text = "SELECT service_name, message FROM logs WHERE timestamp >= TIMESTAMP '2026-01-01' ORDER BY 2"
    address = f"grpc://127.0.0.1:{settings.query_flight_port}"
    with TestClient(create_app(settings, lake.index)) as http:
        with connect(address) as found:
            assert fetch(found, text) == [("web", "GET /"), ("payments", "refused")]
            assert pd.read_sql(text, found)["message"].tolist() == ["GET /", "refused"]
            assert pl.read_database(text, found)["message"].to_list() == ["GET /", "refused"]
            assert "logs" in str(found.adbc_get_objects(depth="tables").read_all().to_pylist())
            by_service = "SELECT count(*) FROM logs WHERE service_name = $1 AND timestamp >= '2026-01-01'"
            assert fetch(found, by_service, ("payments",)) == [(1,)]
            assert any("scan 0" in line for (line,) in fetch(found, f"EXPLAIN {text}"))
            assert found.adbc_get_table_schema("logs").names[0] == "timestamp"
        with connect(address, "key-globex") as found:
            assert fetch(found, text) == [("web", "theirs")]
        body = {"q": "SELECT INTERVAL 90 MINUTE AS i, [1, 2] AS l"}
        for accept, answer in (
            ("text/csv", '"P0M0DT5400S","[1,2]"\n'),
            ("application/json", '["P0M0DT5400S",[1,2]]'),
        ):
            sent = {"api-key": "key-acme", "Accept": accept}
            assert answer in http.post("/api/v1/query", json=body, headers=sent).text
    with pytest.raises(AdbcError), connect(address) as found:
        fetch(found, text)
