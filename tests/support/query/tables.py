"""A worker's readers of tables over a small lake, and statements for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakerunner_query.lakeql.tables import ColumnKeys, TableColumn
from lakerunner_query.protocol.units import SchemaUnit, SegmentRef, TableUnit, UnitReport
from lakerunner_query.worker.metrics.segment_opener import MetricOpener
from lakerunner_query.worker.shared.block_cache import BlockCache
from lakerunner_query.worker.shared.lake_filesystem import LakeFileSystem
from lakerunner_query.worker.shared.range_requests import RangeStore
from lakerunner_query.worker.shared.segment_file import SegmentsInPlace
from lakerunner_query.worker.tables.scan import TableScanner
from lakerunner_query.worker.tables.schema import ARROW, SchemaReader
from resources.duckdb import Cancellation, DuckLimits, DuckSession
from tests.support.query.homes import open_lake

SQL_TYPES = {kind: name for name, kind in ARROW.items()}
EVER = 2**62


@dataclass(frozen=True)
class Tables:
    session: DuckSession
    scanner: TableScanner
    schemas: SchemaReader

    def columns(self, table: str, segments: Sequence[SegmentRef]) -> dict[str, TableColumn]:
        schema = self.schema(table, segments)
        return {one.name: TableColumn(one.name, SQL_TYPES[one.type]) for one in schema}

    def schema(self, table: str, segments: Sequence[SegmentRef]) -> pa.Schema:
        found, report = self.schemas.run(SchemaUnit("a", table, tuple(segments)), Cancellation())
        assert not report.missing
        return found.schema

    def scan(
        self,
        table: str,
        segments: Sequence[SegmentRef],
        sql: str,
        columns: Sequence[str | TableColumn],
        start_ns: int = -EVER,
        end_ns: int = EVER,
        keys: Sequence[ColumnKeys] = (),
        max_bytes: int = 0,
        cancellation: Cancellation | None = None,
    ) -> tuple[pa.Table, UnitReport]:
        known = self.columns(table, segments) if any(isinstance(one, str) for one in columns) else {}
        wanted = tuple(known[one] if isinstance(one, str) else one for one in columns)
        unit = TableUnit(
            "a", "acme", table, tuple(segments), start_ns, end_ns, wanted, sql, tuple(keys), 0, max_bytes
        )
        return self.scanner.run(unit, cancellation or Cancellation())

    def rows(self, *given: Any, **more: Any) -> list[tuple[Any, ...]]:
        table, report = self.scan(*given, **more)
        assert not report.missing
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@contextmanager
def tables_over(
    lake: Path, home: Path, store: RangeStore | None = None, *, in_place: bool = False, **limits: int
) -> Iterator[Tables]:
    """Readers as a worker process has them, of a folder in place or through its block cache."""
    blocks = BlockCache(home / "cache", 1 << 30, store or open_lake(lake))
    readable = (lake,) if in_place else ()
    session = DuckSession(DuckLimits(256, 2, home / "spill", readable, LakeFileSystem(blocks.handle)))
    opener = MetricOpener(SegmentsInPlace(lake) if in_place else blocks, 1 << 26, **limits)
    scanner = TableScanner(opener, session)
    try:
        yield Tables(session, scanner, SchemaReader(scanner.opener))
    finally:
        session.close()
