"""TraceQL plans say what is read: fields, bounds of time, and whether traces must be whole.

    { status = error }                              spans decide alone; the answer shows whole traces
    { status = error } >> { kind = server }         traces must be whole
    {} | rate() by (name)                           spans decide alone, and nothing else is shown

A query is cut into windows of time, newest first, and large windows into ranges of trace ids, so that every
unit sees whole traces. Spans of a trace are looked for within `REACH_NS` before and behind a window. A search
for the newest traces begins with small windows, each twice as large as the one before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from lakerunner_query.plan.trace_demands import Terms, deciding_span, index_terms, names_rare_text
from lakerunner_query.traceql.lang.ast import Query
from lakerunner_query.traceql.lang.conditions import Analysis
from lakerunner_query.traceql.lang.intrinsics import Home
from resources.index.types import Segment
from resources.lake.timecut import HOUR_NS

TRACES = "traces"
REACH_NS = HOUR_NS
ROWS_PER_UNIT = 1_000_000
ROWS_PER_WINDOW = 2_000_000
"""Hours are joined until they have so many spans."""
FIRST_ROWS = 20_000
"""Spans of the first window of a search for the newest traces."""
ROWS_PER_FOUND = 500
"""Spans of the first window for each trace that is wanted."""
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
    is_rare: bool = False
    """Few segments have such a span, as far as the query tells: behind the first window it reads all."""


def stands_alone(facts: Analysis) -> bool:
    """Tell whether a query for metrics looks at each span by itself, whatever trace it is of."""
    return facts.is_on_one_span and Home.TRACE not in facts.homes and not facts.reads_all_fields


def is_rare(facts: Analysis) -> bool:
    """Tell whether a match depends on a text that the blooms of few segments have."""
    demand = deciding_span(facts.requirement)
    return demand is not None and names_rare_text(demand)


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


def rows_first(limit: int) -> int:
    """Return the spans of the first window of a search for so many of the newest traces."""
    return max(FIRST_ROWS, limit * ROWS_PER_FOUND)


def cut_windows(
    plan: TracePlan,
    segments: Sequence[Segment],
    deciding: Collection[str],
    workers: int,
    first_rows: int = 0,
) -> Iterator[WindowSegments]:
    """Yield windows, newest first; windows of one time come behind each other.

    Windows without any of the `deciding` segments have no match. With `first_rows` windows grow from so many
    spans on; where matches are rare all but the first are large.
    """
    hours = sorted({one.min_ns // HOUR_NS for one in segments} | {one.max_ns // HOUR_NS for one in segments})
    first, last = (plan.start_ns - plan.reach_ns) // HOUR_NS, plan.end_ns // HOUR_NS
    hours = [hour for hour in hours if first <= hour <= last]
    rows_next, growth = first_rows, 0 if plan.is_rare else 2
    for low, high in _joined(hours, segments):
        begin = MIN_NS if low == hours[0] else low * HOUR_NS
        behind = MAX_NS if high == hours[-1] else (high + 1) * HOUR_NS
        least, greatest = low * HOUR_NS - plan.reach_ns, (high + 1) * HOUR_NS + plan.reach_ns
        inside = tuple(one for one in segments if one.max_ns >= least and one.min_ns < greatest)
        for since, until in _growing(begin, behind, inside, rows_next, growth):
            rows_next *= growth
            # a trace that starts in the window has no span before it
            reached = [place for place, one in enumerate(inside) if one.max_ns >= since]
            places = tuple(place for place in reached if inside[place].segment_id in deciding)
            if places:
                near = inside if since == begin else [inside[place] for place in reached]
                rows = sum(one.rows for one in near if since == begin or one.min_ns < until)
                yield from _parts(since, until, inside, places, rows, workers)


SHARES = (64, 16, 4, 1)
"""Parts of all trace ids, the first, that are looked through for exemplars until there are enough."""


def cut_ids(window: TraceWindow) -> Iterator[TraceWindow]:
    """Yield a window in ranges of trace ids, each larger than the one before.

    Ids are random: a range of them is a sample of all traces, and few row groups of each segment.
    """
    low = int.from_bytes(window.least[:8], "big")
    high = int.from_bytes(window.above[:8], "big") if window.above else 1 << 64
    bounds = [low, *(low + (high - low) // share for share in SHARES)]
    for since, until in pairwise(bounds):
        yield replace(window, least=_bytes_of(since), above=_bytes_of(until) if until < 1 << 64 else b"")


def _bytes_of(number: int) -> bytes:
    return number.to_bytes(8, "big") + bytes(8) if number else b""


def _growing(
    begin: int, behind: int, segments: Sequence[Segment], rows: int, growth: int
) -> Iterator[tuple[int, int]]:
    """Cut a range of time into ranges, newest first, each with `growth` times the spans of the one before.

    The first has some `rows`; 0: the range stays whole. What is left is not less than the part before it.
    """
    starts = sorted((one.min_ns, one.rows) for one in segments if begin <= one.min_ns < behind)
    left, seen = sum(count for _, count in starts), 0
    for start, count in reversed(starts):
        seen += count
        if rows and seen >= rows and left - seen >= seen and begin < start < behind:
            yield start, behind
            behind, left, seen, rows = start, left - seen, 0, rows * growth
    yield begin, behind


def _parts(
    begin: int, behind: int, segments: tuple[Segment, ...], places: tuple[int, ...], rows: int, workers: int
) -> Iterator[WindowSegments]:
    """Cut a window with many spans into ranges of trace ids."""
    parts = max(1, -(-rows // ROWS_PER_UNIT))
    if parts == 1 and rows > ROWS_PER_UNIT // 4:
        parts = max(1, workers)
    bounds = [b"", *(_bound(number, parts) for number in range(1, parts)), b""]
    for number in range(parts):
        window = TraceWindow(begin, behind, bounds[number], bounds[number + 1], number == parts - 1)
        yield WindowSegments(window, segments, places)


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
    return _bytes_of((number << 64) // parts)
