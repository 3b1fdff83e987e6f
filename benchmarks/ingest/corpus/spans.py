"""Traces of a web shop as OTLP: eight spans over several services, six attributes a span, some events."""

from __future__ import annotations

import random
import struct

from benchmarks.ingest.corpus import HOUR_NS, START_NS, Corpus, even
from benchmarks.ingest.corpus.logs import RESOURCES, resource_attributes
from benchmarks.ingest.corpus.wire import Value, fixed64, key_value, message, number, text

SPANS_PER_TRACE = 8
OBJECT_SPANS = 20_000
NAMES = ("GET /orders", "POST /cart", "SELECT orders", "redis GET", "charge", "publish", "render", "auth")


def shop_spans(
    spans: int, seed: int = 13, start_ns: int = START_NS, width_ns: int = HOUR_NS - 60_000_000_000
) -> Corpus:
    rng = random.Random(seed)
    objects = []
    traces = spans // SPANS_PER_TRACE
    step = width_ns // traces
    first = 0
    for count in even(traces, max(1, round(spans / OBJECT_SPANS))):
        of_resource: list[list[bytes]] = [[] for _ in range(RESOURCES)]
        for trace in range(first, first + count):
            _trace(rng, start_ns + 1 + trace * step, of_resource)
        first += count
        objects.append(b"".join(_group(index, each) for index, each in enumerate(of_resource) if each))
    return Corpus("shop traces", tuple(objects), traces * SPANS_PER_TRACE)


def large_trace(spans: int, seed: int, start_ns: int) -> tuple[bytes, Corpus]:
    """Return the id and the objects of one trace; any earlier span is the parent of a span."""
    rng = random.Random(seed)
    trace_id = rng.randbytes(16)
    ids: list[bytes] = []
    objects = []
    for count in even(spans, max(1, round(spans / OBJECT_SPANS))):
        of_resource: list[list[bytes]] = [[] for _ in range(RESOURCES)]
        for _ in range(count):
            span_id = rng.randbytes(8)
            parent = rng.choice(ids) if ids else b""
            depth = 1 + len(ids) % (len(NAMES) - 1) if ids else 0
            began = start_ns + 1 + len(ids) * 10_000
            of_resource[rng.randrange(RESOURCES)].append(
                message(2, _span(rng, trace_id, span_id, parent, began, rng.randrange(10**6), depth))
            )
            ids.append(span_id)
        objects.append(b"".join(_group(index, each) for index, each in enumerate(of_resource) if each))
    return trace_id, Corpus("large trace", tuple(objects), spans)


def _group(resource: int, spans: list[bytes]) -> bytes:
    pairs = resource_attributes(resource).items()
    head = message(1, b"".join(key_value(key, value) for key, value in pairs))
    return message(1, head + message(2, message(1, text(1, "app.tracer")) + b"".join(spans)))


def _trace(rng: random.Random, start_ns: int, of_resource: list[list[bytes]]) -> None:
    trace_id = rng.randbytes(16)
    parent = b""
    for depth in range(SPANS_PER_TRACE):
        span_id = rng.randbytes(8)
        took = int(rng.expovariate(1 / 5e6)) + 1000
        span = _span(rng, trace_id, span_id, parent, start_ns, took, depth)
        of_resource[rng.randrange(RESOURCES)].append(message(2, span))
        if depth == 0 or rng.random() < 0.5:
            parent = span_id
        start_ns += took // 3


def _span(
    rng: random.Random, trace_id: bytes, span_id: bytes, parent: bytes, start_ns: int, took: int, depth: int
) -> bytes:
    failed = rng.random() < 0.03
    attributes: tuple[tuple[str, Value], ...] = (
        ("http.request.method", "GET"),
        ("http.response.status_code", 500 if failed else 200),
        ("server.address", f"10.0.{rng.randrange(4)}.{rng.randrange(256)}"),
        ("user.id", f"u{rng.randrange(10**6)}"),
        ("db.system", "postgresql"),
        ("retry", depth % 4 == 3),
    )
    parts = [
        message(1, trace_id), message(2, span_id), message(4, parent) if parent else b"",
        text(5, NAMES[depth]), number(6, 2 if depth == 0 else 3),
        fixed64(7, start_ns), fixed64(8, start_ns + took),
        *[key_value(key, value, 9) for key, value in attributes],
    ]  # fmt: skip
    if failed:
        event = fixed64(1, start_ns + took) + text(2, "exception") + key_value("exception.type", "Timeout", 3)
        parts += [message(11, event), message(15, text(2, "timed out") + number(3, 2))]
    parts.append(b"\x85\x01" + struct.pack("<I", 1))
    return b"".join(parts)
