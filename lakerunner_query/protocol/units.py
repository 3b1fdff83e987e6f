"""Units of work travel from coordinator to workers as tagged JSON.

All kinds go to one endpoint; their names and fields are the wire format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from lakerunner_query.errors import WorkFailedError
from lakerunner_query.lakeql.tables import ColumnKeys, TableColumn
from lakerunner_query.plan.traceql import TraceWindow
from lakerunner_query.syntax import Matcher
from resources.index.types import Segment


class SegmentRef(msgspec.Struct, frozen=True):
    """Fields of an index row that a worker needs."""

    segment_id: str
    key: str
    bytes: int
    min_ns: int
    max_ns: int
    series_offset: int
    series_length: int
    rows: int = 0
    bloom_offset: int = 0
    bloom_length: int = 0
    """Length of the token bloom; 0: there is none."""


Selected = tuple[bytes, ...]
"""Segments by selector: bit n % 8 of byte n // 8 stands for segment n of the unit; empty: all have all."""


class LogUnit(msgspec.Struct, frozen=True, tag="logs"):
    """A read of the first or last `limit` rows in `[start_ns, end_ns)` of these segments."""

    affinity: str
    segments: tuple[SegmentRef, ...]
    text: str
    """Text of the whole query: selector and pipeline."""
    start_ns: int
    end_ns: int
    limit: int
    reverse: bool
    distinct: bool
    now_ns: int = 0
    """Value of `now` in templates, the same for the whole query."""


class GivenPart(msgspec.Struct, frozen=True):
    """An encoded `MetricAnswer` to a part of a LogQL expression, or to some steps of it."""

    text: str
    answer: bytes


class LogMetricUnit(msgspec.Struct, frozen=True, tag="log-metrics"):
    """Some steps of a LogQL query for samples: the whole expression, over all segments that they need."""

    affinity: str
    text: str
    start_ns: int
    step_ns: int
    """Distance of steps; 0: an instant query."""
    steps: int
    segments: tuple[SegmentRef, ...]
    now_ns: int
    """Value of `now` in templates, the same for the whole query."""
    turn: int = 0
    """Rank of the worker in the order of the affinity: parts of one query go to different workers."""
    max_series: int = 0
    """Upper bound; 0: any number."""
    selected: Selected = ()
    """Segments of each pipeline, in the order of `plan.logql_samples.log_reads`."""
    given: tuple[GivenPart, ...] = ()
    """Answers to parts of the text: only what stands above them is left to compute."""


class RollupRef(msgspec.Struct, frozen=True):
    """Segments of one frequency, and the starts (ns) of the partitions that may be used."""

    frequency_ms: int
    starts: tuple[int, ...]
    segments: tuple[SegmentRef, ...]


class MetricUnit(msgspec.Struct, frozen=True, tag="metrics"):
    """Some steps of a PromQL query: the whole expression, over all segments that they need."""

    affinity: str
    text: str
    start_ms: int
    end_ms: int
    step_ms: int
    """Times of the whole query, for `start()`, `range()` and the like; a step of 0: an instant query."""
    first_ms: int
    steps: int
    """Number of steps to compute, from `first_ms` on."""
    lookback_ms: int
    segments: tuple[SegmentRef, ...]
    turn: int = 0
    """Rank of the worker in the order of the affinity: parts of one query go to different workers."""
    rollups: tuple[RollupRef, ...] = ()
    features: tuple[str, ...] = ()
    max_series: int = 0
    max_samples: int = 0
    """Upper bounds of one selector; 0: any number."""
    start_timestamps: bool = False
    given: tuple[bytes, ...] = ()
    """Answers of all shards: only what stands above their parts is left to compute."""
    selected: Selected = ()
    """Segments of each selector, in the order of `plan.promql.reads`."""


class ShardUnit(msgspec.Struct, frozen=True, tag="shard"):
    """One shard of the series, for the parts of a PromQL query that look at single series."""

    of: MetricUnit
    number: int
    count: int

    @property
    def affinity(self) -> str:
        return self.of.affinity

    @property
    def turn(self) -> int:
        return self.number


class SeriesSelector(msgspec.Struct, frozen=True):
    """A selector of series that satisfy all matchers and have samples in `(from_ms, to_ms]`."""

    matchers: tuple[Matcher, ...]
    from_ms: int
    to_ms: int


class SeriesUnit(msgspec.Struct, frozen=True, tag="series"):
    """A question to series tables for label sets, label names, or the values of `label`."""

    affinity: str
    selections: tuple[SeriesSelector, ...]
    segments: tuple[SegmentRef, ...]
    want: Literal["series", "names", "values"]
    label: str = ""
    limit: int = 0
    """Upper bound of entries; 0: all."""
    selected: Selected = ()
    """Segments of each selection."""


StreamsWanted = Literal["series", "names", "values", "sizes", "volumes"]


class StreamsUnit(msgspec.Struct, frozen=True, tag="streams"):
    """A question to stream tables about streams in `[start_ns, end_ns)` that any of the selectors matches."""

    affinity: str
    segments: tuple[SegmentRef, ...]
    selections: tuple[tuple[Matcher, ...], ...]
    start_ns: int
    end_ns: int
    want: StreamsWanted
    labels: tuple[str, ...] = ()
    """Labels whose `values` are listed, or that group `volumes`; none: all."""
    step_ns: int = 0
    """Width of the buckets of `volumes`; 0: one for the whole range."""
    limit: int = 0
    """Upper bound of `series` and `names`; 0: all."""
    selected: Selected = ()
    """Segments of each selection."""


class PatternsUnit(msgspec.Struct, frozen=True, tag="patterns"):
    """A count of lines by pattern in `[start_ns, end_ns)`, in buckets of `step_ns`."""

    affinity: str
    segments: tuple[SegmentRef, ...]
    matchers: tuple[Matcher, ...]
    start_ns: int
    end_ns: int
    step_ns: int
    limit: int
    """Upper bound of patterns; the most frequent ones stay."""


class MetadataUnit(msgspec.Struct, frozen=True, tag="metadata"):
    """A question for type, unit and description of these metrics; no names: all."""

    affinity: str
    segments: tuple[SegmentRef, ...]
    names: tuple[str, ...] = ()


class ExemplarUnit(msgspec.Struct, frozen=True, tag="exemplars"):
    """A question for exemplars of series that any of the selectors matches."""

    affinity: str
    selections: tuple[SeriesSelector, ...]
    segments: tuple[SegmentRef, ...]
    selected: Selected = ()
    """Segments of each selection."""
    trace_id: str = ""
    """Trace that they point at, in hexadecimal; empty: any."""


SamplesForm = Literal["samples", "chunks", "newest"]


class SamplesUnit(msgspec.Struct, frozen=True, tag="samples"):
    """A read of stored samples: each series as a message of remote read, or its newest sample."""

    affinity: str
    selector: SeriesSelector
    segments: tuple[SegmentRef, ...]
    form: SamplesForm
    query: int = 0
    """Number of the query in the request, which is part of each message."""
    number: int = 0
    count: int = 1
    """Shard of the series, and how many shards there are."""
    max_series: int = 0
    max_samples: int = 0
    """Upper bounds; 0: any number."""

    @property
    def turn(self) -> int:
        return self.number


class TableUnit(msgspec.Struct, frozen=True, tag="table"):
    """A statement over the rows of one logical table in `[start_ns, end_ns]` of these segments."""

    affinity: str
    org: str
    table: str
    """Name in `lakeql.tables`."""
    segments: tuple[SegmentRef, ...]
    start_ns: int
    end_ns: int
    """Bounds of event time, both included; metrics are compared in whole milliseconds."""
    columns: tuple[TableColumn, ...]
    """Columns that the statement reads, with the types that it expects."""
    sql: str
    """A `SELECT` in DuckDB's dialect over the relation `rows`, which has these columns."""
    keys: tuple[ColumnKeys, ...] = ()
    """Columns whose values are known from another table: other rows need not be read."""
    turn: int = 0
    """Rank of the worker in the order of the affinity: parts of one query go to different workers."""
    max_bytes: int = 0
    """Upper bound of the answer, uncompressed; 0: any number."""


class SchemaUnit(msgspec.Struct, frozen=True, tag="schema"):
    """A question for the columns that a logical table has in these segments."""

    affinity: str
    table: str
    segments: tuple[SegmentRef, ...]


class TraceSearchUnit(msgspec.Struct, frozen=True, tag="trace-search"):
    """A search for the newest traces of a window that overlap `[start_ns, end_ns]` and match."""

    affinity: str
    text: str
    segments: tuple[SegmentRef, ...]
    window: TraceWindow
    start_ns: int
    end_ns: int
    limit: int
    spans_per_set: int
    """Spans that each set shows; 0: all."""
    deciding: tuple[int, ...] | None = None
    """Places of segments that may have the span on which a match depends; None: all may."""
    turn: int = 0


class TraceMetricsUnit(msgspec.Struct, frozen=True, tag="trace-metrics"):
    """Cells of a TraceQL query for metrics, of traces or spans of one window."""

    affinity: str
    text: str
    segments: tuple[SegmentRef, ...]
    window: TraceWindow
    start_ns: int
    """First evaluation time."""
    step_ns: int
    steps: int
    """Each step counts the spans that start in the `step_ns` up to its time."""
    exemplars: int = 0
    turn: int = 0
    functions: tuple[int, ...] = ()
    """Places of the functions that are counted; empty: all are."""
    is_for_exemplars: bool = False
    """Only exemplars are wanted: derived metrics bring the cells."""


class TraceUnit(msgspec.Struct, frozen=True, tag="traces"):
    """A read of the spans of whole traces, by id."""

    affinity: str
    segments: tuple[SegmentRef, ...]
    ids: tuple[bytes, ...]


class SpanTagsUnit(msgspec.Struct, frozen=True, tag="span-tags"):
    """A question for names of attributes, or for the values of one of them."""

    affinity: str
    segments: tuple[SegmentRef, ...]
    start_ns: int
    end_ns: int
    tag: str = ""
    """Field whose values are asked for; empty: names are."""
    condition: str = ""
    """TraceQL filter that spans have to meet; empty: none."""
    limit: int = 0


Unit = (
    LogUnit
    | LogMetricUnit
    | MetricUnit
    | ShardUnit
    | SeriesUnit
    | StreamsUnit
    | PatternsUnit
    | MetadataUnit
    | ExemplarUnit
    | SamplesUnit
    | TableUnit
    | SchemaUnit
    | TraceSearchUnit
    | TraceMetricsUnit
    | TraceUnit
    | SpanTagsUnit
)


INDEX = "index"
"""Stands for a segment where the index itself could not tell which there are."""


class Missing(msgspec.Struct, frozen=True):
    """A segment that could not be read, with the reason: the answer is partial."""

    segment_id: str
    reason: str


class UnitReport(msgspec.Struct, frozen=True):
    """Counts of what reading took, and the segments that could not be read."""

    missing: tuple[Missing, ...] = ()
    segments_opened: int = 0
    segments_skipped: int = 0
    """Segments without a stream that matches."""
    segments_without_words: int = 0
    """Segments that their token blooms rule out."""
    row_groups: int = 0
    row_groups_read: int = 0
    """Row groups that their statistics do not rule out."""
    rows_considered: int = 0
    bytes_considered: int = 0
    bytes_fetched: int = 0
    requests: int = 0
    """Requests to the object store."""
    rollup_rows: dict[int, int] = {}
    """Rollup rows that were read, by frequency."""
    truncated: bool = False


def segment_ref(segment: Segment) -> SegmentRef:
    return SegmentRef(
        segment.segment_id,
        segment.key,
        segment.bytes,
        segment.min_ns,
        segment.max_ns,
        segment.series_offset,
        segment.series_length,
        segment.rows,
        segment.bloom_offset,
        segment.bloom_length,
    )


def share_segments(lists: Sequence[Sequence[Segment]]) -> tuple[tuple[SegmentRef, ...], Selected]:
    """Unite the segments of all selectors, oldest first, and say which belong to which."""
    known = {segment.segment_id: segment for each in lists for segment in each}
    united = sorted(known.values(), key=lambda segment: (segment.min_ns, segment.segment_id))
    return tuple(map(segment_ref, united)), select_places([s.segment_id for s in united], lists)


def select_places(segment_ids: Sequence[str], lists: Sequence[Sequence[Segment]]) -> Selected:
    """Mark the places of each selector's segments among `segment_ids`; others are no part of the unit."""
    places = {segment_id: place for place, segment_id in enumerate(segment_ids)}
    found = [
        [place for segment in each if (place := places.get(segment.segment_id)) is not None] for each in lists
    ]
    if all(len(each) == len(places) for each in found):
        return ()
    return tuple(_bits(each, len(places)) for each in found)


def _bits(places: Sequence[int], count: int) -> bytes:
    bits = bytearray(-(-count // 8))
    for place in places:
        bits[place >> 3] |= 1 << (place & 7)
    return bytes(bits)


def selected_segments(
    segments: tuple[SegmentRef, ...], selected: Selected, selectors: int
) -> list[tuple[SegmentRef, ...]]:
    """Return the segments of each of so many selectors."""
    if not selected:
        return [segments] * selectors
    if len(selected) != selectors:
        raise WorkFailedError(
            f"a unit names the segments of {len(selected)} selectors, its text has {selectors}: "
            "coordinator and worker are of different versions"
        )
    return [
        tuple(segment for place, segment in enumerate(segments) if bits[place >> 3] >> (place & 7) & 1)
        for bits in selected
    ]
