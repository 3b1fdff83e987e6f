"""Migrations apply once, in order, and build exactly the schema that people read."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import psycopg
import pytest

from migrations.runner import Migration, MigrationError, apply, shipped

pytestmark = pytest.mark.integration
SCHEMA = Path(__file__).resolve().parents[2] / "migrations" / "schema.sql"
CATALOG = b"""
SELECT 'column', table_name, column_name,
    data_type || ':' || is_nullable || ':' || coalesce(column_default, '')
FROM information_schema.columns WHERE table_schema = 'lakerunner' AND table_name <> 'schema_migration'
UNION ALL SELECT 'index', tablename, indexname, indexdef FROM pg_indexes
WHERE schemaname = 'lakerunner' AND tablename <> 'schema_migration'
UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'lakerunner'::regnamespace AND conrelid::regclass::text <> 'lakerunner.schema_migration'
ORDER BY 1, 2, 3"""


def catalog(dsn: str) -> list[tuple[str, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(CATALOG).fetchall()


def test_all_migrations_build_the_schema_file(empty_database: str, postgres_server: str) -> None:
    apply(empty_database)
    by_migrations = catalog(empty_database)
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute("DROP SCHEMA lakerunner CASCADE")
        connection.execute(SCHEMA.read_bytes())
    assert catalog(empty_database) == by_migrations
    assert len(by_migrations) > 100


def test_second_run_applies_nothing(empty_database: str) -> None:
    assert apply(empty_database) == [m.name for m in shipped()]
    assert apply(empty_database) == []


def test_two_runners_at_once_apply_each_file_once(empty_database: str) -> None:
    applied: list[str] = []
    threads = [Thread(target=lambda: applied.extend(apply(empty_database))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert applied == [m.name for m in shipped()]


def test_an_edited_migration_is_refused(empty_database: str) -> None:
    apply(empty_database)
    first, *rest = shipped()
    edited = Migration(first.version, first.name, first.sql + "\n-- edited")
    with pytest.raises(MigrationError, match="changed after it was applied"):
        apply(empty_database, (edited, *rest))


def test_a_failing_migration_leaves_nothing_behind(empty_database: str) -> None:
    apply(empty_database)
    number = len(shipped()) + 1
    broken = Migration(number, "9999_broken.sql", "CREATE TABLE lakerunner.half (a int); SELECT 1 / 0;")
    with pytest.raises(psycopg.errors.DivisionByZero):
        apply(empty_database, (*shipped(), broken))
    assert not [row for row in catalog(empty_database) if row[1] == "half"]
    assert apply(empty_database) == []


def test_a_database_from_a_newer_version_is_refused(empty_database: str) -> None:
    extra = Migration(len(shipped()) + 1, "0999_future.sql", "SELECT 1")
    apply(empty_database, (*shipped(), extra))
    with pytest.raises(MigrationError, match="does not know"):
        apply(empty_database)
