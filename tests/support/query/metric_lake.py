"""Metric segments in the small lake: from label sets and numbers, or from OTLP through the real decoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_query.vectors.vector import Labels
from resources.index.types import BatchKind, BatchPlan, Publication, Segment
from resources.lake.layout import Signal, hourly_segment_key
from resources.lake.timecut import HOUR_NS, hour_start
from tests.golden.lake_source import sample_table
from tests.golden.memory_source import Sample
from tests.support.decoding import decode_object
from tests.support.query.lake import BASE, Lake

BASE_MS = BASE // 1_000_000
BASE_S = BASE_MS // 1000


def labels(name: str, **others: str) -> Labels:
    return tuple(sorted({"__name__": name, **others}.items()))


def write_samples(lake: Lake, org: str, series: Mapping[Labels, Sequence[tuple[int, float]]]) -> Segment:
    """Samples as (milliseconds after BASE, number)."""
    rows = [
        (labels, Sample(BASE_MS + at, number)) for labels, samples in series.items() for at, number in samples
    ]
    return publish(
        lake, org, [sample_table(rows)], BASE + min(at for s in series.values() for at, _ in s) * 1_000_000
    )


def write_otlp(lake: Lake, org: str, request: ExportMetricsServiceRequest, at_ns: int) -> Segment:
    found = decode_object(request.SerializeToString(), signal=Signal.METRICS, arrival_ns=BASE)
    return publish(lake, org, [one.table for one in found], at_ns)


def publish(lake: Lake, org: str, tables: Sequence[pa.Table], at_ns: int) -> Segment:
    lake._objects += 1
    segment_id = f"{lake._objects:032x}"
    hour = hour_start(at_ns)
    key = hourly_segment_key(org, "default", "metrics", hour, segment_id)
    path = lake.folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    written = write_metric_segment(tables, path, SegmentIdentity(org, "default", "metrics", hour, segment_id))
    segment = Segment(
        segment_id=segment_id, key=key, org=org, collector="default", signal=Signal.METRICS,
        dataset="metrics", frequency_ms=0, hour_ns=hour, width_ns=HOUR_NS,
        min_ns=written.min_ns, max_ns=written.max_ns,
        rows=written.rows, bytes=written.bytes, level=0, origin="", format_version=written.format_version,
        sort_version=written.sort_version, terms=written.terms, label_names=written.label_names,
        metric_names=written.metric_names, series_offset=written.series_offset,
        series_length=written.series_length, bloom_offset=written.bloom_offset,
        bloom_length=written.bloom_length,
    )  # fmt: skip
    plan = BatchPlan(BatchKind.REBUILD, org, "default", Signal.METRICS, hour, ())
    lake.index.publish(Publication(lake.index.create_claimed(plan), (segment,), hours=(hour,)))
    return segment
