"""Compiles every kernel once, so that the first object does not wait for it.

`python -m lakerunner_assets.segments.warm` cooks a small object that holds every kind of value; what it
compiles is kept on disk for all later processes. Part of `make setup`, and of `lakerunner up` when needed.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from lakerunner_assets.decode.kept import MARK, cache_folder
from lakerunner_assets.decode.otlp.logs import decode_logs
from lakerunner_assets.decode.result import DecodeOptions, Place
from lakerunner_assets.segments.logs import write_log_segment
from lakerunner_assets.segments.written import SegmentIdentity

MOMENT_NS = 1_767_225_600_000_000_000


def warm() -> float:
    """Compile what is not kept yet; the seconds it took."""
    started = time.monotonic()
    tables = [decode_logs(sample(), Place(1, 0, MOMENT_NS), DecodeOptions()).table]
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "warm.parquet"
        write_log_segment(tables, path, SegmentIdentity("warm", "warm", "logs", MOMENT_NS, "0" * 32))
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()
    return time.monotonic() - started


def sample() -> bytes:
    """One record per kind of value."""
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    group.resource.attributes.add(key="service.name").value.string_value = "warm"
    records = group.scope_logs.add(schema_url="s").log_records
    for number, value in enumerate(_values()):
        record = records.add(time_unix_nano=MOMENT_NS + number + 1, trace_id=b"t" * 16, span_id=b"s" * 8)
        record.body.CopyFrom(value)
        record.attributes.add(key="one").value.CopyFrom(value)
        record.attributes.add(key="shared").value.string_value = f"id={number} 10.0.0.{number}"
    data: bytes = request.SerializeToString()
    return data


def _values() -> list[AnyValue]:
    inner = AnyValue(string_value="x")
    return [
        AnyValue(string_value='GET /a/17 from 10.0.0.1 "quoted" 0xff'),
        AnyValue(int_value=-1),
        AnyValue(double_value=1.5),
        AnyValue(bool_value=True),
        AnyValue(bytes_value=b"\xff"),
        AnyValue(array_value=ArrayValue(values=[inner, AnyValue(int_value=2)])),
        AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key="k", value=inner)])),
        AnyValue(),
    ]


if __name__ == "__main__":
    print(f"kernels compiled in {warm():.1f} s")
