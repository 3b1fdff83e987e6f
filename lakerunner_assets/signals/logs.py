"""Logs: decoded from OTLP, sorted by slot, service, template and time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lakerunner_assets.spec import DecodedSlice, Limits, SegmentFacts, SegmentIdentity, SignalSpec
from resources.lake.layout import Signal

if TYPE_CHECKING:
    import pyarrow as pa


def decode(data: bytes, *, object_id: int, arrival_ns: int, limits: Limits) -> Iterator[DecodedSlice]:
    from lakerunner_assets.decode.otlp_logs import decode_object

    slices = decode_object(
        data,
        object_id=object_id,
        arrival_ns=arrival_ns,
        max_bytes=limits.object_max_bytes,
        slice_bytes=limits.slice_bytes,
    )
    for part in slices:
        yield DecodedSlice(part.table, part.rejected)


def write(tables: Sequence[pa.Table], path: Path, identity: SegmentIdentity) -> SegmentFacts:
    from lakerunner_assets.segments.logs import write_log_segment

    written = write_log_segment(
        tables,
        path,
        org=identity.org,
        collector=identity.collector,
        segment_id=identity.segment_id,
        hour_ns=identity.hour_ns,
        dataset=identity.dataset,
    )
    return SegmentFacts(
        rows=written.rows,
        bytes=written.bytes,
        min_ns=written.min_ns,
        max_ns=written.max_ns,
        format_version=written.format_version,
        sort_version=written.sort_version,
        terms=written.terms,
        label_names=written.label_names,
        metric_names=(),
        series_offset=written.series_offset,
        series_length=written.series_length,
        bloom_offset=written.bloom_offset,
        bloom_length=written.bloom_length,
        object_ids=written.object_ids,
    )


LOGS = SignalSpec(
    signal=Signal.LOGS,
    dataset="logs",
    time_column="chq_tsns",
    decode=decode,
    write=write,
    description="Log records: message, severity, attributes, trace context.",
)
