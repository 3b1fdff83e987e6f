"""Open tables live in two tables; publications write their changes in their own transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from resources.index.open_tables import OpenTable, TableChanges, TableSegment
from resources.index.postgres.connections import Connection, PostgresPart
from resources.index.statements import load

SQL = load("open_tables")


class OpenTables(PostgresPart):
    def list_tables(self, org: str = "") -> list[OpenTable]:
        return [OpenTable(**row) for row in self._rows(SQL["list_tables"], {"org": org})]

    def add_table(self, org: str, dataset: str) -> bool:
        with self._transaction() as connection:
            connection.execute(SQL["wait_for_publications"])
            return bool(connection.execute(SQL["add_table"], {"org": org, "dataset": dataset}).rowcount)

    def remove_table(self, org: str, dataset: str) -> bool:
        return bool(self._change(SQL["remove_table"], {"org": org, "dataset": dataset}))

    def table_changes(self, org: str, dataset: str, known: tuple[int, int] | None) -> TableChanges | None:
        scope = {"org": org, "dataset": dataset}
        with self._transaction() as connection:
            connection.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            table = connection.execute(SQL["one_table"], scope).fetchone()
            if table is None:
                return None
            is_whole = known is None or known[0] != table["table_id"] or known[1] > table["version"]
            if is_whole:
                rows = connection.execute(SQL["live_files"], scope).fetchall()
            else:
                since = {"table_id": table["table_id"], "version": known[1] if known else 0}
                rows = connection.execute(SQL["changed_files"], since).fetchall()
            totals = connection.execute(SQL["live_totals"], scope).fetchone() or {}
        files = [(row.pop("retired"), TableSegment(**row)) for row in rows]
        return TableChanges(
            table["table_id"],
            table["version"],
            is_whole,
            tuple(file for retired, file in files if not retired),
            tuple(file for retired, file in files if retired),
            **totals,
        )

    def note_commit(self, table_id: int, version: int, oldest: int) -> None:
        values = {"table_id": table_id, "version": version, "oldest": oldest}
        with self._transaction() as connection:
            connection.execute(SQL["note_commit"], values)
            connection.execute(SQL["forget_changes"], values)


def note_changes(connection: Connection, org: str, segment_ids: Sequence[str]) -> None:
    """Record segments that this transaction inserted or retired; the last step before its commit."""
    values: dict[str, Any] = {"org": org, "segment_ids": list(segment_ids)}
    values["table_ids"] = [row["table_id"] for row in connection.execute(SQL["lock_tables"], values)]
    if values["table_ids"]:
        connection.execute(SQL["raise_tables"], values)
        connection.execute(SQL["add_changes"], values)
