"""Access logs of a web shop as OTLP: 20 resources of 8 attributes, 8 attributes a record, unique ids.

Each object holds some minutes of all resources, one ResourceLogs each, as a collector's batches do.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.ingest.corpus import HOUR_NS, START_NS, Corpus, even
from benchmarks.ingest.corpus.wire import (
    Value,
    any_value,
    fixed64,
    key_value,
    message,
    number,
    text,
    varint,
)

RESOURCES = 20
OBJECT_RECORDS = 30_000
LEVELS = {9: "INFO", 13: "WARN", 17: "ERROR"}
_ATTRIBUTE = 6


@dataclass(frozen=True, slots=True)
class Event:
    """One record, before it takes a format."""

    resource: int
    time_ns: int
    severity: int
    body: str
    attributes: tuple[tuple[str, Value], ...]
    trace_id: bytes
    span_id: bytes


def web_logs(records: int, seed: int = 7) -> Corpus:
    """OTLP protobuf objects of one hour."""
    objects = [as_otlp(events) for events in web_events(records, seed)]
    return Corpus("web", tuple(objects), records)


def web_events(records: int, seed: int = 7) -> Iterator[list[Event]]:
    """The records, object by object; within an object by resource, then time."""
    rng = random.Random(seed)
    step = HOUR_NS // records
    first = 0
    for size in even(records, max(1, round(records / OBJECT_RECORDS))):
        yield [
            _event(rng, resource, START_NS + 1 + (first + row) * step)
            for resource in range(RESOURCES)
            for row in range(resource, size, RESOURCES)
        ]
        first += size


def _event(rng: random.Random, resource: int, time_ns: int) -> Event:
    below = rng.random
    status = (200, 200, 200, 404, 500)[int(below() * 5)]
    body = (
        f"GET /api/v1/users/{int(below() * 1e6)}/orders?page={int(below() * 50)} completed with status "
        f"{status} in {below() * 900:.2f}ms request_id={rng.getrandbits(64):016x}"
    )
    attributes: tuple[tuple[str, Value], ...] = (
        ("http.method", "GET"),
        ("http.route", "/api/v1/users/:id/orders"),
        ("http.status_code", status),
        ("user.id", f"u{int(below() * 1e6)}"),
        ("duration_ms", below() * 900),
        ("thread", f"worker-{int(below() * 16)}"),
        ("sampled", True),
        ("client.address", f"10.{int(below() * 256)}.{int(below() * 256)}.{int(below() * 256)}"),
    )
    severity = (9, 9, 9, 9, 13, 17)[int(below() * 6)]
    return Event(resource, time_ns, severity, body, attributes, rng.randbytes(16), rng.randbytes(8))


def resource_attributes(resource: int) -> dict[str, str]:
    return {
        "service.name": f"svc-{resource % 12}",
        "service.namespace": "prod",
        "k8s.pod.name": f"svc-{resource % 12}-{resource:05x}-abcde",
        "k8s.node.name": f"node-{resource % 7}",
        "cloud.region": "us-east-2",
        "host.name": f"ip-10-0-{resource}-17",
        "service.version": "1.4.2",
        "deployment.environment": "production",
    }


def as_otlp(events: list[Event]) -> bytes:
    """An ExportLogsServiceRequest with one ResourceLogs per run of records of one resource."""
    groups: list[tuple[int, list[bytes]]] = []
    for event in events:
        if not groups or groups[-1][0] != event.resource:
            groups.append((event.resource, []))
        groups[-1][1].append(_record(event))
    scope = message(1, text(1, "app.logger"))
    return b"".join(
        message(1, _resource(resource) + message(2, scope + b"".join(records)))
        for resource, records in groups
    )


@cache
def _resource(resource: int) -> bytes:
    pairs = resource_attributes(resource).items()
    return message(1, b"".join(key_value(key, value) for key, value in pairs))


@cache
def _key(key: str) -> bytes:
    return text(1, key)


@cache
def _repeated(key: str, value: Value, _kind: str) -> bytes:
    """By kind too: True and 1 are the same key of a cache."""
    return key_value(key, value, _ATTRIBUTE)


_UNIQUE = {"user.id", "duration_ms", "client.address"}


def _attribute(key: str, value: Value) -> bytes:
    if key in _UNIQUE:
        return message(_ATTRIBUTE, _key(key) + message(2, any_value(value)))
    return _repeated(key, value, type(value).__name__)


@cache
def _severity(severity: int) -> bytes:
    return number(2, severity) + text(3, LEVELS[severity])


_FLAGS = varint(8 << 3 | 5) + b"\x01\0\0\0"


def _record(event: Event) -> bytes:
    parts = [
        fixed64(1, event.time_ns),
        _severity(event.severity),
        message(5, text(1, event.body)),
        *[_attribute(key, value) for key, value in event.attributes],
        _FLAGS,
        message(9, event.trace_id),
        message(10, event.span_id),
        fixed64(11, event.time_ns + 5_000_000),
    ]
    return message(2, b"".join(parts))


def loghub_logs(folder: Path) -> Corpus | None:
    """Real lines of sixteen systems (LogHub), a service each, over an hour; None where they are not."""
    files = sorted(folder.glob("*.log"))
    if not files:
        return None
    groups = []
    rows = 0
    for path in files:
        lines = path.read_text(errors="replace").splitlines()
        step = HOUR_NS // len(lines)
        records = b"".join(
            message(2, fixed64(1, START_NS + 1 + row * step) + message(5, text(1, line)))
            for row, line in enumerate(lines)
        )
        resource = message(1, key_value("service.name", path.stem.removesuffix("_2k").lower()))
        groups.append(message(1, resource + message(2, records)))
        rows += len(lines)
    return Corpus("loghub", (b"".join(groups),), rows)
