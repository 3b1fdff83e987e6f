# ruff: noqa: INP001 - a script beside its output, not a package
"""Writes `logs.binpb`, the object that docs/getting-started.md ingests: OTLP protobuf, twelve lines.

`.venv/bin/python docs/sample/make_sample.py`. Times are fixed (2026-01-02, 12:10 to 12:21 UTC), so the bytes
are the same whenever it runs; tests/architecture/test_docs.py compares them with the file.
"""

from __future__ import annotations

from pathlib import Path

from opentelemetry.proto.logs.v1.logs_pb2 import LogsData

TARGET = Path(__file__).parent / "logs.binpb"
FIRST_NS = 1_767_355_800 * 1_000_000_000  # 2026-01-02T12:10:00Z
MINUTE_NS = 60 * 1_000_000_000
LINES = {
    "checkout": (
        ("INFO", "order 1041 placed, 2 items, 59.80 EUR"),
        ("INFO", "order 1042 placed, 1 item, 12.00 EUR"),
        ("ERROR", "order 1043 failed: payment timeout after 3000 ms"),
        ("INFO", "order 1044 placed, 5 items, 231.49 EUR"),
    ),
    "payment": (
        ("INFO", "charged 59.80 EUR in 212 ms"),
        ("INFO", "charged 12.00 EUR in 187 ms"),
        ("WARN", "gateway timeout after 3000 ms, giving up"),
        ("INFO", "charged 231.49 EUR in 240 ms"),
    ),
    "frontend": (
        ("INFO", "POST /checkout 200 31 ms"),
        ("INFO", "POST /checkout 200 28 ms"),
        ("ERROR", "POST /checkout 502 3011 ms"),
        ("INFO", "POST /checkout 200 35 ms"),
    ),
}
NUMBERS = {"INFO": 9, "WARN": 13, "ERROR": 17}


def sample() -> bytes:
    """One resource per service; a trace id ties the three lines of an order together."""
    data = LogsData()
    for place, (service, lines) in enumerate(LINES.items()):
        group = data.resource_logs.add()
        group.resource.attributes.add(key="service.name").value.string_value = service
        scope = group.scope_logs.add()
        for order, (severity, text) in enumerate(lines):
            record = scope.log_records.add()
            record.time_unix_nano = FIRST_NS + (order * len(LINES) + place) * MINUTE_NS
            record.severity_number = NUMBERS[severity]
            record.severity_text = severity
            record.body.string_value = text
            record.trace_id = bytes([0x10, 0x41 + order]) * 8
            record.attributes.add(key="order.id").value.int_value = 1041 + order
    return data.SerializeToString(deterministic=True)


if __name__ == "__main__":
    TARGET.write_bytes(sample())
