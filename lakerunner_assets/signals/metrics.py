"""Metrics: sorted by name, series and time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lakerunner_assets.segments.merge.request import MergeKind
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from lakerunner_assets.spec import SignalSpec
from resources.lake.columns import CHQ_TIMESTAMP
from resources.lake.frequency import ROLLUPS
from resources.lake.layout import Signal
from resources.lake.signals import FACTS

if TYPE_CHECKING:
    import pyarrow as pa

    from lakerunner_assets.decode.dispatch import Decoders


def decoders() -> Decoders:
    from lakerunner_assets.decode.dispatch import protobuf
    from lakerunner_assets.decode.foreign.csv import decode_csv
    from lakerunner_assets.decode.foreign.parquet import decode_parquet
    from lakerunner_assets.decode.foreign.tables import decode_json_lines
    from lakerunner_assets.decode.formats import Format
    from lakerunner_assets.decode.json.otlp import decode_otlp_json
    from lakerunner_assets.decode.otlp.metrics import decode_metrics
    from lakerunner_assets.decode.push.remote_write import decode_remote_write

    return {
        Format.OTLP_PROTOBUF: protobuf(decode_metrics),
        Format.OTLP_JSON: decode_otlp_json(Signal.METRICS, decode_metrics),
        Format.REMOTE_WRITE: decode_remote_write,
        Format.JSON_LINES: decode_json_lines(Signal.METRICS),
        Format.CSV: decode_csv(Signal.METRICS),
        Format.PARQUET: decode_parquet(Signal.METRICS),
    }


def write(tables: Sequence[pa.Table], path: Path, identity: SegmentIdentity) -> WrittenSegment:
    from lakerunner_assets.segments.metrics import write_metric_segment

    return write_metric_segment(tables, path, identity)


def warm_up_samples() -> Iterator[tuple[str, bytes]]:
    from lakerunner_assets.warmup_samples import metric_samples

    return metric_samples()


METRICS = SignalSpec(
    signal=Signal.METRICS,
    dataset=FACTS[Signal.METRICS].dataset,
    time_column=CHQ_TIMESTAMP,
    time_unit_ns=1_000_000,
    decoders=decoders,
    write=write,
    merge_kind=MergeKind.SAMPLES,
    sealed_datasets=frozenset({"metrics", *(rollup.dataset for rollup in ROLLUPS)}),
    warm_up_samples=warm_up_samples,
    roles_in_words={"timestamp": "time", "metric_name": "metric name", "value": "value"},
    description="Metric data points: value or distribution, series, exemplars.",
)
