"""Series tables answer for series, label names and values; a few columns answer for metric metadata.

Classic series of histograms are listed like stored ones. No table lists their buckets, so rows are read of
the selected series alone, and only where a selection may match classic series.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.protocol.answers import MetadataAnswer, MetricFact, SeriesAnswer
from lakerunner_query.protocol.units import (
    MetadataUnit,
    SegmentRef,
    SeriesUnit,
    selected_segments,
)
from lakerunner_query.vectors.vector import Labels
from lakerunner_query.worker.metrics.lake_source import LakeSource
from lakerunner_query.worker.metrics.row_groups import FileLayout
from lakerunner_query.worker.metrics.segment_opener import MetricOpener, UnitReader
from lakerunner_query.worker.shared.lru import ByteLru
from lakerunner_query.worker.shared.segment_file import SegmentFile
from resources.duckdb import Cancellation
from resources.lake.columns import CHQ_METRIC_TYPE

NAME, TYPE, MONOTONIC = "metric_name", CHQ_METRIC_TYPE, "metric_is_monotonic"
UNIT, DESCRIPTION, TEMPORALITY = "metric_unit", "metric_description", "metric_temporality"
_COLUMNS = (NAME, TYPE, MONOTONIC, UNIT, DESCRIPTION, TEMPORALITY)
_TYPES = {"exponential_histogram": "histogram"}
"""Names of types in Prometheus, where they differ; a sum is a counter or a gauge."""
CACHED_SEGMENTS = 512


class SeriesLister:
    """Answers units about series, label names and label values."""

    def __init__(self, opener: MetricOpener) -> None:
        self._opener = opener

    def run(self, unit: SeriesUnit, cancellation: Cancellation) -> SeriesAnswer:
        with self._opener.open_unit(cancellation) as reader:
            numbers = self._opener.interner.numbers()
            found: set[Labels] = set()
            lists = selected_segments(unit.segments, unit.selected, len(unit.selections))
            for selection, segments in zip(unit.selections, lists, strict=True):
                source = LakeSource(reader, segments, numbers)
                found.update(source.series(selection.matchers, selection.from_ms, selection.to_ms))
            report = reader.report()
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


class MetadataReader:
    """Answers units about type, unit and description of metrics.

        metric_name          metric_type  metric_is_monotonic  metric_unit
        http_requests_total  sum          true                 {request}

        ->  counter http_requests_total in {request}

    These columns are nearly constant, so they are small in a file; the distinct rows are cached.
    """

    def __init__(self, opener: MetricOpener) -> None:
        self._opener = opener
        self._cache: ByteLru[str, frozenset[MetricFact]] = ByteLru(CACHED_SEGMENTS)

    def run(self, unit: MetadataUnit, cancellation: Cancellation) -> MetadataAnswer:
        names = frozenset(unit.names)
        found: set[MetricFact] = set()
        with self._opener.open_unit(cancellation) as reader:
            unknown = [segment for segment in unit.segments if self._cache.get(segment.key) is None]
            layouts = dict(reader.layouts(unknown))
            for segment, layout in layouts.items():
                numbers = range(layout.metadata.num_row_groups)
                reader.fetch(segment, [one for number in numbers for one in layout.chunks(number, _COLUMNS)])
            for segment in unit.segments:
                cancellation.check()
                facts = self._facts(reader, segment, layouts.get(segment))
                found.update(fact for fact in facts if not names or fact.name in names)
            report = reader.report()
        return MetadataAnswer(tuple(sorted(found)), report)

    def _facts(
        self, reader: UnitReader, segment: SegmentRef, layout: FileLayout | None
    ) -> frozenset[MetricFact]:
        known = self._cache.get(segment.key)
        file = None if layout is None else reader.file(segment)
        if known is None and layout is not None and file is not None:
            known = reader.attempt(segment, lambda: read_facts(file, layout))
            if known is not None:
                self._cache.put(segment.key, known)
        return known or frozenset()


def read_facts(file: SegmentFile, layout: FileLayout) -> frozenset[MetricFact]:
    """Read the distinct facts of one file."""
    columns = [name for name in _COLUMNS if name in layout.places]
    texts = [name for name in columns if name != MONOTONIC]
    with pq.ParquetFile(file.source(), metadata=layout.metadata, read_dictionary=texts) as parquet:
        parts = [
            _distinct(parquet.read_row_group(number, columns, use_threads=False))
            for number in range(parquet.num_row_groups)
        ]
    return frozenset(_fact(row) for part in parts for row in part.to_pylist())


def _distinct(table: pa.Table) -> pa.Table:
    return table.group_by(table.column_names, use_threads=False).aggregate([])


def _fact(row: dict[str, object]) -> MetricFact:
    kind = str(row[TYPE])
    if kind == "sum":
        kind = "counter" if row.get(MONOTONIC) else "gauge"
    texts = [str(row.get(name) or "") for name in (UNIT, DESCRIPTION, TEMPORALITY)]
    return MetricFact(str(row[NAME]), _TYPES.get(kind, kind), *texts)
