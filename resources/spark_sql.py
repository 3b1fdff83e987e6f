"""One SQL statement runs on Spark, over tables whose rows come out of Python workers.

    spark = SparkSql(settings)
    spark.add_table("q1_scan_0", 12, scan, schema)          scan(number) yields record batches
    spark.add_function("q1_lq_0", call, pa.string())        call(*arrays) returns an array
    receipts = spark.run("SELECT …", write, receipt, "job-1", on_progress)
    spark.forget()

Everything is one lazy plan of Spark. All statements share one session, apart from that of the pipeline: Spark
starts Python workers for each session anew, which takes longer than most statements. So names must be unique.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from resources.settings import Settings
from resources.spark import (
    SESSION_SLOT_S,
    check_reachable,
    limit_retries,
    shared_session,
    tagged,
    translated,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Batches = Iterator[pa.RecordBatch]
Scan = Callable[[int], Batches]
"""Yields the rows of a task."""
Write = Callable[[int, Batches], Batches]
"""Takes the number and the rows of a partition of the answer, and yields receipts."""
Progress = Mapping[str, float]
CONFIG = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.legacy.statisticalAggregate": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.execution.pythonUDF.arrow.enabled": "true",
    # Spark takes a scan for one row a task, and would hold any table in memory to join it
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "16MB",
}
"""Settings on which the meaning of a statement depends, or its speed."""


_opened: dict[str, SparkSession] = {}
_opening = threading.Lock()


class SparkSql:
    """Tables, functions and the run of one statement, in the session that all share."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._session = _session(settings, time.time())
        self._tables: list[str] = []
        self._functions: list[str] = []

    def add_table(self, name: str, tasks: int, scan: Scan, schema: pa.Schema) -> None:
        """Add a relation; its rows are those of `scan(0)`, …, `scan(tasks - 1)`."""
        from pyspark.sql.pandas.types import from_arrow_schema

        with translated():
            numbers = self._session.range(0, tasks, 1, max(1, tasks))
            kinds = from_arrow_schema(schema, prefer_timestamp_ntz=True)
            numbers.mapInArrow(partial(_scan_all, scan), kinds).createOrReplaceTempView(name)
        self._tables.append(name)

    def add_function(
        self, name: str, call: Callable[[Sequence[pa.Array]], pa.Array], result: pa.DataType
    ) -> None:
        """Add a scalar function of columns."""
        from pyspark.sql.functions import arrow_udf
        from pyspark.sql.pandas.types import from_arrow_type

        def spread(*given: pa.Array) -> pa.Array:
            return call(given)

        with translated():
            kind = from_arrow_type(result, prefer_timestamp_ntz=True)
            self._session.udf.register(name, arrow_udf(spread, kind))
        self._functions.append(name)

    def schema(self, sql: str) -> pa.Schema:
        """Return the columns of a statement as Spark sees them."""
        from pyspark.sql.pandas.types import to_arrow_schema

        with translated():
            return to_arrow_schema(self._session.sql(sql).schema)

    def run(
        self,
        sql: str,
        write: Write,
        receipt: pa.Schema,
        tag: str,
        on_progress: Callable[[Progress], None],
    ) -> pa.Table:
        """Run the statement, hand the rows of each partition to `write`, return all receipts."""
        from pyspark.sql.pandas.types import from_arrow_schema

        handler = partial(_tell, on_progress, threading.get_ident())
        self._session.registerProgressHandler(handler)
        try:
            with translated(), tagged(self._session, (tag,)):
                rows = self._session.sql(sql)
                rows = rows.toDF(*(f"c{place}" for place in range(len(rows.columns))))
                return rows.mapInArrow(partial(_write_all, write), from_arrow_schema(receipt)).toArrow()
        finally:
            self._session.removeProgressHandler(handler)

    def interrupt(self, tag: str) -> None:
        """Stop what runs under the tag, also in the session before this one."""
        with translated():
            self._session.interruptTag(tag)
            _session(self._settings, time.time() - SESSION_SLOT_S).interruptTag(tag)

    def forget(self) -> None:
        """Drop the tables and functions of the statement."""
        with translated():
            for name in self._tables:
                self._session.catalog.dropTempView(name)
            for name in self._functions:
                self._session.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {name}")


def _session(settings: Settings, at_s: float) -> SparkSession:
    """Open the session of that time, or return it."""
    from pyspark.sql import SparkSession

    remote = settings.require("spark_remote")
    check_reachable(remote)
    url = shared_session(remote, at_s, settings.spark_token, "lakeql")
    with _opening, translated():
        if url not in _opened:
            session = SparkSession.builder.remote(url).create()
            limit_retries(session)
            for key, value in CONFIG.items():
                session.conf.set(key, value)
            _opened[url] = session
        return _opened[url]


def _scan_all(scan: Scan, batches: Batches) -> Batches:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from scan(number)


def _write_all(write: Write, batches: Batches) -> Batches:
    from pyspark import TaskContext

    context = TaskContext.get()
    yield from write(0 if context is None else context.partitionId(), batches)


def _tell(
    on_progress: Callable[[Progress], None], thread: int, stages: Any, inflight_tasks: int, **_: Any
) -> None:
    """Add up the stages of a job; Spark knows of a stage only once it begins.

    Handlers hear of all jobs of the session, each in the thread that runs it.
    """
    if threading.get_ident() != thread:
        return
    listed = list(stages or ())
    on_progress(
        {
            "stages": len(listed),
            "stages_done": sum(bool(one.done) for one in listed),
            "tasks": sum(one.num_tasks for one in listed),
            "tasks_done": sum(one.num_completed_tasks for one in listed),
            "tasks_running": inflight_tasks,
        }
    )
