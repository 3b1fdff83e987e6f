"""The PostgreSQL door over a real lake, as psql and psycopg see it; every block of its page is run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from litestar.testing import TestClient
from psycopg import errors

from lakerunner_query.app import create_app
from tests.support.patience import PATIENCE_S
from tests.support.query.lake import Lake, Line, Stack, free_port

pytestmark = pytest.mark.integration
PSQL = shutil.which("psql")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to-sql-clients.md"
FENCE = re.compile(r"^```(bash|python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "=== block"
HOUR = "timestamp BETWEEN '2026-01-01' AND '2026-01-01 01:00'"


@pytest.fixture(scope="module")
def port(lake: Lake, stack: Stack) -> Iterator[int]:
    lake.add_org("acme", "key-acme")
    lake.add_org("globex", "key-globex")
    levels = (9, 9, 17)
    lake.write(
        "acme",
        [
            Line(
                at=n * 10**9,
                text=f"request {n} took {n} ms",
                level=levels[n % 3],
                attributes={"http.route": "/a"},
            )
            for n in range(60)
        ],
    )
    lake.write("globex", [Line(at=0, text="another one", attributes={"secret.label": "x"})])
    settings = replace(stack.settings, query_postgres_port=free_port())
    with TestClient(create_app(settings, lake.index)):
        yield settings.query_postgres_port


def dsn(port: int, key: str = "key-acme") -> str:
    return f"host=127.0.0.1 port={port} user=ann dbname=lake password={key}"


def test_statements_read_the_lake(port: int) -> None:
    with psycopg.connect(dsn(port), autocommit=True) as one:
        counted = one.execute(f"SELECT severity, count(*) FROM logs WHERE {HOUR} GROUP BY 1 ORDER BY 1")  # type: ignore[call-overload]
        assert counted.fetchall() == [("ERROR", 20), ("INFO", 40)]
        found = one.execute(
            "SELECT message FROM logs WHERE timestamp >= %s AND timestamp < %s ORDER BY timestamp LIMIT %s",
            ("2026-01-01 00:00:05", "2026-01-01 00:00:07", 5),
        )
        assert found.fetchall() == [("request 5 took 5 ms",), ("request 6 took 6 ms",)]
        with pytest.raises(errors.SyntaxError) as caught:
            one.execute(f"SELECT\n nope FROM logs WHERE {HOUR}")  # type: ignore[call-overload]
        assert caught.value.diag.statement_position == "9"


def test_an_organisation_sees_its_own_rows_and_labels(port: int) -> None:
    seen = {}
    for key in ("key-acme", "key-globex"):
        with psycopg.connect(dsn(port, key), autocommit=True) as one:
            rows = one.execute(f"SELECT message FROM logs WHERE {HOUR}").fetchall()  # type: ignore[call-overload]
            names = one.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_name = 'logs'"
            )
            seen[key] = len(rows), {name for (name,) in names}
    assert seen["key-acme"][0] == 60
    assert seen["key-globex"][0] == 1
    assert "timestamp" in seen["key-acme"][1]
    assert not any("secret" in name for name in seen["key-acme"][1])


@pytest.mark.skipif(PSQL is None, reason="psql is not installed")
def test_psql_lists_and_describes_tables(port: int) -> None:
    assert PSQL is not None
    script = "\\d\n\\dt\n\\d logs\n\\dn\n\\l\n\\du\nSELECT count(*) FROM logs WHERE " + HOUR + ";\n"
    env = {**os.environ, "PGPASSWORD": "key-acme"}
    done = subprocess.run(
        [PSQL, "-X", "-v", "ON_ERROR_STOP=1", f"host=127.0.0.1 port={port} user=ann dbname=lake"],
        input=script, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for line in ("public | logs | table | reader", 'Table "public.logs"', "timestamp without time zone"):
        assert line in re.sub(" +", " ", done.stdout)
    assert done.stdout.rstrip().endswith("60\n(1 row)")


@pytest.mark.skipif(PSQL is None, reason="psql is not installed")
def test_the_page_works_as_written(port: int, tmp_path: Path) -> None:
    script, expected = ["set -euo pipefail"], list[str]()
    for number, (kind, body) in enumerate(FENCE.findall(PAGE.read_text())):
        if kind == "bash":
            script.append(body)
        elif kind == "python":
            (tmp_path / f"{number}.py").write_text(body)
            script.append(f"python {number}.py")
        else:
            expected += [line for line in body.splitlines() if line.strip()]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "READ_KEY": "key-acme", "PGPORT": str(port)}
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    said = {line.strip() for line in (done.stdout + done.stderr).splitlines()}
    assert not [line for line in expected if line.strip() not in said], done.stdout + done.stderr
