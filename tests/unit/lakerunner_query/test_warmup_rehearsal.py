"""The query that a worker runs before it is ready reads its segments and answers."""

from __future__ import annotations

from pathlib import Path

from lakerunner_query.warmup import rehearse, segment, unit
from lakerunner_query.worker.metrics.promql_units import MetricScanner
from lakerunner_query.worker.metrics.segment_opener import MetricOpener
from lakerunner_query.worker.shared.segment_file import SegmentsInPlace
from resources.duckdb import Cancellation


def test_it_answers_from_both_segments(tmp_path: Path) -> None:
    segments = (segment(tmp_path, "whole", 0), segment(tmp_path, "doubles", 600_000))
    scanner = MetricScanner(MetricOpener(SegmentsInPlace(tmp_path), 1 << 20))
    found = scanner.run(unit("sum by (a) (rate(m[5m]))", segments), Cancellation())
    assert found.report.segments_opened == 2
    assert not found.report.missing
    assert [series.points for series in found.series] == [11, 11, 11]
    rehearse()
