"""Small objects that make every kernel run: each signal, each format, each kind of value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from resources.proto.loki import PushRequest
from resources.proto.prometheus import WriteRequest

MOMENT_NS = 1_767_225_600_000_000_000
IDS = {"trace_id": bytes(range(1, 17)), "span_id": bytes(range(1, 9))}
LINE = {
    "time": "2026-01-01T00:00:00.25Z",
    "trace_id": IDS["trace_id"].hex(),
    "level": "info",
    "message": 'GET /a/17 from 10.0.0.1 "quoted" 0xff',
    "nested": {"list": [1, 2.5, "x", None, {"k": True}], "number": 1.25},
    "name": "work",
    "value": 0.1,
    "span_id": IDS["span_id"].hex(),
}
Named = tuple[str, bytes]
"""Name and content of an object."""


def log_samples() -> Iterator[Named]:
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    _service(group.resource.attributes)
    records = group.scope_logs.add(schema_url="s").log_records
    for number, value in enumerate(_values()):
        record = records.add(time_unix_nano=MOMENT_NS + number + 1, **IDS)
        record.body.CopyFrom(value)
        record.attributes.add(key="one").value.CopyFrom(value)
        record.attributes.add(key="shared").value.string_value = f"id={number} 10.0.0.{number}"
    yield "otlp", request.SerializeToString()
    yield "json", _as_json("Logs", "logRecords", {"timeUnixNano": str(MOMENT_NS), "body": _json_value()})
    push = PushRequest()
    stream = push.streams.add(labels='{job="warm"}')
    entry = stream.entries.add(line="level=warn took 5ms")
    entry.timestamp.seconds = MOMENT_NS // 10**9
    entry.structured_metadata.add(name="user", value="7")
    yield "push", _marked(b"logproto.PushRequest") + push.SerializeToString()
    yield from _foreign()


def metric_samples() -> Iterator[Named]:
    request = ExportMetricsServiceRequest()
    group = request.resource_metrics.add()
    _service(group.resource.attributes)
    metrics = group.scope_metrics.add().metrics
    for number in range(2):
        _point(metrics.add(name="level", unit="By").gauge.data_points.add(as_double=0.5), number)
        total = metrics.add(name="requests")
        total.sum.is_monotonic, total.sum.aggregation_temporality = True, 2
        _point(total.sum.data_points.add(as_int=number), number)
        spread = metrics.add(name="took", unit="s")
        spread.histogram.aggregation_temporality = 2
        point = spread.histogram.data_points.add(count=3, sum=1.5, min=0.1, max=0.9, explicit_bounds=[0.25])
        point.bucket_counts.extend([1, 2])
        _point(point, number)
        wide = metrics.add(name="size").exponential_histogram.data_points.add(count=9, scale=2, zero_count=1)
        wide.positive.bucket_counts.extend([300, 2])
        wide.negative.bucket_counts.append(1)
        _point(wide, number)
        summary = metrics.add(name="old").summary.data_points.add(count=3, sum=7.5)
        summary.quantile_values.add(quantile=0.99, value=4.5)
        _point(summary, number)
    yield "otlp", request.SerializeToString()
    gauge = {"dataPoints": [{"asDouble": 0.1, "timeUnixNano": str(MOMENT_NS)}]}
    yield "json", _as_json("Metrics", "metrics", {"name": "level", "gauge": gauge})
    yield "push", _marked(b"prometheus.WriteRequest") + _write_request()
    yield from _foreign()


def span_samples() -> Iterator[Named]:
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    _service(group.resource.attributes)
    spans = group.scope_spans.add().spans
    for number, value in enumerate(_values()):
        span = spans.add(
            name="work", start_time_unix_nano=MOMENT_NS + 1, end_time_unix_nano=MOMENT_NS + 9, **IDS
        )
        span.parent_span_id = IDS["span_id"]
        span.attributes.add(key="one").value.CopyFrom(value)
        event = span.events.add(time_unix_nano=MOMENT_NS + number, name="event")
        event.attributes.add(key="one").value.CopyFrom(value)
        span.links.add(**IDS).attributes.add(key="one").value.CopyFrom(value)
    yield "otlp", request.SerializeToString()
    yield "json", _as_json("Spans", "spans", {"name": "work", "traceId": IDS["trace_id"].hex()})
    yield from _foreign()


def _foreign() -> Iterator[Named]:
    line = json.dumps(LINE)
    yield "lines.json", f"{line}\n{line}\n".encode()
    yield "list.json", f"[{line}]".encode()
    cells = {name: value for name, value in LINE.items() if name not in {"nested", "message"}}
    head, row = (
        ",".join([*cells, "message"]),
        ",".join(map(str, [*cells.values(), '"said ""hi"", then left"'])),
    )
    yield "rows.csv", f"{head}\n{row}\n{row}\n".encode()


def _as_json(kind: str, records: str, record: dict[str, Any]) -> bytes:
    scope = {records: [record]}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "warm"}}]}
    group = {"resource": resource, f"scope{kind}": [scope]}
    return json.dumps({f"resource{kind}": [group]}).encode()


def _json_value() -> dict[str, Any]:
    values = [{"intValue": "1"}, {"doubleValue": 0.1}, {"bytesValue": "AQ=="}, {"boolValue": True}]
    return {"arrayValue": {"values": values}}


def _write_request() -> bytes:
    request = WriteRequest()
    for number in range(2):
        series = request.timeseries.add()
        series.labels.add(name="__name__", value="requests_total")
        series.labels.add(name="job", value=f"warm{number}")
        moment = MOMENT_NS // 10**6 + number
        series.samples.add(value=number + 0.5, timestamp=moment)
        exemplar = series.exemplars.add(value=1, timestamp=moment)
        exemplar.labels.add(name="trace_id", value=IDS["trace_id"].hex())
        spread = series.histograms.add(
            count_int=3, sum=1, schema=2, timestamp=moment, positive_deltas=[1, 1], zero_count_int=0
        )
        spread.positive_spans.add(offset=0, length=2)
    request.metadata.add(type=1, metric_family_name="requests")
    return bytes(request.SerializeToString())


def _point(point: Any, number: int) -> None:
    """Fill a point; the second has attributes on both sides of the other fields."""
    point.time_unix_nano = MOMENT_NS + number * 10**9
    point.start_time_unix_nano = MOMENT_NS
    point.attributes.add(key="route").value.string_value = f"/{number}"
    if number:
        more = type(point)()
        more.attributes.add(key="late").value.int_value = 1
        point.MergeFromString(more.SerializeToString())
    if hasattr(point, "exemplars"):
        exemplar = point.exemplars.add(time_unix_nano=MOMENT_NS, as_int=3, **IDS)
        exemplar.filtered_attributes.add(key="user").value.string_value = "u"


def _service(attributes: Any) -> None:
    attributes.add(key="service.name").value.string_value = "warm"


def _marked(name: bytes) -> bytes:
    return b"\xc2\xa9\x07" + bytes([len(name)]) + name


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
