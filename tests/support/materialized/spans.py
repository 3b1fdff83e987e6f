"""Random traces, and what plain Python says of their edges."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from resources.lake.timecut import HOUR_NS, SECOND_NS

KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
Edge = tuple[str, str, str]
MARGIN_NS = 300 * SECOND_NS


@dataclass(frozen=True)
class Call:
    """One span."""

    trace: bytes
    span: bytes
    parent: bytes
    kind: str
    service: str
    start_ns: int
    duration_ns: int = 1_000_000
    is_error: bool = False
    name: str = "call"
    attributes: tuple[tuple[str, str], ...] = ()


def traces(rng: random.Random, count: int, hour_ns: int) -> list[Call]:
    """Requests through a few services, with lost halves, databases, queues, peers, repeats and errors."""
    calls: list[Call] = []
    for _ in range(count):
        trace = rng.randbytes(16)
        start = hour_ns + rng.randrange(-400 * SECOND_NS, HOUR_NS + 400 * SECOND_NS)
        whole = list(_tree(rng, trace, b"", "gate", start, 3))
        kept = [one for one in whole if rng.random() > 0.1]
        calls += kept + [one for one in kept if rng.random() < 0.05]
    rng.shuffle(calls)
    return calls


def _tree(
    rng: random.Random,
    trace: bytes,
    parent: bytes,
    service: str,
    start: int,
    depth: int,
    queued: bool = False,
) -> Iterable[Call]:
    def span(kind: str, above: bytes, at: int, *attributes: tuple[str, str]) -> Call:
        return Call(
            trace, rng.randbytes(8), above, kind, service, at, rng.randrange(1, 3 * SECOND_NS),
            rng.random() < 0.1, rng.choice(("a", "b")), attributes,
        )  # fmt: skip

    queue = (("messaging.destination.name", "orders"),) if queued and rng.random() < 0.5 else ()
    mine = span("consumer" if queued else "server", parent, start, *queue)
    yield mine
    inner = span("internal", mine.span, start + 5)
    yield inner
    for _ in range(rng.randrange(3)):
        at = start + rng.randrange(SECOND_NS)
        choice = rng.random()
        if choice < 0.2:
            names = rng.choice(
                [
                    (("db.system", "redis"),),
                    (("db.system.name", "pg"), ("db.namespace", "shop")),
                    (("db.name", "old"), ("server.address", "db.local")),
                    (("db.system", "x"), ("network.peer.address", "10.0.0.1"), ("network.peer.port", "99")),
                    (("db.system", "x"), ("peer.service", "dbpeer"), ("server.address", "h")),
                ]
            )
            yield span("client", inner.span, at, *names)
        elif choice < 0.3:
            yield span("client", inner.span, at, ("peer.service", "stripe"))
        elif depth:
            is_queue = rng.random() < 0.3
            names = (("messaging.system", "kafka"),) if is_queue and rng.random() < 0.5 else ()
            caller = span("producer" if is_queue else "client", inner.span, at, *names)
            yield caller
            below = rng.choice(("cart", "pay", "mail"))
            for _ in range(rng.choice((1, 1, 2))):
                skew = rng.randrange(-1000, 30 * SECOND_NS if is_queue else 1000)
                yield from _tree(rng, trace, caller.span, below, at + skew, depth - 1, is_queue)


def request(calls: Sequence[Call]) -> bytes:
    """The spans as OTLP."""
    message = ExportTraceServiceRequest()
    for service in sorted({call.service for call in calls}):
        group = message.resource_spans.add()
        if service:
            group.resource.attributes.add(key="service.name").value.string_value = service
        scope = group.scope_spans.add()
        for call in (c for c in calls if c.service == service):
            span = scope.spans.add(
                trace_id=call.trace, span_id=call.span, parent_span_id=call.parent, name=call.name,
                kind=KINDS.index(call.kind), start_time_unix_nano=call.start_ns,
                end_time_unix_nano=call.start_ns + call.duration_ns,
            )  # fmt: skip
            span.status.code = 2 if call.is_error else 0
            for key, value in call.attributes:
                if key == "network.peer.port":
                    span.attributes.add(key=key).value.int_value = int(value)
                else:
                    span.attributes.add(key=key).value.string_value = value
    return bytes(message.SerializeToString())


def distinct(calls: Iterable[Call]) -> list[Call]:
    found: dict[tuple[bytes, bytes, str, int], Call] = {}
    for call in calls:
        found.setdefault((call.trace, call.span, call.kind, call.start_ns), call)
    return list(found.values())


def plain_edges(calls: Iterable[Call], hour_ns: int) -> tuple[Counter[Edge], Counter[Edge], Counter[Edge]]:
    """Requests, failed requests and unpaired spans of an hour, one span after the other."""
    near = [c for c in distinct(calls) if hour_ns - MARGIN_NS < c.start_ns <= hour_ns + HOUR_NS + MARGIN_NS]
    callers = {(c.trace, c.span): c for c in near if c.kind in {"client", "producer"}}
    callees = [c for c in near if c.kind in {"server", "consumer"}]
    answered = {(c.trace, c.parent) for c in callees if c.parent}
    requests, failed, unpaired = Counter[Edge](), Counter[Edge](), Counter[Edge]()

    def count(client: str, server: str, connection: str, is_error: bool) -> None:
        if client and server:
            requests[client, server, connection] += 1
            failed[client, server, connection] += is_error
        else:
            unpaired[client, server, connection] += 1

    def own(call: Call) -> bool:
        return hour_ns < call.start_ns <= hour_ns + HOUR_NS

    for callee in filter(own, callees):
        caller = callers.get((callee.trace, callee.parent)) if callee.parent else None
        consumes, attributes = callee.kind == "consumer", dict(callee.attributes)
        queue = attributes.get("messaging.destination.name") or attributes.get("messaging.system")
        if caller:
            queued = consumes or caller.kind == "producer"
            kind = "messaging_system" if queued else ""
            count(caller.service, callee.service, kind, caller.is_error or callee.is_error)
        elif consumes and queue:
            count(queue, callee.service, "messaging_system", callee.is_error)
        elif not callee.parent:
            count("user", callee.service, "virtual_node", callee.is_error)
        else:
            count("", callee.service, "messaging_system" if consumes else "", callee.is_error)
    for caller in filter(own, callers.values()):
        if (caller.trace, caller.span) not in answered:
            count(caller.service, *_target(caller), caller.is_error)
    return requests, +failed, unpaired


def _target(caller: Call) -> tuple[str, str]:
    values = dict(caller.attributes)
    peer = values.get("peer.service", "")
    named = next(
        (values[k] for k in ("db.namespace", "db.name", "db.system.name", "db.system") if k in values), ""
    )
    if named:
        address = values.get("network.peer.address", "")
        port = values.get("network.peer.port")
        with_port = f"{address}:{port}" if address and port else address
        return peer or values.get("server.address") or with_port or named, "database"
    queue = values.get("messaging.destination.name") or values.get("messaging.system")
    if caller.kind == "producer" and queue:
        return queue, "messaging_system"
    if peer:
        return peer, "virtual_node"
    return "", "messaging_system" if caller.kind == "producer" else ""


def moved(call: Call, by_ns: int) -> Call:
    return replace(call, start_ns=call.start_ns + by_ns)
