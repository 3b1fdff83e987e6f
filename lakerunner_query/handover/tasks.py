"""Tasks of a handed-over statement run in Spark's Python workers: scans, DuckDB's functions, the writing.

A scan is a unit of the query workers, run by their code. A task that meets an error of the statement leaves
it beside the result before it fails, so that the caller reads a sentence and no stack of Spark.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.errors import EvaluationError, QueryError
from lakerunner_query.lakeql.tables import TableColumn
from lakerunner_query.plan.lakeql_spark_scalars import DuckFunction
from lakerunner_query.protocol.handover import ERROR_FILE, REPORTS, UnitDone
from lakerunner_query.protocol.units import TableUnit
from resources.duckdb import Cancellation, DuckLimits, DuckSession
from resources.objects.client import ObjectStore
from resources.objects.store import open_store
from resources.settings import MIB, Settings

if TYPE_CHECKING:
    from lakerunner_query.worker.tables.scan import TableScanner

BATCH_ROWS = 50_000
PART_BYTES, PART_ROWS = 32 * MIB, 1_000_000
"""Bounds of one file of the answer, before compression: the query API reads a file at a time."""
CACHE_BYTES = 2048 * MIB
RECEIPT = pa.schema(
    [("partition", pa.int64()), ("part", pa.int64()), ("key", pa.string()), ("rows", pa.int64()),
     ("bytes", pa.int64())]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """The lake, and the folder of the attempt in it."""

    lake_url: str
    prefix: str

    def store(self) -> ObjectStore:
        return open_store(self.lake_url, Settings.load())

    def report(self, table: str, number: int) -> str:
        return f"{self.prefix}{REPORTS}{table}-{number:06d}.json"


def arrow_schema(columns: Sequence[TableColumn]) -> pa.Schema:
    """Return the Arrow types of columns whose types DuckDB names."""
    listed = ", ".join(f'CAST(NULL AS {one.type}) AS "c{n}"' for n, one in enumerate(columns))
    with _functions().cursor() as cursor:
        found = cursor.sql(f"SELECT {listed}").to_arrow_table().schema
    return pa.schema([pa.field(one.name, kind.type) for one, kind in zip(columns, found, strict=True)])


@dataclass(frozen=True, slots=True)
class ScanTask:
    """Runs the units of one table, each as a task."""

    place: Place
    table: str
    units: tuple[bytes, ...]
    schema: pa.Schema

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        unit = msgspec.json.decode(self.units[number], type=TableUnit)
        with _errors_left_behind(self.place):
            table, report = _scanner(self.place.lake_url).run(unit, Cancellation())
            table = table.cast(self.schema)
        done = UnitDone(
            tuple((one.segment_id, one.reason) for one in report.missing),
            {
                "segments_opened": report.segments_opened,
                "rows_considered": report.rows_considered,
                "bytes_considered": report.bytes_considered,
                "bytes_fetched": report.bytes_fetched,
                "requests": report.requests,
            },
        )
        self.place.store().put(self.place.report(self.table, number), msgspec.json.encode(done))
        yield from table.to_batches(BATCH_ROWS)


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Yields rows that the query API had: those of `promql()`, of the catalogue."""

    rows: bytes

    def __call__(self, _number: int) -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_stream(self.rows) as reader:
            yield from reader


@dataclass(frozen=True, slots=True)
class DuckCall:
    """Evaluates one scalar expression over columns, in DuckDB."""

    place: Place
    function: DuckFunction

    def __call__(self, given: Sequence[pa.Array]) -> pa.Array:
        names = [f"a{n}" for n in range(len(given))]
        kinds = zip(names, self.function.arguments, strict=True)
        listed = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in kinds)
        function = self.function
        sql = f"SELECT CAST(({function.sql}) AS {function.result}) AS r FROM (SELECT {listed} FROM given)"  # noqa: S608
        with _errors_left_behind(self.place), _functions().cursor() as cursor:
            cursor.register("given", pa.table(list(given), names=names))
            try:
                found = cursor.sql(sql).to_arrow_table().column(0)
            except duckdb.Error as error:
                raise EvaluationError(str(error).splitlines()[0]) from error
        return pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], found.type)


@dataclass(frozen=True, slots=True)
class WriteAnswer:
    """Writes the rows of a partition as Parquet files, with the types that DuckDB would have answered."""

    place: Place
    schema: pa.Schema

    def __call__(self, partition: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        size = rows = part = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            held.append(self._typed(batch))
            size, rows = size + held[-1].nbytes, rows + batch.num_rows
            if size >= PART_BYTES or rows >= PART_ROWS:
                yield self._put(partition, part, held)
                held, size, rows, part = [], 0, 0, part + 1
        if held:
            yield self._put(partition, part, held)

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        with _errors_left_behind(self.place):
            try:
                columns = [
                    column if column.type == one.type else column.cast(one.type)
                    for column, one in zip(batch.columns, self.schema, strict=True)
                ]
            except pa.ArrowInvalid as error:
                raise EvaluationError(f"a value does not fit the type of its column: {error}") from error
        names = [f"c{n}" for n in range(len(columns))]
        return pa.RecordBatch.from_arrays(columns, names)

    def _put(self, partition: int, part: int, held: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        table, sink = pa.Table.from_batches(held), io.BytesIO()
        pq.write_table(table, sink, compression="zstd", compression_level=1, row_group_size=131_072)
        body = sink.getvalue()
        key = f"{self.place.prefix}part-{partition:05d}-{part:05d}.parquet"
        self.place.store().put(key, body)
        values = [[partition], [part], [key], [table.num_rows], [len(body)]]
        arrays = [pa.array(value, one.type) for value, one in zip(values, RECEIPT, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=RECEIPT)


class _errors_left_behind:  # noqa: N801 - used as a function
    """Store an error of the statement where the driver finds it; the first one stays."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, QueryError):
            body = msgspec.json.encode({"code": error.code, "message": error.message})
            self._place.store().put(self._place.prefix + ERROR_FILE, body)


@cache
def _home() -> Path:
    """Return a folder of this process; those of processes that are gone are removed."""
    base = Settings.load().data_dir / "query-jobs"
    for one in base.glob("*"):
        if one.name.isdigit() and not Path("/proc", one.name).exists():
            shutil.rmtree(one, ignore_errors=True)
    return base / str(os.getpid())


@cache
def _functions() -> DuckSession:
    limits = DuckLimits(
        Settings.load().query_job_memory_mb, 1, _home() / "spill-functions", (), in_order=True
    )
    return DuckSession(limits)


@cache
def _scanner(lake_url: str) -> TableScanner:
    """Open the reader of segments; tasks that scan nothing are spared its imports, which take seconds."""
    from lakerunner_query.worker.metrics.segment_opener import MetricOpener
    from lakerunner_query.worker.shared.block_cache import BlockCache
    from lakerunner_query.worker.shared.lake_filesystem import LakeFileSystem
    from lakerunner_query.worker.shared.segment_file import SegmentsInPlace, folder_of
    from lakerunner_query.worker.tables.scan import TableScanner

    settings = replace(Settings.load(), lake_url=lake_url)
    store = open_store(lake_url, settings)
    lake = folder_of(lake_url) if isinstance(store, ObjectStore) else None
    blocks = BlockCache(_home() / "blocks", min(CACHE_BYTES, settings.cache_max_bytes), store)
    readable = () if lake is None else (lake,)
    files = LakeFileSystem(blocks.handle)
    session = DuckSession(DuckLimits(settings.query_job_memory_mb, 1, _home() / "spill", readable, files))
    segments = blocks if lake is None else SegmentsInPlace(lake)
    return TableScanner(MetricOpener(segments, settings.query_job_memory_mb * MIB // 3), session)
