"""Spans are adjusted and warned of before they are shown, as Jaeger does it.

client 01, server 01     a server's span that shares its client's id gets an id of its own, and that parent
parent not there         a warning
child outside parent     a warning with the skew of their clocks; times stay as sent, as by Jaeger's default
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from lakerunner_query.gotext.durations import duration_text

DUPLICATE = "duplicate span IDs; skipping clock skew adjustment"
NO_PARENT = "parent span ID={} is not in the trace; skipping clock skew adjustment"
SKEW = "clock skew adjustment disabled; not applying calculated delta of {}"
HOST_KEYS = ("host.id", "host.ip", "host.name")


@dataclass(slots=True)
class TraceSpan:
    """A span in its place, with the ids under which it is shown."""

    span: Span
    resource: Resource
    scope: InstrumentationScope
    host: str
    """Host that the resource names; empty: none."""
    span_id: str = ""
    parent_id: str = ""
    """Empty: the span is a root."""
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.span_id = self.span.span_id.hex().rjust(16, "0")
        self.parent_id = self.span.parent_span_id.hex() if any(self.span.parent_span_id) else ""

    @property
    def start_ns(self) -> int:
        return self.span.start_time_unix_nano

    @property
    def end_ns(self) -> int:
        return max(self.span.end_time_unix_nano, self.start_ns)


def host_of(resource: Resource) -> str:
    """Return what tells the host of a resource, by the first attribute that does."""
    known = {one.key: one.value for one in resource.attributes if one.key in HOST_KEYS}
    for key in HOST_KEYS:
        if key in known:
            values = known[key].array_value.values
            return str(values[0].string_value if values else known[key].string_value)
    return ""


def unify_ids(spans: Sequence[TraceSpan]) -> None:
    """Give each server's span that shares its client's id one of its own."""
    used = {one.span_id for one in spans}
    clients = {one.span_id for one in spans if one.span.kind == Span.SPAN_KIND_CLIENT}
    fresh = (each for each in map("{:016x}".format, range(1, len(spans) + len(used) + 2)) if each not in used)
    renamed: dict[str, str] = {}
    for one in spans:
        if one.span.kind == Span.SPAN_KIND_SERVER and one.span_id in clients:
            renamed[one.span_id] = next(fresh)
            one.parent_id, one.span_id = one.span_id, renamed[one.span_id]
    for one in spans:
        server = renamed.get(one.parent_id, one.span_id)
        if server != one.span_id:
            one.parent_id = server


def warn(spans: Sequence[TraceSpan]) -> None:
    """Add warnings about ids that occur twice, parents that are missing, and clocks that disagree."""
    known: dict[str, TraceSpan] = {}
    for one in spans:
        if known.setdefault(one.span_id, one) is not one:
            one.warnings.append(DUPLICATE)
    roots, children = list[TraceSpan](), dict[str, list[TraceSpan]]()
    for one in known.values():
        if one.parent_id in known:
            children.setdefault(one.parent_id, []).append(one)
            continue
        roots.append(one)
        if one.parent_id:
            one.warnings.append(NO_PARENT.format(one.parent_id))
    for one, skew_ns in _skews(roots, children):
        if skew_ns:
            one.warnings.append(SKEW.format(duration_text(skew_ns)))


def _skews(
    roots: Sequence[TraceSpan], children: dict[str, list[TraceSpan]]
) -> Iterator[tuple[TraceSpan, int]]:
    """Yield spans with how far their clock is behind that of their ancestors' host."""
    waiting = [(root, 0) for root in roots]
    while waiting:
        one, skew_ns = waiting.pop()
        yield one, skew_ns
        for child in children.pop(one.span_id, ()):
            is_same = child.host == one.host and child.host
            waiting.append((child, skew_ns if is_same else _skew_ns(child, one)))


def _skew_ns(child: TraceSpan, parent: TraceSpan) -> int:
    """Return what would have to be added to the times of a child for it to fit into its parent."""
    width, child_width = parent.end_ns - parent.start_ns, child.end_ns - child.start_ns
    if child_width > width:
        return max(0, parent.start_ns - child.start_ns)
    if child.start_ns >= parent.start_ns and child.end_ns <= parent.end_ns:
        return 0
    return parent.start_ns + (width - child_width) // 2 - child.start_ns
