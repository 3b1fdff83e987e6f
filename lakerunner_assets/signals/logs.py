"""Logs: sorted by slot, service, template and time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lakerunner_assets.segments.merge.request import MergeKind
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from lakerunner_assets.spec import SignalSpec
from resources.lake.columns import CHQ_TSNS
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
    from lakerunner_assets.decode.otlp.logs import decode_logs
    from lakerunner_assets.decode.push.loki_push import decode_loki_push

    return {
        Format.OTLP_PROTOBUF: protobuf(decode_logs),
        Format.OTLP_JSON: decode_otlp_json(Signal.LOGS, decode_logs),
        Format.LOKI_PUSH: decode_loki_push,
        Format.JSON_LINES: decode_json_lines(Signal.LOGS),
        Format.CSV: decode_csv(Signal.LOGS),
        Format.PARQUET: decode_parquet(Signal.LOGS),
    }


def write(tables: Sequence[pa.Table], path: Path, identity: SegmentIdentity) -> WrittenSegment:
    from lakerunner_assets.segments.logs import write_log_segment

    return write_log_segment(tables, path, identity)


def warm_up_samples() -> Iterator[tuple[str, bytes]]:
    from lakerunner_assets.warmup_samples import log_samples

    return log_samples()


LOGS = SignalSpec(
    signal=Signal.LOGS,
    dataset=FACTS[Signal.LOGS].dataset,
    time_column=CHQ_TSNS,
    time_unit_ns=1,
    decoders=decoders,
    write=write,
    merge_kind=MergeKind.LOGS,
    sealed_datasets=frozenset(),
    warm_up_samples=warm_up_samples,
    roles_in_words={"timestamp": "time", "message": "message", "service": "service"},
    description="Log records: message, severity, attributes, trace context.",
)
