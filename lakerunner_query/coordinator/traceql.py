"""TraceQL's functions for the engine: windows of whole traces, found traces, cells of metrics.

Units come newest window first, and a search ends with the window in which it has enough: no trace of an older
one begins later. Its first windows are small. Spans and tags are asked for by units of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import msgspec
import numpy as np

from lakerunner_query.coordinator.engine import NOTHING_TO_DO, Cut, Limits, PreparedQuery, hour_affinity
from lakerunner_query.coordinator.locate import Lookup
from lakerunner_query.coordinator.rewriting import Candidates, Rewritten, metric_units, mosaic
from lakerunner_query.coordinator.trace_cells import cells_of_metrics
from lakerunner_query.errors import LimitExceededError
from lakerunner_query.plan.rewrite import ActiveRule, AskedText, Guards, cases_in, runs
from lakerunner_query.plan.rewrite_traceql import GUARDS, leaves_of, rewrite_traceql
from lakerunner_query.plan.traceql import (
    REACH_NS,
    TRACES,
    TraceMetricsRequest,
    TracePlan,
    TraceSearchRequest,
    WindowSegments,
    cut_ids,
    cut_windows,
    deciding_terms,
    is_rare,
    rows_first,
    stands_alone,
)
from lakerunner_query.protocol.answers import MetricAnswer
from lakerunner_query.protocol.traces import (
    FoundTrace,
    Named,
    TraceCells,
    TraceExemplar,
    TraceMetricsAnswer,
    TraceSearchAnswer,
)
from lakerunner_query.protocol.units import (
    Missing,
    TraceMetricsUnit,
    TraceSearchUnit,
    Unit,
    UnitReport,
    segment_ref,
)
from lakerunner_query.rules.documents import RuleLanguage
from lakerunner_query.traceql.lang.ast import MetricsAggregation, MetricsCompare
from lakerunner_query.traceql.lang.conditions import analyse
from lakerunner_query.traceql.lang.functions import METRICS_FUNCTIONS, Merge
from lakerunner_query.traceql.lang.parser import parse_cached, parse_metrics
from lakerunner_query.traceql.lang.printer import print_query
from lakerunner_query.traceql.series import LabelSet, Series, make_series, metrics_functions
from lakerunner_query.vectors.vector import Steps
from resources.arrays import Doubles, Int64s
from resources.index.types import SegmentQuery
from resources.lake.frequency import AS_SENT
from resources.lake.layout import Signal

NS_PER_MS = 1_000_000
SLOW = "narrow the time range, or ask for an attribute that fewer spans have"

TraceSearchQuery = PreparedQuery[TraceSearchRequest, TracePlan, TraceSearchAnswer, "FoundTraces"]
TraceMetricsQuery = PreparedQuery[
    TraceMetricsRequest, TracePlan, TraceMetricsAnswer | MetricAnswer, "TraceMetrics"
]


def plan_search(text: str, request: TraceSearchRequest, limits: Limits) -> TracePlan:
    if request.limit > limits.max_rows:
        raise LimitExceededError(f"limit {request.limit} exceeds the largest one, {limits.max_rows}")
    query = parse_cached(text)
    facts = analyse(query)
    return TracePlan(query, request.start_ns, request.end_ns, REACH_NS, deciding_terms(facts), is_rare(facts))


def plan_metrics(text: str, request: TraceMetricsRequest, _: Limits) -> TracePlan:
    query = parse_metrics(text)
    facts = analyse(query)
    reach_ns = 0 if stands_alone(facts) else REACH_NS
    return TracePlan(query, request.from_ns, request.end_ns, reach_ns, deciding_terms(facts))


def look_up_spans(plan: TracePlan, request: TraceSearchRequest | TraceMetricsRequest) -> Lookup:
    """Ask for all segments of the range, and for those that may have the span on which a match depends."""
    first, last = plan.start_ns - plan.reach_ns, plan.end_ns + plan.reach_ns
    every = SegmentQuery(request.org, TRACES, AS_SENT, first, last)
    return Lookup((every, replace(every, terms=plan.terms)) if plan.terms else (every,))


def cut_search(query: TraceSearchQuery, workers: int, _: Limits) -> Cut:
    """Cut units of which the first is small and often enough; others run beside it where matches are rare."""
    request = query.request
    units = (
        TraceSearchUnit(
            affinity=_affinity(request.org, part),
            text=query.text,
            segments=tuple(map(segment_ref, part.segments)),
            window=part.window,
            start_ns=request.start_ns,
            end_ns=request.end_ns,
            limit=request.limit,
            spans_per_set=request.spans_per_set,
            deciding=part.deciding,
            turn=turn,
        )
        for turn, part in enumerate(_windows(query.plan, query, workers, rows_first(request.limit)))
    )
    first = next(units, None)
    if first is None:
        return NOTHING_TO_DO
    is_alone = first.window.is_last and not query.plan.is_rare
    return Cut(chain((first,), units), 1 if is_alone else max(1, workers))


def rewrite_metrics(
    plan: TracePlan,
    request: TraceMetricsRequest,
    rules: Sequence[ActiveRule],
    guards: Guards = GUARDS,
) -> Candidates | None:
    """Find the rules that may serve the functions of a query."""
    found = rewrite_traceql(plan.query, request, rules, guards) if request.rewrite else None
    if found is None:
        return None
    steps = Steps(
        request.start_ns // NS_PER_MS, request.step_ns // NS_PER_MS if request.steps > 1 else 0, request.steps
    )
    place = 1 if plan.terms else 0
    return Candidates.of(found, Signal.TRACES, steps, [place] * len(found.cases))


def asked_metrics(plan: TracePlan, request: TraceMetricsRequest) -> AskedText:
    """Return the query for the query log."""
    return AskedText(RuleLanguage.TRACEQL, print_query(plan.query), tuple(leaves_of(plan.query, request)))


def cut_metrics(query: TraceMetricsQuery, workers: int, limits: Limits) -> Cut:
    rewritten = query.rewritten
    if rewritten is None or not rewritten.is_used:
        return Cut(_span_units(query, _windows(query.plan, query, workers)), max(1, workers))

    def of_records(first: int, behind: int) -> Iterator[Unit]:
        return _span_units(query, _windows_of(query, first, behind, workers))

    def of_metrics(first: int, behind: int, cases: int) -> Iterator[Unit]:
        expr, functions = rewritten.expr(cases), _left_to_spans(query, rewritten, cases)
        if expr is not None:
            yield from metric_units(query.request.org, rewritten, expr, (first, behind), workers, limits)
        if functions:
            windows = _windows_of(query, first, behind, workers)
            yield from _span_units(query, windows, functions=functions)

    units = mosaic(rewritten, query.request.steps, of_records, of_metrics)
    return Cut(chain(units, _exemplar_units(query, rewritten, workers)), max(1, workers))


def _left_to_spans(query: TraceMetricsQuery, rewritten: Rewritten, cases: int) -> tuple[int, ...]:
    """Return the places of the functions that these cases do not serve."""
    known = rewritten.candidates.rewriting.cases
    served = {known[case].leaf.body.number for case in cases_in(cases)}
    return tuple(sorted({*range(len(metrics_functions(query.plan.query)))} - served))


def _windows_of(query: TraceMetricsQuery, first: int, behind: int, workers: int) -> Iterator[WindowSegments]:
    """Yield the windows of a run of steps."""
    request = query.request
    from_ns, to_ns = (request.from_ns + step * request.step_ns for step in (first, behind))
    plan = replace(query.plan, start_ns=from_ns, end_ns=to_ns)
    return (_within(one, from_ns, to_ns) for one in _windows(plan, query, workers))


def _exemplar_units(query: TraceMetricsQuery, rewritten: Rewritten, workers: int) -> Iterator[Unit]:
    """Yield units for exemplars of what derived metrics count, in rounds over more and more traces.

    The merge ends the query once it has as many as are wanted. The first round takes a share of every window.
    """
    if not query.request.exemplars:
        return
    every = {*range(len(metrics_functions(query.plan.query)))}
    windows = [
        (part, tuple(sorted(every - {*_left_to_spans(query, rewritten, cases)})))
        for first, behind, cases in runs(rewritten.settled.served)
        if cases
        for part in _windows_of(query, first, behind, workers)
    ]
    most, is_first = -(-query.request.exemplars // max(1, len(windows))), True
    for shares in zip(*(cut_ids(part.window) for part, _ in windows), strict=True):
        for (part, functions), window in zip(windows, shares, strict=True):
            for unit in _span_units(query, (replace(part, window=window),), functions=functions):
                wanted = most if is_first else query.request.exemplars
                yield msgspec.structs.replace(unit, is_for_exemplars=True, exemplars=wanted)
        is_first = False


def _within(part: WindowSegments, from_ns: int, to_ns: int) -> WindowSegments:
    """Let a window end at these times: other steps are counted elsewhere."""
    window = part.window
    first, behind = max(window.first_ns, from_ns + 1), min(window.behind_ns, to_ns + 1)
    return replace(part, window=replace(window, first_ns=first, behind_ns=behind))


def _span_units(
    query: TraceMetricsQuery, windows: Iterable[WindowSegments], *, functions: tuple[int, ...] = ()
) -> Iterator[Unit]:
    request = query.request
    for turn, part in enumerate(windows):
        yield TraceMetricsUnit(
            affinity=_affinity(request.org, part),
            text=query.text,
            segments=tuple(map(segment_ref, part.segments)),
            window=part.window,
            start_ns=request.start_ns,
            step_ns=request.step_ns,
            steps=request.steps,
            exemplars=request.exemplars,
            turn=turn,
            functions=functions,
        )


def _windows(
    plan: TracePlan, query: TraceSearchQuery | TraceMetricsQuery, workers: int, first_rows: int = 0
) -> Iterable[WindowSegments]:
    """Cut the range; where spans decide alone, the others of their traces are not needed."""
    deciding = {one.segment_id for one in query.segments[-1]}
    segments = query.distinct_segments
    if plan.reach_ns == 0:
        segments = [one for one in segments if one.segment_id in deciding]
    return cut_windows(plan, segments, deciding, workers, first_rows) if segments else ()


def _affinity(org: str, part: WindowSegments) -> str:
    return hour_affinity(org, TRACES, part.segments)


@dataclass
class Collected:
    """Totals of what reading took."""

    report: UnitReport = field(default_factory=UnitReport)
    missing: dict[str, Missing] = field(default_factory=dict)
    traces_read: int = 0
    spans_read: int = 0
    units: int = 0

    @property
    def is_partial(self) -> bool:
        return bool(self.missing)

    def count(self, report: UnitReport) -> None:
        self.units += 1
        self.missing.update((lost.segment_id, lost) for lost in report.missing)
        self.report = replace_counts(self.report, report)


def replace_counts(left: UnitReport, right: UnitReport) -> UnitReport:
    return UnitReport(
        segments_opened=left.segments_opened + right.segments_opened,
        bytes_fetched=left.bytes_fetched + right.bytes_fetched,
        requests=left.requests + right.requests,
        rows_considered=left.rows_considered + right.rows_considered,
        bytes_considered=left.bytes_considered + right.bytes_considered,
    )


@dataclass
class FoundTraces(Collected):
    """The newest traces of a search; those of one window come in any order, those of the next are older."""

    limit: int = 0
    traces: list[FoundTrace] = field(default_factory=list)
    is_full: bool = False
    is_small = True
    _ids: set[str] = field(default_factory=set)
    _window: list[FoundTrace] = field(default_factory=list)

    def add(self, answer: TraceSearchAnswer) -> Sequence[FoundTrace]:
        """Take in the answer of one unit; return the traces that follow in the order of the search."""
        self.count(answer.report)
        self.traces_read += answer.traces_read
        self.spans_read += answer.spans_read
        fresh = tuple(one for one in answer.traces if one.trace_id not in self._ids)
        self._ids.update(one.trace_id for one in fresh)
        self._window += fresh
        if not answer.is_last:
            return ()
        self._window.sort(key=lambda one: (-one.start_ns, one.trace_id))
        following = self._window[: self.limit - len(self.traces)]
        self._window = []
        self.traces += following
        self.is_full = len(self.traces) >= self.limit
        return following

    def result(self) -> FoundTraces:
        return self


def merge_search(query: TraceSearchQuery, _: Limits) -> FoundTraces:
    return FoundTraces(limit=query.request.limit)


@dataclass(slots=True)
class Group:
    """Cells of one group, of all units so far."""

    counts: Int64s
    values: Doubles
    exemplars: list[TraceExemplar] = field(default_factory=list)


@dataclass
class TraceMetrics(Collected):
    """Cells of all functions of a query, by their labels."""

    merges: Sequence[Merge] = ()
    functions: list[dict[Named, Group]] = field(default_factory=list)
    request: TraceMetricsRequest | None = None
    nodes: Sequence[MetricsAggregation | MetricsCompare] = ()
    is_full = False
    """Nothing is missing but exemplars, and there are enough of them."""
    is_small = False

    def add(self, answer: TraceMetricsAnswer | MetricAnswer) -> None:
        self.count(answer.report)
        if isinstance(answer, MetricAnswer):
            if self.request is not None:
                for number, found in cells_of_metrics(answer, self.nodes, self.merges, self.request):
                    _merge_cells(self.functions[number], self.merges[number], found)
            return
        self.spans_read += answer.spans_read
        for merge, groups, cells in zip(self.merges, self.functions, answer.functions, strict=True):
            for one in cells:
                _merge_cells(groups, merge, one)
        self.is_full = answer.is_for_exemplars and self._has_enough()

    def _has_enough(self) -> bool:
        found = sum(len(group.exemplars) for groups in self.functions for group in groups.values())
        return self.request is not None and found >= self.request.exemplars

    def result(self) -> TraceMetrics:
        return self


def _merge_cells(groups: dict[Named, Group], merge: Merge, cells: TraceCells) -> None:
    counts, values = np.frombuffer(cells.counts, np.int64), np.frombuffer(cells.values, np.float64)
    known = groups.get(cells.labels)
    if not len(counts):  # exemplars alone, of groups whose cells are known
        if known is not None:
            known.exemplars += cells.exemplars
        return
    if known is None:
        groups[cells.labels] = Group(counts.copy(), values.copy(), list(cells.exemplars))
        return
    known.counts += counts
    known.exemplars += cells.exemplars
    if len(values):
        known.values = _VALUES.get(merge, np.add)(known.values, values)


_VALUES = {Merge.MIN: np.fmin, Merge.MAX: np.fmax}


def merge_metrics(query: TraceMetricsQuery, _: Limits) -> TraceMetrics:
    nodes = metrics_functions(query.plan.query)
    merges = [METRICS_FUNCTIONS[getattr(node, "function", "compare")].merge for node in nodes]
    found: list[dict[Named, Group]] = [{} for _ in nodes]
    return TraceMetrics(merges=merges, functions=found, request=query.request, nodes=nodes)


def series_of(query: TraceMetricsQuery, found: TraceMetrics) -> list[Series]:
    """Return the series of a metrics query."""
    if not query.segments[0]:
        return []
    cells = [{label_set(named): group for named, group in one.items()} for one in found.functions]
    return make_series(query.plan.query, cells, query.request.steps, query.request.step_ns)


def label_set(named: Named) -> LabelSet:
    return tuple((name, value.type, value.value) for name, value in named)
