"""Random traces, sent in random pieces: whatever real traces are hard with is in them.

Several services and roots, missing parents, spans that are their own parents or those of each other, a
client's and a server's span of one id, spans that are sent twice or late, over the ends of hours; attributes
of all types, also of several types under one key. Durations are multiples of 1/512 s, which binary fractions
have exactly, so that no sum depends on its order.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lakerunner_assets.compacted.due import Scope
from lakerunner_assets.compacted.report import Report
from lakerunner_assets.compacted.run import compact
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, SECOND_NS
from tests.support.cooking_lake import HOUR, Lake

Value = Any
"""A text, a number, a flag, bytes, a list or a dict of these."""
TICK = SECOND_NS // 512
HOURS = 5
SERVICES = ("web", "cart", "db", "web-2", "Café", "")
NAMES = ("GET /", "GET /cart", "POST /cart", "SELECT", "x", "a\nb", 'say "hi"', "")
TEXTS = ("a", "b", "ab", "A", "", "web", "GET /", "5", "ünï", "x y")
NUMBERS = (0, 1, 2, 3, 5, 7, -1, -4, 100, 1024, 200, 404, 500, -(2**40))
BIG = (2**53, 2**53 + 1, -(2**62), 2**62 + 1, 2**63 - 1, 6)
FLOATS = (0.0, 0.5, 1.0, 1.5, 2.0, -2.5, 5.0, 1e9, 0.25, -0.5)
LISTS = (
    ["a"], ["a", "b"], ["b", "a", "a"], [1], [1, 2, 3], [5, 5], [0.5, 2.0], [True, False], [True], [],
    ["a", 1], [-1, 100],
)  # fmt: skip
OPAQUE = ({"k": "v"}, {}, b"\x00\xff", [], [1, "a"])


@dataclass(frozen=True)
class Event:
    time_ns: int
    name: str
    attributes: dict[str, Value]


@dataclass(frozen=True)
class Link:
    trace: bytes
    span: bytes
    attributes: dict[str, Value]


@dataclass(frozen=True)
class Library:
    """An instrumentation scope."""

    name: str = ""
    version: str = ""
    attributes: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Span:
    trace: bytes
    span: bytes
    parent: bytes
    name: str
    kind: int
    status: int
    message: str
    start_ns: int
    end_ns: int
    """0: not sent."""
    attributes: dict[str, Value]
    resource: dict[str, Value]
    library: Library
    events: tuple[Event, ...] = ()
    links: tuple[Link, ...] = ()


class Traces:
    """The spans of one seed, in the order in which they are sent."""

    def __init__(self, seed: int | str) -> None:
        self.rng = random.Random(f"traces {seed}")
        rng = self.rng
        self.resources = [self._resource() for _ in range(rng.randrange(2, 7))]
        self.libraries = [self._library() for _ in range(3)]

    def spans(self, traces: int) -> list[Span]:
        """Return all spans: the ones of a trace mostly together, some late, some twice."""
        rng, sent = self.rng, list[tuple[float, Span]]()
        for _ in range(traces):
            begins = rng.random() * traces
            for place, one in enumerate(self._trace()):
                late = rng.choice((0, 0, 0, 0, 1, traces))
                sent.append((begins + place * 1e-3 + late * rng.random(), one))
                if rng.random() < 0.05:
                    sent.append((begins + rng.random() * traces, self._again(one)))
        sent.sort(key=lambda one: one[0])
        return [one for _, one in sent]

    def _again(self, span: Span) -> Span:
        """Return the span as it is sent once more; what differs tells which one counts."""
        return span if self.rng.random() < 0.5 else replace(span, attributes=self._attributes(), status=2)

    def _trace(self) -> list[Span]:
        rng = self.rng
        trace = rng.randbytes(16)
        if rng.random() < 0.2:
            trace = bytes(rng.randrange(1, 8)) + trace
        trace = trace[:16]
        begin = HOUR + rng.randrange(HOURS) * HOUR_NS + self._within_hour()
        reach = rng.choice((1, 1, 10, 10, 60, 1200)) * SECOND_NS
        found: list[Span] = []
        for place in range(rng.choice((1, 1, 2, 3, 4, 6, 9, 14))):
            start = begin + (rng.randrange(0, reach, TICK) if place else 0)
            found.append(self._span(trace, start, reach, found))
        if rng.random() < 0.3:
            found = [one for one in found if rng.random() < 0.8]
        if rng.random() < 0.15 and len(found) > 1:
            one, other = rng.sample(range(len(found)), 2)
            found[one] = replace(found[one], parent=found[other].span)
        rng.shuffle(found) if rng.random() < 0.3 else None
        return found

    def _within_hour(self) -> int:
        """A time of an hour, often near its ends or on whole seconds."""
        rng = self.rng
        return rng.choice(
            (
                rng.randrange(3600) * SECOND_NS,
                rng.randrange(0, HOUR_NS, TICK),
                HOUR_NS - rng.randrange(1, 20) * SECOND_NS,
                rng.randrange(0, 20) * SECOND_NS,
                rng.randrange(60) * 60 * SECOND_NS,
            )
        )

    def _span(self, trace: bytes, start: int, reach: int, before: Sequence[Span]) -> Span:
        rng = self.rng
        ident = rng.choice((rng.randbytes(8), rng.randbytes(8), bytes(3) + rng.randbytes(5)))
        parent = rng.choice(before).span if before else b""
        kind = rng.choice((0, 1, 1, 2, 2, 3, 3, 4, 5))
        roll = rng.random()
        if roll < 0.06:
            parent = rng.randbytes(8)
        elif roll < 0.10:
            parent = b""
        elif roll < 0.12:
            parent = ident
        elif roll < 0.20 and before:
            shared = rng.choice(before)
            ident, parent, kind = shared.span, shared.parent, 2 if shared.kind == 3 else 3
        elif roll < 0.21:
            ident = b""
        width = rng.choice((0, TICK, 5 * TICK, 64 * TICK, SECOND_NS, rng.randrange(0, reach, TICK)))
        end = rng.choice((start + width,) * 12 + (0, start - TICK))
        return Span(
            trace, ident, parent, rng.choice(NAMES), kind, rng.choice((0, 0, 1, 2)),
            rng.choice(("", "", "went wrong", "a")), start, end, self._attributes(),
            rng.choice(self.resources),
            rng.choice(self.libraries), self._events(start), self._links(trace, before),
        )  # fmt: skip

    def _attributes(self) -> dict[str, Value]:
        rng, found = self.rng, dict[str, Value]()
        choices: dict[str, Sequence[Value]] = {
            "text": TEXTS, "number": NUMBERS, "big": BIG, "float": FLOATS, "flag": (True, False),
            "list": LISTS,
            "mixed": (*TEXTS, *NUMBERS, *FLOATS, True, False, *LISTS, *OPAQUE), "opaque": OPAQUE,
            "both": TEXTS, "team name": TEXTS, "http.status_code": (200, 404, 500, 503),
        }  # fmt: skip
        for key, values in choices.items():
            if rng.random() < 0.5:
                found[key] = rng.choice(values)
        if rng.random() < 0.02:
            found["rare"] = rng.choice(TEXTS)
        return found

    def _resource(self) -> dict[str, Value]:
        rng, found = self.rng, dict[str, Value]()
        if rng.random() < 0.9:
            found["service.name"] = rng.choice(SERVICES)
        if rng.random() < 0.6:
            found["both"] = rng.choice(TEXTS)
        if rng.random() < 0.6:
            found["host.cpus"] = rng.choice((1, 2, 4, 8))
        if rng.random() < 0.5:
            found["mixed"] = rng.choice((*TEXTS, *NUMBERS, *FLOATS, True, *LISTS))
        if rng.random() < 0.3:
            found["k8s.pod.name"] = rng.choice(("pod-1", "pod-2"))
        return found

    def _library(self) -> Library:
        rng = self.rng
        attributes = {"mode": rng.choice(TEXTS), "size": rng.choice(NUMBERS)} if rng.random() < 0.6 else {}
        return Library(rng.choice(("", "otel", "lib")), rng.choice(("", "1.0", "2.1")), attributes)

    def _events(self, start: int) -> tuple[Event, ...]:
        rng = self.rng
        count = rng.choice((0, 0, 0, 1, 1, 2, 3))
        return tuple(
            Event(
                start + rng.choice((0, 1, 3, 9, 200)) * TICK,
                rng.choice(("exception", "retry", "")),
                self._of_event(),
            )
            for _ in range(count)
        )

    def _of_event(self) -> dict[str, Value]:
        rng, found = self.rng, dict[str, Value]()
        for key, values in {
            "text": TEXTS,
            "number": NUMBERS,
            "mixed": (*TEXTS, *NUMBERS, *FLOATS, *LISTS),
        }.items():
            if rng.random() < 0.5:
                found[key] = rng.choice(values)
        return found

    def _links(self, trace: bytes, before: Sequence[Span]) -> tuple[Link, ...]:
        rng = self.rng
        return tuple(
            Link(
                rng.choice((trace, rng.randbytes(16), bytes(4) + rng.randbytes(12))),
                rng.choice(before).span if before and rng.random() < 0.5 else rng.randbytes(8),
                {"why": rng.choice(TEXTS)} if rng.random() < 0.7 else {},
            )
            for _ in range(rng.choice((0, 0, 0, 1, 2)))
        )


def pieces(spans: Sequence[Span], rng: random.Random) -> Iterator[Sequence[Span]]:
    """Cut spans, in their order, into raw objects of random sizes."""
    most = rng.choice((len(spans) // 6, len(spans) // 2, len(spans)))
    at = 0
    while at < len(spans):
        size = rng.randrange(1, most + 2)
        yield spans[at : at + size]
        at += size


def otlp(spans: Sequence[Span], rng: random.Random) -> bytes:
    """Return a request; neighbours of one resource and scope share them, or do not."""
    request = ExportTraceServiceRequest()
    last: Span | None = None
    for one in spans:
        if last is None or last.resource is not one.resource or rng.random() < 0.3:
            group = request.resource_spans.add()
            _put_all(group.resource, one.resource)
            last = None
        if last is None or last.library is not one.library or rng.random() < 0.3:
            library = group.scope_spans.add()
            library.scope.name, library.scope.version = one.library.name, one.library.version
            _put_all(library.scope, one.library.attributes)
        last = one
        span = library.spans.add(
            trace_id=one.trace, span_id=one.span, parent_span_id=one.parent, name=one.name, kind=one.kind,
            start_time_unix_nano=one.start_ns, end_time_unix_nano=one.end_ns,
        )  # fmt: skip
        span.status.code, span.status.message = one.status, one.message
        _put_all(span, one.attributes)
        for event in one.events:
            _put_all(span.events.add(time_unix_nano=event.time_ns, name=event.name), event.attributes)
        for link in one.links:
            _put_all(span.links.add(trace_id=link.trace, span_id=link.span), link.attributes)
    return request.SerializeToString()


def _put_all(owner: Any, attributes: dict[str, Value]) -> None:
    for key, value in attributes.items():
        _put(owner.attributes.add(key=key).value, value)


def _put(owner: Any, value: Value) -> None:
    if isinstance(value, list):
        owner.array_value.SetInParent()
        for one in value:
            _put(owner.array_value.values.add(), one)
    elif isinstance(value, dict):
        owner.kvlist_value.SetInParent()
        for key, one in value.items():
            _put(owner.kvlist_value.values.add(key=key).value, one)
    else:
        kinds = {bool: "bool", int: "int", float: "double", str: "string", bytes: "bytes"}
        setattr(owner, f"{kinds[type(value)]}_value", value)


def fill(lake: Lake, org: str, spans: Sequence[Span], seed: str) -> str:
    """Store spans, cut into objects, segments, and merged segments as the seed says; say how."""
    rng = random.Random(f"cut {seed}")
    objects = 0
    for piece in pieces(spans, rng):
        lake.arrive(
            f"{org}-{objects}", otlp(piece, rng), HOUR + HOURS * HOUR_NS, signal=Signal.TRACES, org=org
        )
        objects += 1
        if rng.random() < 0.4:
            lake.cook(Signal.TRACES)
    lake.cook(Signal.TRACES)
    hours = [HOUR + number * HOUR_NS for number in range(HOURS + 1)]
    merged = rng.choice((0, 0, 2, len(hours)))
    if merged:
        scope = Scope({org: frozenset(rng.sample(hours, merged))})
        for _ in compact(lake.run_context(), Signal.TRACES, Report(), scope):  # type: ignore[arg-type]
            pass
    return f"{objects} objects, {merged} hours merged"
