"""Joining the slices of a metric query: equal series end to end, then names dropped, then all in order.

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

from lakerunner_query.errors import SAME_LABELS, EvaluationError
from lakerunner_query.promql.context import Annotation, Annotations
from lakerunner_query.protocol.answers import Kind, MetricAnswer, RenderedSeries, annotation
from lakerunner_query.protocol.units import Missing, UnitReport
from lakerunner_query.vectors.vector import NAME, Labels

# << Joining unit answers: concatenation, and a stop.
# <<
# << Units are disjoint in time and arrive in answering order, each already ordered by (time, stream labels,
# << row id), so the first `limit` rows of the concatenation are exactly the first `limit` rows of the query.

COUNTS = (
    "segments_opened", "segments_skipped", "segments_without_words", "row_groups", "row_groups_read",
    "rows_considered", "bytes_considered", "bytes_fetched",
)  # fmt: skip


@dataclass(slots=True)
class Collected:
    """What a running query has so far."""

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

    @property
    def full(self) -> bool:
        """True when no unread unit can contribute a row any more."""
        return self.rows >= self.limit

    def add(self, block: pa.Table, report: UnitReport) -> pa.Table:
        """Count one unit's answer; returns the rows that still fit."""
        kept = block.slice(0, max(0, self.limit - self.rows))
        self.rows += kept.num_rows
        self.units += 1
        self.missing.update((lost.segment_id, lost) for lost in report.missing)
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(report, name))
        return kept


@dataclass(frozen=True, slots=True)
class JoinedSeries:
    labels: Labels
    floats: bytes
    histograms: bytes
    points: int


@dataclass(slots=True)
class Joined:
    """A whole answer."""

    kind: Kind
    series: list[JoinedSeries]
    string: str
    annotations: tuple[Annotation, ...]
    missing: dict[str, Missing]
    samples: int
    segments_opened: int = 0
    rows_considered: int = 0
    bytes_fetched: int = 0
    is_ordered: bool = False
    rollup_rows: dict[int, int] = field(default_factory=dict)
    """Rows read of rollups, by frequency in ms."""


@dataclass(slots=True)
class Collector:
    """What of a query is there so far; slices come in order of time."""

    kind: Kind = "vector"
    string: str = ""
    is_ordered: bool = False
    points: int = 0
    missing: dict[str, Missing] = field(default_factory=dict)
    segments_opened: int = 0
    rows_considered: int = 0
    bytes_fetched: int = 0
    rollup_rows: Counter[int] = field(default_factory=Counter)
    _rows: dict[Labels, list[RenderedSeries]] = field(default_factory=dict)
    _notes: Annotations = field(default_factory=Annotations)

    def add(self, answer: MetricAnswer) -> None:
        self.kind, self.string, self.is_ordered = answer.kind, answer.string, answer.is_ordered
        for series in answer.series:
            self._rows.setdefault(series.labels, []).append(series)
        for note in answer.notes:
            self._notes.add(annotation(note))
        self.points += answer.samples
        self.missing.update((lost.segment_id, lost) for lost in answer.report.missing)
        self.segments_opened += answer.report.segments_opened
        self.rows_considered += answer.report.rows_considered
        self.bytes_fetched += answer.report.bytes_fetched
        self.rollup_rows.update(answer.report.rollup_rows)

    def joined(self) -> Joined:
        series = list(_without_names(_end_to_end(self._rows)))
        if not self.is_ordered:
            series.sort(key=lambda one: one.labels)
        return Joined(
            self.kind,
            series,
            self.string,
            self._notes.all(),
            self.missing,
            self.points,
            self.segments_opened,
            self.rows_considered,
            self.bytes_fetched,
            self.is_ordered,
            dict(self.rollup_rows),
        )


def _end_to_end(
    rows: dict[Labels, list[RenderedSeries]],
) -> Iterator[tuple[Labels, bool, JoinedSeries]]:
    """Whether the name goes is what the part says that comes first in time."""
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
        found[final] = renamed if known is None else _one(known, renamed)
    return found.values()


def _one(first: JoinedSeries, second: JoinedSeries) -> JoinedSeries:
    """Two series that are the same without their names."""
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
