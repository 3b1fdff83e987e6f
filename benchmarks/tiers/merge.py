"""Merging: 16 log segments of one hour, and 24 hourly metric segments, to one each.

    python -m benchmarks.tiers.merge 1000000

Rows are made by arithmetic and written by the ordinary writers; what is measured is a child process that only
merges, once warm, so that its peak memory is that of merging.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.naming import Attribute
from lakerunner_assets.segments.logs import write_log_segment
from lakerunner_assets.segments.merge.request import MergeKind, MergeRequest, Window
from lakerunner_assets.segments.merge.run import merge
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity
from resources.lake import streams

LOG_SEGMENTS, METRIC_SEGMENTS = 16, 24
MEMORY = 512 << 20
START = 1_768_392_000_000_000_000
HOUR_NS = 3_600_000_000_000
STEP_MS = 15_000
STEPS = 240
_RESOURCE = {
    "service.name": 12, "k8s.pod.name": 20, "k8s.node.name": 7, "cloud.region": 1, "host.name": 20,
    "service.version": 1, "deployment.environment": 1,
}  # fmt: skip
"""Attributes of resources, and how many values each has."""
_DATASETS = {MergeKind.LOGS: "logs", MergeKind.SAMPLES: "metrics"}

Result = dict[str, float]
Taken = ParamSpec("Taken")
Given = TypeVar("Given")


def measure(rows: int) -> dict[str, Result]:
    """Merge about so many rows of each kind."""
    found: dict[str, Result] = {}
    for kind, make in ((MergeKind.LOGS, log_segments), (MergeKind.SAMPLES, metric_segments)):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            in_child(make, folder, rows)
            warm = folder / "warm"
            warm.mkdir()
            in_child(make, warm, LOG_SEGMENTS * 1000)
            found[kind.value] = in_child(merge_all, folder, warm, kind)
    return found


def in_child(function: Callable[Taken, Given], *arguments: Taken.args, **named: Taken.kwargs) -> Given:
    """In a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments, named)


def merge_all(folder: Path, warm: Path, kind: MergeKind) -> Result:
    """All segments of the folder, after those of another to have everything loaded and compiled."""
    _merged(warm, kind)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    rows, read, wrote = _merged(folder, kind)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {
        "rows": rows,
        "input_mb": read / 1e6,
        "output_mb": wrote / 1e6,
        "seconds": wall,
        "cpu_seconds": cpu,
        "rows_per_cpu_second": rows / cpu,
        "input_mb_per_second": read / 1e6 / wall,
        "rss_growth_mb": grown / 1e3,
    }


def _merged(folder: Path, kind: MergeKind) -> tuple[int, int, int]:
    sources = sorted(folder.glob("tbl_*.parquet"))
    with tempfile.TemporaryDirectory(dir=folder) as out:
        request = MergeRequest(
            kind=kind,
            sources=sources,
            folder=Path(out),
            org="acme",
            collector="eu",
            dataset=_DATASETS[kind],
            target=Window(START, 24 * HOUR_NS),
            carve=(),
            generation=1,
            target_bytes=4 << 30,
            memory_bytes=MEMORY,
            name=lambda _window, part: f"merged-{part}",
        )
        result = merge(request)
        return (
            result.rows_written,
            sum(path.stat().st_size for path in sources),
            sum(segment.facts.bytes for segment in result.segments),
        )


def log_segments(folder: Path, rows: int) -> None:
    """Segments of web-shop lines that all lie in one hour."""
    for number in range(LOG_SEGMENTS):
        table = log_table(number, rows // LOG_SEGMENTS)
        write_log_segment([table], folder / f"tbl_{number:02}.parquet", _identity("logs", number))


def metric_segments(folder: Path, rows: int) -> None:
    """Hours of as many series as it takes: half counters, a quarter each of short decimals and of doubles."""
    count = max(1, rows // METRIC_SEGMENTS // STEPS)
    totals = np.zeros(count)
    for hour in range(METRIC_SEGMENTS):
        table = _metrics(hour, count, totals)
        write_metric_segment([table], folder / f"tbl_{hour:02}.parquet", _identity("metrics", hour))


def _identity(dataset: str, number: int) -> SegmentIdentity:
    return SegmentIdentity("acme", "eu", dataset, START, f"{number:02}")


def _coded(codes: np.ndarray, texts: Sequence[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(texts, pa.string()))


def attribute_column(
    scope: str, key: str, column: pa.Array, kind: str = "string"
) -> tuple[pa.Field, pa.Array]:
    attribute = Attribute(scope, key, kind)
    return attribute.field(f"{scope}.{key}", column.type), column


def log_table(number: int, rows: int) -> pa.Table:
    rng = np.random.default_rng(number)
    pod = rng.integers(0, 20, rows)
    status = np.array([200, 200, 200, 404, 500])[rng.integers(0, 5, rows)]
    user, took, request = rng.integers(0, 10**6, rows), rng.random(rows) * 900, rng.integers(0, 2**63, rows)
    messages = [
        f"GET /api/v1/users/{u}/orders completed with status {s} in {t:.2f}ms request_id={r:016x}"
        for u, s, t, r in zip(user.tolist(), status.tolist(), took.tolist(), request.tolist(), strict=True)
    ]
    times = np.sort(rng.integers(START + 1, START + HOUR_NS, rows))
    labels = [
        streams.canonical({"service_name": f"svc-{each % 12}", "k8s_pod_name": f"pod-{each}"})
        for each in range(20)
    ]
    level = rng.integers(0, 3, rows)
    plain = {
        "chq_tsns": pa.array(times),
        "chq_observed_tsns": pa.array(times + 5_000_000),
        "log_level": _coded(level, ["INFO", "WARN", "ERROR"]),
        "log_severity_number": pa.array((9 + 4 * level).astype(np.int32)),
        "log_severity_text": _coded(level, ["INFO", "WARN", "ERROR"]),
        "log_message": pa.array(messages),
        "chq_body_kind": _coded(np.zeros(rows), ["string"]),
        "detected_level": _coded(level, ["info", "warn", "error"]),
        "chq_fingerprint": pa.array(rng.integers(-(2**63), 2**63, 50)[status % 50]),
        "trace_id": pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(16), rows, [None, pa.py_buffer(rng.bytes(16 * rows))]
        ),
        "span_id": pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(8), rows, [None, pa.py_buffer(rng.bytes(8 * rows))]
        ),
        "log_flags": pa.array(np.ones(rows, np.int64)),
        "chq_object": pa.array(np.full(rows, number + 1)),
        "chq_position": pa.array(np.arange(rows)),
        "chq_stream_id": pa.array(np.array([streams.stream_id(each) for each in labels])[pod]),
        "chq_stream": _coded(pod, [streams.labels_to_text(each) for each in labels]),
        "scope_name": _coded(np.zeros(rows), ["app.logger"]),
    }
    clients = [f"10.{each % 256}.{each // 256 % 256}.7" for each in user.tolist()]
    attributes = [
        *(
            attribute_column("resource", key, _coded(pod % size, [f"{key}-{each}" for each in range(size)]))
            for key, size in _RESOURCE.items()
        ),
        attribute_column("record", "http.method", _coded(np.zeros(rows), ["GET"])),
        attribute_column("record", "http.route", _coded(np.zeros(rows), ["/api/v1/users/:id/orders"])),
        attribute_column("record", "http.status_code", pa.array(status), "int"),
        attribute_column("record", "user.id", pa.array([f"u{each}" for each in user.tolist()])),
        attribute_column("record", "duration_ms", pa.array(took), "double"),
        attribute_column("record", "thread", _coded(user % 16, [f"worker-{each}" for each in range(16)])),
        attribute_column("record", "client.address", pa.array(clients)),
    ]  # fmt: skip
    fields = [pa.field(name, column.type) for name, column in plain.items()]
    return pa.Table.from_arrays(
        [*plain.values(), *(column for _, column in attributes)],
        schema=pa.schema([*fields, *(each for each, _ in attributes)]),
    )


def _metrics(hour: int, count: int, totals: np.ndarray) -> pa.Table:
    """Scrape by scrape; `totals`, where the counters are, goes on."""
    rng = np.random.default_rng(hour)
    names = ["http_requests_total", "process_cpu_seconds_total", "temperature_celsius", "queue_seconds"]
    instances = [f"10.0.{each // 256}.{each % 256}:9100" for each in range(count // 4 + 1)]
    name, instance = np.arange(count) % 4, np.arange(count) // 4
    label_sets = [
        streams.canonical(
            {"__name__": names[n], "instance": instances[i], "job": "node", "zone": f"z{i % 3}"}
        )
        for n, i in zip(name.tolist(), instance.tolist(), strict=True)
    ]
    grown = totals + np.cumsum(rng.poisson(30, (STEPS, count)), axis=0)
    totals[:] = grown[-1]
    values = np.where(
        name < 2,
        grown,
        np.where(name == 2, np.round(rng.normal(20, 2, (STEPS, count)), 2), rng.random((STEPS, count))),
    )
    rows = STEPS * count
    series = np.tile(np.arange(count), STEPS)
    times = START // 1_000_000 + hour * 3_600_000 + np.repeat(np.arange(1, STEPS + 1) * STEP_MS, count)
    plain = {
        "metric_name": _coded(name[series], names),
        "chq_tid": pa.array(np.array([streams.stream_id(each) for each in label_sets])[series]),
        "chq_series": _coded(series, [streams.labels_to_text(each) for each in label_sets]),
        "chq_timestamp": pa.array(times),
        "chq_value": pa.array(values.ravel()),
        "chq_metric_type": _coded(name[series] // 2, ["counter", "gauge"]),
        "chq_object": pa.array(hour * 12 + 1 + np.arange(rows) * 12 // rows),
        "chq_position": pa.array(np.arange(rows) % (rows // 12 + 1)),
    }
    attributes = [
        attribute_column("record", "instance", _coded(instance[series], instances)),
        attribute_column("record", "job", _coded(np.zeros(rows), ["node"])),
        attribute_column("record", "zone", _coded(instance[series] % 3, ["z0", "z1", "z2"])),
    ]
    fields = [pa.field(name, column.type) for name, column in plain.items()]
    return pa.Table.from_arrays(
        [*plain.values(), *(column for _, column in attributes)],
        schema=pa.schema([*fields, *(each for each, _ in attributes)]),
    )


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1])), indent=1))
