"""Tempo's messages: a trace by id, whose trace is OTLP's `TracesData`, and what its streaming API speaks."""

from __future__ import annotations

from resources.proto.build import build

_TRACE = """
Trace
  1 resourceSpans bytes*
TraceByIDMetrics
  1 inspectedBytes uint64
TraceByIDResponse
  1 trace Trace
  2 metrics TraceByIDMetrics
  3 status int32
  4 message string
"""
_VALUES = """
KeyValue
  1 key string
  2 value AnyValue
AnyValue
  1 string_value string?
  2 bool_value bool?
  3 int_value int64?
  4 double_value double?
  5 array_value ArrayValue
ArrayValue
  1 values AnyValue*
"""
_SEARCH = """
SearchRequest
  1 Tags map:string
  2 MinDurationMs uint32
  3 MaxDurationMs uint32
  4 Limit uint32
  5 start uint32
  6 end uint32
  8 Query string
  9 SpansPerSpanSet uint32
SearchResponse
  1 traces TraceSearchMetadata*
  2 metrics SearchMetrics
TraceSearchMetadata
  1 traceID string
  2 rootServiceName string
  3 rootTraceName string
  4 startTimeUnixNano uint64
  5 durationMs uint32
  6 spanSet SpanSet
  7 spanSets SpanSet*
  8 serviceStats map:ServiceStats
ServiceStats
  1 spanCount uint32
  2 errorCount uint32
SpanSet
  1 spans Span*
  2 matched uint32
  3 attributes KeyValue*
Span
  1 spanID string
  2 name string
  3 startTimeUnixNano uint64
  4 durationNanos uint64
  5 attributes KeyValue*
SearchMetrics
  1 inspectedTraces uint32
  2 inspectedBytes uint64
  3 totalBlocks uint32
  4 completedJobs uint32
  5 totalJobs uint32
  6 totalBlockBytes uint64
  7 inspectedSpans uint64
"""
_TAGS = """
MetadataMetrics
  1 inspectedBytes uint64
  2 totalJobs uint32
  3 completedJobs uint32
  4 totalBlocks uint32
  5 totalBlockBytes uint64
SearchTagsRequest
  1 scope string
  2 query string
  3 start uint32
  4 end uint32
  5 maxTagsPerScope uint32
SearchTagsResponse
  1 tagNames string*
  2 metrics MetadataMetrics
SearchTagsV2Response
  1 scopes SearchTagsV2Scope*
  2 metrics MetadataMetrics
SearchTagsV2Scope
  1 name string
  2 tags string*
SearchTagValuesRequest
  1 tagName string
  2 query string
  4 start uint32
  5 end uint32
  6 maxTagValues uint32
SearchTagValuesResponse
  1 tagValues string*
  2 metrics MetadataMetrics
SearchTagValuesV2Response
  1 tagValues TagValue*
  2 metrics MetadataMetrics
TagValue
  1 type string
  2 value string
"""
_METRICS = """
QueryRangeRequest
  1 query string
  2 start uint64
  3 end uint64
  4 step uint64
  16 exemplars uint32
QueryRangeResponse
  1 series TimeSeries*
  2 metrics SearchMetrics
  3 status int32
  4 message string
TimeSeries
  1 labels KeyValue*
  2 samples Sample*
  4 exemplars Exemplar*
Sample
  1 value double
  2 timestamp_ms int64
Exemplar
  1 labels KeyValue*
  2 value double
  3 timestamp_ms int64
QueryInstantRequest
  1 query string
  2 start uint64
  3 end uint64
QueryInstantResponse
  1 series InstantSeries*
  2 metrics SearchMetrics
  3 status int32
  4 message string
InstantSeries
  1 labels KeyValue*
  2 value double
"""

TraceByIDResponse = build("tempopb", _TRACE)["TraceByIDResponse"]
STREAMING = build("tempopb", _VALUES + _SEARCH + _TAGS + _METRICS)
"""Messages of the streaming API by name; values of attributes have the numbers of OTLP's."""
