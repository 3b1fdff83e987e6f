"""Spans of tests, by hand or at random, as Python values and as files of the canonical table."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

BASE_NS = 1_780_000_000 * 10**9
MS = 10**6

MAP = pa.map_(pa.string(), pa.string())
CANONICAL = pa.schema(
    [
        ("trace_id", pa.binary(16)),
        ("span_id", pa.binary(8)),
        ("parent_span_id", pa.binary(8)),
        ("status_code", pa.int32()),
        ("start_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("service_name", pa.string()),
        ("operation_name", pa.string()),
        ("span_kind", pa.int32()),
        ("status_message", pa.string()),
        ("trace_state", pa.string()),
        ("flags", pa.int64()),
        ("attributes", MAP),
        ("resource_attributes", MAP),
        ("events", pa.list_(pa.struct([("ts", pa.int64()), ("name", pa.string()), ("attributes", MAP)]))),
    ]
)


@dataclass
class Span:
    """A span; times in ms after a fixed day."""

    trace: int
    start: int = 0
    end: int = 1
    span: int = 1
    parent: int | None = None
    status: int = 0
    name: str = "GET /"
    kind: int = 2
    service: str = "shop"
    state: str = ""
    flags: int = 0
    message: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    resource: dict[str, str] = field(default_factory=dict)
    events: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def trace_id(self) -> bytes:
        return trace_id(self.trace)

    @property
    def start_ns(self) -> int:
        return BASE_NS + self.start * MS

    @property
    def end_ns(self) -> int:
        return BASE_NS + self.end * MS


def trace_id(number: int) -> bytes:
    """Return an id whose bits look random, the same for a number always."""
    return random.Random(number).randbytes(16)


def table(spans: Sequence[Span]) -> pa.Table:
    rows = [
        {
            "trace_id": span.trace_id,
            "span_id": span.span.to_bytes(8, "big"),
            "parent_span_id": None if span.parent is None else span.parent.to_bytes(8, "big"),
            "status_code": span.status,
            "start_ns": span.start_ns,
            "end_ns": span.end_ns,
            "service_name": span.service,
            "operation_name": span.name,
            "span_kind": span.kind,
            "status_message": span.message,
            "trace_state": span.state or None,
            "flags": span.flags,
            "attributes": list(span.attributes.items()),
            "resource_attributes": list({"service.name": span.service, **span.resource}.items()),
            "events": [
                {"ts": span.start_ns, "name": name, "attributes": list(held.items())}
                for name, held in span.events
            ],
        }
        for span in spans
    ]
    return pa.Table.from_pylist(rows, CANONICAL)


def write(spans: Sequence[Span], path: Path) -> str:
    pq.write_table(table(spans), path)
    return str(path)


def random_spans(seed: int, traces: int = 40) -> list[Span]:
    """Return spans of some traces in which every policy finds something to match."""
    rng = random.Random(seed)
    found: list[Span] = []
    for number in range(traces):
        trace = seed * 1000 + number
        start = rng.randrange(0, 400_000)
        state = rng.choice(
            ["", "", "a=b,ot=th:8", "k=v1", "k=v2, x=y", f"ot=rv:{rng.getrandbits(56):014x};th:4"]
        )
        for place in range(1, rng.choice([2, 3, 6, 12])):
            begin = start + rng.randrange(0, 2000)
            found.append(
                Span(
                    trace,
                    begin,
                    begin + rng.choice([0, 1, 5, 40, 900, 3000]),
                    place,
                    None if place == 1 else 1,
                    rng.choice([0, 0, 0, 1, 2]),
                    rng.choice(["GET /", "POST /pay", "SELECT"]),
                    rng.randrange(6),
                    rng.choice(["shop", "pay", "db"]),
                    state,
                    rng.choice([0, 0, 1, 256]),
                    rng.choice(["", "boom"]),
                    _some(
                        rng,
                        {
                            "http.status_code": ["200", "404", "503", "5.5", "-7", "x", "007"],
                            "retry": ["true", "false", "yes"],
                            "route": ["/health", "/live", "/pay/1", ""],
                        },
                    ),
                    _some(rng, {"tier": ["gold", "free", "1"], "http.status_code": ["500"]}),
                    [
                        (rng.choice(["exception", "log"]), {"type": rng.choice(["a", "b"])})
                        for _ in range(rng.choice([0, 0, 1, 2]))
                    ],
                )
            )
    return found


def _some(rng: random.Random, values: dict[str, list[str]]) -> dict[str, str]:
    return {key: rng.choice(each) for key, each in values.items() if rng.random() < 0.4}
