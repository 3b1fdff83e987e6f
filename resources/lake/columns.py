"""Every column of every segment: name, type, who fills it, default and meaning.

`COLUMNS` is the table; writers, rollups and the readers of both take names, types and order from it. A column
that means something else in another kind of segment has a row for each. Attributes of producers
(`resource_*`, `scope_*`, `attr_*`) are no columns of the system and are not in it.

>>> column("log_level", Segments.LOGS).filled_by.value
'decoder'
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX = "chq_"
"""Prefix of system columns; a producer's attribute never has it."""
HIST_PREFIX, SUMMARY_PREFIX = "chq_hist_", "chq_summary_"

# A constant is its column's name in capitals, so that a search for either finds every use.
CHQ_BODY_KIND = "chq_body_kind"
CHQ_DROPPED_ATTRIBUTES = "chq_dropped_attributes"
CHQ_DROPPED_EVENTS = "chq_dropped_events"
CHQ_DROPPED_LINKS = "chq_dropped_links"
CHQ_EXEMPLARS = "chq_exemplars"
CHQ_FINGERPRINT = "chq_fingerprint"
CHQ_FLAGS = "chq_flags"
CHQ_HIST_BOUNDS = "chq_hist_bounds"
CHQ_HIST_COUNT = "chq_hist_count"
CHQ_HIST_COUNTS = "chq_hist_counts"
CHQ_HIST_COUNT_FLOAT = "chq_hist_count_float"
CHQ_HIST_FIRST = "chq_hist_first"
CHQ_HIST_LAST = "chq_hist_last"
CHQ_HIST_MAX = "chq_hist_max"
CHQ_HIST_MIN = "chq_hist_min"
CHQ_HIST_MIXED = "chq_hist_mixed"
CHQ_HIST_NEGATIVE_COUNTS = "chq_hist_negative_counts"
CHQ_HIST_NEGATIVE_COUNTS_FLOAT = "chq_hist_negative_counts_float"
CHQ_HIST_NEGATIVE_OFFSET = "chq_hist_negative_offset"
CHQ_HIST_POSITIVE_COUNTS = "chq_hist_positive_counts"
CHQ_HIST_POSITIVE_COUNTS_FLOAT = "chq_hist_positive_counts_float"
CHQ_HIST_POSITIVE_OFFSET = "chq_hist_positive_offset"
CHQ_HIST_RESETS = "chq_hist_resets"
CHQ_HIST_RESET_HINT = "chq_hist_reset_hint"
CHQ_HIST_SCHEMA = "chq_hist_schema"
CHQ_HIST_SUM = "chq_hist_sum"
CHQ_HIST_ZERO_COUNT = "chq_hist_zero_count"
CHQ_HIST_ZERO_COUNT_FLOAT = "chq_hist_zero_count_float"
CHQ_HIST_ZERO_THRESHOLD = "chq_hist_zero_threshold"
CHQ_METRIC_TYPE = "chq_metric_type"
CHQ_OBJECT = "chq_object"
CHQ_OBSERVED_TSNS = "chq_observed_tsns"
CHQ_POSITION = "chq_position"
CHQ_QUARANTINE_REASON = "chq_quarantine_reason"
CHQ_RESOURCE_DROPPED_ATTRIBUTES = "chq_resource_dropped_attributes"
CHQ_ROLLUP_BASE = "chq_rollup_base"
CHQ_ROLLUP_CHANGES = "chq_rollup_changes"
CHQ_ROLLUP_COUNT = "chq_rollup_count"
CHQ_ROLLUP_EXPONENT = "chq_rollup_exponent"
CHQ_ROLLUP_FIRST = "chq_rollup_first"
CHQ_ROLLUP_FIRST_SCALED = "chq_rollup_first_scaled"
CHQ_ROLLUP_FIRST_TS = "chq_rollup_first_ts"
CHQ_ROLLUP_LAST = "chq_rollup_last"
CHQ_ROLLUP_LAST_SCALED = "chq_rollup_last_scaled"
CHQ_ROLLUP_LAST_STALE = "chq_rollup_last_stale"
CHQ_ROLLUP_LAST_TS = "chq_rollup_last_ts"
CHQ_ROLLUP_M2 = "chq_rollup_m2"
CHQ_ROLLUP_M2_SCALED = "chq_rollup_m2_scaled"
CHQ_ROLLUP_MAX = "chq_rollup_max"
CHQ_ROLLUP_MAX_SCALED = "chq_rollup_max_scaled"
CHQ_ROLLUP_MIN = "chq_rollup_min"
CHQ_ROLLUP_MIN_SCALED = "chq_rollup_min_scaled"
CHQ_ROLLUP_PREV = "chq_rollup_prev"
CHQ_ROLLUP_PREV_SCALED = "chq_rollup_prev_scaled"
CHQ_ROLLUP_PREV_TS = "chq_rollup_prev_ts"
CHQ_ROLLUP_RESETS = "chq_rollup_resets"
CHQ_ROLLUP_RESET_SUM = "chq_rollup_reset_sum"
CHQ_ROLLUP_RESET_SUM_SCALED = "chq_rollup_reset_sum_scaled"
CHQ_ROLLUP_SUM = "chq_rollup_sum"
CHQ_ROLLUP_SUM_C = "chq_rollup_sum_c"
CHQ_ROLLUP_SUM_SCALED = "chq_rollup_sum_scaled"
CHQ_SCOPE_DROPPED_ATTRIBUTES = "chq_scope_dropped_attributes"
CHQ_SEGMENT = "chq_segment"
CHQ_SERIES = "chq_series"
CHQ_SKETCH = "chq_sketch"
CHQ_START_TSNS = "chq_start_tsns"
CHQ_STREAM = "chq_stream"
CHQ_STREAM_ID = "chq_stream_id"
CHQ_SUMMARY_QUANTILES = "chq_summary_quantiles"
CHQ_TID = "chq_tid"
CHQ_TIMESTAMP = "chq_timestamp"
CHQ_TSNS = "chq_tsns"
CHQ_VALUE = "chq_value"
CHQ_VALUE_BASE = "chq_value_base"
CHQ_VALUE_DOUBLE = "chq_value_double"
CHQ_VALUE_EXPONENT = "chq_value_exponent"
CHQ_VALUE_INT = "chq_value_int"
CHQ_VALUE_KIND = "chq_value_kind"
CHQ_VALUE_REST = "chq_value_rest"
CHQ_VALUE_SCALED = "chq_value_scaled"
CHQ_VALUE_SQL = "chq_value_sql"
FIELD_SCOPE, FIELD_KEY, FIELD_KIND = "chq_scope", "chq_key", "chq_kind"
"""Metadata of an attribute's field: its scope, its original key, its kind of value."""


class Segments(Enum):
    """The kinds of segments, by what a row is."""

    LOGS = "logs"
    METRICS = "metrics"
    TRACES = "traces"
    ROLLUPS = "rollups"


class Filler(Enum):
    """The step of the pipeline that fills a column."""

    DECODER = "decoder"
    COOKING = "cooking"
    SEGMENT_WRITER = "segment writer"
    ROLLUP = "rollup"
    COMPACTION = "compaction"
    """Attributes beyond the column limit move to the overflow maps, in writers too."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the system in the kinds of segments where it has one meaning."""

    name: str
    kind: str
    """Key of its type in `arrow_types`."""
    in_: frozenset[Segments]
    filled_by: Filler
    meaning: str
    required: bool = False
    """Presence in every file, without nulls."""
    default: str | float | bool | None = None
    """Value of a null, or of all rows if the column is absent; a text names the column that has the value."""
    is_stored: bool = True
    """False for columns of decoded tables only, which the writer turns into something else."""

    @property
    def type(self) -> pa.DataType:
        """Return the type in the file; decoded tables may have text as a dictionary."""
        return arrow_types()[self.kind]


_TEXT, _INT, _SMALL, _DOUBLE, _FLAG, _BYTES, _MAP = "text", "int64", "int32", "double", "bool", "bytes", "map"
_ID_16, _ID_8, _INTS, _DOUBLES = "16 bytes", "8 bytes", "int64s", "doubles"
HISTOGRAM, _EXEMPLARS, _QUANTILES = "histogram", "exemplars", "quantiles"
_SPAN_EVENTS, _SPAN_LINKS = "span events", "span links"


@cache
def arrow_types() -> dict[str, pa.DataType]:
    """Return the Arrow type of each kind of column; only here pyarrow is loaded.

    One histogram of a rollup row: explicit buckets have bounds and counts, and no schema; custom buckets of
    native histograms have the schema -53, bounds, and counts on the positive side. Offsets mean the same as
    in samples.
    """
    import pyarrow as pa

    text, number, small, double = pa.string(), pa.int64(), pa.int32(), pa.float64()
    trace, span, texts, doubles = (
        pa.binary(16),
        pa.binary(8),
        pa.map_(pa.string(), pa.string()),
        pa.list_(double),
    )
    attributes = pa.list_(pa.struct([("key", text), ("kind", text), ("value", text)]))
    exemplar = {
        "tsns": number, "value": double, "value_int": number, "trace_id": trace, "span_id": span,
        "attributes": texts,
    }  # fmt: skip
    histogram = {
        "schema": small, "bounds": doubles, "counts": doubles, "zero_threshold": double, "zero_count": double,
        "positive_offset": small, "positive_counts": doubles, "negative_offset": small,
        "negative_counts": doubles, "count": double, "sum": double,
    }  # fmt: skip
    event = {"tsns": number, "name": text, "dropped": number, "attributes": attributes}
    link = {
        "trace_id": trace, "span_id": span, "trace_state": text, "flags": number, "dropped": number,
        "attributes": attributes,
    }  # fmt: skip
    return {
        _TEXT: text,
        _INT: number,
        _SMALL: small,
        _DOUBLE: double,
        _FLAG: pa.bool_(),
        _BYTES: pa.binary(),
        _MAP: texts,
        _ID_16: trace,
        _ID_8: span,
        _INTS: pa.list_(number),
        _DOUBLES: doubles,
        HISTOGRAM: pa.struct(list(histogram.items())),
        _EXEMPLARS: pa.list_(pa.struct(list(exemplar.items()))),
        _QUANTILES: pa.list_(pa.struct([("quantile", double), ("value", double)])),
        _SPAN_EVENTS: pa.list_(pa.struct(list(event.items()))),
        _SPAN_LINKS: pa.list_(pa.struct(list(link.items()))),
    }


_LOGS, _METRICS, _TRACES, _ROLLUPS = (frozenset({each}) for each in Segments)
_SAMPLED = _METRICS | _ROLLUPS
_SENT = _LOGS | _METRICS | _TRACES
_ALL = _SENT | _ROLLUPS
_DECODER, _COOKING, _WRITER, _ROLLUP, _COMPACTION = Filler

# fmt: off
COLUMNS: tuple[Column, ...] = (
    # metrics and what several kinds have, in the order of metric segments
    Column("metric_name", _TEXT, _SAMPLED, _DECODER, "the label `__name__`", required=True),
    Column(CHQ_TID, _INT, _SAMPLED, _DECODER, "hash of the canonical label set", required=True),
    Column(CHQ_TIMESTAMP, _INT, _METRICS, _DECODER, "event time, ms", required=True),
    Column(CHQ_TIMESTAMP, _INT, _ROLLUPS, _ROLLUP, "end of the bucket, ms, inclusive", required=True),
    Column(CHQ_METRIC_TYPE, _TEXT, _SAMPLED, _DECODER, "`gauge`, `sum`, `histogram`, …", required=True),
    Column(CHQ_OBJECT, _INT, _SENT, _DECODER, "row id: number of the raw object", required=True),
    Column(CHQ_POSITION, _INT, _SENT, _DECODER, "row id: position in the raw object", required=True),
    Column(CHQ_SERIES, _TEXT, _METRICS, _DECODER,
           "label set; the series table", required=True, is_stored=False),
    Column(CHQ_VALUE, _DOUBLE, _METRICS, _DECODER, "value; four columns in the file", is_stored=False),
    Column(CHQ_TSNS, _INT, _LOGS, _DECODER, "event time, else observed, else arrival, ns", required=True),
    Column(CHQ_TSNS, _INT, _METRICS, _DECODER, "event time, ns, where it is not ms times 1,000,000"),
    Column(CHQ_VALUE_INT, _INT, _METRICS, _DECODER, "integer as sent, where its double differs"),
    Column(CHQ_VALUE_KIND, _TEXT, _METRICS, _DECODER, "`int` or `double`"),
    Column(CHQ_VALUE_REST, _DOUBLE, _METRICS, _DECODER, "what rounding took from a derived sum"),
    Column("metric_temporality", _TEXT, _SAMPLED, _DECODER, "`delta`, `cumulative`; of rollups also `mixed`"),
    Column("metric_is_monotonic", _FLAG, _SAMPLED, _DECODER, "as sent"),
    Column(CHQ_START_TSNS, _INT, _METRICS, _DECODER, "start of the interval of a point, as sent"),
    Column("metric_unit", _TEXT, _SAMPLED, _DECODER, "as sent"),
    Column("metric_description", _TEXT, _SAMPLED, _DECODER, "as sent"),
    Column("metric_original_name", _TEXT, _SAMPLED, _DECODER, "name as sent, where it was translated"),
    Column("metric_metadata", _MAP, _SAMPLED, _DECODER, "as sent"),
    Column(CHQ_FLAGS, _INT, _METRICS, _DECODER, "flags of the point, as sent"),
    Column(CHQ_HIST_COUNT, _INT, _METRICS, _DECODER, "count of a histogram or summary"),
    Column(CHQ_HIST_COUNT_FLOAT, _DOUBLE, _METRICS, _DECODER, "count of a float histogram"),
    Column(CHQ_HIST_SUM, _DOUBLE, _METRICS, _DECODER, "sum of a histogram or summary"),
    Column(CHQ_HIST_MIN, _DOUBLE, _METRICS, _DECODER, "least observation"),
    Column(CHQ_HIST_MAX, _DOUBLE, _METRICS, _DECODER, "greatest observation"),
    Column(CHQ_HIST_BOUNDS, _DOUBLES, _METRICS, _DECODER, "bounds of explicit or custom buckets"),
    Column(CHQ_HIST_COUNTS, _INTS, _METRICS, _DECODER, "counts of explicit buckets, overflow included"),
    Column(CHQ_HIST_SCHEMA, _SMALL, _METRICS, _DECODER, "schema of an exponential or native histogram"),
    Column(CHQ_HIST_ZERO_COUNT, _INT, _METRICS, _DECODER, "count of the zero bucket"),
    Column(CHQ_HIST_ZERO_COUNT_FLOAT, _DOUBLE, _METRICS, _DECODER, "the same of a float histogram"),
    Column(CHQ_HIST_ZERO_THRESHOLD, _DOUBLE, _METRICS, _DECODER, "width of the zero bucket"),
    Column(CHQ_HIST_POSITIVE_OFFSET, _SMALL, _METRICS, _DECODER, "number of the first bucket above zero"),
    Column(CHQ_HIST_POSITIVE_COUNTS, _INTS, _METRICS, _DECODER, "counts from the offset on"),
    Column(CHQ_HIST_POSITIVE_COUNTS_FLOAT, _DOUBLES, _METRICS, _DECODER, "the same of a float histogram"),
    Column(CHQ_HIST_NEGATIVE_OFFSET, _SMALL, _METRICS, _DECODER, "number of the first bucket below zero"),
    Column(CHQ_HIST_NEGATIVE_COUNTS, _INTS, _METRICS, _DECODER, "counts from the offset on"),
    Column(CHQ_HIST_NEGATIVE_COUNTS_FLOAT, _DOUBLES, _METRICS, _DECODER, "the same of a float histogram"),
    Column(CHQ_HIST_RESET_HINT, _SMALL, _METRICS, _DECODER, "reset hint of a native histogram, as sent"),
    Column(CHQ_SUMMARY_QUANTILES, _QUANTILES, _METRICS, _DECODER, "quantiles of a summary"),
    Column(CHQ_EXEMPLARS, _EXEMPLARS, _METRICS, _DECODER, "exemplars of the point"),
    Column("scope_name", _TEXT, _ALL, _DECODER, "as sent"),
    Column("scope_version", _TEXT, _ALL, _DECODER, "as sent"),
    Column("scope_schema_url", _TEXT, _ALL, _DECODER, "as sent"),
    Column("resource_schema_url", _TEXT, _ALL, _DECODER, "as sent"),
    Column(CHQ_RESOURCE_DROPPED_ATTRIBUTES, _INT, _SENT, _DECODER, "count as sent"),
    Column(CHQ_SCOPE_DROPPED_ATTRIBUTES, _INT, _SENT, _DECODER, "count as sent"),
    Column(CHQ_QUARANTINE_REASON, _TEXT, _SENT, _COOKING, "reason of quarantine; in no other dataset"),
    Column("resource_overflow", _MAP, _ALL, _COMPACTION, "attributes of the resource without a column"),
    Column("scope_overflow", _MAP, _ALL, _COMPACTION, "attributes of the scope without a column"),
    Column("attr_overflow", _MAP, _ALL, _COMPACTION, "attributes of the record without a column"),
    # values of samples as they are stored
    Column(CHQ_VALUE_SCALED, _INT, _METRICS, _WRITER, "value * 10^exponent - base, where that is lossless"),
    Column(CHQ_VALUE_BASE, _INT, _METRICS, _WRITER, "base of the series in the file", required=True),
    Column(CHQ_VALUE_EXPONENT, _SMALL, _METRICS, _WRITER,
           "exponent of the series in the file", required=True),
    Column(CHQ_VALUE_DOUBLE, _DOUBLE, _METRICS, _WRITER, "value that is not scaled"),
    # logs
    Column(CHQ_OBSERVED_TSNS, _INT, _LOGS, _DECODER, "observed time, ns, as sent"),
    Column("log_level", _TEXT, _LOGS, _DECODER, "level, normalised: `TRACE`, `DEBUG`, `INFO`, …"),
    Column("log_severity_number", _SMALL, _LOGS, _DECODER, "as sent", required=True),
    Column("log_severity_text", _TEXT, _LOGS, _DECODER, "as sent"),
    Column("log_message", _TEXT, _LOGS, _DECODER, "body; a structured one as JSON", required=True),
    Column(CHQ_BODY_KIND, _TEXT, _LOGS, _DECODER, "OTLP kind of the body", required=True),
    Column("detected_level", _TEXT, _LOGS, _DECODER, "Loki's level: as sent, else by words", required=True),
    Column(CHQ_FINGERPRINT, _INT, _LOGS, _DECODER, "hash of the line's template", required=True),
    Column("trace_id", _ID_16, _LOGS, _DECODER, "trace of the record"),
    Column("span_id", _ID_8, _LOGS, _DECODER, "span of the record"),
    Column("log_flags", _INT, _LOGS, _DECODER, "as sent", required=True),
    Column("event_name", _TEXT, _LOGS, _DECODER, "as sent"),
    Column(CHQ_DROPPED_ATTRIBUTES, _INT, _LOGS | _TRACES, _DECODER, "count as sent", required=True),
    Column(CHQ_STREAM_ID, _INT, _LOGS | _TRACES, _DECODER, "hash of the stream's labels", required=True),
    Column(CHQ_STREAM, _TEXT, _LOGS | _TRACES, _DECODER,
           "labels; the stream table", required=True, is_stored=False),
    # spans
    Column("span_trace_id", _ID_16, _TRACES, _DECODER, "trace of the span"),
    Column("span_id", _ID_8, _TRACES, _DECODER, "id of the span"),
    Column("span_parent_span_id", _ID_8, _TRACES, _DECODER, "id of the parent"),
    Column("span_name", _TEXT, _TRACES, _DECODER, "as sent"),
    Column("span_kind", _TEXT, _TRACES, _DECODER, "`unspecified`, `internal`, `server`, …"),
    Column("span_status_code", _TEXT, _TRACES, _DECODER, "`unset`, `ok`, `error`"),
    Column("span_status_message", _TEXT, _TRACES, _DECODER, "as sent"),
    Column("span_start_ns", _INT, _TRACES, _DECODER, "start, else end, else arrival, ns", required=True),
    Column("span_end_ns", _INT, _TRACES, _DECODER, "end, ns, as sent"),
    Column("span_duration_ns", _INT, _TRACES, _DECODER, "end minus start, where both were sent"),
    Column("span_flags", _INT, _TRACES, _DECODER, "as sent"),
    Column("span_events", _SPAN_EVENTS, _TRACES, _DECODER, "events of the span"),
    Column("span_links", _SPAN_LINKS, _TRACES, _DECODER, "links of the span"),
    Column("span_trace_state", _TEXT, _TRACES, _DECODER, "as sent"),
    Column(CHQ_DROPPED_EVENTS, _INT, _TRACES, _DECODER, "count as sent"),
    Column(CHQ_DROPPED_LINKS, _INT, _TRACES, _DECODER, "count as sent"),
    Column("service_name", _TEXT, _TRACES, _DECODER,
           "`service.name` of the resource, else `unknown_service`"),
    # rollups: what a row says of its bucket, in the order of the file
    Column(CHQ_ROLLUP_COUNT, _INT, _ROLLUPS, _ROLLUP, "real float samples", required=True),
    Column(CHQ_ROLLUP_BASE, _INT, _ROLLUPS, _ROLLUP, "base of the scaled columns", default=0),
    Column(CHQ_ROLLUP_EXPONENT, _SMALL, _ROLLUPS, _ROLLUP, "exponent of the scaled columns", default=0),
    Column(CHQ_ROLLUP_LAST_SCALED, _INT, _ROLLUPS, _ROLLUP, "last value as an integer"),
    Column(CHQ_ROLLUP_FIRST_SCALED, _INT, _ROLLUPS, _ROLLUP, "first value as an integer"),
    Column(CHQ_ROLLUP_PREV_SCALED, _INT, _ROLLUPS, _ROLLUP, "last value but one as an integer"),
    Column(CHQ_ROLLUP_MIN_SCALED, _INT, _ROLLUPS, _ROLLUP, "least value as an integer"),
    Column(CHQ_ROLLUP_MAX_SCALED, _INT, _ROLLUPS, _ROLLUP, "greatest value as an integer"),
    Column(CHQ_ROLLUP_SUM_SCALED, _INT, _ROLLUPS, _ROLLUP, "sum as an integer"),
    Column(CHQ_ROLLUP_RESET_SUM_SCALED, _INT, _ROLLUPS, _ROLLUP, "sum before resets as an integer"),
    Column(CHQ_ROLLUP_M2_SCALED, _INT, _ROLLUPS, _ROLLUP, "squared deviations as an integer"),
    Column(CHQ_ROLLUP_SUM, _DOUBLE, _ROLLUPS, _ROLLUP, "sum as its nearest double", default=CHQ_ROLLUP_LAST),
    Column(CHQ_ROLLUP_SUM_C, _DOUBLE, _ROLLUPS, _ROLLUP, "rest that rounding took from the sum", default=0.0),
    Column(CHQ_ROLLUP_MIN, _DOUBLE, _ROLLUPS, _ROLLUP, "least value", default=CHQ_ROLLUP_LAST),
    Column(CHQ_ROLLUP_MAX, _DOUBLE, _ROLLUPS, _ROLLUP, "greatest value", default=CHQ_ROLLUP_LAST),
    Column(CHQ_ROLLUP_FIRST, _DOUBLE, _ROLLUPS, _ROLLUP, "first value", default=CHQ_ROLLUP_LAST),
    Column(CHQ_ROLLUP_FIRST_TS, _INT, _ROLLUPS, _ROLLUP, "time of the first, ms", default=CHQ_ROLLUP_LAST_TS),
    Column(CHQ_ROLLUP_LAST, _DOUBLE, _ROLLUPS, _ROLLUP, "last value"),
    Column(CHQ_ROLLUP_LAST_TS, _INT, _ROLLUPS, _ROLLUP, "time of the last, ms"),
    Column(CHQ_ROLLUP_LAST_STALE, _FLAG, _ROLLUPS, _ROLLUP, "newest sample is a stale marker", default=False),
    Column(CHQ_ROLLUP_PREV, _DOUBLE, _ROLLUPS, _ROLLUP, "last value but one"),
    Column(CHQ_ROLLUP_PREV_TS, _INT, _ROLLUPS, _ROLLUP, "time of the last but one, ms"),
    Column(CHQ_ROLLUP_RESET_SUM, _DOUBLE, _ROLLUPS, _ROLLUP, "sum of the values before drops", default=0.0),
    Column(CHQ_ROLLUP_RESETS, _INT, _ROLLUPS, _ROLLUP, "drops", default=0),
    Column(CHQ_ROLLUP_CHANGES, _INT, _ROLLUPS, _ROLLUP, "values unlike the one before", default=0),
    Column(CHQ_ROLLUP_M2, _DOUBLE, _ROLLUPS, _ROLLUP, "squared deviations from the mean"),
    Column(CHQ_SKETCH, _BYTES, _ROLLUPS, _ROLLUP, "DDSketch of the finite samples"),
    Column(CHQ_HIST_COUNT, _INT, _ROLLUPS, _ROLLUP, "histograms and summaries", default=0),
    Column(CHQ_HIST_FIRST, HISTOGRAM, _ROLLUPS, _ROLLUP, "first histogram", default=CHQ_HIST_LAST),
    Column(CHQ_HIST_LAST, HISTOGRAM, _ROLLUPS, _ROLLUP, "last histogram"),
    Column(CHQ_HIST_SUM, HISTOGRAM, _ROLLUPS, _ROLLUP, "sum of the histograms", default=CHQ_HIST_LAST),
    Column(CHQ_HIST_RESETS, _INT, _ROLLUPS, _ROLLUP, "drops of histograms", default=0),
    Column(CHQ_HIST_MIXED, _FLAG, _ROLLUPS, _ROLLUP, "sums do not say everything", default=False),
)
# fmt: on

ALIASES = {
    "service": "resource_service_name",
    "level": "log_level",
    "severity": "log_level",
    "message": "log_message",
}
"""Short names that LakeQL and the Lakerunner API take for a column."""


def columns_in(kind: Segments, *fillers: Filler) -> tuple[Column, ...]:
    """Return the columns of these segments in order; with `fillers` only those filled by one of them."""
    return tuple(c for c in COLUMNS if kind in c.in_ and (not fillers or c.filled_by in fillers))


def column(name: str, kind: Segments) -> Column:
    """Return the row of a column; `KeyError` if these segments have none of that name."""
    found = [c for c in columns_in(kind) if c.name == name]
    if not found:
        raise KeyError(f"{kind.value} segments have no column {name}")
    return found[0]


def types_of(columns: Iterable[Column]) -> dict[str, pa.DataType]:
    return {c.name: c.type for c in columns}


def hist(part: str) -> str:
    """Return the name of the histogram column of that part.

    >>> hist("positive_offset")
    'chq_hist_positive_offset'
    """
    return HIST_PREFIX + part


def dropped_attributes(owner: str) -> str:
    """Return the name of the count of dropped attributes; the owner is `resource_`, `scope_` or empty.

    >>> dropped_attributes("scope_")
    'chq_scope_dropped_attributes'
    """
    return f"{PREFIX}{owner}dropped_attributes"
