"""LakeQL on the engine: segments, then their columns, then scans, then the rest of the statement in DuckDB.

    async with await lakeql.open("SELECT severity, count(*) FROM logs GROUP BY 1", request) as answer:
        async for batch in answer.batches(): ...

All tables of a statement are located as of one moment. Scans whose rows matter only with a key of another
scan wait for it. Results of scans go into tables of a locked-down DuckDB that spills to disk; its memory and
the time of the statement are bounded, and leaving the answer interrupts it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import cache, partial
from types import TracebackType
from typing import Any, Self, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.coordinator.engine import Engine, all_at_once
from lakerunner_query.coordinator.lakeql_desk import Desk, Desks, duck_type, next_batch
from lakerunner_query.coordinator.lakeql_jobs import Jobs, result_of
from lakerunner_query.coordinator.lakeql_scans import (
    SLOW,
    LakeQuery,
    Tables,
    outdated_rollups,
    scan_cut,
    schema_key,
    schema_units,
    unite_types,
)
from lakerunner_query.coordinator.lakeql_sources import (
    arrow_type,
    as_sql,
    catalogue,
    columns_of,
    read_function,
    read_semantics,
)
from lakerunner_query.coordinator.lakeql_spark import brings_too_much, make_handover
from lakerunner_query.coordinator.languages import LAKEQL
from lakerunner_query.errors import (
    InvalidRequestError,
    LimitExceededError,
    QueryTimeoutError,
    TooLargeError,
)
from lakerunner_query.lakeql.sketches import add_sketch_functions
from lakerunner_query.lakeql.tables import TABLES, ColumnKeys, TableColumn
from lakerunner_query.plan.lakeql import CatalogueRead, FunctionRead, LakeQLRequest, plan_lakeql
from lakerunner_query.plan.lakeql_attributes import Types, spell_dotted, without_absent
from lakerunner_query.plan.lakeql_facts import divide, known_part
from lakerunner_query.plan.lakeql_pushdown import (
    Bound,
    Scan,
    bind,
    driving_first,
    scan_name,
    with_scans,
)
from lakerunner_query.plan.lakeql_spark_scalars import NotForSparkError
from lakerunner_query.protocol.units import Missing
from resources.duckdb import DuckSession
from resources.index.job_types import QueryJob
from resources.index.types import Segment

EXPLANATION = pa.schema([("plan", pa.string())])
"""Columns of EXPLAIN."""
Result = TypeVar("Result")


class LakeQL:
    """Answers LakeQL, PromQL and LogQL as tables."""

    def __init__(
        self, engine: Engine, session: Callable[[], DuckSession], window_s: int, jobs: Jobs | None = None
    ) -> None:
        """`session` is called for the first statement, in a thread: it takes a second.

        Without `jobs` there is no Spark, and what is too large is refused.
        """
        self.jobs = jobs
        self._engine = engine
        self._desks = Desks()
        self._session = cache(session)
        self._window_s = window_s
        self._lock = threading.Lock()
        self._has_functions = False
        self._types: dict[tuple[str, tuple[str, ...]], dict[str, str]] = {}

    def close(self) -> None:
        """Let no further statement begin; those at work end by themselves."""
        self._desks.threads.shutdown(wait=False, cancel_futures=True)
        if self.jobs is not None:
            self.jobs.close()

    async def open(self, text: str, request: LakeQLRequest) -> Answer:
        """Prepare a statement up to its scans; raise what is wrong with it."""
        answer = await self._prepare(text, request)
        try:
            if answer.plan.is_explained:
                answer.become_explanation(self._describe_plan(answer))
            else:
                await answer.evaluate_functions()
                await answer.choose_engine()
        except BaseException:
            await answer.close()
            raise
        return answer

    async def describe(self, text: str, request: LakeQLRequest) -> pa.Schema:
        """Return the columns of a statement's result; no rows are read."""
        unknown = replace(request, parameters=request.parameters or None)
        async with await self._prepare(text, unknown) as answer:
            return EXPLANATION if answer.plan.is_explained else answer.schema

    async def parameters(self, text: str) -> int:
        """Return the number of a statement's parameters."""
        request = LakeQLRequest("", parameters=None).at(time.time_ns(), self._window_s)
        return (await asyncio.to_thread(plan_lakeql, as_sql(text), request)).parameters

    async def explain(self, text: str, request: LakeQLRequest) -> str:
        async with await self._prepare(text, request, is_explained=True) as answer:
            return self._describe_plan(answer)

    async def _prepare(self, text: str, request: LakeQLRequest, *, is_explained: bool = False) -> Answer:
        asked = request.at(time.time_ns(), self._window_s)
        query = await self._engine.prepare(
            LAKEQL, as_sql(text), asked, asked.now_ns, is_explained=is_explained
        )
        answer = Answer(self._engine, query, Desk(self._open_session, text), self._desks, self.jobs)
        try:
            await answer.bind(await self._all_types(query), await self._catalogues(query))
        except BaseException:
            await answer.close()
            raise
        return answer

    def _open_session(self) -> DuckSession:
        with self._lock:
            found = self._session()
            if not self._has_functions:
                add_sketch_functions(found)
                self._has_functions = True
            return found

    async def _all_types(self, query: LakeQuery) -> dict[int, dict[str, str]]:
        """Return the columns of every table: those of its own, and those its segments add."""
        found: dict[int, dict[str, str]] = {
            read.number: {one.name: one.type for one in read.table.columns} for read in query.plan.tables
        }
        units = list(schema_units(query))
        known = [self._types.get(schema_key(unit)) for _, unit in units]
        wanted = [unit for (_, unit), types in zip(units, known, strict=True) if types is None]
        if wanted:
            sink = Tables()
            async with aclosing(self._engine.run(query, sink, all_at_once(wanted))) as answers:
                told = [table.schema async for table in answers]
            for unit, schema in zip(wanted, told, strict=True):
                if len(self._types) > 4_096:
                    self._types.clear()
                if not sink.missing:
                    self._types[schema_key(unit)] = _types_of(schema)
            fresh = iter([_types_of(schema) for schema in told])
            known = [next(fresh) if types is None else types for types in known]
        for (number, _), types in zip(units, known, strict=True):
            unite_types(found[number], types or {})
        return found

    async def _catalogues(self, query: LakeQuery) -> dict[int, pa.Table]:
        """Return the relations about tables that the statement reads."""
        found = {}
        for read in query.plan.reads:
            if not isinstance(read, CatalogueRead):
                continue
            request, types = query.request, dict[str, dict[str, str]]()
            for name in TABLES if read.name == "information_schema.columns" else ():
                one = await self._engine.prepare(LAKEQL, f"SELECT * FROM {name}", request)
                types[name] = (await self._all_types(one))[0]
            is_listed = read.name != "table_semantics"
            found[read.number] = (
                catalogue(read.name, types) if is_listed else await read_semantics(self._engine, request)
            )
        return found

    def _describe_plan(self, answer: Answer) -> str:
        lines = [self._engine.explain(answer.query)]
        for scan in answer.bound.scans:
            lines.append(f"scan {scan.number}, {scan.form}: {scan.sql}")
            lines += ["  segments that lie whole in the interval are not read"] * bool(scan.facts)
            lines += [f"  only rows with {one.column} among {len(one.values)} values" for one in scan.keys]
        lines += [
            f"scan {flow.target} may be narrowed to {flow.column} of scan {flow.source}"
            for flow in answer.bound.flows
        ]
        lines.append(f"then: {answer.bound.sql}")
        return "\n".join((*lines, *answer.notices))


def _types_of(schema: pa.Schema) -> dict[str, str]:
    return {one.name: duck_type(one.type) for one in schema}


class Answer:
    """One statement's result; leaving it stops all work."""

    def __init__(self, engine: Engine, query: LakeQuery, desk: Desk, desks: Desks, jobs: Jobs | None) -> None:
        self._engine = engine
        self._desks = desks
        self._jobs = jobs
        self.job: QueryJob | None = None
        """The statement on Spark, once it was handed over."""
        self.query = query
        self.text = query.text
        self._desk = desk
        self.plan = query.plan
        self.bound: Bound
        self.schema: pa.Schema
        self.notices: list[str] = [*query.plan.notices, *outdated_rollups(query)]
        self.missing: dict[str, Missing] = query.missing
        self.statistics: dict[str, int] = {"rows": 0, "segments": sum(map(len, query.segments))}
        self._sources: dict[int, pa.Table] = {}
        self._explanation: pa.Table | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._desk.is_open:
            self._desk.interrupt()
            await asyncio.to_thread(self._desk.close)
        if self.job is not None and self.job.is_under_way and not self.query.request.keep:
            assert self._jobs is not None  # noqa: S101 - a job came from it
            await self._jobs.cancel(self.job.org, self.job.job_id)

    async def bind(self, types: Mapping[int, Types], catalogues: Mapping[int, pa.Table]) -> None:
        """Resolve all names, and split the statement."""
        self._sources.update(catalogues)
        self._known = types
        for read in self._functions:
            self._sources[read.number] = columns_of(read).empty_table()
        self.schema = await self._run(self._bind, types)

    @property
    def _functions(self) -> list[FunctionRead]:
        return [one for one in self.plan.reads if isinstance(one, FunctionRead)]

    async def evaluate_functions(self) -> None:
        """Run the queries of table functions, each with its own engine, side by side."""
        functions, request = self._functions, self.query.request
        found = await asyncio.gather(
            *(read_function(self._engine, one, request, self.plan.now_ns) for one in functions)
        )
        for read, source in zip(functions, found, strict=True):
            await self._run(self._desk.insert, scan_name(read.number), source.table)
            self._sources[read.number] = source.table
            self.missing.update(source.missing)
            self.notices += source.notices

    def _bind(self, types: Mapping[int, Types]) -> pa.Schema:
        spell_dotted(self.plan, types)
        for number, table in self._sources.items():
            columns = [TableColumn(one.name, arrow_type(one.type)) for one in table.schema]
            self._desk.create(scan_name(number), columns)
        self.notices += without_absent(self.plan, types)
        for number, known in types.items():
            self._desk.create(scan_name(number), [TableColumn(*each) for each in known.items()])
        schema = self._desk.describe(with_scans(self.plan))
        self.bound = bind(self.plan, types, self._desk.is_valid)
        for scan in self.bound.scans:
            self._desk.create_as(scan)
        for number, table in self._sources.items():
            self._desk.insert(scan_name(number), table)
        return schema

    def become_explanation(self, text: str) -> None:
        """Answer with lines about the statement in place of its result."""
        self._explanation = pa.table({"plan": text.splitlines()}, schema=EXPLANATION)
        self.schema = EXPLANATION

    async def choose_engine(self) -> None:
        """Hand the statement over where that is asked for, or where it is certainly too large to stay."""
        engine = self.query.request.engine
        if engine == "spark" and self._jobs is None:
            raise InvalidRequestError("engine=spark: this query API has no Spark (LAKERUNNER_SPARK_REMOTE)")
        if engine == "spark":
            await self._hand_over()
        elif engine == "auto" and self._jobs is not None and brings_too_much(self.query, self.bound):
            await self._hand_over(TooLargeError(f"the statement reads more than fits into memory: {SLOW}"))

    async def _hand_over(self, reason: TooLargeError | None = None) -> None:
        """Make a job of the statement; raise the reason where Spark cannot take it over."""
        assert self._jobs is not None  # noqa: S101 - asked before
        arguments = (
            self.query, self._desk, self._known, self._sources, self.schema, tuple(self.notices),
            self.missing,
        )  # fmt: skip
        try:
            handover = await self._run(make_handover, *arguments)
        except NotForSparkError as error:
            if reason is None:
                raise
            raise TooLargeError(f"{reason.message}; {error.message}") from error
        self.job = await self._jobs.submit(handover, self.text)

    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Read, compute, and yield the result; the next batch is made when it is asked for."""
        limit = self.query.request.max_rows
        async with aclosing(self._batches()) as batches:
            async for batch in batches:
                if limit and self.statistics["rows"] + batch.num_rows > limit:
                    raise LimitExceededError(
                        f"the answer has more than {limit} rows: add a LIMIT, or aggregate"
                    )
                self.statistics["rows"] += batch.num_rows
                if batch.num_rows:
                    yield batch

    async def _batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        if self._explanation is not None:
            for batch in self._explanation.to_batches():
                yield batch
            return
        if self.job is None:
            try:
                await self._scan_all()
                reader, batches = await self._run(self._desk.execute, self.bound.tree)
            except TooLargeError as error:
                if self._jobs is None or self.query.request.engine != "auto":
                    raise
                self.notices.append(f"handed over to Spark: {error.message}")
                await self._hand_over(error)
        if self.job is not None:
            async with aclosing(self._from_spark()) as found:
                async for batch in found:
                    yield batch
            return
        with reader:
            while (batch := batches.pop(0)) is not None:
                yield self._shown(batch)
                if not batches:
                    batches.append(await self._run(next_batch, reader))

    async def _from_spark(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Wait for the job and yield its result."""
        assert self._jobs is not None  # noqa: S101 - asked before
        assert self.job is not None  # noqa: S101 - asked before
        job = await self._jobs.follow(self.job.org, self.job.job_id, self._note_job)
        result = result_of(job)
        self.missing.update((name, Missing(name, reason)) for name, reason in result.missing)
        self.statistics.update(result.statistics)
        async with aclosing(self._jobs.rows(result, self.schema)) as rows:
            async for batch in rows:
                yield batch

    def _note_job(self, job: QueryJob) -> None:
        self.job = job

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            column if column.type == one.type else pc.cast(column, one.type)
            for column, one in zip(batch.columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    async def _scan_all(self) -> None:
        """Run the scans; keys of the one with more conditions narrow the other of a join."""
        places = {read.number: place for place, read in enumerate(self.plan.tables)}
        done: dict[int, Scan] = {}
        # scans that brought all that there is of them
        for scan in driving_first(self.bound, self.plan.reads):
            keys = await self._keys_for(scan, done)
            segments = self.query.segments[places[scan.number]]
            if scan.facts and not keys:
                segments = await self._take_known(scan, segments)
            cut = scan_cut(self.query, scan, segments, keys, self._engine.workers)
            sink, before = Tables(scan.enough), dict(self.statistics)
            if cut.ahead:
                async with aclosing(self._engine.run(self.query, sink, cut)) as answers:
                    async for table in answers:
                        await self._run(self._desk.insert, scan.name, table)
                        self._count(sink, before)
            if scan.form != "keys" or not sink.is_full:
                done[scan.number] = scan
            self.missing.update(sink.missing)
            self._count(sink, before)

    async def _take_known(self, scan: Scan, segments: Sequence[Segment]) -> tuple[Segment, ...]:
        """Insert what the index knows; return segments that workers must read."""
        whole, cut = divide(scan.read, segments)
        if whole:
            await self._run(self._desk.insert, scan.name, known_part(scan.facts, whole))
        return tuple(cut)

    def _count(self, sink: Tables, before: Mapping[str, int]) -> None:
        """Add what a scan has read so far."""
        self.statistics.update((name, before.get(name, 0) + count) for name, count in sink.counts.items())

    async def _keys_for(self, scan: Scan, done: Mapping[int, Scan]) -> tuple[ColumnKeys, ...]:
        """Return keys of scans that are done, for the columns where they are not many."""
        found = []
        for flow in self.bound.flows:
            source = done.get(flow.source)
            if flow.target != scan.number or source is None or flow.source_column not in source.places:
                continue
            keys = await self._run(self._desk.keys, source.name, source.places[flow.source_column])
            if keys is not None:
                found.append(ColumnKeys(flow.column, keys))
        return tuple(found)

    async def _run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Do it in the organisation's turn; interrupt it at the deadline, or when nobody waits any longer."""
        loop = asyncio.get_running_loop()
        async with self._desks.turn(self.query.request.org, self.query.deadline):
            task = asyncio.ensure_future(loop.run_in_executor(self._desks.threads, partial(work, *arguments)))
            try:
                done, _ = await asyncio.wait({task}, timeout=max(0.0, self.query.deadline - loop.time()))
                if done:
                    return task.result()
            except duckdb.InterruptException as error:
                raise QueryTimeoutError(f"the statement was stopped: {SLOW}") from error
            finally:
                while not task.done():
                    self._desk.interrupt()
                    await asyncio.wait({task}, timeout=0.05)
                if not task.cancelled():
                    task.exception()  # nobody else asks for it after the deadline
        raise QueryTimeoutError(f"no answer after {self.query.timeout_s:g} s: {SLOW}")
