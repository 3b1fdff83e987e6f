"""Random statements of LakeQL against plain DuckDB over the same rows.

    python -m benchmarks.random_lakeql --count 10000 --seed 1 --resume /tmp/lakeql.state

Each statement is made of the seed and its number, so that a difference is repeated by these two
(`--only 1:4711`). Results are compared as multisets, in order where all columns are ordered, floats within
1e-9. Statements that both sides refuse agree, and are counted apart; one that only one side refuses is a
difference. The file of `--resume` keeps how far the run came and what it found.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa

from lakerunner_query.errors import QueryError
from tests.support.query.plain_tables import plain_database
from tests.support.query.random_sql import Statements
from tests.support.query.random_tables import LAKE_TABLES, Query
from tests.support.query.signals_lake import Asked, SignalsLake, asked_over
from tests.support.query.sql_results import difference, row_difference, rows_of, run_plain

UNSENT = "no segment in the interval has"


@dataclass
class Found:
    """Counts of a run so far."""

    done: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    differences: list[dict[str, str]] = field(default_factory=list)
    slowest_s: float = 0.0


@contextlib.contextmanager
def sides(folder: Path) -> Iterator[tuple[Asked, duckdb.DuckDBPyConnection]]:
    """LakeQL and DuckDB over one lake."""
    lake = SignalsLake(folder / "lake")
    with asked_over(lake, folder / "scratch") as asked, plain_database(lake.index, lake.folder) as database:
        yield asked, database


def statement(name: str) -> Query:
    """The statement of a seed and number."""
    return Statements(name, LAKE_TABLES).statement()


def compare(query: Query, asked: Asked, database: duckdb.DuckDBPyConnection) -> tuple[str, str]:
    """The outcome of a statement, and the difference if there is one."""
    wanted, refused = _plain(query.plain_sql, database)
    try:
        found = asked.table(query.sql)
    except QueryError as error:
        if refused:
            return "both refuse", ""
        return "different", f"LakeQL refuses: {str(error).splitlines()[0]}"
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is a finding
        return "different", f"{type(error).__name__}: {str(error)[:300]}"
    if wanted is None:
        return "different", f"DuckDB refuses: {refused.splitlines()[0]}"
    if any(note.startswith(UNSENT) for note in asked.notices):  # its type is not known
        problem = row_difference(rows_of(found), rows_of(wanted), ordered=query.is_total)
    else:
        problem = difference(found, wanted, ordered=query.is_total)
    if problem:
        return "different", problem
    forms = "+".join(sorted(set(asked.forms))) or "no scan"
    return f"equal, {forms}{', empty' if not wanted.num_rows else ''}", ""


def _plain(sql: str, database: duckdb.DuckDBPyConnection) -> tuple[pa.Table | None, str]:
    try:
        return run_plain(database, sql), ""
    except duckdb.Error as error:
        return None, str(error)


def run(count: int, seed: int, resume: Path | None, seconds: float = math.inf) -> Found:
    """Compare so many statements, from where the last run ended, and as long as there is time."""
    found, until = _resumed(resume), time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder, sides(Path(folder)) as (asked, database):
        while found.done < count and time.monotonic() < until:
            name = f"{seed}:{found.done}"
            query = statement(name)
            began = time.process_time()
            outcome, problem = compare(query, asked, database)
            found.slowest_s = max(found.slowest_s, time.process_time() - began)
            found.outcomes[outcome] += 1
            if problem:
                found.differences.append({"name": name, "problem": problem, "sql": query.sql})
                print(f"{name}: {problem}\n    {query.sql}", flush=True)
            found.done += 1
            if resume is not None and found.done % 20 == 0:
                resume.write_text(json.dumps(vars(found)))
    if resume is not None:
        resume.write_text(json.dumps(vars(found)))
    return found


def _resumed(resume: Path | None) -> Found:
    if resume is None or not resume.exists():
        return Found()
    known = json.loads(resume.read_text())
    return Found(known["done"], Counter(known["outcomes"]), known["differences"], known["slowest_s"])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which a run stops")
    parser.add_argument("--only", help="seed:number of one statement, which is shown with its plan")
    given = parser.parse_args(arguments)
    if given.only:
        return _show(given.only)
    found = run(given.count, given.seed, given.resume, given.seconds)
    for outcome, number in sorted(found.outcomes.items()):
        print(f"{number:7} {outcome}")
    print(
        f"{found.done} statements, {len(found.differences)} differences, slowest {found.slowest_s:.2f} s CPU"
    )
    return 1 if found.differences else 0


def _show(name: str) -> int:
    query = statement(name)
    with tempfile.TemporaryDirectory() as folder, sides(Path(folder)) as (asked, database):
        outcome, problem = compare(query, asked, database)
        print(f"{query.sql}\n\n{outcome}: {problem}\n")
        with contextlib.suppress(QueryError):
            print(asked.explain(query.sql))
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
