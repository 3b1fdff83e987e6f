"""Traces: spans sorted by trace and start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lakerunner_assets.segments.merge.request import MergeKind
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from lakerunner_assets.spec import SignalSpec
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
    from lakerunner_assets.decode.otlp.traces import decode_traces

    return {
        Format.OTLP_PROTOBUF: protobuf(decode_traces),
        Format.OTLP_JSON: decode_otlp_json(Signal.TRACES, decode_traces),
        Format.JSON_LINES: decode_json_lines(Signal.TRACES),
        Format.CSV: decode_csv(Signal.TRACES),
        Format.PARQUET: decode_parquet(Signal.TRACES),
    }


def write(tables: Sequence[pa.Table], path: Path, identity: SegmentIdentity) -> WrittenSegment:
    from lakerunner_assets.segments.traces import write_span_segment

    return write_span_segment(tables, path, identity)


def warm_up_samples() -> Iterator[tuple[str, bytes]]:
    from lakerunner_assets.warmup_samples import span_samples

    return span_samples()


TRACES = SignalSpec(
    signal=Signal.TRACES,
    dataset=FACTS[Signal.TRACES].dataset,
    time_column="span_start_ns",
    time_unit_ns=1,
    decoders=decoders,
    write=write,
    merge_kind=MergeKind.TRACES,
    sealed_datasets=frozenset(),
    warm_up_samples=warm_up_samples,
    roles_in_words={"start": "start", "timestamp": "time", "span_name": "span name", "service": "service"},
    description="Spans: names, times, status, attributes, events and links.",
)
