"""Questions without a text: series, streams, label names and values, metadata, exemplars, volumes, patterns.

They take the path of every query. Series and stream tables answer most of them: no data column is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np

from lakerunner_query.coordinator.engine import Cut, Limits, PreparedQuery, all_at_once, hour_affinity
from lakerunner_query.coordinator.locate import METRICS, Lookup, rows_query, samples_query
from lakerunner_query.errors import LimitExceededError
from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.plan.logql import LOGS, LogLinesRequest, Nothing, ReadStreams, build
from lakerunner_query.plan.optimise import optimise
from lakerunner_query.plan.promql import Reads
from lakerunner_query.protocol.answers import (
    LATE_MS,
    Exemplar,
    ExemplarAnswer,
    MetadataAnswer,
    MetricFact,
    PatternsAnswer,
    SeriesAnswer,
    SeriesExemplars,
    StreamsAnswer,
)
from lakerunner_query.protocol.units import (
    ExemplarUnit,
    MetadataUnit,
    Missing,
    PatternsUnit,
    SegmentRef,
    Selected,
    SeriesSelector,
    SeriesUnit,
    StreamsUnit,
    StreamsWanted,
    Unit,
    UnitReport,
    segment_ref,
    select_places,
)
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import Labels
from resources.index.types import Segment

SIZES = {METRICS: 32, LOGS: 64}
"""Segments of one unit, in a number that is worth a request."""
MAX_ENTRIES = 1_000_000
SLOW_SERIES = "narrow the time range, or select fewer series"
SLOW_STREAMS = "narrow the time range, or select fewer streams"
Selector = tuple[Matcher, ...]
SeriesWanted = Literal["series", "names", "values"]


@dataclass(frozen=True, slots=True)
class SeriesRequest:
    """Parameters of a question about metrics; no selectors mean all series of the range."""

    org: str
    from_ms: int
    """Lower bound, exclusive."""
    to_ms: int
    selectors: tuple[SeriesSelector, ...] = ()
    limit: int = 0
    """Upper bound of entries; 0: all."""
    label: str = ""
    """Label whose values are listed."""
    metric: str = ""
    """Metric whose metadata is listed; empty: all."""
    trace_id: str = ""
    """Trace that exemplars point at, in hexadecimal; empty: any."""
    timeout_s: float = 0.0

    @property
    def effective_selectors(self) -> tuple[SeriesSelector, ...]:
        return self.selectors or (SeriesSelector((), self.from_ms, self.to_ms),)


@dataclass(frozen=True, slots=True)
class StreamsRequest:
    """Parameters of a question about log streams in `[start_ns, end_ns)`; no selectors mean all streams."""

    org: str
    start_ns: int
    end_ns: int
    selectors: tuple[Selector, ...] = ()
    limit: int = 0
    """Upper bound of entries; 0: all."""
    labels: tuple[str, ...] = ()
    """Labels whose values are listed, or that make a group of volumes; none: all."""
    step_ns: int = 0
    """Width of buckets; 0: one for the whole range."""
    timeout_s: float = 0.0


@dataclass(slots=True)
class Listing:
    """A sorted answer, cut to the limit."""

    series: list[Labels] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    """Label names, or values of one label."""
    facts: list[MetricFact] = field(default_factory=list)
    exemplars: list[SeriesExemplars] = field(default_factory=list)
    values: dict[str, set[str]] = field(default_factory=dict)
    """Values by label."""
    volumes: dict[tuple[Labels, int], float] = field(default_factory=dict)
    """Bytes by labels and bucket."""
    patterns: dict[tuple[str, str], Counter[int]] = field(default_factory=dict)
    """Lines by bucket, of each text and level."""
    streams: int = 0
    chunks: int = 0
    rows: int = 0
    bytes: int = 0
    truncated: bool = False
    missing: dict[str, Missing] = field(default_factory=dict)
    """Segments that could not be read."""


class ReportingAnswer(Protocol):
    """An answer with its report."""

    @property
    def report(self) -> UnitReport: ...


ReportedT = TypeVar("ReportedT", bound=ReportingAnswer)
SeriesQuery = PreparedQuery[SeriesRequest, tuple[Reads, ...], Any, Listing]
QueryT = TypeVar("QueryT", bound=PreparedQuery[Any, Any, Any, Any])
StreamsQuery = PreparedQuery[StreamsRequest, tuple[ReadStreams, ...], Any, Listing]


def plan_series(_text: str, request: SeriesRequest, _: Limits) -> tuple[Reads, ...]:
    return tuple(Reads(one.matchers, one.from_ms, one.to_ms) for one in request.effective_selectors)


def plan_exemplars(_text: str, request: SeriesRequest, _: Limits) -> tuple[Reads, ...]:
    """Exemplars are stored with data points that may be later than they are."""
    return tuple(Reads(one.matchers, one.from_ms, one.to_ms + LATE_MS) for one in request.effective_selectors)


def plan_streams(_text: str, request: StreamsRequest, _: Limits) -> tuple[ReadStreams, ...]:
    """Apply the rules of log queries: simpler matchers, index terms, nothing for a contradiction."""
    within = LogLinesRequest(request.org, request.start_ns, request.end_ns, limit=1)
    plans = (optimise(build(LogQuery(matchers), within)).plan for matchers in request.selectors or ((),))
    return tuple(plan.source.source for plan in plans if not isinstance(plan, Nothing))


def look_up_series(plan: tuple[Reads, ...], request: SeriesRequest) -> Lookup:
    return Lookup(tuple(samples_query(request.org, reads) for reads in plan))


def look_up_metrics(plan: tuple[Reads, ...], request: SeriesRequest) -> Lookup:
    """Ask for the names of metrics and labels, too, which the index has by segment."""
    return Lookup(tuple(samples_query(request.org, reads, names=True) for reads in plan))


def look_up_label_names(plan: tuple[Reads, ...], request: SeriesRequest) -> Lookup:
    return look_up_series(plan, request) if request.selectors else look_up_metrics(plan, request)


def look_up_streams(plan: tuple[ReadStreams, ...], _: StreamsRequest) -> Lookup:
    return Lookup(tuple(rows_query(streams) for streams in plan))


def look_up_stream_labels(plan: tuple[ReadStreams, ...], request: StreamsRequest) -> Lookup:
    return Lookup(tuple(rows_query(streams, names=not request.selectors) for streams in plan))


def all_segments(query: PreparedQuery[Any, Any, Any, Listing]) -> Sequence[Segment]:
    return query.distinct_segments


def unless_indexed(query: PreparedQuery[Any, Any, Any, Listing]) -> Sequence[Segment]:
    """Without a selector the index itself names the labels, as exactly as segments are cut."""
    return query.distinct_segments if query.request.selectors else ()


def newest_with_metric(query: SeriesQuery) -> Sequence[Segment]:
    """Choose segments from the latest on, each for a metric that no later one has."""
    metric = query.request.metric
    seen: set[str] = set()
    chosen: list[Segment] = []
    for segment in sorted(query.distinct_segments, key=lambda s: (s.max_ns, s.segment_id), reverse=True):
        names = {metric} & set(segment.metric_names) if metric else set(segment.metric_names)
        if names - seen:
            seen |= names
            chosen.append(segment)
    return sorted(chosen, key=lambda s: (s.min_ns, s.segment_id))


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbours in time, which one unit reads, and the selectors that asked for them."""

    affinity: str
    segments: tuple[SegmentRef, ...]
    selected: Selected


def cut_by_segments(
    unit: Callable[[QueryT, Run], Unit],
    choose: Callable[[QueryT], Sequence[Segment]] = all_segments,
) -> Callable[[QueryT, int, Limits], Cut]:
    """Make a unit of each run of segments that are neighbours in time."""

    def cut(query: QueryT, _workers: int, _: Limits) -> Cut:
        segments, dataset = choose(query), query.language.dataset
        runs = [segments[at : at + SIZES[dataset]] for at in range(0, len(segments), SIZES[dataset])]
        return all_at_once([unit(query, _run(query, dataset, run)) for run in runs])

    return cut


def _run(query: PreparedQuery[Any, Any, Any, Any], dataset: str, segments: Sequence[Segment]) -> Run:
    return Run(
        hour_affinity(query.request.org, dataset, segments),
        tuple(map(segment_ref, segments)),
        select_places([segment.segment_id for segment in segments], query.segments),
    )


def series_unit(wanted: SeriesWanted) -> Callable[[SeriesQuery, Run], SeriesUnit]:
    def unit(query: SeriesQuery, run: Run) -> SeriesUnit:
        request = query.request
        return SeriesUnit(
            run.affinity, request.effective_selectors, run.segments, wanted, request.label, request.limit,
            run.selected,
        )  # fmt: skip

    return unit


def metadata_unit(query: SeriesQuery, run: Run) -> MetadataUnit:
    return MetadataUnit(run.affinity, run.segments, (query.request.metric,) if query.request.metric else ())


def exemplar_unit(query: SeriesQuery, run: Run) -> ExemplarUnit:
    request = query.request
    return ExemplarUnit(
        run.affinity, request.effective_selectors, run.segments, run.selected, request.trace_id
    )


def streams_unit(wanted: StreamsWanted) -> Callable[[StreamsQuery, Run], StreamsUnit]:
    def unit(query: StreamsQuery, run: Run) -> StreamsUnit:
        request, selectors = query.request, tuple(streams.matchers for streams in query.plan)
        limit = request.limit if wanted in {"series", "names"} else 0
        return StreamsUnit(
            run.affinity, run.segments, selectors, request.start_ns, request.end_ns, wanted, request.labels,
            request.step_ns, limit, run.selected,
        )  # fmt: skip

    return unit


def patterns_unit(query: StreamsQuery, run: Run) -> PatternsUnit:
    request, matchers = query.request, query.plan[0].matchers
    return PatternsUnit(
        run.affinity, run.segments, matchers, request.start_ns, request.end_ns, request.step_ns, request.limit
    )


@dataclass(slots=True)
class ListingMerge(Generic[ReportedT]):
    """Unites the answers of all units, without repetitions."""

    unite: Callable[[ListingMerge[ReportedT], ReportedT], int]
    """Take in one answer; return how many entries there are, where they are limited."""
    limit: int
    advice: str
    series: set[Labels] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    facts: set[MetricFact] = field(default_factory=set)
    exemplars: dict[Labels, set[Exemplar]] = field(default_factory=dict)
    stream_ids: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    rows: float = 0.0
    bytes: float = 0.0
    listing: Listing = field(default_factory=Listing)

    @property
    def is_full(self) -> bool:
        return False

    @property
    def is_small(self) -> bool:
        """Label sets take long to sort."""
        return not self.series

    def add(self, answer: ReportedT) -> None:
        self.listing.missing.update((lost.segment_id, lost) for lost in answer.report.missing)
        if self.unite(self, answer) > MAX_ENTRIES:
            raise LimitExceededError(f"the answer has more than {MAX_ENTRIES} entries: {self.advice}")

    def result(self) -> Listing:
        listing, end = self.listing, self.limit or None
        listing.series, listing.texts = sorted(self.series)[:end], sorted(self.texts)[:end]
        listing.truncated |= len(listing.series) < len(self.series) or len(listing.texts) < len(self.texts)
        listing.facts = sorted(self.facts)
        listing.exemplars = [
            SeriesExemplars(labels, tuple(sorted(each))) for labels, each in sorted(self.exemplars.items())
        ]
        listing.streams, listing.rows = len(self.stream_ids), round(self.rows)
        listing.bytes = round(self.bytes)
        return listing


def merging(
    unite: Callable[[ListingMerge[ReportedT], ReportedT], int], *, index_has_names: bool = False
) -> Callable[[PreparedQuery[Any, Any, ReportedT, Listing], Limits], ListingMerge[ReportedT]]:
    """Make the merge of a question; label names that the index tells are in it from the start."""

    def merge(query: PreparedQuery[Any, Any, ReportedT, Listing], _: Limits) -> ListingMerge[ReportedT]:
        found = ListingMerge(unite, query.request.limit, query.language.advice)
        if index_has_names and not query.request.selectors:
            found.texts.update(*(segment.label_names for segment in query.distinct_segments))
        return found

    return merge


def unite_series(merge: ListingMerge[Any], answer: SeriesAnswer | StreamsAnswer) -> int:
    merge.series.update(answer.series)
    merge.listing.truncated |= answer.truncated
    return len(merge.series)


def unite_texts(merge: ListingMerge[SeriesAnswer], answer: SeriesAnswer) -> int:
    merge.texts.update(answer.texts)
    merge.listing.truncated |= answer.truncated
    return len(merge.texts)


def unite_metadata(merge: ListingMerge[MetadataAnswer], answer: MetadataAnswer) -> int:
    merge.facts.update(answer.facts)
    return len(merge.facts)


def unite_exemplars(merge: ListingMerge[ExemplarAnswer], answer: ExemplarAnswer) -> int:
    for one in answer.series:
        merge.exemplars.setdefault(one.labels, set()).update(one.exemplars)
    return sum(map(len, merge.exemplars.values()))


def unite_label_values(merge: ListingMerge[StreamsAnswer], answer: StreamsAnswer) -> int:
    """Unite values of the one label that was named."""
    merge.texts.update(*answer.values.values())
    merge.listing.truncated |= answer.truncated
    return len(merge.texts)


def unite_stream_labels(merge: ListingMerge[StreamsAnswer], answer: StreamsAnswer) -> int:
    merge.texts.update(answer.values)
    merge.listing.truncated |= answer.truncated
    return 0


def unite_values(merge: ListingMerge[StreamsAnswer], answer: StreamsAnswer) -> int:
    for name, each in answer.values.items():
        merge.listing.values.setdefault(name, set()).update(each)
    merge.listing.truncated |= answer.truncated
    return sum(map(len, merge.listing.values.values()))


def unite_sizes(merge: ListingMerge[StreamsAnswer], answer: StreamsAnswer) -> int:
    merge.stream_ids = np.union1d(merge.stream_ids, np.frombuffer(answer.stream_ids, np.int64))
    merge.rows, merge.bytes = merge.rows + answer.rows, merge.bytes + answer.size
    merge.listing.chunks += answer.chunks
    return 0


def unite_volumes(merge: ListingMerge[StreamsAnswer], answer: StreamsAnswer) -> int:
    volumes = merge.listing.volumes
    for one in answer.volumes:
        key = one.labels, one.bucket
        volumes[key] = volumes.get(key, 0.0) + one.size
    return len(volumes)


def unite_patterns(merge: ListingMerge[PatternsAnswer], answer: PatternsAnswer) -> int:
    for one in answer.patterns:
        merge.listing.patterns.setdefault((one.text, one.level), Counter()).update(dict(one.counts))
    return 0
