"""TraceQL plans say what is read: fields, bounds of time, and whether traces must be whole.

    { status = error }                              spans decide alone; the answer shows whole traces
    { status = error } >> { kind = server }         traces must be whole
    {} | rate() by (name)                           spans decide alone, and nothing else is shown

A query is cut into windows of time, newest first, and large windows into ranges of trace ids, so that every
unit sees whole traces. Spans of a trace are looked for within `REACH_NS` before and behind a window.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from lakerunner_query.plan.trace_demands import Terms, deciding_span, index_terms
from lakerunner_query.traceql.lang.ast import Query
from lakerunner_query.traceql.lang.conditions import Analysis
from resources.index.types import Segment
from resources.lake.timecut import HOUR_NS

TRACES = "traces"
REACH_NS = HOUR_NS
ROWS_PER_UNIT = 1_000_000
ROWS_PER_WINDOW = 2_000_000
"""Hours are joined until they have so many spans."""
MIN_NS, MAX_NS = -(2**62), 2**62


@dataclass(frozen=True, slots=True)
class TraceSearchRequest:
    """A search for traces that overlap `[start_ns, end_ns]`."""

    org: str
    start_ns: int
    end_ns: int
    limit: int = 20
    spans_per_set: int = 3
    timeout_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TraceMetricsRequest:
    """Evaluation times from `start_ns` on, `step_ns` apart; an instant query has one step."""

    org: str
    start_ns: int
    step_ns: int
    steps: int
    exemplars: int = 0
    timeout_s: float = 0.0
    rewrite: bool = True
    """Derived metrics may answer the query."""
    demands_exemplars: bool = False
    """The caller named a number of exemplars, which only spans can give."""

    @property
    def from_ns(self) -> int:
        """Return the time behind which spans count."""
        return self.start_ns - self.step_ns

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.step_ns * (self.steps - 1)


@dataclass(frozen=True, slots=True)
class TracePlan:
    """A query, and what it has to read."""

    query: Query
    start_ns: int
    end_ns: int
    """Bounds of the times at which spans that decide begin, both included."""
    reach_ns: int
    """Time before and behind a window from which spans belong to its traces; 0: spans decide alone."""
    terms: Terms = ()
    """Index terms of segments that may have the span on which a match depends."""


def deciding_terms(facts: Analysis) -> Terms:
    """Return the terms of segments that may have the span on which a match depends."""
    demand = deciding_span(facts.requirement)
    return () if demand is None else index_terms(demand)


@dataclass(frozen=True, slots=True)
class TraceWindow:
    """Traces that begin in `[first_ns, behind_ns)`, with ids from `least` to before `above`."""

    first_ns: int
    behind_ns: int
    least: bytes = b""
    above: bytes = b""
    """Bounds of ids; empty: open."""
    is_last: bool = True
    """No other window of the query has the same bounds of time and comes later."""


@dataclass(frozen=True, slots=True)
class WindowSegments:
    window: TraceWindow
    segments: tuple[Segment, ...]
    deciding: tuple[int, ...]
    """Places of the segments that may have the span on which a match depends."""


def cut_windows(
    plan: TracePlan, segments: Sequence[Segment], deciding: Collection[str], workers: int
) -> Iterator[WindowSegments]:
    """Yield windows, newest first; windows of one time come behind each other.

    Windows without any of the `deciding` segments have no match.
    """
    hours = sorted({one.min_ns // HOUR_NS for one in segments} | {one.max_ns // HOUR_NS for one in segments})
    first, last = (plan.start_ns - plan.reach_ns) // HOUR_NS, plan.end_ns // HOUR_NS
    hours = [hour for hour in hours if first <= hour <= last]
    for low, high in _joined(hours, segments):
        begin = MIN_NS if low == hours[0] else low * HOUR_NS
        behind = MAX_NS if high == hours[-1] else (high + 1) * HOUR_NS
        least, greatest = low * HOUR_NS - plan.reach_ns, (high + 1) * HOUR_NS + plan.reach_ns
        inside = [one for one in segments if one.max_ns >= least and one.min_ns < greatest]
        places = tuple(place for place, one in enumerate(inside) if one.segment_id in deciding)
        if not places:
            continue
        rows = sum(one.rows for one in inside)
        parts = max(1, -(-rows // ROWS_PER_UNIT))
        if parts == 1 and rows > ROWS_PER_UNIT // 4:
            parts = max(1, workers)
        bounds = [b"", *(_bound(number, parts) for number in range(1, parts)), b""]
        for number in range(parts):
            window = TraceWindow(begin, behind, bounds[number], bounds[number + 1], number == parts - 1)
            yield WindowSegments(window, tuple(inside), places)


def _joined(hours: Sequence[int], segments: Sequence[Segment]) -> Iterator[tuple[int, int]]:
    """Yield first and last hour of windows, newest first; the newest hour stands alone."""
    high, rows = None, 0
    for place, hour in enumerate(reversed(hours)):
        high = hour if high is None else high
        rows += sum(one.rows for one in segments if one.min_ns // HOUR_NS == hour)
        if place == 0 or rows >= ROWS_PER_WINDOW or hour == hours[0]:
            yield hour, high
            high, rows = None, 0


def _bound(number: int, parts: int) -> bytes:
    return ((number << 64) // parts).to_bytes(8, "big") + bytes(8)
