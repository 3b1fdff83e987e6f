"""Applies numbered SQL files once, in order, under an advisory lock.

Each file runs in its own transaction together with its row in `schema_migration`, so a crash leaves a
database that the next run continues from. A file whose checksum changed after it was applied is an error.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files

import psycopg
from psycopg.rows import TupleRow

from resources.settings import Settings

LOCK_KEY = 4_380_001
_FILE_NAME = re.compile(r"^(\d{4})_[a-z0-9_]+\.sql$")
_LEDGER = """
CREATE SCHEMA IF NOT EXISTS lakerunner;
CREATE TABLE IF NOT EXISTS lakerunner.schema_migration (
    version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)"""


class MigrationError(RuntimeError):
    """The files and the database disagree; nothing further was applied."""


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def shipped() -> tuple[Migration, ...]:
    """The migrations of this version, checked to be numbered 1, 2, 3 … without gaps."""
    found = []
    for entry in files("migrations").iterdir():
        match = _FILE_NAME.match(entry.name)
        if match:
            found.append(Migration(int(match.group(1)), entry.name, entry.read_text()))
    ordered = tuple(sorted(found, key=lambda migration: migration.version))
    if [m.version for m in ordered] != list(range(1, len(ordered) + 1)):
        raise MigrationError(f"migrations are not numbered without gaps: {[m.name for m in ordered]}")
    return ordered


def apply(dsn: str, migrations: tuple[Migration, ...] | None = None) -> list[str]:
    """Bring the database up to date; the names of the files applied now (none when it already was)."""
    wanted = shipped() if migrations is None else migrations
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (LOCK_KEY,))
        connection.execute(_LEDGER)
        ledger = connection.execute("SELECT version, checksum FROM lakerunner.schema_migration").fetchall()
        applied: dict[int, str] = {row[0]: row[1] for row in ledger}
        _check(wanted, applied)
        return [_apply_one(connection, m) for m in wanted if m.version not in applied]


def run(settings: Settings) -> int:
    """The `lakerunner migrate` command."""
    names = apply(settings.require("index_dsn"))
    print("\n".join(f"applied {name}" for name in names) or "schema is up to date")
    return 0


def _check(wanted: tuple[Migration, ...], applied: dict[int, str]) -> None:
    for migration in wanted:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise MigrationError(
                f"{migration.name} was changed after it was applied; add a new migration instead"
            )
    unknown = sorted(set(applied) - {m.version for m in wanted})
    if unknown:
        raise MigrationError(
            f"the database has migrations {unknown} that this version does not know; upgrade first"
        )


def _apply_one(connection: psycopg.Connection[TupleRow], migration: Migration) -> str:
    with connection.transaction():
        connection.execute(migration.sql.encode())
        connection.execute(
            "INSERT INTO lakerunner.schema_migration (version, name, checksum) VALUES (%s, %s, %s)",
            (migration.version, migration.name, migration.checksum),
        )
    return migration.name
