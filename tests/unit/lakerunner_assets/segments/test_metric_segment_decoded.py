"""What the OTLP decoder makes of messages of every kind comes back from a segment as it was."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from lakerunner_assets.decode.dispatch import Place
from lakerunner_assets.decode.otlp.metrics import decode_metrics
from lakerunner_assets.segments.metric_values import read_metric_segment
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity
from resources.lake.options import DecodeOptions
from tests.support.corpora import CORPORA
from tests.support.decode.metric_messages import REQUESTS, corpus_payloads, sample
from tests.support.segments.metric_tables import by_id


def decoded(payload: bytes, object_id: int) -> pa.Table:
    return decode_metrics(payload, Place(object_id, 0, 1), DecodeOptions()).table


def assert_comes_back(tables: list[pa.Table], path: Path) -> int:
    written = write_metric_segment(tables, path, SegmentIdentity("a", "c", "metrics", 0, "s"))
    sent = {key: _attributes_apart(row, table) for table in tables for key, row in by_id(table).items()}
    read = read_metric_segment(path)
    assert written.rows == len(sent)
    assert {key: _attributes_apart(row, read) for key, row in by_id(read).items()} == sent
    return written.rows


def _attributes_apart(row: dict[str, object], table: pa.Table) -> dict[object, object]:
    """Flat columns by what they hold: their names depend on what else is in the segment."""
    metadata = {field.name: field.metadata for field in table.schema if field.metadata}
    return {tuple(metadata[name].values()) if name in metadata else name: cell for name, cell in row.items()}


@given(REQUESTS, REQUESTS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_generated_messages(tmp_path_factory: pytest.TempPathFactory, first: bytes, second: bytes) -> None:
    tables = [table for n, sent in enumerate((first, second)) if (table := decoded(sent, n)).num_rows]
    if tables:
        assert_comes_back(tables, tmp_path_factory.mktemp("s") / "s.parquet")


def test_the_sample(tmp_path: Path) -> None:
    assert_comes_back([decoded(sample().SerializeToString(), 1)], tmp_path / "s.parquet")


def test_all_metrics_of_the_corpora_in_one_segment(tmp_path: Path) -> None:
    folder = CORPORA / "otlp"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not on this machine; the project's own messages were run")
    tables = [decoded(payload, n) for n, payload in enumerate(corpus_payloads(folder))]
    rows = assert_comes_back([table for table in tables if table.num_rows], tmp_path / "s.parquet")
    assert rows > 3000
