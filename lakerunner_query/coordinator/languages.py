"""The registry: one row per language, and per question that has no text.

Adding a language means adding a package that parses and evaluates it, a module beside this one with its
functions for the engine, a unit that workers can run, and a row here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakerunner_query.coordinator import (
    lakeql_scans,
    logql_lines,
    logql_samples,
    names,
    promql,
    spans,
    stored_samples,
    traceql,
)
from lakerunner_query.coordinator.engine import Language
from lakerunner_query.coordinator.explain import (
    explain_log_lines,
    explain_log_samples,
    explain_promql,
    explain_segments,
    explain_trace_metrics,
)
from lakerunner_query.coordinator.locate import METRICS
from lakerunner_query.coordinator.logql_samples import LogSamplesPlan, LogSamplesRequest
from lakerunner_query.coordinator.merge import RowMerge, RowsAnswer, SampleResult
from lakerunner_query.coordinator.names import Listing, SeriesRequest, StreamsRequest
from lakerunner_query.coordinator.promql import PromQLPlan, PromQLRequest
from lakerunner_query.coordinator.stored_samples import SamplesRequest, StoredSamples
from lakerunner_query.coordinator.trace_cells import decode_cells
from lakerunner_query.plan.lakeql import LakePlan, LakeQLRequest
from lakerunner_query.plan.logql import LOGS, LogLinesRequest, ReadStreams
from lakerunner_query.plan.optimise import Optimised
from lakerunner_query.plan.promql import Reads
from lakerunner_query.plan.traceql import TRACES, TraceMetricsRequest, TracePlan, TraceSearchRequest
from lakerunner_query.protocol.answers import (
    ExemplarAnswer,
    MetadataAnswer,
    MetricAnswer,
    PatternsAnswer,
    SamplesAnswer,
    SeriesAnswer,
    StreamsAnswer,
    decode_exemplars,
    decode_metadata,
    decode_metric_answer,
    decode_patterns_answer,
    decode_samples_answer,
    decode_series_answer,
    decode_streams_answer,
)
from lakerunner_query.protocol.tables import decode_answer, decode_table_answer
from lakerunner_query.protocol.traces import (
    SpanTagsAnswer,
    TraceAnswer,
    TraceMetricsAnswer,
    TraceSearchAnswer,
    decode_span_tags,
    decode_trace,
    decode_trace_search,
)

PROMQL: Language[PromQLRequest, PromQLPlan, MetricAnswer, SampleResult] = Language(
    name="PromQL",
    dataset=METRICS,
    plan=promql.plan_promql,
    lookup=promql.look_up_samples,
    cut=promql.cut_promql,
    decode=decode_metric_answer,
    merge=promql.merge_promql,
    explain=explain_promql,
    advice=promql.SLOW,
    rewrite=promql.rewrite_samples,
    asked=promql.asked_samples,
)
LOG_LINES: Language[LogLinesRequest, Optimised, RowsAnswer, RowMerge] = Language(
    name="LogQL, lines",
    dataset=LOGS,
    plan=logql_lines.plan_log_lines,
    lookup=logql_lines.look_up_streams,
    cut=logql_lines.cut_log_lines,
    decode=decode_answer,
    merge=logql_lines.merge_log_lines,
    explain=explain_log_lines,
    advice=logql_lines.SLOW,
    is_planned_quickly=logql_lines.is_planned_quickly,
)
LOG_SAMPLES: Language[LogSamplesRequest, LogSamplesPlan, MetricAnswer, SampleResult] = Language(
    name="LogQL, samples",
    dataset=LOGS,
    plan=logql_samples.plan_log_samples,
    lookup=logql_samples.look_up_ranges,
    cut=logql_samples.cut_log_samples,
    decode=logql_samples.decode_log_samples,
    merge=logql_samples.merge_log_samples,
    explain=explain_log_samples,
    advice=logql_samples.SLOW,
    is_planned_quickly=logql_lines.is_planned_quickly,
    rewrite=logql_samples.rewrite_log_samples,
    asked=logql_samples.asked_log_samples,
)

SERIES: Language[SeriesRequest, tuple[Reads, ...], SeriesAnswer, Listing] = Language(
    name="series",
    dataset=METRICS,
    plan=names.plan_series,
    lookup=names.look_up_series,
    cut=names.cut_by_segments(names.series_unit("series")),
    decode=decode_series_answer,
    merge=names.merging(names.unite_series),
    explain=explain_segments,
    advice=names.SLOW_SERIES,
)
LABEL_NAMES = replace(
    SERIES,
    name="label names of series",
    lookup=names.look_up_label_names,
    cut=names.cut_by_segments(names.series_unit("names"), names.unless_indexed),
    merge=names.merging(names.unite_texts, index_has_names=True),
)
LABEL_VALUES = replace(
    SERIES,
    name="values of one label of series",
    cut=names.cut_by_segments(names.series_unit("values")),
    merge=names.merging(names.unite_texts),
)
METADATA: Language[SeriesRequest, tuple[Reads, ...], MetadataAnswer, Listing] = Language(
    name="metadata of metrics",
    dataset=METRICS,
    plan=names.plan_series,
    lookup=names.look_up_metrics,
    cut=names.cut_by_segments(names.metadata_unit, names.newest_with_metric),
    decode=decode_metadata,
    merge=names.merging(names.unite_metadata),
    explain=explain_segments,
    advice=names.SLOW_SERIES,
)
EXEMPLARS: Language[SeriesRequest, tuple[Reads, ...], ExemplarAnswer, Listing] = Language(
    name="exemplars",
    dataset=METRICS,
    plan=names.plan_exemplars,
    lookup=names.look_up_series,
    cut=names.cut_by_segments(names.exemplar_unit),
    decode=decode_exemplars,
    merge=names.merging(names.unite_exemplars),
    explain=explain_segments,
    advice=names.SLOW_SERIES,
)
STORED_SAMPLES: Language[SamplesRequest, tuple[Reads, ...], SamplesAnswer, StoredSamples] = Language(
    name="stored samples",
    dataset=METRICS,
    plan=stored_samples.plan_samples,
    lookup=stored_samples.look_up_samples,
    cut=stored_samples.cut_samples,
    decode=decode_samples_answer,
    merge=stored_samples.merge_samples,
    explain=explain_segments,
    advice=stored_samples.SLOW,
)

STREAMS: Language[StreamsRequest, tuple[ReadStreams, ...], StreamsAnswer, Listing] = Language(
    name="streams",
    dataset=LOGS,
    plan=names.plan_streams,
    lookup=names.look_up_streams,
    cut=names.cut_by_segments(names.streams_unit("series")),
    decode=decode_streams_answer,
    merge=names.merging(names.unite_series),
    explain=explain_segments,
    advice=names.SLOW_STREAMS,
)
STREAM_LABELS = replace(
    STREAMS,
    name="label names of streams",
    lookup=names.look_up_stream_labels,
    cut=names.cut_by_segments(names.streams_unit("names"), names.unless_indexed),
    merge=names.merging(names.unite_stream_labels, index_has_names=True),
)
STREAM_LABEL_VALUES = replace(
    STREAMS,
    name="values of one label of streams",
    cut=names.cut_by_segments(names.streams_unit("values")),
    merge=names.merging(names.unite_label_values),
)
STREAM_VALUES = replace(
    STREAM_LABEL_VALUES, name="values of all labels of streams", merge=names.merging(names.unite_values)
)
STREAM_SIZES = replace(
    STREAMS,
    name="sizes of streams",
    cut=names.cut_by_segments(names.streams_unit("sizes")),
    merge=names.merging(names.unite_sizes),
)
STREAM_VOLUMES = replace(
    STREAMS,
    name="volumes of streams",
    cut=names.cut_by_segments(names.streams_unit("volumes")),
    merge=names.merging(names.unite_volumes),
)
PATTERNS: Language[StreamsRequest, tuple[ReadStreams, ...], PatternsAnswer, Listing] = Language(
    name="patterns of lines",
    dataset=LOGS,
    plan=names.plan_streams,
    lookup=names.look_up_streams,
    cut=names.cut_by_segments(names.patterns_unit),
    decode=decode_patterns_answer,
    merge=names.merging(names.unite_patterns),
    explain=explain_segments,
    advice=names.SLOW_STREAMS,
)

LAKEQL: Language[LakeQLRequest, LakePlan, lakeql_scans.TableAnswer, lakeql_scans.Tables] = Language(
    name="LakeQL",
    dataset=LOGS,
    plan=lakeql_scans.plan_statement,
    lookup=lakeql_scans.look_up_tables,
    cut=lakeql_scans.cut_schemas,
    decode=decode_table_answer,
    merge=lakeql_scans.merge_tables,
    explain=lakeql_scans.explain_tables,
    advice=lakeql_scans.SLOW,
)

TRACE_SEARCH: Language[TraceSearchRequest, TracePlan, TraceSearchAnswer, traceql.FoundTraces] = Language(
    name="TraceQL",
    dataset=TRACES,
    plan=traceql.plan_search,
    lookup=traceql.look_up_spans,
    cut=traceql.cut_search,
    decode=decode_trace_search,
    merge=traceql.merge_search,
    explain=explain_segments,
    advice=traceql.SLOW,
)
TRACE_METRICS: Language[
    TraceMetricsRequest, TracePlan, TraceMetricsAnswer | MetricAnswer, traceql.TraceMetrics
] = Language(
    name="TraceQL, metrics",
    dataset=TRACES,
    plan=traceql.plan_metrics,
    lookup=traceql.look_up_spans,
    cut=traceql.cut_metrics,
    decode=decode_cells,
    merge=traceql.merge_metrics,
    explain=explain_trace_metrics,
    advice=traceql.SLOW,
    rewrite=traceql.rewrite_metrics,
    asked=traceql.asked_metrics,
)

TRACE: Language[spans.TraceRequest, None, TraceAnswer, spans.WholeTraces] = Language(
    name="trace by id",
    dataset=TRACES,
    plan=spans.plan_nothing,
    lookup=spans.look_up_range,
    cut=spans.cut_trace,
    decode=decode_trace,
    merge=spans.merge_trace,
    explain=explain_segments,
    advice=spans.SLOW,
)
SPAN_TAGS: Language[spans.SpanTagsRequest, None, SpanTagsAnswer, spans.SpanTags] = Language(
    name="attributes of spans",
    dataset=TRACES,
    plan=spans.plan_nothing,
    lookup=spans.look_up_range,
    cut=spans.cut_tags,
    decode=decode_span_tags,
    merge=spans.merge_tags,
    explain=explain_segments,
    advice=traceql.SLOW,
)

LANGUAGES: tuple[Language[Any, Any, Any, Any], ...] = (
    PROMQL, LOG_LINES, LOG_SAMPLES, SERIES, LABEL_NAMES, LABEL_VALUES, METADATA, EXEMPLARS, STORED_SAMPLES,
    STREAMS, STREAM_LABELS, STREAM_LABEL_VALUES, STREAM_VALUES, STREAM_SIZES, STREAM_VOLUMES, PATTERNS,
    LAKEQL, TRACE_SEARCH, TRACE_METRICS, TRACE, SPAN_TAGS,
)  # fmt: skip
