"""Answers to units of TraceQL travel as MessagePack: found traces, cells of metrics, spans, tags."""

from __future__ import annotations

import msgspec

from lakerunner_query.protocol.units import UnitReport

Value = bool | int | float | str | tuple[bool | int | float | str, ...] | None


class TypedValue(msgspec.Struct, frozen=True):
    """A value with its type in TraceQL; `nil` has none."""

    type: str
    value: Value = None


Named = tuple[tuple[str, TypedValue], ...]
"""Values by the name under which they are shown."""


class FoundSpan(msgspec.Struct, frozen=True):
    span_id: str
    name: str
    """Empty unless the query reads it."""
    start_ns: int
    duration_ns: int
    attributes: Named


class FoundSet(msgspec.Struct, frozen=True):
    """A span set of a trace."""

    matched: int
    """Spans of the set, of which `spans` has the first ones."""
    spans: tuple[FoundSpan, ...]
    attributes: Named
    """Values of the set: what it was grouped by, and its aggregates."""


class ServiceStats(msgspec.Struct, frozen=True):
    spans: int
    errors: int


class FoundTrace(msgspec.Struct, frozen=True):
    trace_id: str
    root_service: str
    root_name: str
    start_ns: int
    end_ns: int
    sets: tuple[FoundSet, ...]
    services: dict[str, ServiceStats]


class TraceSearchAnswer(msgspec.Struct, frozen=True):
    """The answer to a `TraceSearchUnit`, newest traces first."""

    traces: tuple[FoundTrace, ...] = ()
    traces_read: int = 0
    spans_read: int = 0
    is_last: bool = True
    """No other unit has traces that begin in the same bounds of time."""
    report: UnitReport = UnitReport()


class TraceExemplar(msgspec.Struct, frozen=True):
    trace_id: str
    time_ms: int
    value: float


class TraceCells(msgspec.Struct, frozen=True):
    """Values of one group by step; each array is little-endian bytes."""

    labels: Named
    counts: bytes
    """Spans by step, as 64-bit integers; of histograms by step and power of two."""
    values: bytes = b""
    """Sums, minima or maxima by step, as doubles."""
    exemplars: tuple[TraceExemplar, ...] = ()


class TraceMetricsAnswer(msgspec.Struct, frozen=True):
    """The answer to a `TraceMetricsUnit`: the groups of each metrics function, left to right."""

    functions: tuple[tuple[TraceCells, ...], ...] = ()
    spans_read: int = 0
    is_for_exemplars: bool = False
    """Its cells have exemplars and nothing else."""
    report: UnitReport = UnitReport()


class SpanTagsAnswer(msgspec.Struct, frozen=True):
    """The answer to a `SpanTagsUnit`."""

    names: dict[str, tuple[str, ...]] = {}
    """Names of attributes by scope."""
    values: tuple[TypedValue, ...] = ()
    truncated: bool = False
    report: UnitReport = UnitReport()


class TraceAnswer(msgspec.Struct, frozen=True):
    """The answer to a `TraceUnit`: OTLP's `TracesData` as bytes."""

    data: bytes = b""
    spans_read: int = 0
    duplicates: int = 0
    """Spans that were stored before, and are left out."""
    report: UnitReport = UnitReport()


def encode_traces(answer: TraceSearchAnswer | TraceMetricsAnswer | TraceAnswer | SpanTagsAnswer) -> bytes:
    return msgspec.msgpack.encode(answer)


_SEARCH = msgspec.msgpack.Decoder(TraceSearchAnswer)
_METRICS = msgspec.msgpack.Decoder(TraceMetricsAnswer)
_TRACE = msgspec.msgpack.Decoder(TraceAnswer)
_TAGS = msgspec.msgpack.Decoder(SpanTagsAnswer)


def decode_trace_search(body: bytes) -> TraceSearchAnswer:
    return _SEARCH.decode(body)


def decode_trace_metrics(body: bytes) -> TraceMetricsAnswer:
    return _METRICS.decode(body)


def decode_span_tags(body: bytes) -> SpanTagsAnswer:
    return _TAGS.decode(body)


def decode_trace(body: bytes) -> TraceAnswer:
    return _TRACE.decode(body)
