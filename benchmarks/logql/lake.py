"""The rows as a lake: segments as cooking leaves them, and an index that knows them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.logql.corpus import (
    HOSTS,
    LEVELS,
    SERVICES,
    SEVERITIES,
    Part,
    host_name,
    service_name,
)
from lakerunner_assets.decode.fingerprint import fingerprints
from lakerunner_assets.segments.logs import write_log_segment
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from resources.index.postgres import PostgresIndex
from resources.index.types import BatchKind, BatchPlan, Publication, Segment
from resources.lake import streams
from resources.lake.layout import Signal, hourly_segment_key
from resources.lake.timecut import HOUR_NS, hour_start

ORG, COLLECTOR = "bench", "bench"
KEY = "bench"


@dataclass(slots=True)
class LakeWriter:
    """Part after part becomes a segment of its own."""

    folder: Path
    index: PostgresIndex
    rows: int = 0
    bytes: int = 0
    segments: int = 0

    def add(self, part: Part) -> None:
        self.segments += 1
        name = f"{self.segments:032x}"
        hour = hour_start(int(part.tsns[0]))
        key = hourly_segment_key(ORG, COLLECTOR, "logs", hour, name)
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        identity = SegmentIdentity(ORG, COLLECTOR, "logs", hour, name)
        written = write_log_segment([table_of(part, self.segments)], path, identity)
        publish(self.index, segment_row(Signal.LOGS, key, name, hour, written))
        self.rows, self.bytes = self.rows + written.rows, self.bytes + written.bytes


def publish(index: PostgresIndex, segment: Segment) -> None:
    plan = BatchPlan(BatchKind.REBUILD, ORG, COLLECTOR, segment.signal, segment.hour_ns)
    claim = index.create_claimed(plan)
    index.publish(Publication(claim, (segment,), hours=(segment.hour_ns,)))


def admit(index: PostgresIndex) -> None:
    index.create_organisation(ORG)
    index.create_api_key(ORG, "read", KEY, hashlib.sha256(KEY.encode()).digest(), None)


def table_of(part: Part, number: int) -> pa.Table:
    """As a decoder hands rows to the writer."""
    count = len(part.tsns)
    names = [service_name(code) for code in range(SERVICES)]
    sets = [streams.canonical({"service_name": name}) for name in names]
    ids = np.array([streams.stream_id(each) for each in sets], np.int64)
    same = np.zeros(count, np.int32)
    columns = {
        "chq_tsns": pa.array(part.tsns),
        "log_level": _coded(part.level, [name.upper() for name in LEVELS]),
        "log_severity_number": pa.array(np.array(SEVERITIES, np.int32)[part.level]),
        "log_severity_text": _coded(part.level, LEVELS),
        "log_message": part.message,
        "chq_body_kind": _coded(same, ["string"]),
        "detected_level": _coded(part.level, LEVELS),
        "chq_fingerprint": pa.array(fingerprints(part.message)),
        "trace_id": _fixed(part.trace),
        "chq_object": pa.array(np.full(count, number, np.int64)),
        "chq_position": pa.array(np.arange(count, dtype=np.int64)),
        "chq_stream_id": pa.array(ids[part.service]),
        "chq_stream": _coded(part.service, [streams.labels_to_text(each) for each in sets]),
        "resource_service_name": _coded(part.service, names),
        "attr_host": _coded(part.host, [host_name(code) for code in range(HOSTS)]),
    }
    held = {"resource_service_name": ("resource", "service.name"), "attr_host": ("record", "host")}
    fields = [
        pa.field(name, column.type, metadata=_attribute(*held[name]) if name in held else None)
        for name, column in columns.items()
    ]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def _attribute(scope: str, key: str) -> dict[str, str]:
    return {"chq_scope": scope, "chq_key": key, "chq_kind": "string"}


def _coded(codes: np.ndarray, values: object) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(list(values), pa.string()))  # type: ignore[call-overload]


def _fixed(raw: np.ndarray) -> pa.Array:
    count, width = raw.shape
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), count, [None, pa.py_buffer(raw.tobytes())])


def segment_row(signal: Signal, key: str, name: str, hour: int, written: WrittenSegment) -> Segment:
    return Segment(
        segment_id=name, key=key, org=ORG, collector=COLLECTOR, signal=signal, dataset=signal.value,
        frequency_ms=0, hour_ns=hour, width_ns=HOUR_NS, min_ns=written.min_ns, max_ns=written.max_ns,
        rows=written.rows, bytes=written.bytes, level=0, origin="", format_version=written.format_version,
        sort_version=written.sort_version, terms=written.terms, label_names=written.label_names,
        metric_names=(), series_offset=written.series_offset, series_length=written.series_length,
        bloom_offset=written.bloom_offset, bloom_length=written.bloom_length,
    )  # fmt: skip
