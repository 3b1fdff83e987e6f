"""One attempt at a handed-over statement: the tables and functions go to Spark, the result into the lake."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import msgspec
import pyarrow as pa

from lakerunner_query.errors import EvaluationError, QueryError, QueryTimeoutError, WorkFailedError
from lakerunner_query.handover.tasks import (
    RECEIPT,
    DuckCall,
    Place,
    ScanTask,
    StoredRows,
    WriteAnswer,
    arrow_schema,
)
from lakerunner_query.lakeql.tables import TableColumn
from lakerunner_query.protocol.handover import (
    ERROR_FILE,
    REPORTS,
    Handover,
    HandoverResult,
    ResultPart,
    UnitDone,
)
from resources.index.job_types import QueryJob
from resources.lake.layout import query_attempt_prefix, query_plan_key
from resources.objects.client import ObjectStore
from resources.settings import Settings
from resources.spark import SparkUnavailableError, TaskCrashError
from resources.spark_sql import SparkSql

MOST_PARTS = 20_000


class CancelledJobError(RuntimeError):
    """The job was cancelled, or is somebody else's now."""


class Attempt:
    """Runs in a thread of its own; `stop` ends it from another."""

    def __init__(self, settings: Settings, store: ObjectStore, job: QueryJob) -> None:
        self.job = job
        self._settings = settings
        self._store = store
        self._prefix = query_attempt_prefix(job.org, job.job_id, job.attempt)
        self._progress: dict[str, float] = {}
        self._units = 0
        self._spark: SparkSql | None = None
        self._stopped = threading.Event()
        self._is_late = False

    @property
    def progress(self) -> Mapping[str, float]:
        return dict(self._progress)

    def stop(self) -> None:
        """Interrupt the work on Spark; the thread ends by itself."""
        self._stopped.set()
        spark = self._spark
        if spark is not None:
            spark.interrupt(self._tag(self.job.attempt))

    def run(self) -> HandoverResult:
        """Return the result, or raise what is wrong in the words of the statement."""
        job = self.job
        stored = self._store.get_bytes(query_plan_key(job.org, job.job_id))
        plan = msgspec.json.decode(stored, type=Handover).of_attempt(job.attempt)
        timer = threading.Timer(self._settings.query_job_max_s, self._end_late)
        timer.daemon = True
        timer.start()
        try:
            self._spark = SparkSql(self._settings)
            for earlier in range(1, job.attempt):
                self._spark.interrupt(self._tag(earlier))
            try:
                receipts = self._run_on(self._spark, plan)
            finally:
                self._spark.forget()
        except TaskCrashError as error:
            raise self._reason(error) from error
        except SparkUnavailableError:
            self._check()
            raise
        finally:
            timer.cancel()
        return self._result(receipts, plan)

    def _run_on(self, spark: SparkSql, plan: Handover) -> pa.Table:
        place = Place(self._settings.require("lake_url"), self._prefix)
        for table in plan.tables:
            schema = arrow_schema(table.columns)
            if table.units:
                units = tuple(msgspec.json.encode(unit) for unit in table.units)
                self._units += len(units)
                spark.add_table(table.name, len(units), ScanTask(place, table.name, units, schema), schema)
            elif table.rows:
                spark.add_table(table.name, 1, StoredRows(table.rows), schema)
            else:
                spark.add_table(table.name, 0, StoredRows(b""), schema)
        for function in plan.functions:
            (kind,) = arrow_schema((TableColumn("r", function.result),)).types
            spark.add_function(function.name, DuckCall(place, function), kind)
        schema = pa.ipc.read_schema(pa.py_buffer(plan.schema))
        _check_kinds(spark.schema(plan.sql), schema)
        self._check()
        return spark.run(
            plan.sql, WriteAnswer(place, schema), RECEIPT, self._tag(self.job.attempt), self._note
        )

    def _note(self, progress: Mapping[str, float]) -> None:
        self._progress.update(progress)

    def _tag(self, attempt: int) -> str:
        return f"lakeql-{self.job.job_id}-{attempt}"

    def _end_late(self) -> None:
        self._is_late = True
        self.stop()

    def _check(self) -> None:
        if self._is_late:
            raise QueryTimeoutError(f"no result within {self._settings.query_job_max_s:g} s on Spark")
        if self._stopped.is_set():
            raise CancelledJobError(f"attempt {self.job.attempt} of {self.job.job_id} was stopped")

    def _reason(self, error: TaskCrashError) -> Exception:
        """Return what a task left behind, else what Spark says."""
        try:
            self._check()
        except (QueryTimeoutError, CancelledJobError) as stopped:
            return stopped
        key = self._prefix + ERROR_FILE
        if self._store.exists(key):
            told = msgspec.json.decode(self._store.get_bytes(key), type=dict[str, str])
            found = next(
                (one for one in _subclasses(QueryError) if one.code == told["code"]), EvaluationError
            )
            made = found.__new__(found)
            QueryError.__init__(made, told["message"])
            return made
        return WorkFailedError(f"Spark could not run the statement: {str(error).strip().splitlines()[0]}")

    def _result(self, receipts: pa.Table, plan: Handover) -> HandoverResult:
        ordered = receipts.sort_by([("partition", "ascending"), ("part", "ascending")]).to_pylist()
        parts = tuple(
            ResultPart(number, one["key"], one["rows"], one["bytes"]) for number, one in enumerate(ordered)
        )
        if len(parts) > MOST_PARTS:
            raise WorkFailedError(f"the answer has {len(parts)} parts: add a LIMIT, or aggregate")
        missing = dict(plan.missing)
        counts: dict[str, int] = {"units": self._units}
        for infos in self._store.list(self._prefix + REPORTS):
            for info in infos:
                done = msgspec.json.decode(self._store.get_bytes(info.key), type=UnitDone)
                missing.update(done.missing)
                for name, count in done.counts.items():
                    counts[name] = counts.get(name, 0) + count
        rows, size = sum(one.rows for one in parts), sum(one.bytes for one in parts)
        return HandoverResult(parts, rows, size, tuple(missing.items()), counts)


def _check_kinds(found: pa.Schema, wanted: pa.Schema) -> None:
    """Refuse an answer whose columns are of another kind than DuckDB's: it would be another answer."""
    if len(found) != len(wanted):
        raise WorkFailedError(f"Spark answers {len(found)} columns, DuckDB {len(wanted)}")
    for mine, theirs in zip(found, wanted, strict=True):
        if _kind(mine.type) != _kind(theirs.type) and not pa.types.is_null(mine.type):
            raise WorkFailedError(
                f"the column {theirs.name} is {mine.type} in Spark, {theirs.type} in DuckDB"
            )


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    return (
        "text"
        if pa.types.is_string(kind) or pa.types.is_large_string(kind)
        else str(kind).split("[")[0].split("<")[0]
    )


def _subclasses(kind: type[QueryError]) -> list[type[QueryError]]:
    return [kind, *(deeper for one in kind.__subclasses__() for deeper in _subclasses(one))]


Runner = Callable[[QueryJob], Attempt]
