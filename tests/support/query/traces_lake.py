"""A lake of few traces whose spans lie in several segments, were sent twice, or look alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, SECOND_NS
from tests.support.cooking_lake import HOUR, Lake
from tests.support.query.signals_lake import put

ERROR = 2


@dataclass(frozen=True)
class Span:
    trace: int
    number: int
    at_s: float
    """Start, after the beginning of the lake's second hour."""
    service: str = "web"
    parent: int = 0
    status: int = 0
    kind: int = 2
    takes_s: float = 1.0


SPANS = (
    # a trace over an hour's edge, sent in several objects and out of order
    (Span(1, 12, 2, "db", parent=11, status=ERROR), Span(1, 11, 1, "payments", parent=10, takes_s=4)),
    (Span(1, 10, -0.5, "web"), Span(2, 20, 30, "web"), Span(2, 21, 31, "db", parent=20)),
    # the same span again, the same id of the other side, and a span that only looks alike
    (Span(2, 21, 31, "db", parent=20), Span(2, 21, 31, "db", parent=20, kind=3)),
    (Span(2, 21, 32, "db", parent=20),),
    (Span(3, 31, 40, "db", parent=30, status=ERROR),),  # its root never came
    (Span(4, 41, 50.5, "search"), Span(4, 40, 50, "web"), Span(4, 42, 49, "db", parent=40)),  # two roots
    (Span(5, 50, 3590, "web"), Span(5, 51, 3590 + 1200, "late", parent=50)),  # ends behind the interval
    (Span(6, 60, -900, "web"), Span(6, 61, 5, "late", parent=60)),  # began before it
)  # fmt: skip
TIES = (
    (Span(7, 0, 100, "nobody"), Span(7, 70, 100, "web"), Span(7, 71, 101, "db", parent=70)),
    (Span(8, 80, 110, "web", kind=3), Span(8, 80, 110, "db"), Span(8, 0, 111, "web", parent=80)),
    (Span(9, 0, 120, "web"), Span(9, 0, 120, "web", kind=1), Span(9, 0, 121, "db"), Span(9, 0, 121, "db")),
)
"""Traces with several roots that begin together: of an id and none, of one id, of none."""


@dataclass
class TracesLake:
    """A lake of some objects of spans, cooked one by one."""

    lake: Lake
    objects: Sequence[tuple[Span, ...]] = SPANS
    folder: Path = field(init=False)
    index: Any = field(init=False)

    def __post_init__(self) -> None:
        self.folder, self.index = self.lake.folder / "lake", self.lake.index
        for number, spans in enumerate(self.objects):
            data = _request(spans).SerializeToString()
            self.lake.arrive(f"spans-{number}", data, HOUR + HOUR_NS, signal=Signal.TRACES)
            self.lake.cook(Signal.TRACES)


def _request(spans: tuple[Span, ...]) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    for one in spans:
        group = request.resource_spans.add()
        put(group.resource, "service.name", one.service)
        span = group.scope_spans.add().spans.add()
        span.trace_id, span.span_id = bytes([one.trace] * 16), bytes([one.number] * 8)  # zeros are no id
        if one.parent:
            span.parent_span_id = bytes([one.parent] * 8)
        span.name, span.kind, span.status.code = f"of {one.service}", one.kind, one.status
        span.start_time_unix_nano = HOUR + HOUR_NS + int(one.at_s * SECOND_NS)
        span.end_time_unix_nano = span.start_time_unix_nano + int(one.takes_s * SECOND_NS)
    return request
