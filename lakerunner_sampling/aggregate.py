"""Partial aggregates of each commit are merged into the state of undecided traces.

    commit 7: t1 2 spans, error       commit 8: t1 1 span, t2 4 spans       →  t1 3 spans, error; t2 4 spans

The state is a cache: reading the same files again gives the same state, in whatever order. A watermark of
the table, never a clock, says when a trace is complete. Memory is DuckDB's `memory_limit`; beyond it partials
go to the scratch directory.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import pyarrow as pa
from fsspec.spec import AbstractFileSystem

from lakerunner_sampling.policies.decide import PolicySet
from lakerunner_sampling.policies.model import BASE, AggregateColumn
from lakerunner_sampling.shapes import SpanShape, schema_of
from resources.duckdb import DuckLimits, DuckSession

SECOND = 10**9
MERGE_AFTER_ROWS = 200_000
"""Partials beyond those of the last merge after which they are merged again."""


@dataclass(frozen=True, slots=True)
class StateLimits:
    """Bounds of the state, and when a trace is complete."""

    scratch: Path
    inactivity_ns: int = 300 * SECOND
    max_duration_ns: int = 3600 * SECOND
    max_spans: int = 1_000_000
    """Spans after which a trace is decided."""
    memory_mb: int = 128
    threads: int = 2
    readable: tuple[Path, ...] = ()
    """Directories whose files may be read."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Files of one commit of the table, in its order."""

    seq: int
    files: Sequence[str]
    schema: pa.Schema | None = None
    """Columns that all of the files together have; None: their footers are read."""
    without: tuple[int, ...] = ()
    """Raw objects whose spans came with earlier commits."""


class TraceState:
    """State of undecided traces, one row for each trace and commit until rows are merged."""

    def __init__(
        self,
        policies: PolicySet,
        shape: SpanShape,
        limits: StateLimits,
        files: AbstractFileSystem | None = None,
    ) -> None:
        self.policies = policies
        self.shape = shape
        self.watermark_ns: int | None = None
        """Greatest end of a span so far."""
        self._limits = limits
        self._files = files
        self._columns = (*BASE, *policies.columns())
        self._prepared = limits.scratch / "prepared"
        self._last_seq = 0
        self._rows = self._merged_rows = 0
        readable = (*limits.readable, self._prepared)
        self._prepared.mkdir(parents=True, exist_ok=True)
        self._duck = DuckSession(
            DuckLimits(limits.memory_mb, limits.threads, limits.scratch / "spill", readable, files)
        )
        self._make_empty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._duck.close()

    def add(self, commit: Commit, only: pa.Array | None = None) -> int | None:
        """Add a commit's spans, or those of some traces; return the greatest end of a span, in ns."""
        if not commit.files:
            return None
        try:
            found = self._insert(commit, only)
        finally:
            shutil.rmtree(self._prepared)
            self._prepared.mkdir()
        self._last_seq = max(self._last_seq, commit.seq)
        if found is not None:
            self.watermark_ns = max(found, self.watermark_ns or found)
        if self._rows - self._merged_rows > max(MERGE_AFTER_ROWS, self._merged_rows):
            self._merge()
        return found

    def ready(self, watermark_ns: int) -> pa.Table:
        """Return the aggregates of complete traces: silent, too old or too large."""
        limits = self._limits
        return self._select(
            f"max(last_ns) < {watermark_ns - limits.inactivity_ns} "
            f"OR min(first_ns) < {watermark_ns - limits.max_duration_ns} "
            f"OR sum(span_count) >= {limits.max_spans}"
        )

    def early(self) -> pa.Table:
        """Return aggregates of traces of the last commit that an early policy keeps."""
        condition = self.policies.early_condition()
        if condition is None:
            return self._select("false")
        return self._select(f"max(last_seq) = {self._last_seq} AND ({condition})")

    def of(self, trace_ids: pa.Array) -> pa.Table:
        """Return the aggregates of some traces."""
        with self._duck.cursor() as cursor, _Ids(cursor, trace_ids):
            return self._selected(cursor, "true", "WHERE trace_id IN (SELECT trace_id FROM ids)")

    def everything(self) -> pa.Table:
        """Return the aggregates of every trace."""
        return self._select("true")

    def evict(self, trace_ids: pa.Array) -> None:
        """Forget decided traces."""
        if len(trace_ids):
            with self._duck.cursor() as cursor, _Ids(cursor, trace_ids):
                cursor.execute("DELETE FROM partials WHERE trace_id IN (SELECT trace_id FROM ids)")

    def rebuild(self, commits: Iterable[Commit]) -> None:
        """Replace the state by that of these commits."""
        self._make_empty()
        for commit in commits:
            self.add(commit)

    def first_seq(self) -> int | None:
        """Return the first commit that has spans of an undecided trace."""
        with self._duck.cursor() as cursor:
            row = cursor.execute("SELECT min(first_seq) FROM partials").fetchone()
            return None if row is None or row[0] is None else int(row[0])

    def trace_count(self) -> int:
        """Return how many traces are undecided."""
        with self._duck.cursor() as cursor:
            row = cursor.execute("SELECT count(DISTINCT trace_id) FROM partials").fetchone()
            return int(row[0]) if row else 0

    def _make_empty(self) -> None:
        columns = ", ".join(f'"{each.name}" {each.type}' for each in self._columns)
        with self._duck.cursor() as cursor:
            cursor.execute(
                "CREATE OR REPLACE TABLE partials "
                f"(trace_id BLOB, first_seq BIGINT, last_seq BIGINT, {columns})"
            )
        self._last_seq = self._rows = self._merged_rows = 0
        self.watermark_ns = None

    def _insert(self, commit: Commit, only: pa.Array | None) -> int | None:
        files = self.shape.prepare(commit.files, self._prepared)
        schema = commit.schema if commit.schema is not None and files == commit.files else None
        if schema is None:
            schema = schema_of(files, self._files if files == commit.files else None)
        wanted = replace(self.policies.wanted(), without=commit.without)
        relation = self.shape.relation(files, schema, wanted)
        aggregates = ", ".join(f'{each.sql} AS "{each.name}"' for each in self._columns)
        among = "" if only is None else " AND trace_id IN (SELECT trace_id FROM ids)"
        ids = pa.array([], pa.binary()) if only is None else only
        with self._duck.cursor() as cursor, _Ids(cursor, ids):
            # one temporary table: the aggregates are computed once, their greatest end is read from it
            cursor.execute(
                f"CREATE OR REPLACE TEMP TABLE fresh AS SELECT trace_id, {commit.seq}::BIGINT AS first_seq, "
                f"{commit.seq}::BIGINT AS last_seq, {aggregates} FROM ({relation}) "
                f"WHERE octet_length(trace_id) = 16{among} GROUP BY trace_id"
            )
            row = cursor.execute("SELECT max(last_ns), count(*) FROM fresh").fetchone()
            cursor.execute("INSERT INTO partials SELECT * FROM fresh")
            cursor.execute("DROP TABLE fresh")
        self._rows += int(row[1]) if row else 0
        return None if row is None or row[0] is None else int(row[0])

    def _select(self, having: str) -> pa.Table:
        with self._duck.cursor() as cursor:
            return self._selected(cursor, having, "")

    def _selected(self, cursor: duckdb.DuckDBPyConnection, having: str, where: str) -> pa.Table:
        query = f"SELECT {_merged(self._columns)} FROM partials {where} GROUP BY trace_id HAVING {having}"
        return cursor.sql(query).to_arrow_table()

    def _merge(self) -> None:
        """Merge partials, which also gives back the room of deleted rows."""
        with self._duck.cursor() as cursor:
            query = f"SELECT {_merged(self._columns)} FROM partials GROUP BY trace_id"
            cursor.execute(f"CREATE OR REPLACE TABLE partials AS {query}")
            row = cursor.execute("SELECT count(*) FROM partials").fetchone()
            self._rows = self._merged_rows = int(row[0]) if row else 0


def _merged(columns: Sequence[AggregateColumn]) -> str:
    parts = [f'{each.merge}("{each.name}")::{each.type} AS "{each.name}"' for each in columns]
    return ", ".join(["trace_id", "min(first_seq) AS first_seq", "max(last_seq) AS last_seq", *parts])


class _Ids:
    """Trace ids that a statement reads as the table `ids`."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, trace_ids: pa.Array) -> None:
        self._cursor = cursor
        self._table = pa.table({"trace_id": trace_ids.cast(pa.binary())})

    def __enter__(self) -> None:
        self._cursor.register("ids", self._table)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cursor.unregister("ids")
