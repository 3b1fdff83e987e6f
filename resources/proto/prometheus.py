"""Prometheus' messages: remote write 1.0 and 2.0, remote read, and families of metrics in exposition.

Enumerations are plain integers here: a value that is unknown to us must survive.
"""

from __future__ import annotations

from resources.proto.build import build

_HISTOGRAM = """
BucketSpan
  1 offset sint32
  2 length uint32
Histogram
  1 count_int uint64?
  2 count_float double?
  3 sum double
  4 schema sint32
  5 zero_threshold double
  6 zero_count_int uint64?
  7 zero_count_float double?
  8 negative_spans BucketSpan*
  9 negative_deltas sint64*
  10 negative_counts double*
  11 positive_spans BucketSpan*
  12 positive_deltas sint64*
  13 positive_counts double*
  14 reset_hint int32
  15 timestamp int64
  16 custom_values double*
"""

_V1 = build(
    "prometheus",
    _HISTOGRAM
    + """
WriteRequest
  1 timeseries TimeSeries*
  3 metadata MetricMetadata*
ReadRequest
  1 queries Query*
  2 accepted_response_types int32*
ReadResponse
  1 results QueryResult*
Query
  1 start_timestamp_ms int64
  2 end_timestamp_ms int64
  3 matchers LabelMatcher*
QueryResult
  1 timeseries TimeSeries*
LabelMatcher
  1 type int32
  2 name string
  3 value string
ChunkedReadResponse
  1 chunked_series ChunkedSeries*
  2 query_index int64
ChunkedSeries
  1 labels Label*
  2 chunks Chunk*
Chunk
  1 min_time_ms int64
  2 max_time_ms int64
  3 type int32
  4 data bytes
TimeSeries
  1 labels Label*
  2 samples Sample*
  3 exemplars Exemplar*
  4 histograms Histogram*
Label
  1 name string
  2 value string
Sample
  1 value double
  2 timestamp int64
Exemplar
  1 labels Label*
  2 value double
  3 timestamp int64
MetricMetadata
  1 type int32
  2 metric_family_name string
  4 help string
  5 unit string
""",
)

_V2 = build(
    "io.prometheus.write.v2",
    _HISTOGRAM
    + """
Request
  4 symbols string*
  5 timeseries TimeSeries*
TimeSeries
  1 labels_refs uint32*
  2 samples Sample*
  3 histograms Histogram*
  4 exemplars Exemplar*
  5 metadata Metadata
Sample
  1 value double
  2 timestamp int64
Exemplar
  1 labels_refs uint32*
  2 value double
  3 timestamp int64
Metadata
  1 type int32
  3 help_ref uint32
  4 unit_ref uint32
""",
)

_CLIENT = build(
    "io.prometheus.client",
    """
MetricFamily
  1 name string?
  3 type int32?
  4 metric Metric*
Metric
  1 label LabelPair*
  5 untyped Untyped
  6 timestamp_ms int64?
  7 histogram Histogram
LabelPair
  1 name string?
  2 value string?
Untyped
  1 value double?
Histogram
  2 sample_sum double?
  3 bucket Bucket*
  4 sample_count_float double?
  5 schema sint32?
  6 zero_threshold double?
  8 zero_count_float double?
  9 negative_span BucketSpan*
  11 negative_count double*
  12 positive_span BucketSpan*
  14 positive_count double*
Bucket
  2 upper_bound double?
  4 cumulative_count_float double?
BucketSpan
  1 offset sint32?
  2 length uint32?
""",
)

WriteRequest = _V1["WriteRequest"]
ReadRequest = _V1["ReadRequest"]
ReadResponse = _V1["ReadResponse"]
ChunkedReadResponse = _V1["ChunkedReadResponse"]
Histogram = _V1["Histogram"]
MetricFamily = _CLIENT["MetricFamily"]
RequestV2 = _V2["Request"]
