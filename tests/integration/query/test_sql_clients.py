"""Statements that DBeaver, Metabase and Grafana's PostgreSQL source send on connect and while one browses.

Their files hold one statement after another, each behind a line that says whether it has rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
from litestar.testing import TestClient

from lakerunner_query.app import create_app
from tests.support.query.lake import Lake, Line, Stack, free_port

pytestmark = pytest.mark.integration
FILES = Path(__file__).resolve().parents[2] / "golden" / "cases" / "sql_clients"
HEAD = re.compile(r"^-- (some|none|set): (.*)\n", re.MULTILINE)


@dataclass(frozen=True)
class Asked:
    """One statement of a client."""

    client: str
    meaning: str
    outcome: str
    """`some` rows, `none`, or `set`: it is a command."""
    sql: str


def read(path: Path) -> Iterator[Asked]:
    _, *parts = HEAD.split(path.read_text())
    for outcome, meaning, sql in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        yield Asked(path.stem, meaning, outcome, sql.strip())


ASKED = [one for path in sorted(FILES.glob("*.sql")) for one in read(path)]


@pytest.fixture(scope="module")
def port(lake: Lake, stack: Stack) -> Iterator[int]:
    lake.add_org("acme", "key-acme")
    lines = [
        Line(n * 10**10, f"request {n}", level=(9, 17)[n % 2], attributes={"http.route": "/a"})
        for n in range(60)
    ]
    lake.write("acme", lines)
    settings = replace(stack.settings, query_postgres_port=free_port())
    with TestClient(create_app(settings, lake.index)):
        yield settings.query_postgres_port


@pytest.mark.parametrize("asked", ASKED, ids=lambda one: f"{one.client}: {one.meaning}")
@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "prepared"])
def test_a_client_gets_its_answer(port: int, asked: Asked, *, prepare: bool) -> None:
    dsn = f"host=127.0.0.1 port={port} user=ann dbname=lake password=key-acme"
    kind = psycopg.Cursor if prepare else psycopg.ClientCursor  # the latter speaks the simple protocol
    with psycopg.connect(dsn, autocommit=True) as connection, kind(connection) as cursor:
        cursor.execute(asked.sql.encode(), prepare=prepare or None)
        rows = cursor.fetchall() if cursor.description is not None else None
    assert {"some": bool(rows), "none": rows == [], "set": rows is None}[asked.outcome], rows


def test_there_are_statements_of_each_client() -> None:
    counted = {one.client for one in ASKED}
    assert counted == {"dbeaver", "grafana", "metabase"}
    assert len(ASKED) >= 45
