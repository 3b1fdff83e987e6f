"""Hypothesis strategies for OTLP logs, a sample with every field, and where the corpora are."""

from __future__ import annotations

from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
    KeyValueList,
)
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12)
KEYS = st.sampled_from(["a", "a.b", "A_b", "service.name", "name", "http.status_code", ""]) | TEXT
DOUBLES = st.floats(width=64)
INT64 = st.integers(-(2**63), 2**63 - 1)
UINT32 = st.integers(0, 2**32 - 1)

SCALARS = st.one_of(
    st.builds(AnyValue),
    st.builds(AnyValue, string_value=TEXT),
    st.builds(AnyValue, bool_value=st.booleans()),
    st.builds(AnyValue, int_value=INT64),
    st.builds(AnyValue, double_value=DOUBLES),
    st.builds(AnyValue, bytes_value=st.binary(max_size=9)),
)


def _nested(children: st.SearchStrategy[AnyValue]) -> st.SearchStrategy[AnyValue]:
    pairs = st.builds(KeyValue, key=TEXT, value=children)
    arrays = st.builds(ArrayValue, values=st.lists(children, max_size=3))
    maps = st.builds(KeyValueList, values=st.lists(pairs, max_size=3))
    return st.builds(AnyValue, array_value=arrays) | st.builds(AnyValue, kvlist_value=maps)


VALUES = st.recursive(SCALARS, _nested, max_leaves=5)
ATTRIBUTES = st.lists(
    st.builds(KeyValue, key=KEYS, value=VALUES), max_size=5, unique_by=lambda pair: pair.key
)
TIMES = st.sampled_from([0, 1, 1_768_392_000_000_000_000]) | st.integers(0, 2**64 - 1)

RECORDS = st.builds(
    LogRecord,
    time_unix_nano=TIMES,
    observed_time_unix_nano=TIMES,
    severity_number=st.integers(0, 24),
    severity_text=st.sampled_from(["", "INFO", "warning", "Audit"]),
    body=VALUES,
    attributes=ATTRIBUTES,
    dropped_attributes_count=UINT32,
    flags=UINT32,
    trace_id=st.binary(max_size=17) | st.binary(min_size=16, max_size=16),
    span_id=st.binary(max_size=9) | st.binary(min_size=8, max_size=8),
    event_name=TEXT,
)
SCOPES = st.builds(
    ScopeLogs,
    scope=st.builds(
        InstrumentationScope, name=TEXT, version=TEXT, attributes=ATTRIBUTES, dropped_attributes_count=UINT32
    ),
    log_records=st.lists(RECORDS, max_size=4),
    schema_url=TEXT,
)
RESOURCES = st.builds(
    ResourceLogs,
    resource=st.builds(Resource, attributes=ATTRIBUTES, dropped_attributes_count=UINT32),
    scope_logs=st.lists(SCOPES, max_size=3),
    schema_url=TEXT,
)
REQUESTS = st.builds(ExportLogsServiceRequest, resource_logs=st.lists(RESOURCES, max_size=3))


def sample(records: int = 12) -> ExportLogsServiceRequest:
    """A request that uses every field once, deterministic."""
    request = ExportLogsServiceRequest()
    for service in ("web", "api"):
        group = request.resource_logs.add(schema_url="https://r")
        group.resource.attributes.add(key="service.name").value.string_value = service
        group.resource.attributes.add(key="host.cpus").value.int_value = 8
        group.resource.dropped_attributes_count = 1
        scope = group.scope_logs.add(schema_url="https://s")
        scope.scope.name, scope.scope.version = "lib", "1.2"
        scope.scope.attributes.add(key="name").value.string_value = "collides with the scope's name"
        for index in range(records // 2):
            scope.log_records.append(_record(index))
    return request


def _record(index: int) -> LogRecord:
    record = LogRecord(
        time_unix_nano=1_768_392_000_000_000_000 + index * 60_000_000_000,
        observed_time_unix_nano=1_768_392_000_000_000_005,
        severity_number=9 if index % 2 else 17,
        severity_text="Information" if index % 2 else "err",
        flags=1,
        trace_id=bytes(range(index + 1, index + 17)),
        span_id=bytes(range(index + 1, index + 9)),
        event_name="user.login",
        dropped_attributes_count=2,
    )
    record.body.string_value = f"user {index} logged in from 10.0.0.{index}"
    record.attributes.add(key="http.status_code").value.int_value = 200 + index
    record.attributes.add(key="duration").value.double_value = 0.5 * index
    record.attributes.add(key="ok").value.bool_value = True
    record.attributes.add(key="blob").value.bytes_value = b"\x00\xff"
    tags = record.attributes.add(key="tags").value.array_value
    tags.values.add().string_value = "a"
    tags.values.add().int_value = index
    nested = record.attributes.add(key="ctx").value.kvlist_value
    nested.values.add(key="k").value.double_value = 1.0
    return record
