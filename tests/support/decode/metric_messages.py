"""Hypothesis strategies for OTLP metrics, a sample with every field, and the metrics of the corpora.

Messages are generated as bytes: parts of one message end to end are one message to protobuf, which is how
repeated oneof members, attributes with other fields between them and unpacked numbers come about.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from tests.support.decode.messages import ATTRIBUTES, INT64, TEXT, TIMES, UINT32

NAN_WITH_PAYLOAD = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_DEAD_BEEF))[0]
DOUBLES = st.floats(width=64) | st.sampled_from([0.0, -0.0, NAN_WITH_PAYLOAD])
UINT64 = st.integers(0, 2**64 - 1) | st.integers(0, 1000)
INT32 = st.integers(-(2**31), 2**31 - 1)
FLAGS = st.sampled_from([0, 0, 0, 1]) | UINT32
INTEGERS = INT64 | st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 0])


def field(number: int, content: bytes) -> bytes:
    """A field with a length."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))


def _parts(*strategies: st.SearchStrategy[Any], least: int = 0, most: int = 3) -> st.SearchStrategy[bytes]:
    """Some messages or pieces of messages end to end."""
    return st.lists(st.one_of(*strategies), min_size=least, max_size=most).map(
        lambda parts: b"".join(
            part.SerializeToString() if isinstance(part, Message) else part for part in parts
        )
    )


UNKNOWN = st.sampled_from([b"\x9a\x06\x02hi", b"\x98\x06\x07", b"\x9b\x06\x08\x01\x9c\x06", b"\x9d\x06abcd"])
EXEMPLARS = st.lists(
    st.one_of(
        st.builds(
            pb.Exemplar,
            time_unix_nano=TIMES,
            trace_id=st.binary(max_size=17) | st.binary(min_size=16, max_size=16),
            span_id=st.binary(max_size=9) | st.binary(min_size=8, max_size=8),
            filtered_attributes=ATTRIBUTES,
            **value,
        )
        for value in ({}, {"as_int": INTEGERS}, {"as_double": DOUBLES})
    ),
    max_size=2,
)
COMMON: dict[str, Any] = {
    "time_unix_nano": TIMES,
    "start_time_unix_nano": TIMES,
    "attributes": ATTRIBUTES,
    "flags": FLAGS,
}
OPTIONAL = st.none() | DOUBLES

NUMBERS = _parts(
    st.builds(pb.NumberDataPoint, as_double=DOUBLES, exemplars=EXEMPLARS, **COMMON),
    st.builds(pb.NumberDataPoint, as_int=INTEGERS, **COMMON),
    st.builds(pb.NumberDataPoint, **COMMON),
    UNKNOWN,
)
HISTOGRAMS = _parts(
    st.builds(
        pb.HistogramDataPoint,
        count=UINT64,
        sum=OPTIONAL,
        min=OPTIONAL,
        max=OPTIONAL,
        bucket_counts=st.lists(UINT64, max_size=4),
        explicit_bounds=st.lists(DOUBLES, max_size=4),
        exemplars=EXEMPLARS,
        **COMMON,
    ),
    st.builds(lambda number: b"\x31" + struct.pack("<Q", number), UINT64),
    st.builds(lambda number: b"\x39" + struct.pack("<d", number), DOUBLES),
    UNKNOWN,
)
BUCKETS = _parts(
    st.builds(
        pb.ExponentialHistogramDataPoint.Buckets, offset=INT32, bucket_counts=st.lists(UINT64, max_size=4)
    ),
    st.builds(lambda number: b"\x10" + varint(number), UINT64),
    UNKNOWN,
)
EXPONENTIALS = _parts(
    st.builds(
        pb.ExponentialHistogramDataPoint,
        count=UINT64,
        sum=OPTIONAL,
        min=OPTIONAL,
        max=OPTIONAL,
        scale=INT32,
        zero_count=UINT64,
        zero_threshold=DOUBLES,
        exemplars=EXEMPLARS,
        **COMMON,
    ),
    BUCKETS.map(lambda content: field(8, content)),
    BUCKETS.map(lambda content: field(9, content)),
    UNKNOWN,
)
SUMMARIES = _parts(
    st.builds(
        pb.SummaryDataPoint,
        count=UINT64,
        sum=DOUBLES,
        quantile_values=st.lists(
            st.builds(pb.SummaryDataPoint.ValueAtQuantile, quantile=DOUBLES, value=DOUBLES), max_size=3
        ),
        **COMMON,
    ),
    UNKNOWN,
)


def _data(number: int, points: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """One member of the oneof: points, temporality, monotony."""
    pieces = _parts(
        points.map(lambda content: field(1, content)),
        points.map(lambda content: field(1, content)),
        st.integers(0, 3).map(lambda temporality: b"\x10" + varint(temporality)),
        st.sampled_from([b"\x18\x00", b"\x18\x01"]),
        least=1,
        most=4,
    )
    return pieces.map(lambda content: field(number, content))


DATA = st.one_of(
    _data(number, points)
    for number, points in ((5, NUMBERS), (7, NUMBERS), (9, HISTOGRAMS), (10, EXPONENTIALS), (11, SUMMARIES))
)
METRICS = _parts(
    st.builds(
        pb.Metric,
        name=st.sampled_from(["http.server.duration", "cpu", "requests.total"]) | TEXT,
        unit=st.sampled_from(["", "s", "1", "By/s", "{x}"]) | TEXT,
        description=TEXT,
        metadata=ATTRIBUTES,
    ),
    DATA,
    DATA,
    UNKNOWN,
    least=1,
    most=5,
)
SCOPES = st.builds(
    lambda head, metrics: head + b"".join(field(2, metric) for metric in metrics),
    _parts(
        st.builds(
            pb.ScopeMetrics,
            scope=st.builds(InstrumentationScope, name=TEXT, version=TEXT, attributes=ATTRIBUTES),
            schema_url=TEXT,
        ),
        most=1,
    ),
    st.lists(METRICS, min_size=1, max_size=4),
)
RESOURCE_ATTRIBUTES = st.lists(
    st.builds(
        KeyValue,
        key=st.sampled_from(["service.name", "service.namespace", "service.instance.id", "job", "a", "a.b"]),
        value=st.builds(AnyValue, string_value=TEXT),
    ),
    max_size=4,
    unique_by=lambda pair: pair.key,
)
RESOURCES = st.builds(
    lambda head, scopes: head + b"".join(field(2, scope) for scope in scopes),
    _parts(
        st.builds(
            pb.ResourceMetrics,
            resource=st.builds(Resource, attributes=ATTRIBUTES | RESOURCE_ATTRIBUTES),
            schema_url=TEXT,
        ),
        most=1,
    ),
    st.lists(SCOPES, min_size=1, max_size=2),
)
REQUESTS = st.lists(RESOURCES, min_size=1, max_size=3).map(
    lambda groups: b"".join(field(1, group) for group in groups)
)


def sample(points: int = 2) -> ExportMetricsServiceRequest:
    """A request that uses every field of every kind, deterministic."""
    request = ExportMetricsServiceRequest()
    for service in ("web", "api"):
        group = request.resource_metrics.add(schema_url="https://r")
        group.resource.attributes.add(key="service.name").value.string_value = service
        scope = group.scope_metrics.add(schema_url="https://s")
        scope.scope.name, scope.scope.version = "lib", "1.2"
        scope.scope.attributes.add(key="short").value.bool_value = True
        gauge = scope.metrics.add(name="queue.size", unit="1", description="waiting")
        gauge.metadata.add(key="origin").value.string_value = "scrape"
        total = scope.metrics.add(name="requests")
        total.sum.is_monotonic, total.sum.aggregation_temporality = True, 2
        duration = scope.metrics.add(name="duration", unit="s")
        duration.histogram.aggregation_temporality = 1
        size = scope.metrics.add(name="size", unit="By")
        size.exponential_histogram.aggregation_temporality = 2
        latency = scope.metrics.add(name="latency", unit="ms")
        for index in range(points):
            _common(gauge.gauge.data_points.add(as_double=0.5 * index), index)
            _common(total.sum.data_points.add(as_int=2**60 + index), index)
            histogram = duration.histogram.data_points.add(count=6, sum=1.5, min=0.1, max=0.9)
            histogram.bucket_counts.extend([1, 2, 3])
            histogram.explicit_bounds.extend([0.25, 0.5])
            _common(histogram, index)
            exponential = size.exponential_histogram.data_points.add(count=9, scale=-2, zero_count=1)
            exponential.positive.offset = -3
            exponential.positive.bucket_counts.extend([300, 0, 2])
            exponential.negative.bucket_counts.append(1)
            exponential.zero_threshold = 0.001
            _common(exponential, index)
            summary = latency.summary.data_points.add(count=3, sum=7.5)
            summary.quantile_values.add(quantile=0.99, value=4.5)
            _common(summary, index)
    return request


def _common(point: Any, index: int) -> None:
    point.time_unix_nano = 1_768_392_000_000_000_000 + index * 10_000_000_001
    point.start_time_unix_nano = 1_768_392_000_000_000_000
    point.flags = 256
    point.attributes.add(key="route").value.string_value = f"/{index}"
    point.attributes.add(key="code").value.int_value = 200
    if hasattr(point, "exemplars"):
        exemplar = point.exemplars.add(
            time_unix_nano=5, as_int=3, trace_id=bytes(range(1, 17)), span_id=bytes(range(1, 9))
        )
        exemplar.filtered_attributes.add(key="user").value.string_value = "u"


def corpus_payloads(folder: Path) -> Iterator[bytes]:
    """The metrics requests of the corpora as protobuf."""
    yaml = pytest.importorskip("yaml")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    documents = [json.loads(path.read_text()) for path in sorted(folder.glob("proto/*.json"))]
    for path in sorted(folder.glob("contrib/*.y*ml")):
        raw = path.read_text()
        if "resourceMetrics" in raw:
            documents.append(yaml.load(raw, loader))
    for document in documents:
        try:
            request = json_format.ParseDict(
                _with_base64_ids(document), ExportMetricsServiceRequest(), ignore_unknown_fields=True
            )
        except json_format.ParseError:
            continue  # YAML turned values into types that OTLP JSON lacks: says nothing about the wire
        if payload := request.SerializeToString():
            yield payload


def _with_base64_ids(node: Any) -> Any:
    if isinstance(node, list):
        return [_with_base64_ids(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    return {
        key: b64encode(bytes.fromhex(value)).decode()
        if key in {"traceId", "spanId"} and isinstance(value, str)
        else _with_base64_ids(value)
        for key, value in node.items()
    }
