"""Every signal in every format through the whole stack: command line, pushes of real clients, segments."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from benchmarks.mixed import make
from benchmarks.traffic import loki
from lakerunner_cli.accounts import create_org, open_index, replace_key
from resources.index.types import SegmentQuery
from resources.lake.layout import Signal
from resources.settings import Settings
from tests.support.patience import PATIENCE_S, wait_for
from tests.support.stack_fixture import lakerunner

pytestmark = [pytest.mark.integration, pytest.mark.slow]
EVER = (-(2**62), 2**62)
ORG = "formats"


@pytest.fixture(scope="module")
def key(stack: Settings) -> str:
    with open_index(stack) as desk:
        create_org(desk, ORG)
        return replace_key(desk, ORG, "admin", "formats")


def ingest(stack: Settings, path: Path, signal: Signal) -> str:
    done = lakerunner(stack.data_dir, "ingest", str(path), "--org", ORG, "--signal", signal.value, "--wait")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(stack: Settings, signal: Signal, condition: str) -> list[tuple[Any, ...]]:
    """Rows of live segments, straight from the files."""
    with open_index(stack) as desk:
        segments = desk.find_segments(SegmentQuery(ORG, signal.value, 0, *EVER))
    files = [f"{stack.data_dir}/lake/{segment.key}" for segment in segments]
    if not files:
        return []
    text = f"SELECT * FROM read_parquet($files, union_by_name = true) WHERE {condition}"
    return duckdb.execute(text, {"files": files}).fetchall()


def foreign(now_s: float) -> list[dict[str, Any]]:
    return [
        {"timestamp": now_s - n, "level": "error", "message": f"line {n}", "service": "till", "till": "t1"}
        for n in range(5)
    ]


def as_csv(records: list[dict[str, Any]]) -> bytes:
    head = ",".join(records[0])
    return "\n".join([head, *(",".join(str(v) for v in r.values()) for r in records), ""]).encode()


def as_parquet(records: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(records), sink)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("shape", ["jsonl", "json.gz", "csv.zst", "parquet"])
def test_foreign_log_files_are_queryable(stack: Settings, key: str, shape: str, tmp_path: Path) -> None:
    service = f"till-{shape.replace('.', '-')}"
    records = [record | {"service": service} for record in foreign(round(time.time(), 3))]
    text = "".join(json.dumps(record) + "\n" for record in records).encode()
    data = {
        "jsonl": text,
        "json.gz": gzip.compress(text),
        "csv.zst": zstandard.compress(as_csv(records)),
        "parquet": as_parquet(records),
    }[shape]
    path = tmp_path / f"lines.{shape}"
    path.write_bytes(data)
    assert "5 rows" in ingest(stack, path, Signal.LOGS)
    lines = loki(stack, key, f'{{service_name="{service}"}}', 100)
    assert sorted(lines) == [f"line {n}" for n in range(5)]


@pytest.mark.parametrize("signal", list(Signal))
def test_otlp_of_every_signal_becomes_rows(stack: Settings, key: str, signal: Signal, tmp_path: Path) -> None:
    import random

    number = 900 + list(Signal).index(signal)
    made = make(number, random.Random(3), poisoned=False)
    assert made.signal is signal
    path = tmp_path / "otlp.binpb"
    path.write_bytes(made.data or b"")
    assert f"{made.rows} rows" in ingest(stack, path, signal)
    condition = f"resource_service_name = 'service-{number % 7}'"
    assert len(rows(stack, signal, condition)) == made.rows


def test_a_bad_line_is_rejected_alone_and_listed(stack: Settings, key: str, tmp_path: Path) -> None:
    good = json.dumps({"message": "good one", "service": "spoilt", "time": time.time()})
    path = tmp_path / "lines.ndjson"
    path.write_text(f"{good}\n{{broken\n{good}\n")
    said = ingest(stack, path, Signal.LOGS)
    assert "2 rows" in said
    assert "1 records rejected" in said
    listed = lakerunner(stack.data_dir, "admin", "rejected", "list", "--org", ORG).stdout
    assert "byte" in listed
    assert "1 rejected, 2 queryable" in listed


def test_pushed_logs_are_answered_like_any_other(stack: Settings, key: str) -> None:
    now = time.time_ns()
    body = {
        "streams": [
            {"stream": {"job": "pushed"}, "values": [[str(now), "hello from promtail", {"user": "7"}]]}
        ]
    }
    answer = httpx.post(
        f"http://{stack.ingress_host}:{stack.ingress_port}/loki/api/v1/push",
        json=body,
        headers={"Authorization": f"Bearer {key}"},
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 204, answer.text
    wait_for(lambda: loki(stack, key, '{job="pushed"}', 10) == ["hello from promtail"], what="the push")
