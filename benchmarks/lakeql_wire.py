"""Bytes that workers send to the query API for a statement, against the rows that they stand for.

    python -m benchmarks.lakeql_wire [--rows N] [--json OUT]

Everything runs in one process; units and answers are encoded as they travel. What a statement sends is
compared with what the rows would take that it stands for: the columns that it names, of all rows that count.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from benchmarks.logql.corpus import DAY_NS, START_NS, parts
from benchmarks.logql.lake import ORG, LakeWriter
from benchmarks.report import Record, tell
from lakerunner_query.coordinator.lakeql import LakeQL
from lakerunner_query.plan.lakeql import LakeQLRequest
from lakerunner_query.protocol.units import TableUnit, Unit
from lakerunner_query.worker.units import AnswerCache, answer_unit
from resources.duckdb import Cancellation, DuckLimits, DuckSession
from resources.index.memory import MemoryIndex
from tests.support.query.in_process import InProcess, engine_over

SEGMENTS = 20
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Case:
    """A statement, and the rows that it stands for."""

    name: str
    sql: str
    rows: str


CASES = (
    Case("count(*), extent", "SELECT count(*), max(timestamp) FROM logs", "SELECT timestamp FROM logs"),
    Case(
        "count of a condition", "SELECT count(*) FROM logs WHERE severity = 'ERROR'",
        "SELECT timestamp FROM logs WHERE severity = 'ERROR'",
    ),
    Case(
        "group by", "SELECT service_name, severity, count(*) FROM logs GROUP BY 1, 2",
        "SELECT service_name, severity FROM logs",
    ),
    Case(
        "avg, stddev", "SELECT severity, avg(length(message)), stddev(length(message)) FROM logs GROUP BY 1",
        "SELECT severity, message FROM logs",
    ),
    Case(
        "approx_count_distinct", "SELECT severity, approx_count_distinct(message) FROM logs GROUP BY 1",
        "SELECT severity, message FROM logs",
    ),
    Case(
        "quantile sketch", "SELECT severity, approx_quantile(length(message), 0.9) FROM logs GROUP BY 1",
        "SELECT severity, message FROM logs",
    ),
    Case(
        "top groups", "SELECT attr_host, count(*) AS n FROM logs GROUP BY 1 ORDER BY n DESC, 1 LIMIT 10",
        "SELECT attr_host FROM logs",
    ),
    Case(
        "first rows of an order",
        "SELECT message, severity FROM logs ORDER BY length(message) DESC, message LIMIT 100",
        "SELECT message, severity FROM logs",
    ),
    Case(
        "last rows of time", "SELECT timestamp, message FROM logs ORDER BY timestamp DESC, message LIMIT 100",
        "SELECT timestamp, message FROM logs",
    ),
    Case(
        "semi-join",
        "SELECT count(*) FROM logs AS l WHERE l.trace_id IN "
        "(SELECT trace_id FROM logs WHERE severity = 'FATAL' AND message LIKE '%attempt=500%')",
        "SELECT trace_id FROM logs",
    ),
)  # fmt: skip
"""The last one has keys of one scan that narrow the other."""


class Counted(InProcess):
    """Workers in this process that count what they send."""

    sent = answers = 0

    async def run(
        self, units: Iterable[Unit], decode: Callable[[bytes], Answer], *, org: str = "", ahead: int = 1
    ) -> AsyncGenerator[Answer, None]:
        del org, ahead
        for unit in units:
            received: Any = msgspec.json.decode(msgspec.json.encode(unit), type=Unit)  # type: ignore[arg-type]
            body, _ = answer_unit(received, self.readers, AnswerCache(0), Cancellation())
            if isinstance(unit, TableUnit):
                self.sent += len(body)
                self.answers += 1
            yield decode(body)


def measure(rows: int) -> list[Record]:
    with tempfile.TemporaryDirectory(prefix="lakerunner-wire-") as name:
        folder, index = Path(name), MemoryIndex()
        index.create_organisation(ORG)
        writer = LakeWriter(folder / "lake", index)
        for part in parts(rows, SEGMENTS):
            writer.add(part)
        workers = Counted(folder / "lake", folder / "scratch")
        session = DuckSession(DuckLimits(1024, 2, folder / "coordinator", ()))
        lakeql = LakeQL(engine_over(index, workers), lambda: session, 3600)
        with asyncio.Runner() as runner:
            return [_record(case, lakeql, workers, runner) for case in CASES]


def _record(case: Case, lakeql: LakeQL, workers: Counted, runner: asyncio.Runner) -> Record:
    found = runner.run(_count(lakeql, case.sql))
    sent, units = _taken(workers)
    count = runner.run(_count(lakeql, case.rows))
    of_rows, _ = _taken(workers)
    counters = {"rows": count, "bytes_of_rows": of_rows, "units": units, "answer_rows": found}
    return Record(case.name.replace(" ", "-"), case.name, sent, "bytes", counters=counters)


def _taken(workers: Counted) -> tuple[int, int]:
    found = workers.sent, workers.answers
    workers.sent = workers.answers = 0
    return found


async def _count(lakeql: LakeQL, sql: str) -> int:
    """Return the number of rows of an answer."""
    request = LakeQLRequest(ORG, start_ns=START_NS - DAY_NS, end_ns=START_NS + 2 * DAY_NS)
    async with await lakeql.open(sql, request) as answer:
        return sum([batch.num_rows async for batch in answer.batches()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    tell("lakeql_wire", measure(args.rows), args.json)


if __name__ == "__main__":
    main()
