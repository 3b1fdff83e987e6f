"""Answers of units become one answer: rows are concatenated, series joined end to end.

    slice 1  up{job="a"} pending drop  [1,"1"]      {job="a"}  [1,"1"],[2,"1"]
    slice 2  up{job="a"} pending drop  [2,"1"]   ->

Only when all slices are in can two series turn out to be one: they are, unless both have a sample at one
time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import pyarrow as pa

from lakerunner_query.errors import SAME_LABELS, EvaluationError, LimitExceededError
from lakerunner_query.promql.context import Annotation, Annotations
from lakerunner_query.protocol.answers import Kind, MetricAnswer, RenderedSeries, annotation
from lakerunner_query.protocol.units import Missing, UnitReport
from lakerunner_query.vectors.vector import NAME, Labels

RowsAnswer = tuple[pa.Table, UnitReport]
ANY_NUMBER = 2**63 - 1
INLINE_POINTS = 200_000
"""Points that are joined, or rendered, faster than another thread is asked to."""
COUNTS = (
    "segments_opened", "segments_skipped", "segments_without_words", "row_groups", "row_groups_read",
    "rows_considered", "bytes_considered", "bytes_fetched",
    "requests",
)  # fmt: skip


@dataclass(slots=True)
class RowMerge:
    """The first `limit` rows of a log query, and what reading them took.

    Units are disjoint in time and arrive in answering order, each already ordered by (time, stream labels,
    row id), so the first `limit` rows of the concatenation are exactly the first `limit` rows of the query.
    Rows go to the caller at once and are not kept here.
    """

    limit: int
    rows: int = 0
    units: int = 0
    missing: dict[str, Missing] = field(default_factory=dict)
    segments_opened: int = 0
    segments_skipped: int = 0
    segments_without_words: int = 0
    row_groups: int = 0
    row_groups_read: int = 0
    rows_considered: int = 0
    bytes_considered: int = 0
    bytes_fetched: int = 0
    requests: int = 0

    @property
    def is_full(self) -> bool:
        return self.rows >= self.limit

    @property
    def is_small(self) -> bool:
        return True

    @property
    def is_partial(self) -> bool:
        return bool(self.missing)

    def add(self, answer: RowsAnswer) -> pa.Table:
        """Count one unit's answer; return the rows that still fit."""
        block, report = answer
        kept = block.slice(0, max(0, self.limit - self.rows))
        self.rows += kept.num_rows
        self.units += 1
        self.missing.update((lost.segment_id, lost) for lost in report.missing)
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(report, name))
        return kept

    def result(self) -> RowMerge:
        return self


class AsTheyCome:
    """Streams the answers for samples one by one; nothing is kept."""

    is_full = False

    def add(self, answer: MetricAnswer) -> MetricAnswer:
        return answer


@dataclass(frozen=True, slots=True)
class JoinedSeries:
    labels: Labels
    floats: bytes
    histograms: bytes
    points: int


@dataclass(slots=True)
class SampleResult:
    """The whole answer to a query for samples, and what reading it took."""

    kind: Kind = "vector"
    series: list[JoinedSeries] = field(default_factory=list)
    string: str = ""
    annotations: tuple[Annotation, ...] = ()
    missing: dict[str, Missing] = field(default_factory=dict)
    samples: int = 0
    segments_opened: int = 0
    rows_considered: int = 0
    bytes_fetched: int = 0
    requests: int = 0
    """Requests to the object store."""
    is_ordered: bool = False
    """True if the query gives the order of series, as `sort` does."""
    rollup_rows: Counter[int] = field(default_factory=Counter)
    """Rollup rows that were read, by frequency in ms."""


@dataclass(slots=True)
class SampleMerge:
    """Joins the series of a query for samples; slices come in order of time."""

    max_points: int = ANY_NUMBER
    """Upper bound of the points of the answer, inclusive."""
    advice: str = ""
    _joined: SampleResult = field(default_factory=SampleResult)
    _rows: dict[Labels, list[RenderedSeries]] = field(default_factory=dict)
    _notes: Annotations = field(default_factory=Annotations)

    @property
    def is_full(self) -> bool:
        return False

    @property
    def is_small(self) -> bool:
        return self._joined.samples < INLINE_POINTS

    def add(self, answer: MetricAnswer) -> None:
        joined, report = self._joined, answer.report
        joined.kind, joined.string, joined.is_ordered = answer.kind, answer.string, answer.is_ordered
        for series in answer.series:
            self._rows.setdefault(series.labels, []).append(series)
        for note in answer.notes:
            self._notes.add(annotation(note))
        joined.missing.update((lost.segment_id, lost) for lost in report.missing)
        joined.samples += answer.samples
        joined.segments_opened += report.segments_opened
        joined.rows_considered += report.rows_considered
        joined.bytes_fetched += report.bytes_fetched
        joined.requests += report.requests
        joined.rollup_rows.update(report.rollup_rows)
        if joined.samples > self.max_points:
            raise LimitExceededError(
                f"the answer has more than {self.max_points} points: aggregate, {self.advice}"
            )

    def result(self) -> SampleResult:
        joined = self._joined
        joined.series = list(_without_names(_end_to_end(self._rows)))
        if not joined.is_ordered:
            joined.series.sort(key=lambda one: one.labels)
        joined.annotations = self._notes.all()
        return joined


def _end_to_end(
    rows: dict[Labels, list[RenderedSeries]],
) -> Iterator[tuple[Labels, bool, JoinedSeries]]:
    """Join parts; the one that comes first in time decides whether the name goes."""
    for labels, parts in rows.items():
        floats = b",".join(part.floats for part in parts if part.floats)
        histograms = b",".join(part.histograms for part in parts if part.histograms)
        points = sum(part.points for part in parts)
        yield labels, parts[0].drop_name, JoinedSeries(labels, floats, histograms, points)


def _without_names(rows: Iterable[tuple[Labels, bool, JoinedSeries]]) -> Iterable[JoinedSeries]:
    found: dict[Labels, JoinedSeries] = {}
    for labels, drop_name, series in rows:
        final = tuple(pair for pair in labels if pair[0] != NAME) if drop_name else labels
        known, renamed = found.get(final), replace(series, labels=final)
        found[final] = renamed if known is None else _join(known, renamed)
    return found.values()


def _join(first: JoinedSeries, second: JoinedSeries) -> JoinedSeries:
    """Join two series that are the same without their names."""
    floats, histograms = _samples(first.floats, second.floats), _samples(first.histograms, second.histograms)
    if any(len({time for time, _ in samples}) < len(samples) for samples in (floats, histograms)):
        raise EvaluationError(SAME_LABELS)
    return JoinedSeries(first.labels, _text(floats), _text(histograms), first.points + second.points)


def _samples(*texts: bytes) -> list[tuple[float, bytes]]:
    found: list[tuple[float, bytes]] = []
    for text in texts:
        for raw in msgspec.json.decode(b"[" + text + b"]", type=list[msgspec.Raw]):
            time = msgspec.json.decode(raw, type=tuple[float, msgspec.Raw])[0]
            found.append((time, bytes(raw)))
    return sorted(found)


def _text(samples: Sequence[tuple[float, bytes]]) -> bytes:
    return b",".join(raw for _, raw in samples)
