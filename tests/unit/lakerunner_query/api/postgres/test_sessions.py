"""Sessions of psycopg: what a client of a read-only PostgreSQL expects, and the limits of this one."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Iterator
from decimal import Decimal

import psycopg
import pytest
from psycopg import errors
from psycopg.rows import dict_row

from lakerunner_query.protocol.units import Missing
from tests.support.query.postgres_door import RunningDoor

AT = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - the type of the column has no zone
Connection = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def pg(door: RunningDoor) -> Iterator[Connection]:
    with psycopg.connect(door.dsn(), autocommit=True) as connection:
        yield connection


def test_rows_have_the_types_of_their_columns(pg: Connection) -> None:
    for binary in (False, True):
        with pg.cursor(binary=binary) as cursor:
            cursor.execute(
                "SELECT timestamp, message, duration_ms, attributes, NULL, 1.5::DOUBLE, true, "
                "DATE '2026-01-02', "
                "12.50::DECIMAL(10,2), [1, NULL, 3], ['a b', 'c'], 'x'::BLOB, "
                "INTERVAL '1 day 2 seconds', TIME '10:00:01.5' "
                "FROM logs ORDER BY timestamp LIMIT 1"
            )
            assert cursor.fetchone() == (
                AT, "line 0 of acme", 0, {"user": "ann", "i": "0"}, None, 1.5, True,
                dt.date(2026, 1, 2), Decimal("12.50"), [1, None, 3], ["a b", "c"], b"x",
                dt.timedelta(days=1, seconds=2), dt.time(10, 0, 1, 500000),
            )  # fmt: skip


def test_parameters_of_all_types_reach_the_statement(pg: Connection, door: RunningDoor) -> None:
    at = AT + dt.timedelta(seconds=5)
    for binary in ("%s", "%b", "%t"):
        query = (
            "SELECT message FROM logs WHERE timestamp = % AND duration_ms = % AND service_name = % LIMIT %"
        )
        found = pg.execute(query.replace("%", binary), (at, 5, "payments", 1)).fetchall()
        assert found == [("line 5 of acme",)]
    zoned = at.replace(tzinfo=dt.UTC)
    assert pg.execute("SELECT count(*) FROM logs WHERE timestamp <= %s", (zoned,)).fetchone() == (6,)
    assert pg.execute("SELECT %s::DOUBLE + 1, %s::BOOLEAN, %s", (1.5, True, None)).fetchone() == (
        2.5,
        True,
        None,
    )
    with pytest.raises(errors.FeatureNotSupported, match="parameters of the type"):
        pg.execute("SELECT %s", ([1, 2],))
    with pytest.raises(errors.InvalidTextRepresentation):
        pg.execute("SELECT * FROM logs LIMIT %t", ("many",))


def test_a_prepared_statement_is_reused(pg: Connection) -> None:
    for number in range(8):
        found = pg.execute("SELECT duration_ms FROM logs WHERE duration_ms = %s", (number,), prepare=True)
        assert found.fetchall() == [(number,)]


def test_cursors_of_the_server_are_read_in_portions(pg: Connection, door: RunningDoor) -> None:
    before = door.lakeql.produced
    with pg.transaction(), pg.cursor("far", row_factory=dict_row) as cursor:
        cursor.itersize = 10
        cursor.execute("SELECT duration_ms FROM logs WHERE 'endless' <> %s", ("",))
        rows = [row["duration_ms"] for _ in range(250) for row in cursor.fetchmany(10)]
        assert rows[:5] == [0, 1, 2, 3, 4]
        assert len(rows) == 2500
        assert door.lakeql.produced - before < 10  # the next batch is made when it is asked for
        assert cursor.fetchmany(3)[0]["duration_ms"] == 2500
    assert door.eventually(lambda: door.lakeql.open_answers == 0)


def test_a_held_cursor_outlives_its_transaction_and_others_do_not(pg: Connection) -> None:
    with pg.transaction():
        pg.execute("DECLARE held CURSOR WITH HOLD FOR SELECT duration_ms FROM logs ORDER BY 1")
        pg.execute('DECLARE "Brief" NO SCROLL CURSOR FOR SELECT 1')
        assert pg.execute('FETCH ALL FROM "Brief"').fetchall() == [(1,)]
    assert pg.execute("FETCH FORWARD 2 FROM held").fetchall() == [(0,), (1,)]
    assert pg.execute("MOVE 3 IN held").statusmessage == "MOVE 3"
    assert pg.execute("FETCH NEXT FROM held").fetchall() == [(5,)]
    with pytest.raises(errors.ObjectNotInPrerequisiteState):
        pg.execute("FETCH BACKWARD 1 FROM held")
    with pytest.raises(errors.InvalidCursorName):
        pg.execute('FETCH 1 FROM "Brief"')
    pg.execute("CLOSE held")
    with pytest.raises(errors.NoActiveSqlTransaction):
        pg.execute("DECLARE alone CURSOR FOR SELECT 1")


def test_pipelines_answer_in_order_and_stop_at_the_first_error(pg: Connection) -> None:
    with pg.pipeline():
        cursors = [pg.execute("SELECT %s::BIGINT", (number,)) for number in range(20)]
    assert [cursor.fetchone() for cursor in cursors] == [(number,) for number in range(20)]
    with pytest.raises(errors.SyntaxError), pg.pipeline() as pipeline:  # noqa: PT012 - it fails at sync
        pg.execute("SELECT nope FROM logs")
        pg.execute("SELECT 1")
        pipeline.sync()
    assert pg.execute("SELECT 2").fetchone() == (2,)


def test_a_request_to_cancel_ends_the_statement_only(pg: Connection, door: RunningDoor) -> None:
    timer = threading.Timer(0.2, pg.cancel_safe)  # cancel() would hold the interpreter
    timer.start()
    with pytest.raises(errors.QueryCanceled, match="user request"):
        pg.execute("SELECT 'waiting'")
    timer.join()
    assert door.eventually(lambda: door.lakeql.open_answers == 0)
    assert pg.execute("SELECT 1").fetchone() == (1,)


def test_a_cancel_with_a_wrong_secret_does_nothing(door: RunningDoor) -> None:
    import socket

    with psycopg.connect(door.dsn(), autocommit=True) as one:
        number = one.info.backend_pid
        with socket.create_connection(("127.0.0.1", door.port)) as other:
            other.sendall(b"\0\0\0\x10\x04\xd2\x16\x2e" + number.to_bytes(4) + b"\1\2\3\4")
            assert other.recv(10) == b""
        assert one.execute("SELECT 3").fetchone() == (3,)


def test_the_statement_timeout_is_honoured(pg: Connection) -> None:
    pg.execute("SET statement_timeout = '150ms'")
    with pytest.raises(errors.QueryCanceled, match="statement timeout"):
        pg.execute("SELECT 'waiting'")
    assert pg.execute("SHOW statement_timeout").fetchone() == ("150ms",)
    pg.execute("RESET ALL")
    assert pg.execute("SHOW statement_timeout").fetchone() == ("0",)
    assert pg.execute("SELECT 1").fetchone() == (1,)


def test_options_of_the_connection_are_set(door: RunningDoor) -> None:
    options = "'-c statement_timeout=2s -c lakerunner.partial_response=on'"
    with psycopg.connect(door.dsn(options=options, application_name="test")) as one:
        assert one.execute("SHOW statement_timeout").fetchone() == ("2s",)
        assert one.execute("SHOW lakerunner.partial_response").fetchone() == ("on",)
        assert one.info.parameter_status("application_name") == "test"
        assert one.execute("SHOW TRANSACTION ISOLATION LEVEL").fetchone() == ("read committed",)
    with pytest.raises(psycopg.OperationalError, match="unrecognized configuration parameter"):
        psycopg.connect(door.dsn(options="'-c shared_buffers=1'"))


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO logs VALUES (1)",
        "DROP TABLE logs",
        "CREATE TABLE x (i INT)",
        "VACUUM",
        "DELETE FROM logs",
        "begin read write",
        "SET default_transaction_read_only = off",
    ],
)
def test_writes_are_refused(pg: Connection, statement: str) -> None:
    with pytest.raises(errors.ReadOnlySqlTransaction):
        pg.execute(statement)  # type: ignore[call-overload]


def test_copy_is_refused_with_a_sentence(pg: Connection) -> None:
    said = "COPY is not supported: read with SELECT"
    with (
        pytest.raises(errors.FeatureNotSupported, match=said),
        pg.cursor().copy("COPY logs TO STDOUT") as copy,
    ):
        copy.read()
    assert pg.execute("SELECT 1").fetchone() == (1,)


def test_a_failed_transaction_waits_for_its_end(door: RunningDoor) -> None:
    with psycopg.connect(door.dsn()) as one:
        with pytest.raises(errors.SyntaxError):
            one.execute("SELECT nope FROM logs")
        with pytest.raises(errors.InFailedSqlTransaction):
            one.execute("SELECT 1")
        one.rollback()
        assert one.execute("SELECT 1").fetchone() == (1,)
        with one.transaction(), pytest.raises(errors.SyntaxError), one.transaction():
            one.execute("SELECT nope FROM logs")
        assert one.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(
    "text", ["SELECT nope FROM logs", "SELECT 1; SELECT\n  nope FROM logs", "BEGIN; DELETE FROM x"]
)
def test_errors_tell_their_place_in_the_whole_text(door: RunningDoor, text: str) -> None:
    with psycopg.connect(door.dsn(), autocommit=True) as one, pytest.raises(psycopg.Error) as caught:
        psycopg.ClientCursor(one).execute(text)  # type: ignore[call-overload]
    place = int(caught.value.diag.statement_position or 0)
    assert text[place - 1 :].split(maxsplit=1)[0] in {"nope", "DELETE"}


def test_a_partial_answer_is_an_error_unless_it_is_asked_for(pg: Connection, door: RunningDoor) -> None:
    notices: list[str] = []
    pg.add_notice_handler(lambda diag: notices.append(f"{diag.severity}: {diag.message_primary}"))
    door.lakeql.missing = {"s1": Missing("s1", "gone")}
    door.lakeql.notices = ["logs has no lower bound"]
    try:
        with pytest.raises(psycopg.Error, match="the rows above are not all") as caught:
            pg.execute("SELECT count(*) FROM logs")
        assert caught.value.sqlstate == "58P02"
        pg.execute("SET lakerunner.partial_response = on")
        assert pg.execute("SELECT count(*) FROM logs").fetchone() == (3000,)
    finally:
        door.lakeql.missing, door.lakeql.notices = {}, []
    assert notices.count("NOTICE: logs has no lower bound") == 2
    assert len([one for one in notices if one.startswith("WARNING: partial: 1 segments unreadable")]) == 2


def test_variables_that_would_change_answers_are_refused(pg: Connection) -> None:
    for statement in (
        "SET foo = 1",
        "SET datestyle = 'German'",
        "SET client_encoding = 'LATIN1'",
        "SET standard_conforming_strings = off",
    ):
        with pytest.raises((errors.UndefinedObject, errors.InvalidParameterValue)):
            pg.execute(statement)  # type: ignore[call-overload]
    for statement in (
        "SET datestyle TO ISO",
        "SET extra_float_digits = 3",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SET NAMES 'UTF8'",
        "DISCARD ALL",
        "SET TIME ZONE 'UTC'",
    ):
        pg.execute(statement)  # type: ignore[call-overload]


def test_the_engine_of_a_session_goes_with_its_statements(pg: Connection, door: RunningDoor) -> None:
    asked = []
    for statement in ("SELECT 1", "SET engine TO Spark", "SELECT 1", "SET engine = DEFAULT", "SELECT 1"):
        pg.execute(statement)  # type: ignore[call-overload]
        asked.append(door.lakeql.asked[-1][1].engine)
    assert asked == ["auto", "auto", "spark", "spark", "auto"]
    with pytest.raises(errors.InvalidParameterValue, match='invalid value for parameter "engine"'):
        pg.execute("SET engine = 'fast'")


def test_keys_open_their_own_organisation_only(door: RunningDoor) -> None:
    with psycopg.connect(door.dsn("key-globex")) as one:
        query = "SELECT DISTINCT organization_id FROM logs"
        assert one.execute(query).fetchall() == [("globex",)]


def test_wrong_keys_are_refused_late_and_counted(door: RunningDoor) -> None:
    for password, state in (
        ("wrong", "unknown, revoked or expired"),
        ("key-ingest", "queries need read or admin"),
    ):
        began = time.perf_counter()
        with pytest.raises(psycopg.OperationalError, match=state):
            psycopg.connect(door.dsn(password))
        assert time.perf_counter() - began >= 0.05
    assert 'lakerunner_query_logins_refused_total{door="postgres"} 2' in door.services.counters.render()


def test_a_client_that_leaves_stops_its_work(door: RunningDoor) -> None:
    one = psycopg.connect(door.dsn(), autocommit=True)
    one.pgconn.send_query(b"SELECT 'waiting'")
    assert door.eventually(lambda: door.lakeql.open_answers == 1)
    one.close()
    assert door.eventually(lambda: door.lakeql.open_answers == 0)
    assert door.eventually(lambda: door.door.sessions == 0)


def test_a_client_that_takes_nothing_is_left(
    door: RunningDoor, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with RunningDoor(tmp_path_factory.mktemp("stall"), rows=3000, query_stall_s=0.3) as stalling:
        one = psycopg.connect(stalling.dsn(), autocommit=True)
        one.pgconn.send_query(b"SELECT *, 'endless' FROM logs")
        one.pgconn.flush()
        assert stalling.eventually(lambda: stalling.lakeql.open_answers == 1)
        assert stalling.eventually(lambda: stalling.lakeql.open_answers == 0)
        assert stalling.lakeql.produced < 2000
        one.close()


def test_connections_are_limited_in_all_and_per_organisation(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("limits")
    with RunningDoor(folder, query_postgres_connections=3, query_postgres_org_connections=2) as small:
        kept = [psycopg.connect(small.dsn()) for _ in range(2)]
        with pytest.raises(psycopg.OperationalError, match="too many connections of organisation"):
            psycopg.connect(small.dsn())
        kept.append(psycopg.connect(small.dsn("key-globex")))
        with pytest.raises(psycopg.OperationalError, match="too many clients"):
            psycopg.connect(small.dsn("key-globex"))
        for one in kept:
            one.close()
        assert small.eventually(lambda: small.door.sessions == 0)
        psycopg.connect(small.dsn()).close()


def test_idle_sessions_end(tmp_path_factory: pytest.TempPathFactory) -> None:
    with RunningDoor(tmp_path_factory.mktemp("idle"), query_postgres_idle_s=0.2) as brief:
        one = psycopg.connect(brief.dsn(), autocommit=True)
        assert brief.eventually(lambda: brief.door.sessions == 0)
        with pytest.raises(psycopg.Error, match="nothing was asked"):
            one.execute("SELECT 1")
        one.close()


def test_a_server_that_stops_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    with RunningDoor(tmp_path_factory.mktemp("stops")) as stopping:
        busy, idle = psycopg.connect(stopping.dsn()), psycopg.connect(stopping.dsn())
        busy.pgconn.send_query(b"SELECT 'waiting'")
        assert stopping.eventually(lambda: stopping.lakeql.open_answers == 1)
    with pytest.raises(psycopg.OperationalError, match="shutting down"):
        idle.execute("SELECT 1")
    result = busy.pgconn.get_result()
    assert result is not None
    assert "shutting down" in result.error_message.decode()
    for one in (busy, idle):
        one.close()
