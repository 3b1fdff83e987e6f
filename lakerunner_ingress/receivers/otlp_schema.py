"""The shape of OTLP in JSON, as far as a receiver has to insist on it.

Names are lowerCamelCase, 64-bit integers are numbers or texts of digits, ids are hexadecimal, null stands for
a member left out, and unknown members are ignored: as the protocol's JSON mapping says.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Digits = Annotated[str, Meta(pattern=r"^-?[0-9]{1,20}$")]
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | Digits | None
Real = float | str | None
Hex = Annotated[str, Meta(pattern=r"^(?:[0-9a-fA-F]{2})*$")] | None
Enumeration = int | str | None
Text = str | None


class Message(Struct, rename="camel", gc=False):
    """Every field may be left out."""


class AnyValue(Message):
    string_value: Text = None
    bool_value: bool | None = None
    int_value: Integer = None
    double_value: Real = None
    bytes_value: Text = None
    array_value: ArrayValue | None = None
    kvlist_value: KeyValueList | None = None


class KeyValue(Message):
    key: Text = None
    value: AnyValue | None = None


Attributes = list[KeyValue] | None


class ArrayValue(Message):
    values: list[AnyValue] | None = None


class KeyValueList(Message):
    values: Attributes = None


class Resource(Message):
    attributes: Attributes = None


class Scope(Message):
    name: Text = None
    version: Text = None
    attributes: Attributes = None


class LogRecord(Message):
    time_unix_nano: Integer = None
    observed_time_unix_nano: Integer = None
    severity_number: Enumeration = None
    severity_text: Text = None
    body: AnyValue | None = None
    attributes: Attributes = None
    flags: Integer = None
    trace_id: Hex = None
    span_id: Hex = None
    event_name: Text = None


class ScopeLogs(Message):
    scope: Scope | None = None
    log_records: list[LogRecord] | None = None
    schema_url: Text = None


class ResourceLogs(Message):
    resource: Resource | None = None
    scope_logs: list[ScopeLogs] | None = None
    schema_url: Text = None


class Event(Message):
    time_unix_nano: Integer = None
    name: Text = None
    attributes: Attributes = None


class Link(Message):
    trace_id: Hex = None
    span_id: Hex = None
    trace_state: Text = None
    attributes: Attributes = None
    flags: Integer = None


class SpanStatus(Message):
    message: Text = None
    code: Enumeration = None


class Span(Message):
    trace_id: Hex = None
    span_id: Hex = None
    parent_span_id: Hex = None
    trace_state: Text = None
    flags: Integer = None
    name: Text = None
    kind: Enumeration = None
    start_time_unix_nano: Integer = None
    end_time_unix_nano: Integer = None
    attributes: Attributes = None
    events: list[Event] | None = None
    links: list[Link] | None = None
    status: SpanStatus | None = None


class ScopeSpans(Message):
    scope: Scope | None = None
    spans: list[Span] | None = None
    schema_url: Text = None


class ResourceSpans(Message):
    resource: Resource | None = None
    scope_spans: list[ScopeSpans] | None = None
    schema_url: Text = None


class Exemplar(Message):
    filtered_attributes: Attributes = None
    time_unix_nano: Integer = None
    as_double: Real = None
    as_int: Integer = None
    span_id: Hex = None
    trace_id: Hex = None


class Point(Message):
    attributes: Attributes = None
    start_time_unix_nano: Integer = None
    time_unix_nano: Integer = None
    exemplars: list[Exemplar] | None = None
    flags: Integer = None


class NumberPoint(Point):
    as_double: Real = None
    as_int: Integer = None


class HistogramPoint(Point):
    count: Integer = None
    sum: Real = None
    bucket_counts: list[Integer] | None = None
    explicit_bounds: list[Real] | None = None
    min: Real = None
    max: Real = None


class Buckets(Message):
    offset: Integer = None
    bucket_counts: list[Integer] | None = None


class ExponentialPoint(Point):
    count: Integer = None
    sum: Real = None
    scale: Integer = None
    zero_count: Integer = None
    zero_threshold: Real = None
    positive: Buckets | None = None
    negative: Buckets | None = None
    min: Real = None
    max: Real = None


class Quantile(Message):
    quantile: Real = None
    value: Real = None


class SummaryPoint(Point):
    count: Integer = None
    sum: Real = None
    quantile_values: list[Quantile] | None = None


class Numbers(Message):
    data_points: list[NumberPoint] | None = None
    aggregation_temporality: Enumeration = None
    is_monotonic: bool | None = None


class Histogram(Message):
    data_points: list[HistogramPoint] | None = None
    aggregation_temporality: Enumeration = None


class ExponentialHistogram(Message):
    data_points: list[ExponentialPoint] | None = None
    aggregation_temporality: Enumeration = None


class Summary(Message):
    data_points: list[SummaryPoint] | None = None


class Metric(Message):
    name: Text = None
    description: Text = None
    unit: Text = None
    gauge: Numbers | None = None
    sum: Numbers | None = None
    histogram: Histogram | None = None
    exponential_histogram: ExponentialHistogram | None = None
    summary: Summary | None = None
    metadata: Attributes = None


class ScopeMetrics(Message):
    scope: Scope | None = None
    metrics: list[Metric] | None = None
    schema_url: Text = None


class ResourceMetrics(Message):
    resource: Resource | None = None
    scope_metrics: list[ScopeMetrics] | None = None
    schema_url: Text = None
