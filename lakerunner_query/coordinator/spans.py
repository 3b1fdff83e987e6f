"""Traces by id, names of attributes and values of fields have no query text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from lakerunner_query.coordinator.engine import Cut, Limits, PreparedQuery, all_at_once, hour_affinity
from lakerunner_query.coordinator.locate import Lookup
from lakerunner_query.coordinator.traceql import Collected
from lakerunner_query.plan.traceql import MAX_NS, MIN_NS, REACH_NS, TRACES
from lakerunner_query.protocol.traces import SpanTagsAnswer, TraceAnswer, TypedValue
from lakerunner_query.protocol.units import SpanTagsUnit, TraceUnit, segment_ref
from resources.index.types import Segment, SegmentQuery
from resources.lake.frequency import AS_SENT

SLOW = "name the time of the trace (start and end)"
SEGMENTS_PER_UNIT = 64


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """Traces, looked for within `[start_ns, end_ns]`."""

    org: str
    trace_ids: tuple[bytes, ...]
    start_ns: int = MIN_NS
    end_ns: int = MAX_NS
    timeout_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SpanTagsRequest:
    """Names of attributes, or values of the field `tag`, of traces within `[start_ns, end_ns]`."""

    org: str
    start_ns: int
    end_ns: int
    tag: str = ""
    condition: str = ""
    limit: int = 0
    timeout_s: float = 0.0


TraceQuery = PreparedQuery[TraceRequest, None, TraceAnswer, "WholeTraces"]
SpanTagsQuery = PreparedQuery[SpanTagsRequest, None, SpanTagsAnswer, "SpanTags"]


def plan_nothing(_text: str, _request: TraceRequest | SpanTagsRequest, _limits: Limits) -> None:
    """Return nothing: there is no text."""


def look_up_range(_plan: None, request: TraceRequest | SpanTagsRequest) -> Lookup:
    first, last = max(MIN_NS, request.start_ns - REACH_NS), min(MAX_NS, request.end_ns + REACH_NS)
    return Lookup((SegmentQuery(request.org, TRACES, AS_SENT, first, last),))


def cut_trace(query: TraceQuery, workers: int, _: Limits) -> Cut:
    del workers
    org, ids = query.request.org, query.request.trace_ids
    return all_at_once(
        [
            TraceUnit(hour_affinity(org, TRACES, part), tuple(map(segment_ref, part)), ids)
            for part in _parts(query.distinct_segments)
        ]
    )


def cut_tags(query: SpanTagsQuery, workers: int, _: Limits) -> Cut:
    del workers
    asked = query.request
    return all_at_once(
        [
            SpanTagsUnit(
                hour_affinity(asked.org, TRACES, part), tuple(map(segment_ref, part)), asked.start_ns,
                asked.end_ns, asked.tag, asked.condition, asked.limit,
            )
            for part in _parts(query.distinct_segments)
        ]
    )  # fmt: skip


def _parts(segments: Sequence[Segment]) -> list[Sequence[Segment]]:
    return [segments[at : at + SEGMENTS_PER_UNIT] for at in range(0, len(segments), SEGMENTS_PER_UNIT)]


@dataclass
class WholeTraces(Collected):
    """The spans of traces that any worker found."""

    data: TracesData = field(default_factory=TracesData)
    duplicates: int = 0
    """Spans that were stored more than once, less one for each."""
    is_full = False
    is_small = True

    def add(self, answer: TraceAnswer) -> None:
        self.count(answer.report)
        self.spans_read += answer.spans_read
        self.duplicates += answer.duplicates
        if answer.data:
            self.data.MergeFromString(answer.data)

    def result(self) -> WholeTraces:
        """Return the traces with each span once: parts that several workers read may share some."""
        seen: set[tuple[bytes, bytes, int, int]] = set()
        for resource in self.data.resource_spans:
            for scope in resource.scope_spans:
                fresh = []
                for span in scope.spans:
                    identity = span.trace_id, span.span_id, span.kind, span.start_time_unix_nano
                    if not span.span_id or identity not in seen:
                        seen.add(identity)
                        fresh.append(span)
                if len(fresh) < len(scope.spans):
                    self.duplicates += len(scope.spans) - len(fresh)
                    del scope.spans[:]
                    scope.spans.extend(fresh)
        return self


def merge_trace(_query: TraceQuery, _limits: Limits) -> WholeTraces:
    return WholeTraces()


@dataclass
class SpanTags(Collected):
    """Names of attributes by scope, or values."""

    limit: int = 0
    names: dict[str, set[str]] = field(default_factory=dict)
    values: dict[TypedValue, None] = field(default_factory=dict)
    is_small = True

    @property
    def is_full(self) -> bool:
        return 0 < self.limit <= len(self.values)

    def add(self, answer: SpanTagsAnswer) -> None:
        self.count(answer.report)
        for scope, names in answer.names.items():
            self.names.setdefault(scope, set()).update(names)
        self.values |= dict.fromkeys(answer.values)

    def result(self) -> SpanTags:
        return self


def merge_tags(query: SpanTagsQuery, _limits: Limits) -> SpanTags:
    return SpanTags(limit=query.request.limit if query.request.tag else 0)
