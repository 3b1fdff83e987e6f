"""Questions of psql, JDBC, Grafana and SQLAlchemy to the catalog, and what it refuses."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from psycopg import errors

from tests.support.query.postgres_door import RunningDoor

QUESTIONS = {
    "SELECT version()": [("PostgreSQL 15.0 (Lakerunner) on a lake, read-only",)],
    "SELECT current_setting('server_version_num')::int/100": [(1500,)],
    "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'": [],
    "SELECT current_schema(), current_database()": [("public", "lake")],
    "SELECT 'logs'::regclass::oid, 16400::regclass": [(16400, "logs")],
    "SELECT c.relname FROM pg_catalog.pg_class c WHERE c.relname OPERATOR(pg_catalog.~) '^(sp.*)$' "
    "COLLATE pg_catalog.default AND pg_catalog.pg_table_is_visible(c.oid)": [("spans",)],
    "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod) "
    "FROM pg_catalog.pg_attribute a WHERE a.attrelid = '16400' AND a.attnum < 3 ORDER BY a.attnum": [
        ("timestamp", "timestamp without time zone"), ("organization_id", "text"),
    ],
    "SELECT t.oid FROM pg_type t JOIN pg_namespace n ON t.typnamespace = n.oid WHERE typname = 'hstore'": [],
    "SELECT quote_ident(table_name) FROM information_schema.tables WHERE quote_ident(table_schema) IN ("
    "SELECT "
    "CASE WHEN trim(s[i]) = '\"$user\"' THEN user ELSE trim(s[i]) END FROM generate_series(array_lower("
    "string_to_array(current_setting('search_path'),','),1), array_upper(string_to_array(current_setting("
    "'search_path'),','),1)) AS i, string_to_array(current_setting('search_path'),',') s) "
    "AND table_name LIKE 'm%s'": [("metrics",), ("metrics_10s",)],
    "SELECT (information_schema._pg_expandarray(i.indkey)).n FROM pg_catalog.pg_index i": [],
    "SELECT obj_description('logs'::regclass)": [("log records",)],
}  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_clients_get_their_answers(door: RunningDoor, question: str) -> None:
    with psycopg.connect(door.dsn(), autocommit=True) as one:
        assert one.execute(question).fetchall() == QUESTIONS[question]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("statement", "state"),
    [
        ("SELECT * FROM pg_class, logs", "0A000"),
        ("SELECT pg_read_file('/etc/passwd') FROM pg_class", "42883"),
        ("SELECT * FROM pg_class, read_csv('/etc/passwd')", "42883"),
        ("SELECT getenv('HOME') FROM pg_class", "42883"),
        ("SELECT * FROM pg_class, duckdb_settings()", "42883"),
        ("SELECT * FROM pg_catalog.pg_secrets", "42P01"),
        ("WITH x AS (DELETE FROM pg_class RETURNING *) SELECT * FROM x, pg_class", "25006"),
        ("SELECT * INTO y FROM pg_class", "42P01"),
        (
            "SELECT count(*) FROM generate_series(1, 100000000) a, pg_type b, pg_type c, pg_type d",
            "57014",
        ),
        ("SELECT a FROM generate_series(1, 1000000) a, pg_class", "54000"),
    ],
)
def test_what_is_no_question_is_refused(door: RunningDoor, statement: str, state: str) -> None:
    with psycopg.connect(door.dsn(options="'-c statement_timeout=1s'"), autocommit=True) as one:
        with pytest.raises(psycopg.Error) as caught:
            one.execute(statement)  # type: ignore[call-overload]
        assert caught.value.sqlstate == state
        assert one.execute("SELECT 1").fetchone() == (1,)


def test_session_values_are_those_of_the_session(door: RunningDoor) -> None:
    with psycopg.connect(door.dsn(), autocommit=True) as one:
        assert one.execute("SELECT pg_backend_pid()").fetchone() == (one.info.backend_pid,)
        assert one.execute("SELECT set_config('statement_timeout', '7s', false)").fetchone() == ("7s",)
        found = one.execute("SELECT setting FROM pg_settings WHERE name = 'statement_timeout'").fetchone()
        assert found == ("7s",)
        with pytest.raises(errors.UndefinedObject):
            one.execute("SELECT current_setting('nope')")


def test_sqlalchemy_inspects_the_lake(door: RunningDoor) -> None:
    address = f"postgresql+psycopg://ann:key-acme@127.0.0.1:{door.port}/lake"
    engine = sqlalchemy.create_engine(address)
    try:
        inspector = sqlalchemy.inspect(engine)
        assert {"logs", "metrics", "spans"} <= set(inspector.get_table_names())
        assert inspector.has_table("logs")
        assert not inspector.has_table("nope")
        assert [column["name"] for column in inspector.get_columns("logs")][:2] == [
            "timestamp",
            "organization_id",
        ]
        assert inspector.get_pk_constraint("logs")["constrained_columns"] == []
    finally:
        engine.dispose()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_tls_is_spoken_where_there_is_a_certificate(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True, env={**os.environ},
    )  # fmt: skip
    files = {"query_tls_certificate": str(certificate), "query_tls_key": str(key)}
    with RunningDoor(tmp_path, rows=3000, **files) as secure:
        with psycopg.connect(secure.dsn(sslmode="require"), autocommit=True) as one:
            assert one.pgconn.ssl_in_use
            assert len(one.execute("SELECT * FROM logs").fetchall()) == 3000
        with psycopg.connect(secure.dsn(sslmode="disable"), autocommit=True) as one:
            assert not one.pgconn.ssl_in_use
    assert ssl.HAS_TLSv1_2
