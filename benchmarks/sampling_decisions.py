"""Traces decided per second, from files on disk to decisions, and the memory that takes.

    python -m benchmarks.sampling_decisions --traces 10000 --spans 250 --commits 60
    python -m benchmarks.sampling_decisions --traces 100000 --spans 250 --commits 924 --only state

Spans of an hour are written as commits of the canonical table; then, each in a process of its own,
`incremental` adds commit after commit and decides what is complete, `cold` reads the whole hour at once,
`map` does so with a policy on an attribute of the map, `memory` holds whole spans in Python, the old way.
Each prints one line of JSON with its peak memory (VmHWM) and the load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from lakerunner_sampling.aggregate import Commit, StateLimits, TraceState
from lakerunner_sampling.policies.documents import read_policies
from lakerunner_sampling.policies.model import DecisionMoment, LimiterMemory
from lakerunner_sampling.shapes import CanonicalShape

HOUR_START_NS, SECOND = 1_780_000_000 * 10**9, 10**9
HOUR_S, INACTIVITY_S = 3600, 300
POLICIES: list[dict[str, Any]] = [
    {"name": "errors", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}},
    {"name": "slow", "type": "latency", "latency": {"threshold_ms": 5000}},
    {"name": "rest", "type": "probabilistic", "probabilistic": {"sampling_percentage": 1}},
    {"name": "cap", "type": "rate_limiting", "rate_limiting": {"spans_per_second": 100}},
]
ON_MAP = {
    "name": "route",
    "type": "string_attribute",
    "string_attribute": {"key": "http.route", "values": ["/r/7"]},
}
KEYS = (
    "http.route",
    "http.method",
    "http.url",
    "k8s.pod.name",
    "user.id",
    "db.statement",
    "net.peer.ip",
    "thread.id",
)
VALUES = 200


def write_commits(folder: Path, traces: int, spans: int, commits: int) -> None:
    """Write spans in the order of their start, a file for each commit."""
    rng = np.random.default_rng(7)
    ids = rng.integers(0, 256, (traces, 16), np.uint8)
    start = rng.integers(0, (HOUR_S - INACTIVITY_S - 10) * 10**6, traces)
    took = np.where(rng.random(traces) < 0.01, rng.integers(5 * 10**6, 60 * 10**6, traces), 800_000)
    bad = rng.random(traces) < 0.01
    owner = np.repeat(np.arange(traces, dtype=np.int32), spans)
    at = start[owner] + (rng.random(len(owner)) * took[owner]).astype(np.int64)
    order = np.argsort(at, kind="stable")
    owner, at = owner[order], at[order]
    edges = np.searchsorted(at, np.linspace(0, HOUR_S * 10**6, commits + 1))
    for number, (first, last) in enumerate(pairwise(edges)):
        if last > first:
            part = owner[first:last]
            found = _table(rng, ids[part], at[first:last], bad[part])
            pq.write_table(found.sort_by("trace_id"), folder / f"{number:04d}.parquet", compression="zstd")


def _table(rng: np.random.Generator, ids: np.ndarray, at: np.ndarray, bad: np.ndarray) -> pa.Table:
    rows = len(ids)
    count = len(KEYS)
    keys = pa.DictionaryArray.from_arrays(
        pa.array(np.tile(np.arange(count, dtype=np.int32), rows)), pa.array(KEYS)
    )
    pool = pa.array(
        [
            f"/r/{place}" if key == KEYS[0] else f"{key}-value-{place:05d}"
            for key in KEYS
            for place in range(VALUES)
        ]
    )
    codes = np.tile(np.arange(count) * VALUES, rows) + rng.integers(0, VALUES, rows * count)
    values = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pool)
    offsets = pa.array(np.arange(0, rows * count + 1, count, dtype=np.int32))
    return pa.table(
        {
            "trace_id": _fixed(ids.tobytes(), 16, rows),
            "status_code": pa.array(np.where(bad, 2, 0).astype(np.int32)),
            "start_ns": pa.array(HOUR_START_NS + at * 1000),
            "end_ns": pa.array(HOUR_START_NS + at * 1000 + rng.integers(10**5, 10**8, rows)),
            "span_id": _fixed(rng.bytes(8 * rows), 8, rows),
            "parent_span_id": _fixed(rng.bytes(8 * rows), 8, rows),
            "service_name": _words(rng, "service", 40, rows),
            "operation_name": _words(rng, "GET /api", 400, rows),
            "span_kind": pa.array(rng.integers(1, 6, rows).astype(np.int32)),
            "attributes": pa.MapArray.from_arrays(offsets, keys.cast(pa.string()), values.cast(pa.string())),
        }
    )


def _fixed(data: bytes, width: int, rows: int) -> pa.Array:
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), rows, [None, pa.py_buffer(data)])


def _words(rng: np.random.Generator, prefix: str, count: int, rows: int) -> pa.Array:
    codes = pa.array(rng.integers(0, count, rows).astype(np.int32))
    return pa.DictionaryArray.from_arrays(codes, pa.array([f"{prefix}-{place}" for place in range(count)]))


def run(mode: str, folder: Path, scratch: Path) -> dict[str, Any]:
    files = sorted(map(str, folder.glob("*.parquet")))
    if mode == "memory":
        return in_memory(files)
    policies = [*POLICIES, *([ON_MAP] if mode == "map" else [])]
    chosen = read_policies(yaml.safe_dump(policies).encode()).policy_set(uses_tracestate=False)
    limits = StateLimits(scratch, INACTIVITY_S * SECOND, readable=(folder,))
    began = time.perf_counter()
    with TraceState(chosen, CanonicalShape(), limits) as state:
        opened = time.perf_counter()
        found = incremental(state, files) if mode == "incremental" else cold(state, files)
    found["startup_s"] = round(opened - began, 3)
    return found


def incremental(state: TraceState, files: list[str]) -> dict[str, Any]:
    """Add, decide and evict commit by commit; the last watermark lies beyond all."""
    memory, decided, kept, busy = LimiterMemory(), 0, 0, []
    schema = pq.read_schema(files[0])
    for number, file in enumerate(files):
        began = time.perf_counter()
        state.add(Commit(number, [file], schema))
        watermark = (state.watermark_ns or 0) + (HOUR_S * SECOND if number == len(files) - 1 else 0)
        ready = state.ready(watermark)
        if ready.num_rows:
            found = state.policies.decide(ready, DecisionMoment(watermark), memory)
            memory = found.memory
            state.evict(found.table.column("trace_id").combine_chunks())
            decided += ready.num_rows
            kept += sum(found.table.column("keep").to_pylist())
        busy.append(time.perf_counter() - began)
    total = sum(busy)
    p50, p99 = (round(float(np.quantile(busy, each)) * 1000, 1) for each in (0.5, 0.99))
    return {
        "traces": decided,
        "kept": kept,
        "left": state.trace_count(),
        "seconds": round(total, 2),
        "traces_per_second": round(decided / total),
        "commit_ms_p50": p50,
        "commit_ms_p99": p99,
    }


def cold(state: TraceState, files: list[str]) -> dict[str, Any]:
    began = time.perf_counter()
    state.add(Commit(1, files, pq.read_schema(files[0])))
    ready = state.ready((state.watermark_ns or 0) + HOUR_S * SECOND)
    read = time.perf_counter() - began
    found = state.policies.decide(ready, DecisionMoment(HOUR_START_NS), LimiterMemory())
    total = time.perf_counter() - began
    kept = sum(found.table.column("keep").to_pylist())
    return {
        "traces": ready.num_rows,
        "kept": kept,
        "aggregate_s": round(read, 3),
        "seconds": round(total, 3),
        "traces_per_second": round(ready.num_rows / total),
    }


def in_memory(files: list[str]) -> dict[str, Any]:
    """Hold every span until its trace is decided, as an object with its attributes."""
    began = time.perf_counter()
    traces: dict[bytes, list[dict[str, Any]]] = defaultdict(list)
    spans = 0
    for file in files:
        for row in pq.read_table(file).to_pylist():
            traces[row["trace_id"]].append({**row, "attributes": dict(row["attributes"])})
            spans += 1
    kept = sum(any(span["status_code"] == 2 for span in trace) for trace in traces.values())
    total = time.perf_counter() - began
    return {
        "traces": len(traces),
        "spans": spans,
        "kept": kept,
        "seconds": round(total, 2),
        "traces_per_second": round(len(traces) / total),
    }


def _peak_kb() -> int:
    line = next(
        each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmHWM")
    )
    return int(line.split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=int, default=10_000)
    parser.add_argument("--spans", type=int, default=250, help="spans of a trace")
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--folder", type=Path, help="keep the commits there, and use them if they are")
    parser.add_argument("--only", choices=("all", "state"), default="all", help="state: leave out `memory`")
    parser.add_argument("--mode", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.mode:
        with tempfile.TemporaryDirectory() as scratch:
            found = run(args.mode, args.folder, Path(scratch))
        print(
            json.dumps(
                {"mode": args.mode, **found, "peak_mb": round(_peak_kb() / 1024), "load": os.getloadavg()[0]}
            )
        )
        return
    with tempfile.TemporaryDirectory() as made:
        folder = args.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            write_commits(folder, args.traces, args.spans, args.commits)
        modes = ["incremental", "cold", "map", *(["memory"] if args.only == "all" else [])]
        for mode in modes:
            command = [
                sys.executable,
                "-m",
                "benchmarks.sampling_decisions",
                "--mode",
                mode,
                "--folder",
                str(folder),
            ]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
