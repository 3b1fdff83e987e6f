"""`TraceScanner` finds the newest matching traces of a window.

Frames hold whole traces, so conditions, structure and groups see all spans that arrived, in however many
segments. Candidates are read newest first, and no more of them than the answer needs. What a span shows are
the fields that the query reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakerunner_query.plan.trace_demands import deciding_span, fields_of_requirement
from lakerunner_query.plan.traceql import TraceWindow
from lakerunner_query.protocol.traces import (
    FoundSet,
    FoundSpan,
    FoundTrace,
    ServiceStats,
    TraceSearchAnswer,
    TypedValue,
)
from lakerunner_query.protocol.units import SegmentRef, TraceSearchUnit
from lakerunner_query.traceql.frame import NAME, NO_ROOT, SERVICE, Frame
from lakerunner_query.traceql.lang.ast import (
    Field,
    Intrinsic,
    Query,
    Type,
)
from lakerunner_query.traceql.lang.conditions import Requirement, analyse
from lakerunner_query.traceql.lang.parser import parse_cached
from lakerunner_query.traceql.shown import ShownField, shown_fields
from lakerunner_query.traceql.spansets import Fact, SpanSets, evaluate_pipeline
from lakerunner_query.traceql.values import (
    Column,
    Part,
    Scalar,
    group_codes,
)
from lakerunner_query.worker.spans.candidates import may_hold, meets
from lakerunner_query.worker.spans.rows import SpanReader, TraceRange, Wanted
from lakerunner_query.worker.spans.summaries import (
    ID,
    KnownTraces,
    ids_from,
    known_traces,
    newest_since,
    places_of,
    starting_in,
)
from lakerunner_query.worker.spans.summaries import ids_of as summary_ids
from lakerunner_query.worker.tables.segments import OpenTable, TableOpener
from resources.arrays import Flags, Int64s
from resources.duckdb import Cancellation

ERROR = 2
"""Place of `error` among the statuses."""
HIDDEN = frozenset(
    Intrinsic(name)
    for name in ("duration", "trace:id", "span:id", "traceDuration", "rootName", "rootServiceName")
)
"""Intrinsics that an answer has at other places."""


class TraceScanner:
    """Answers units of TraceQL searches."""

    def __init__(self, opener: TableOpener) -> None:
        self._opener = opener

    def search(self, unit: TraceSearchUnit, cancellation: Cancellation) -> TraceSearchAnswer:
        """Return the newest traces that match, and what was read."""
        query = parse_cached(unit.text)
        wanted = wanted_of(query)
        with self._opener.open_unit(cancellation) as reader:
            spans = SpanReader(reader)
            every = ids_of(unit.window)
            tables = spans.summaries(unit.segments, every)
            demand = deciding_span(analyse(query).requirement)
            held = _holding(spans, unit, demand)
            newest = newest_matches(spans, tables, held, query, unit) if held else ((), 0)
            if newest is not None:
                found, traces = newest
                return TraceSearchAnswer(
                    found, traces, spans.rows, unit.window.is_last, reader.reader.report()
                )
            matches: list[FoundTrace] = []
            traces = 0
            for batch in candidates(spans, tables, held, query, unit):
                cancellation.check()
                frame = spans.read(unit.segments, wanted, replace(every, only=batch))
                traces += frame.traces
                cancellation.check()
                matches += find_traces(frame, query, unit)
                if len(matches) >= unit.limit:
                    break
            return TraceSearchAnswer(
                tuple(matches[: unit.limit]), traces, spans.rows, unit.window.is_last, reader.reader.report()
            )


FIRST_BATCH = 4
"""Times the limit: so many traces are read at first, and all others only if too few of them match."""


def _newest_first(known: KnownTraces, flags: Flags, unit: TraceSearchUnit) -> list[np.ndarray]:
    """Return the ids of traces in two batches, the newest ones first; each ascends."""
    chosen = np.flatnonzero(flags)
    chosen = chosen[np.argsort(-known.start_ns[chosen], kind="stable")]
    first = FIRST_BATCH * unit.limit
    if 2 * first > len(chosen):
        first = len(chosen)
    return [known.ids[np.sort(batch)] for batch in (chosen[:first], chosen[first:]) if len(batch)]


TRIED = 8
"""Times the limit: so many of the newest traces are tried before candidates are looked for among all."""
SMALL_WINDOW = 100_000
"""Spans of a window that are read at once."""
FEW = 4
"""Times as many segments as may have a span on which a match depends: then it is looked for first."""
SMALL_SHARE = 4
"""They are, where they need a row group in so many at most."""


def newest_matches(
    spans: SpanReader,
    tables: Sequence[tuple[OpenTable, pa.Table]],
    held: Sequence[SegmentRef],
    query: Query,
    unit: TraceSearchUnit,
) -> tuple[tuple[FoundTrace, ...], int] | None:
    """Find matches among the newest traces; None: too few match, or they lie all over the row groups.

    A trace that starts at some time or later has all its spans in segments that end later, and starts no
    earlier in any of them.
    """
    behind = min(unit.end_ns + 1, unit.window.behind_ns)
    since = newest_since(tables, behind, TRIED * unit.limit)
    if since is None or since < unit.window.first_ns:
        return None
    if 2 * len(held) < len(_reached(tables, unit)):
        return None  # a rare word: its segments are few
    ids = ids_from(tables, since, behind)
    footers = [one.footer for one, _ in tables]
    needed = sum(min(len(each), one.groups) for each, one in zip(ids, footers, strict=True))
    if needed * SMALL_SHARE > sum(one.groups for one in footers):
        return None
    only = np.unique(np.concatenate(ids))
    frame = spans.read(unit.segments, wanted_of(query), replace(ids_of(unit.window), only=only))
    found = tuple(one for one in find_traces(frame, query, unit) if one.start_ns >= since)
    return (found, frame.traces) if len(found) >= unit.limit else None


def _reached(tables: Sequence[tuple[OpenTable, pa.Table]], unit: TraceSearchUnit) -> list[OpenTable]:
    """Return the segments that may have spans of traces of the window; all others end before it."""
    return [one for one, _ in tables if one.segment.max_ns >= unit.window.first_ns]


def _holding(spans: SpanReader, unit: TraceSearchUnit, demand: Requirement | None) -> list[SegmentRef]:
    """Return the segments that may have a span that meets a demand."""
    segments = unit.segments if unit.deciding is None else [unit.segments[place] for place in unit.deciding]
    return [one for one in segments if demand is None or may_hold(spans.reader, one, demand)]


def candidates(
    spans: SpanReader,
    tables: Sequence[tuple[OpenTable, pa.Table]],
    held: Sequence[SegmentRef],
    query: Query,
    unit: TraceSearchUnit,
) -> list[np.ndarray]:
    """Return batches of ids of traces that can match, newest first.

    Where few segments may have the span on which a match depends, it is looked for first. A small window is
    read at once: looking for that span would read the same row groups.
    """
    requirement, window = analyse(query).requirement, unit.window
    demand = deciding_span(requirement)
    if demand is not None and len(held) * FEW <= len(_reached(tables, unit)):
        chosen = _ids_with(spans, _reaching(tables, held, window.behind_ns), demand, unit)
        known = known_traces([one.take(pa.array(places_of(one, chosen))) for _, one in tables], b"", b"")
        return _newest_first(known, _in_time(known, unit) & known.may_match(requirement), unit)
    known = known_traces(starting_in(tables, window.first_ns, window.behind_ns), b"", b"")
    flags = _in_time(known, unit) & known.may_match(requirement)
    if int(known.spans[flags].sum()) <= SMALL_WINDOW:
        return [known.ids[flags]] if flags.any() else []
    if demand is not None:
        ids = known.ids[flags]
        own = spans.summaries(held, ids_of(window))
        some = [one.segment for one, each in own if len(places_of(each, ids))]
        flags &= np.isin(known.ids, _ids_with(spans, some, demand, unit), assume_unique=True)
    return _newest_first(known, flags, unit)


def _reaching(
    tables: Sequence[tuple[OpenTable, pa.Table]], held: Sequence[SegmentRef], behind_ns: int
) -> list[SegmentRef]:
    """Leave out segments behind a time without any trace that has spans before it."""
    wanted = {one.segment_id for one in held}
    older = [table for one, table in tables if one.segment.min_ns < behind_ns]

    def reaches(one: OpenTable, table: pa.Table) -> bool:
        ids = summary_ids(table)
        return one.segment.min_ns < behind_ns or any(len(places_of(each, ids)) for each in older)

    return [one.segment for one, table in tables if one.segment.segment_id in wanted and reaches(one, table)]


def _in_time(known: KnownTraces, unit: TraceSearchUnit) -> Flags:
    """Flag traces that start in the window and overlap the range of the search."""
    starts, ends = known.start_ns, known.end_ns
    flags: Flags = (starts >= unit.window.first_ns) & (starts < unit.window.behind_ns)
    return flags & (starts <= unit.end_ns) & (ends >= unit.start_ns)


def _ids_with(
    spans: SpanReader, segments: Sequence[SegmentRef], demand: Requirement, unit: TraceSearchUnit
) -> np.ndarray:
    """Return the ids of traces that have a span in these segments which meets a demand."""
    frame = spans.read(segments, Wanted.of(fields_of_requirement(demand)), ids_of(unit.window))
    chosen = frame.trace_ids[np.unique(frame.trace_of[meets(frame, demand)])]
    return np.ascontiguousarray(chosen).reshape(-1).view(ID)


def ids_of(window: TraceWindow) -> TraceRange:
    return TraceRange(window.least, window.above)


def find_traces(frame: Frame, query: Query, unit: TraceSearchUnit) -> tuple[FoundTrace, ...]:
    """Return the newest traces of the window that the query selects."""
    sets = evaluate_pipeline(frame, analyse(query).pipelines[0])
    starts, ends = frame.trace_start_ns, frame.trace_end_ns
    inside = (starts >= unit.window.first_ns) & (starts < unit.window.behind_ns)
    inside &= (starts <= unit.end_ns) & (ends >= unit.start_ns)
    matched = np.unique(sets.traces)
    matched = matched[inside[matched]]
    newest = matched[np.argsort(-starts[matched], kind="stable")][: unit.limit]
    return tuple(_Rendering(frame, shown_fields(query), unit.spans_per_set).render(sets, newest))


def wanted_of(query: Query) -> Wanted:
    """Return the columns of a frame for a search."""
    return Wanted.of((*fields_of(query), NAME, SERVICE))


def fields_of(query: Query) -> frozenset[Field]:
    """Return the fields that the query reads or shows."""
    facts = analyse(query)
    return facts.reads | facts.selects


@dataclass(frozen=True)
class _Rendering:
    frame: Frame
    shown: Sequence[ShownField]
    spans_per_set: int

    def render(self, sets: SpanSets, traces: Int64s) -> list[FoundTrace]:
        """Return these traces as they are shown, in this order."""
        frame = self.frame
        chosen = np.isin(sets.traces, traces)
        numbers = np.flatnonzero(chosen)
        bounds = sets.starts()
        shown = {
            number: self._first(sets.rows[bounds[number] : bounds[number + 1]]) for number in numbers.tolist()
        }
        rows = np.unique(np.concatenate(list(shown.values()))) if shown else np.zeros(0, np.int64)
        spans = dict(zip(rows.tolist(), self._spans(rows), strict=True))
        found: dict[int, list[FoundSet]] = {}
        for number in numbers.tolist():
            facts = tuple((name, shown_fact(values[number])) for name, values in sets.facts)
            members = tuple(spans[row] for row in shown[number].tolist())
            matched = int(bounds[number + 1] - bounds[number])
            found.setdefault(int(sets.traces[number]), []).append(FoundSet(matched, members, facts))
        names, services = frame.root_texts(NAME), frame.root_texts(SERVICE)
        return [
            FoundTrace(
                frame.trace_ids[trace].tobytes().hex(),
                services[trace] or NO_ROOT,
                names[trace],
                int(frame.trace_start_ns[trace]),
                int(frame.trace_end_ns[trace]),
                tuple(found[trace]),
                stats,
            )
            for trace, stats in zip(traces.tolist(), self._services(traces), strict=True)
        ]

    def _first(self, rows: Int64s) -> Int64s:
        """Return the spans of a set that are shown, by start."""
        return rows[np.argsort(self.frame.start_ns[rows], kind="stable")][: self.spans_per_set or None]

    def _spans(self, rows: Int64s) -> list[FoundSpan]:
        frame = self.frame
        attributes: list[list[tuple[str, TypedValue]]] = [[] for _ in rows]
        names = [""] * len(rows)
        for one in self.shown:
            column = frame.column(one.field).within(rows)
            shown = one.select(column)
            if one.field == NAME:
                for place, value in shown_values(shown):
                    names[place] = str(value.value)
            elif one.field not in HIDDEN:
                for place, value in shown_values(shown, is_repeated=one.is_repeated):
                    attributes[place].append((one.field.name, value))
                for place in [] if one.absent is None else np.flatnonzero(~column.present()).tolist():
                    absent = TypedValue(one.absent.type.value, one.absent.value)  # type: ignore[union-attr]
                    attributes[place].append((one.field.name, absent))
        return [
            FoundSpan(
                f"{span_id:016x}", name, start, end - start, tuple(named)
            )
            for span_id, name, start, end, named in zip(
                frame.span_ids[rows].tolist(), names, frame.start_ns[rows].tolist(),
                frame.end_ns[rows].tolist(), attributes, strict=True,
            )
        ]  # fmt: skip

    def _services(self, traces: Int64s) -> list[dict[str, ServiceStats]]:
        """Count spans and errors of each trace by service."""
        frame = self.frame
        sizes = frame.starts[traces + 1] - frame.starts[traces]
        owners = np.repeat(np.arange(len(traces)), sizes)
        rows = np.repeat(frame.starts[traces] - np.cumsum(sizes) + sizes, sizes) + np.arange(len(owners))
        codes, names = group_codes(frame.attributes[(SERVICE.scope, SERVICE.name)].within(rows))
        cells, shape = owners * len(names) + codes, (len(traces), len(names))
        spans = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
        errors = np.bincount(cells[frame.statuses[rows] == ERROR], minlength=spans.size).reshape(shape)
        texts = ["" if kind is None else str(value) for kind, value in names]
        return [
            {texts[code]: ServiceStats(int(each[code]), int(failed[code])) for code in np.flatnonzero(each)}
            for each, failed in zip(spans, errors, strict=True)
        ]


def shown_values(column: Column, *, is_repeated: bool = False) -> list[tuple[int, TypedValue]]:
    """Return values by row, of several types those of the last part.

    A list of one element is that element, and of events or links the last one counts.
    """
    found: dict[int, tuple[Part, list[Scalar]]] = {}
    for part in column.parts:
        if part.kind is not Type.ATTRIBUTE:
            of_part: dict[int, tuple[Part, list[Scalar]]] = {}
            for row, value in zip(part.rows.tolist(), part.scalars(), strict=True):
                of_part.setdefault(row, (part, []))[1].append(value)
            found |= of_part
    return [
        (
            row,
            TypedValue(part.kind.value, tuple(values) if len(values) > 1 and not is_repeated else values[-1]),
        )
        for row, (part, values) in found.items()
    ]


def shown_fact(fact: Fact) -> TypedValue:
    kind, value = fact
    return TypedValue(kind.value, None if kind is Type.NIL else value)
