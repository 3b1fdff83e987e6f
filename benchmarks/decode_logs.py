"""Decoding and writing logs: records per CPU-second and bytes per row, against the protobuf runtime.

`python -m benchmarks.decode_logs [--quick] [--json OUT]`. The same seeded bytes go through every contender in
interleaved rounds; that times and messages are the same is checked first. VictoriaLogs and Loki are not run
here: P1 against them belongs to `benchmarks.ingest`, which runs them side by side.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from lakerunner_assets.decode import dispatch
from lakerunner_assets.decode.dispatch import Place, Request
from lakerunner_assets.decode.payload import open_payload
from lakerunner_assets.segments.logs import write_log_segment
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from lakerunner_assets.signals.logs import LOGS
from resources.lake.options import DecodeOptions

START_NS = 1_768_392_000_000_000_000
HOUR_NS = 3_600_000_000_000


def request_bytes(records: int, seed: int = 7) -> bytes:
    """Web-shop access logs over one hour: 40 resources, 8 attributes a record, unique ids."""
    rng = random.Random(seed)
    parts = []
    step = HOUR_NS // records
    for first in range(0, records, 250):
        request = ExportLogsServiceRequest()
        resource = rng.randrange(40)
        group = request.resource_logs.add()
        for key, value in (
            ("service.name", f"svc-{resource % 12}"),
            ("service.namespace", "prod"),
            ("k8s.pod.name", f"svc-{resource % 12}-{resource:05x}-abcde"),
            ("k8s.node.name", f"node-{resource % 7}"),
            ("cloud.region", "us-east-2"),
            ("host.name", f"ip-10-0-{resource}-17"),
            ("service.version", "1.4.2"),
            ("deployment.environment", "production"),
        ):
            group.resource.attributes.add(key=key).value.string_value = value
        scope = group.scope_logs.add()
        scope.scope.name = "app.logger"
        for index in range(first, min(first + 250, records)):
            _record(scope.log_records.add(), START_NS + 1 + index * step, rng)
        parts.append(request.SerializeToString())
    return b"".join(parts)  # concatenated messages are one message with all their ResourceLogs


def _record(record: Any, time_ns: int, rng: random.Random) -> None:
    record.time_unix_nano = time_ns
    record.observed_time_unix_nano = time_ns + 5_000_000
    record.severity_number = rng.choice((9, 9, 9, 9, 13, 17))
    record.severity_text = {9: "INFO", 13: "WARN", 17: "ERROR"}[record.severity_number]
    status = rng.choice((200, 200, 200, 404, 500))
    record.body.string_value = (
        f"GET /api/v1/users/{rng.randrange(10**6)}/orders?page={rng.randrange(50)} completed with status "
        f"{status} "
        f"in {rng.random() * 900:.2f}ms request_id={rng.getrandbits(64):016x}"
    )
    attributes = record.attributes
    attributes.add(key="http.method").value.string_value = "GET"
    attributes.add(key="http.route").value.string_value = "/api/v1/users/:id/orders"
    attributes.add(key="http.status_code").value.int_value = status
    attributes.add(key="user.id").value.string_value = f"u{rng.randrange(10**6)}"
    attributes.add(key="duration_ms").value.double_value = rng.random() * 900
    attributes.add(key="thread").value.string_value = f"worker-{rng.randrange(16)}"
    attributes.add(key="sampled").value.bool_value = True
    attributes.add(key="client.address").value.string_value = ".".join(
        str(rng.randrange(256)) for _ in range(4)
    )
    record.trace_id = rng.randbytes(16)
    record.span_id = rng.randbytes(8)
    record.flags = 1


def decode(payload: bytes) -> list[pa.Table]:
    request = Request("object", Place(1, 0, START_NS), DecodeOptions(), 1 << 27)
    with open_payload(payload, 1 << 31) as opened:
        return [piece.table for piece in dispatch.decode(opened, request, LOGS.decoders())]


def to_segment(payload: bytes, path: Path) -> WrittenSegment:
    return write_log_segment(decode(payload), path, SegmentIdentity("bench", "c", "logs", START_NS, "s"))


def protobuf_walk(payload: bytes) -> list[tuple[int, str, list[tuple[str, Any]]]]:
    """What a decoder on the protobuf runtime must at least do: touch every field once."""
    rows = []
    for group in ExportLogsServiceRequest.FromString(payload).resource_logs:
        for scope in group.scope_logs:
            for record in scope.log_records:
                attributes = [
                    (p.key, getattr(p.value, p.value.WhichOneof("value"))) for p in record.attributes
                ]
                rows.append((record.time_unix_nano, record.body.string_value, attributes))
    return rows


def check(payload: bytes) -> None:
    """The contenders agree before anything is timed."""
    tables = decode(payload)
    rows = protobuf_walk(payload)
    assert [t for table in tables for t in table["chq_tsns"].to_pylist()] == [row[0] for row in rows]
    assert [m for table in tables for m in table["log_message"].to_pylist()] == [row[1] for row in rows]


def cpu_seconds(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            started = time.process_time()
            run()
            spent[name].append(time.process_time() - started)
    return spent


def record(identity: str, what: str, value: float | None, unit: str, **more: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("peer", "peer_value", "ratio", "must", "aim", "ok", "counters"))
    return {"id": identity, "what": what, "value": value, "unit": unit, **empty, **more}


def run(records: int, rounds: int) -> list[dict[str, Any]]:
    payload = request_bytes(records)
    compressed = gzip.compress(payload, 6)
    sample = request_bytes(min(records, 20_000))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "segment.parquet"
        check(sample)
        written = to_segment(payload, path)  # also compiles every kernel
        spent = cpu_seconds(
            {
                "decode": lambda: decode(payload),
                "segment": lambda: to_segment(payload, path),
                "segment_gz": lambda: to_segment(compressed, path),
                "protobuf": lambda: protobuf_walk(sample),
            },
            rounds,
        )
    sizes = {"decode": records, "segment": records, "segment_gz": records, "protobuf": min(records, 20_000)}
    best = {name: sizes[name] / min(times) for name, times in spent.items()}
    middle = {name: sizes[name] / statistics.median(times) for name, times in spent.items()}
    counters = {"rows": written.rows, "row_groups": written.row_groups, "payload_bytes": len(payload)}
    results = [
        record(
            name, what, best[name], "records/CPU-s", peer="protobuf runtime", peer_value=best["protobuf"],
            ratio=best[name] / best["protobuf"], counters={**counters, "median": middle[name]},
        )
        for name, what in (
            ("decode", "OTLP protobuf to Arrow table, all columns, fingerprints and levels"),
            ("segment", "OTLP protobuf to sorted segment with stream table and blooms"),
            ("segment_gz", "the same from gzip"),
        )
    ]  # fmt: skip
    index_bytes = written.series_length + written.bloom_length
    results.append(
        record(
            "P8", "log bytes per event with every index", written.bytes / written.rows, "B/row",
            counters={**counters, "stream_table_and_token_bloom_bytes": index_bytes},
        )
    )  # fmt: skip
    why = {"reason": "VictoriaLogs and Loki run in benchmarks.ingest, on the same bytes"}
    p1 = record(
        "P1", "against VictoriaLogs / Loki", None, "ratio", must="4x / 10x", aim="8x / 18x", counters=why
    )
    return [*results, p1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = run(*((60_000, 3) if options.quick else (300_000, 7)))
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    for result in results:
        value = "not measured" if result["value"] is None else f"{result['value']:>12,.1f} {result['unit']}"
        ratio = f"  {result['ratio']:.1f}x {result['peer']}" if result["ratio"] else ""
        print(f"{result['id']:<11} {value}{ratio}  {result['what']}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    by_id = {result["id"]: result["value"] for result in results}
    print(f"decode_logs: P1=null P8={by_id['P8']:.1f} segment={by_id['segment']:.0f}/CPU-s")


if __name__ == "__main__":
    main()
