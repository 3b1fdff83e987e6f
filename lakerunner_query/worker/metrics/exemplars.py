"""Exemplars: single measurements with their trace, beside the samples of a series.

A histogram with explicit buckets has those of each bucket at `_bucket{le}`, as Prometheus does, and all at
its own name if asked for exactly; other series have theirs at their own name. What an exporter sent again
with every export is one exemplar.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.protocol.answers import (
    LATE_MS,
    Exemplar,
    ExemplarAnswer,
    MetadataAnswer,
    MetricFact,
    Pairs,
    SeriesAnswer,
    SeriesExemplars,
)
from lakerunner_query.protocol.units import (
    ExemplarUnit,
    MetadataUnit,
    SegmentRef,
    SeriesSelector,
    SeriesUnit,
    UnitReport,
)
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.vector import Labels
from lakerunner_query.worker.metrics.classic_series import BUCKET, LE, spelled
from lakerunner_query.worker.metrics.lake_source import LakeSource
from lakerunner_query.worker.metrics.row_groups import DAMAGE
from lakerunner_query.worker.metrics.segment_opener import MetricOpener, Reading, Shape
from lakerunner_query.worker.metrics.series_table import SeriesTable, verdicts
from lakerunner_query.worker.shared.lru import Recent
from resources.arrays import Int64s
from resources.duckdb import Cancellation
from resources.lake.columns import CHQ_EXEMPLARS, CHQ_HIST_BOUNDS, CHQ_METRIC_TYPE
from resources.lake.series import NAME_LABEL

# << Which series, label names and label values there are: series tables answer, and of histograms a few rows.
# <<
# << Classic series of histograms are listed like stored ones. Their buckets are told by rows, so only
# << those of the
# << series that a selection wants are read, and only if it may want classic series at all.


class SeriesLister:
    """Everything a worker process shares between such questions."""

    def __init__(self, opener: MetricOpener) -> None:
        self._opener = opener

    def run(self, unit: SeriesUnit, cancellation: Cancellation) -> SeriesAnswer:
        with self._opener.reading(cancellation) as reading:
            source = LakeSource(reading, unit.segments, self._opener.interner.numbering())
            found: set[Labels] = set()
            for selection in unit.selections:
                found.update(source.series(selection.matchers, selection.from_ms, selection.to_ms))
            report = UnitReport(missing=tuple(reading.missing.values()), segments_opened=len(reading.opened))
        if unit.want == "series":
            ordered = sorted(found)
            cut = unit.limit and len(ordered) > unit.limit
            return SeriesAnswer(tuple(ordered[: unit.limit or None]), (), bool(cut), report)
        texts = sorted(_texts(found, unit))
        cut = unit.limit and len(texts) > unit.limit
        return SeriesAnswer((), tuple(texts[: unit.limit or None]), bool(cut), report)


def _texts(found: set[Labels], unit: SeriesUnit) -> set[str]:
    if unit.want == "names":
        return {name for labels in found for name, _ in labels}
    return {value for labels in found for name, value in labels if name == unit.label}


# << What metrics say of themselves: type, unit and description, as they stand in the rows of a segment.
# <<
# <<     metric_name          chq_metric_type  metric_is_monotonic  metric_unit
# <<     http_requests_total  sum              true                 {request}
# <<
# <<     counter http_requests_total in {request}
# <<
# << Those columns say the same in nearly every row, so they are small in the file; what came out is
# << remembered.

NAME, TYPE, MONOTONIC = "metric_name", CHQ_METRIC_TYPE, "metric_is_monotonic"
UNIT, DESCRIPTION = "metric_unit", "metric_description"
_COLUMNS = (NAME, TYPE, MONOTONIC, UNIT, DESCRIPTION)
_TYPES = {"exponential_histogram": "histogram"}
"""Others are called the same in Prometheus, except sums."""


class MetadataReader:
    """Everything a worker process shares between such questions."""

    def __init__(self, opener: MetricOpener) -> None:
        self._opener = opener
        self._known: Recent[frozenset[MetricFact]] = Recent(512)

    def run(self, unit: MetadataUnit, cancellation: Cancellation) -> MetadataAnswer:
        wanted = frozenset(unit.names)
        found: set[MetricFact] = set()
        with self._opener.reading(cancellation) as reading:
            for segment, path in self._files(reading, unit.segments):
                cancellation.check()
                facts = self._facts(reading, segment, path)
                found.update(fact for fact in facts if not wanted or fact.name in wanted)
            report = UnitReport(
                missing=tuple(reading.missing.values()),
                segments_opened=len(reading.opened),
                bytes_fetched=reading.bytes_fetched,
            )
        return MetadataAnswer(tuple(sorted(found)), report)

    def _files(self, reading: Reading, segments: tuple[SegmentRef, ...]) -> list[tuple[SegmentRef, Path]]:
        paths = reading.paths(segments)
        return [(s, paths[s.segment_id]) for s in segments if s.segment_id in paths]

    def _facts(self, reading: Reading, segment: SegmentRef, path: Path) -> frozenset[MetricFact]:
        try:
            return self._known.get(segment.key, lambda: facts_of(path))
        except DAMAGE as error:
            reading.damaged(segment, str(error))
            return frozenset()


def facts_of(path: Path) -> frozenset[MetricFact]:
    """All that the rows of one file say."""
    metadata = pq.read_metadata(path)
    stored = set(metadata.schema.to_arrow_schema().names)
    wanted = [name for name in _COLUMNS if name in stored]
    texts = [name for name in wanted if name != MONOTONIC]
    with pq.ParquetFile(path, metadata=metadata, read_dictionary=texts) as file:
        parts = [
            _distinct(file.read_row_group(number, wanted, use_threads=False))
            for number in range(file.num_row_groups)
        ]
    return frozenset(_fact(row) for part in parts for row in part.to_pylist())


def _distinct(table: pa.Table) -> pa.Table:
    return table.group_by(table.column_names, use_threads=False).aggregate([])


def _fact(row: dict[str, object]) -> MetricFact:
    kind = str(row[TYPE])
    if kind == "sum":
        kind = "counter" if row.get(MONOTONIC) else "gauge"
    return MetricFact(
        str(row[NAME]), _TYPES.get(kind, kind), str(row.get(UNIT) or ""), str(row.get(DESCRIPTION) or "")
    )


COLUMN, BOUNDS = CHQ_EXEMPLARS, CHQ_HIST_BOUNDS
MAX_EXEMPLARS = 100_000
NS_PER_MS = 1_000_000
Found = dict[Labels, set[Exemplar]]


class ExemplarReader:
    """Everything a worker process shares between such questions."""

    def __init__(self, opener: MetricOpener) -> None:
        self._opener = opener

    def run(self, unit: ExemplarUnit, cancellation: Cancellation) -> ExemplarAnswer:
        found: Found = {}
        with self._opener.reading(cancellation) as reading:
            for segment, table in reading.tables(unit.segments):
                self._look_into(reading, segment, table, unit.selections, found)
            report = UnitReport(
                missing=tuple(reading.missing.values()),
                segments_opened=len(reading.opened),
                bytes_fetched=reading.bytes_fetched,
            )
        ordered = sorted(found.items())
        return ExemplarAnswer(
            tuple(SeriesExemplars(labels, tuple(sorted(each))) for labels, each in ordered if each), report
        )

    def _look_into(
        self,
        reading: Reading,
        segment: SegmentRef,
        table: SeriesTable,
        selections: Sequence[SeriesSelector],
        found: Found,
    ) -> None:
        for selection in selections:
            for suffix in ("", BUCKET):
                stored = [m for m in selection.matchers if not (suffix and m.name == LE)]
                overlapping = table.overlapping(selection.from_ms, selection.to_ms + LATE_MS)
                wanted = np.flatnonzero(table.matching(stored, suffix) & overlapping)
                if not len(wanted):
                    continue
                path = reading.paths([segment]).get(segment.segment_id)
                shape = None if path is None else reading.shape(segment, path)
                if path is None or shape is None or COLUMN not in shape.columns:
                    return
                try:
                    _collect(reading, path, shape, table, wanted, selection, suffix, found)
                except DAMAGE as error:
                    reading.damaged(segment, str(error))
                    return


def _collect(
    reading: Reading,
    path: Path,
    shape: Shape,
    table: SeriesTable,
    wanted: Int64s,
    selection: SeriesSelector,
    suffix: str,
    found: Found,
) -> None:
    begin, end = table.row[wanted], table.row[wanted] + table.rows[wanted]
    columns = [COLUMN, *({BOUNDS} & shape.columns)]
    total = sum(map(len, found.values()))
    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            low, high = int(shape.starts[number]), int(shape.starts[number + 1])
            here = np.flatnonzero((begin < high) & (end > low))
            if not len(here):
                continue
            reading.cancellation.check()
            group = file.read_row_group(number, columns, use_threads=False)
            for place in here.tolist():
                first, last = max(int(begin[place]), low) - low, min(int(end[place]), high) - low
                rows = group.slice(first, last - first)
                labels = table.labels(int(wanted[place]))
                for series, exemplar in _of_rows(rows, labels, suffix, selection):
                    total += 1
                    if total > MAX_EXEMPLARS:
                        raise LimitExceededError(
                            f"more than {MAX_EXEMPLARS} exemplars: narrow the time range or the selector"
                        )
                    found.setdefault(series, set()).add(exemplar)


def _of_rows(
    rows: pa.Table, labels: Labels, suffix: str, selection: SeriesSelector
) -> Iterator[tuple[Labels, Exemplar]]:
    sent = rows.filter(rows.column(COLUMN).is_valid())
    own = [m for m in selection.matchers if m.name == LE]
    exact = any(m.name == NAME_LABEL and m.op is MatchOp.EQUAL for m in selection.matchers)
    bounds = sent.column(BOUNDS).to_pylist() if BOUNDS in sent.column_names else [None] * sent.num_rows
    for exemplars, edges in zip(sent.column(COLUMN).to_pylist(), bounds, strict=True):
        if (edges is None) if suffix else (edges is not None and not exact):
            continue
        for sample in exemplars:
            at = sample["tsns"] // NS_PER_MS if sample["tsns"] is not None else 0
            if not selection.from_ms < at <= selection.to_ms:
                continue
            exemplar = Exemplar(at, _value(sample), _labels(sample))
            series = _bucket(labels, edges, exemplar.value) if suffix else labels
            if not suffix or _satisfied(own, series):
                yield series, exemplar


def _value(sample: dict[str, object]) -> float:
    value = sample["value"] if sample["value"] is not None else sample["value_int"]
    return float(value) if isinstance(value, int | float) else float("nan")


def _labels(sample: dict[str, object]) -> Pairs:
    found: dict[str, str] = {str(k): str(v) for k, v in sample["attributes"] or []}  # type: ignore[attr-defined]
    for name in ("trace_id", "span_id"):
        raw = sample[name]
        if isinstance(raw, bytes) and raw.strip(b"\0"):
            found[name] = raw.hex()
    return tuple(sorted(found.items()))


def _bucket(labels: Labels, edges: Sequence[float], value: float) -> Labels:
    """The series of the bucket that the value is in; buckets hold their upper bound."""
    place = bisect_left(edges, value)
    text = spelled(edges[place]) if place < len(edges) else "+Inf"
    renamed = {name: value + BUCKET if name == NAME_LABEL else value for name, value in labels}
    return tuple(sorted((renamed | {LE: text}).items()))


def _satisfied(own: Sequence[Matcher], series: Labels) -> bool:
    text = dict(series)[LE]
    return all(verdicts(matcher, [text])[0] for matcher in own)
