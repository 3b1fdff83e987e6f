"""LakeQL as the doors see it, over tables in memory: one DuckDB per organisation, no lake and no worker.

Two statements do what a lake rarely does on demand: one that names `endless` yields a batch after another
until it is left, one that names `waiting` yields nothing until then.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

import duckdb
import pyarrow as pa

from lakerunner_query.errors import ParseError, Position
from lakerunner_query.protocol.units import Missing

TABLES = """
CREATE TABLE logs (timestamp TIMESTAMP, organization_id VARCHAR, service_name VARCHAR, severity VARCHAR,
  message VARCHAR, duration_ms BIGINT, attributes MAP(VARCHAR, VARCHAR));
CREATE TABLE metrics (timestamp TIMESTAMP, organization_id VARCHAR, metric_name VARCHAR, value DOUBLE);
CREATE TABLE spans (timestamp TIMESTAMP, organization_id VARCHAR, trace_id VARCHAR, name VARCHAR,
  duration_ns BIGINT);
"""
ROWS = """
INSERT INTO logs SELECT TIMESTAMP '2026-01-01' + INTERVAL (i) SECOND, '{org}',
  CASE i % 2 WHEN 0 THEN 'web' ELSE 'payments' END, CASE i % 5 WHEN 0 THEN 'ERROR' ELSE 'INFO' END,
  'line ' || i || ' of {org}', i, MAP {{'user': 'ann', 'i': i::VARCHAR}} FROM range({rows}) t(i);
INSERT INTO metrics SELECT TIMESTAMP '2026-01-01' + INTERVAL (i) MINUTE, '{org}', 'up', i / 2
  FROM range({rows}) t(i);
INSERT INTO spans SELECT TIMESTAMP '2026-01-01' + INTERVAL (i) SECOND, '{org}', lpad(i::VARCHAR, 32, '0'),
  'GET /' || i, i * 1000 FROM range({rows}) t(i);
"""
ROWS_PER_BATCH = 1000
_NUMBER = re.compile(r"\$(\d{1,3})")
_CARET = re.compile(r"^LINE (\d{1,6}): ", re.MULTILINE)


class Request(Protocol):
    """The part of `LakeQLRequest` that the fake looks at."""

    @property
    def org(self) -> str: ...

    @property
    def parameters(self) -> tuple[object, ...]: ...


@dataclass
class FakeAnswer:
    schema: pa.Schema
    found: Sequence[pa.RecordBatch]
    lakeql: FakeLakeQL
    kind: str = ""
    notices: list[str] = field(default_factory=list)
    missing: dict[str, Missing] = field(default_factory=dict)
    statistics: dict[str, int] = field(
        default_factory=lambda: {"rows": 0, "segments": 3, "segments_opened": 1, "bytes_fetched": 2000}
    )
    job: None = None

    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        if self.kind == "waiting":
            await asyncio.Event().wait()
        rows = 0
        while True:
            for batch in self.found:
                self.lakeql.produced += 1
                rows += batch.num_rows
                yield batch
                await asyncio.sleep(0)
            if self.kind != "endless":
                break
            await asyncio.sleep(0)
        self.missing.update(self.lakeql.missing)
        self.statistics.update(rows=rows, segments_opened=3, bytes_fetched=rows * 100, requests=2)

    async def __aenter__(self) -> Self:
        self.lakeql.open_answers += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lakeql.open_answers -= 1


class FakeLakeQL:
    """The methods of `LakeQL`; `missing` and `notices` go into every answer."""

    def __init__(self, orgs: Sequence[str] = ("acme", "globex"), rows: int = 100) -> None:
        self._databases = {org: duckdb.connect(config={"threads": 1}) for org in orgs}
        for org, database in self._databases.items():
            database.execute(TABLES + ROWS.format(org=org, rows=rows))
        self.jobs = None
        self.missing: dict[str, Missing] = {}
        self.notices: list[str] = []
        self.open_answers = 0
        self.produced = 0
        self.asked: list[tuple[str, Any]] = []

    def close(self) -> None:
        for database in self._databases.values():
            database.close()

    async def describe(self, text: str, request: Request) -> pa.Schema:
        given = request.parameters or (None,) * await self.parameters(text)
        return self._read(text, request.org, given)[0]

    async def parameters(self, text: str) -> int:
        return max((int(number) for number in _NUMBER.findall(text)), default=0)

    async def open(self, text: str, request: Request) -> FakeAnswer:
        self.asked.append((text, request))
        schema, found = self._read(text, request.org, request.parameters)
        kind = next((kind for kind in ("endless", "waiting") if kind in text), "")
        return FakeAnswer(schema, found, self, kind, list(self.notices))

    async def explain(self, text: str, request: Request) -> str:
        del request
        return f"Plan of {text}"

    def _read(
        self, text: str, org: str, given: Sequence[object]
    ) -> tuple[pa.Schema, Sequence[pa.RecordBatch]]:
        numbered = {str(number): value for number, value in enumerate(given, 1)}
        if not text.strip(" ;"):
            raise ParseError("the statement is empty", Position(1, 1))
        cursor = self._databases[org].cursor()
        try:
            cursor.execute(text, numbered or None).fetchall()  # only its errors tell the place
            found = cursor.sql(text, params=numbered or None).to_arrow_table()
        except duckdb.Error as error:
            raise _as_query_error(text, error) from error
        finally:
            cursor.close()
        return found.schema, found.to_batches(ROWS_PER_BATCH)


def _as_query_error(text: str, error: duckdb.Error) -> ParseError:
    """Take the position from DuckDB's caret, which stands below the quoted line."""
    said = str(error)
    reason = said.partition("\n")[0]
    quoted = _CARET.search(said)
    if quoted is None or "^" not in said:
        return ParseError(reason, Position(1, 1))
    line = int(quoted[1])
    mark = said.index("^", quoted.end())
    caret = mark - said.rindex("\n", 0, mark) - 1 - len(quoted[0])
    shown = said[quoted.end() :].partition("\n")[0]
    whole = text.splitlines()[line - 1]
    return ParseError(reason, Position(line, caret + 1 if shown == whole else 1))
