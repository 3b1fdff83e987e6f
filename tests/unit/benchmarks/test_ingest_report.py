"""The ingest benchmark's own arithmetic and its corpora; nothing is timed here and no peer is started."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.ingest import peers
from benchmarks.ingest.corpus import HOUR_NS, START_NS
from benchmarks.ingest.corpus.logs import loghub_logs, web_logs
from benchmarks.ingest.corpus.metrics import SAMPLES_PER_HISTOGRAM, app_metrics
from benchmarks.ingest.corpus.spans import shop_spans
from benchmarks.ingest.corpus.twins import web_twins
from benchmarks.ingest.rounds import Rates, Target, compared, interleaved, smaller

FASTER = Target("P1", "speed", must=4, aim=8)
SMALLER = Target("P8", "bytes", must=0.9, aim=0.7)


def test_rounds_take_turns() -> None:
    order: list[str] = []

    def contender(name: str) -> float:
        order.append(name)
        return float(len(order))

    rates = interleaved({"a": lambda: contender("a"), "b": lambda: contender("b")}, rows=12, rounds=3)
    assert order == ["a", "b"] * 3
    assert rates.seconds == {"a": [1, 3, 5], "b": [2, 4, 6]}
    assert (rates.median("a"), rates.best("b")) == (4, 6)


@pytest.mark.parametrize(("theirs", "ok"), [(4.0, True), (3.9, False)])
def test_speed_is_compared_by_medians(theirs: float, ok: bool) -> None:
    rates = Rates(100, {"us": [1.0, 9.0, 1.0], "them": [theirs, theirs, 0.1]})
    found = compared(FASTER, rates, "us", "them", "rows/CPU-s", {})
    assert (found.value, found.ok) == (100, ok)
    assert found.ratio == pytest.approx(theirs)


@pytest.mark.parametrize(("value", "ok"), [(9.0, True), (9.1, False)])
def test_fewer_bytes_are_better(value: float, ok: bool) -> None:
    assert smaller(SMALLER, value, "them", 10.0, "B", {}).ok is ok


def test_programs_are_found_in_the_folder_and_its_bin(tmp_path: Path) -> None:
    assert peers.binary(tmp_path, "loki") is None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "loki").touch()
    assert peers.binary(tmp_path, "loki") == tmp_path / "bin" / "loki"


def test_log_corpus_is_what_it_says_and_the_same_every_time() -> None:
    corpus = web_logs(500)
    assert corpus == web_logs(500)
    (data,) = corpus.objects
    request = ExportLogsServiceRequest.FromString(data)
    records = [record for group in request.resource_logs for record in group.scope_logs[0].log_records]
    assert len(records) == corpus.rows == 500
    assert len(request.resource_logs) == 20
    assert all(START_NS < record.time_unix_nano <= START_NS + HOUR_NS for record in records)
    assert {len(record.attributes) for record in records} == {8}
    assert {a.key: a.value.WhichOneof("value") for a in records[0].attributes}["sampled"] == "bool_value"
    assert len({record.trace_id for record in records}) == 500


def test_metric_corpus_counts_points_and_samples() -> None:
    corpus = app_metrics(steps=3, resources=2)
    points = samples = 0
    for group in ExportMetricsServiceRequest.FromString(b"".join(corpus.objects)).resource_metrics:
        for metric in group.scope_metrics[0].metrics:
            numbers = len(metric.gauge.data_points) + len(metric.sum.data_points)
            points += numbers + len(metric.histogram.data_points)
            samples += numbers
            for point in metric.histogram.data_points:
                assert sum(point.bucket_counts) == point.count
                assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
                samples += len(point.bucket_counts) + 2
    assert (points, samples) == (corpus.rows, corpus.samples)
    assert SAMPLES_PER_HISTOGRAM == 14


def test_span_corpus_has_whole_traces_inside_the_hour() -> None:
    corpus = shop_spans(160)
    traces: dict[bytes, set[bytes]] = {}
    parents: set[tuple[bytes, bytes]] = set()
    for data in corpus.objects:
        for group in ExportTraceServiceRequest.FromString(data).resource_spans:
            for span in group.scope_spans[0].spans:
                traces.setdefault(span.trace_id, set()).add(span.span_id)
                parents.add((span.trace_id, span.parent_span_id))
                assert START_NS < span.start_time_unix_nano < span.end_time_unix_nano <= START_NS + HOUR_NS
    assert [len(spans) for spans in traces.values()] == [8] * 20
    assert all(not parent or parent in traces[trace] for trace, parent in parents)


def test_twins_hold_the_same_records() -> None:
    twins = web_twins(40)
    lines = [json.loads(line) for line in twins.json_lines.objects[0].splitlines()]
    assert gzip.decompress(twins.json_gz.objects[0]) == twins.json_lines.objects[0]
    rows = list(csv.DictReader(io.StringIO(twins.csv.objects[0].decode())))
    columns = pq.read_table(io.BytesIO(twins.parquet.objects[0])).drop_columns(["timestamp"]).to_pylist()
    assert [{name: str(value) for name, value in line.items()} for line in lines] == rows
    assert [{**line, "timestamp": None} for line in lines] == [{**row, "timestamp": None} for row in columns]
    assert len(rows) == 40


def test_real_lines_become_one_service_per_file(tmp_path: Path) -> None:
    assert loghub_logs(tmp_path) is None
    (tmp_path / "Sshd_2k.log").write_text("a\nb\n")
    (tmp_path / "Linux_2k.log").write_text("c\n")
    corpus = loghub_logs(tmp_path)
    assert corpus is not None
    request = ExportLogsServiceRequest.FromString(corpus.objects[0])
    assert [group.resource.attributes[0].value.string_value for group in request.resource_logs] == [
        "linux",
        "sshd",
    ]
    assert [r.body.string_value for r in request.resource_logs[1].scope_logs[0].log_records] == ["a", "b"]
    assert corpus.rows == 3
