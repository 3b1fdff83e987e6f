"""What metrics say of themselves: type, unit and description, as they stand in the rows of a segment.

    metric_name          chq_metric_type  metric_is_monotonic  metric_unit
    http_requests_total  sum              true                 {request}

    counter http_requests_total in {request}

Those columns say the same in nearly every row, so they are small in the file; what came out is remembered.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.protocol.answers import MetadataAnswer, MetricFact
from lakerunner_query.protocol.units import MetadataUnit, SegmentRef, UnitReport
from lakerunner_query.worker.metrics.opening import MetricOpener, Reading
from lakerunner_query.worker.metrics.row_groups import DAMAGE
from lakerunner_query.worker.segment_facts import Recent
from resources.duckdb import Cancellation

NAME, TYPE, MONOTONIC = "metric_name", "chq_metric_type", "metric_is_monotonic"
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
