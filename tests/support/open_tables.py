"""A lake whose datasets are open tables, and readers of them that are not ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table

from lakerunner_assets.compacted.due import Scope
from lakerunner_assets.compacted.report import Report as MergeReport
from lakerunner_assets.compacted.run import compact
from lakerunner_assets.tables.check import TableCheck, check_table
from lakerunner_assets.tables.run import TableUpdate, update_tables
from lakerunner_assets.tables.views import view_query
from resources.iceberg import TABLES, open_catalog
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS
from resources.objects.store import open_store
from resources.settings import Settings
from tests.support.query.signals_lake import END_NS, Asked, SignalsLake

VIEWED = {
    "logs": "event_time, chq_tsns, log_level, log_message, trace_id",
    "spans": "event_time, span_start_ns, span_duration_ns, span_name, span_trace_id, span_parent_span_id",
    "metrics": "event_time, metric_name, chq_tid, value",
}
ASKED = {
    "logs": "timestamp, tsns, severity, message, trace_id",
    "spans": "timestamp, tsns, duration_ns, name, trace_id, parent_span_id",
    "metrics": "timestamp, metric_name, tid, value",
}
ROLLED = 'metric_name, {tid}, "count", "sum", "min", "max", "first", "last", "avg"'
Rows = Counter[tuple[Any, ...]]


class OpenLake:
    """The lake of all signals with an SQL catalog beside it."""

    def __init__(self, signals: SignalsLake, folder: Path, catalog: str = "") -> None:
        self.signals, self.lake, self.index = signals, signals.lake, signals.index
        catalog = catalog or f"type=sql;uri=sqlite:///{folder}/catalog.db"
        self.settings: Settings = replace(signals.lake.settings, tables_catalog=catalog)
        self.logged: list[str] = []

    def open_all(self, org: str = "acme") -> None:
        for dataset in TABLES.values():
            self.index.add_table(org, dataset)

    def update(self, *names: str, org: str = "acme") -> list[TableUpdate]:
        wanted = [(org, TABLES[name]) for name in names or TABLES]
        return update_tables(self.index, self.settings, wanted, self.logged.append)

    @contextmanager
    def table(self, name: str, org: str = "acme") -> Iterator[Table]:
        with open_catalog(self.settings) as catalog:
            yield catalog.load_table((org, name))

    def check(self, *, read: bool = False) -> list[TableCheck]:
        lake_url = self.settings.lake_url
        lake = open_store(lake_url, self.settings)
        with open_catalog(self.settings) as catalog:
            return [
                check_table(catalog, self.index, lake, lake_url, table, read=read)
                for table in self.index.list_tables("acme")
            ]

    def compact(self, signal: Signal, *hours: int) -> None:
        scope = Scope({"acme": frozenset(hours)})
        list(compact(self.lake.run_context(), signal, MergeReport(), scope))

    def by_pyiceberg(self, name: str) -> Rows:
        """Read the table with pyiceberg, and its values with the view's SQL."""
        with self.table(name) as table:
            return _rows(table.scan().to_arrow(), name, TABLES[name])

    def by_duckdb(self, name: str) -> Rows:
        """Read the files that pyiceberg plans with DuckDB's own reader of Parquet."""
        with self.table(name) as table:
            paths = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
            fields = table.schema().as_arrow()
        files = [pq.read_schema(path) for path in paths]
        if not files:
            return Counter()
        present = {n for file in files for n in file.names}
        with duckdb.connect() as connection:
            listed = ", ".join(f"'{path}'" for path in paths)
            missing = [f"NULL AS {f.name}" for f in fields if f.name not in present]
            # columns on which the files disagree are not in the table, so they are never asked for
            files_read = f"read_parquet([{listed}], union_by_name = true)"
            source = f"(SELECT *{''.join(', ' + m for m in missing)} FROM {files_read})"
            query = view_query(fields.names, TABLES[name], "duckdb", source)
            return Counter(connection.sql(f"SELECT {_viewed(name)} FROM ({query})").fetchall())

    def by_query_api(self, name: str, asked: Asked) -> Rows:
        columns = ASKED.get(name) or "timestamp, " + ROLLED.format(tid="tid")
        table = asked.table(f"SELECT {columns} FROM {name}", end_ns=END_NS + 2 * DAY_NS)
        return Counter(zip(*(table.column(n).to_pylist() for n in table.column_names), strict=True))


def _viewed(name: str) -> str:
    columns = VIEWED.get(name) or "event_time, " + ROLLED.format(tid="chq_tid")
    # a stale marker is NaN in a table and no value at all in an answer; this lake has no other NaN
    return columns.replace("value", "CASE WHEN isnan(value) THEN NULL ELSE value END AS value")


def _rows(table: pa.Table, name: str, dataset: str) -> Rows:
    with duckdb.connect() as connection:
        connection.register("source", table)
        query = view_query(table.column_names, dataset, "duckdb", "source")
        return Counter(connection.sql(f"SELECT {_viewed(name)} FROM ({query})").fetchall())
