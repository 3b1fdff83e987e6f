"""Column names of segments, spelled once.

A constant is its column's name in capitals, so that a search for either finds every use.
"""

from __future__ import annotations

PREFIX = "chq_"
"""Names that begin so are columns of the system; a producer's attribute never has one."""
HIST_PREFIX, SUMMARY_PREFIX = "chq_hist_", "chq_summary_"
CHQ_BODY_KIND = "chq_body_kind"
CHQ_DROPPED_ATTRIBUTES = "chq_dropped_attributes"
CHQ_DROPPED_EVENTS = "chq_dropped_events"
CHQ_DROPPED_LINKS = "chq_dropped_links"
CHQ_EXEMPLARS = "chq_exemplars"
CHQ_FINGERPRINT = "chq_fingerprint"
CHQ_FLAGS = "chq_flags"
CHQ_HIST_BOUNDS = "chq_hist_bounds"
CHQ_HIST_COUNT = "chq_hist_count"
CHQ_HIST_COUNT_FLOAT = "chq_hist_count_float"
CHQ_HIST_COUNTS = "chq_hist_counts"
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
CHQ_HIST_RESET_HINT = "chq_hist_reset_hint"
CHQ_HIST_RESETS = "chq_hist_resets"
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
CHQ_ROLLUP_FIRST_TS = "chq_rollup_first_ts"
CHQ_ROLLUP_LAST = "chq_rollup_last"
CHQ_ROLLUP_LAST_STALE = "chq_rollup_last_stale"
CHQ_ROLLUP_LAST_TS = "chq_rollup_last_ts"
CHQ_ROLLUP_M2 = "chq_rollup_m2"
CHQ_ROLLUP_M2_SCALED = "chq_rollup_m2_scaled"
CHQ_ROLLUP_MAX = "chq_rollup_max"
CHQ_ROLLUP_MIN = "chq_rollup_min"
CHQ_ROLLUP_PREV = "chq_rollup_prev"
CHQ_ROLLUP_PREV_TS = "chq_rollup_prev_ts"
CHQ_ROLLUP_RESET_SUM = "chq_rollup_reset_sum"
CHQ_ROLLUP_RESETS = "chq_rollup_resets"
CHQ_ROLLUP_SUM = "chq_rollup_sum"
CHQ_ROLLUP_SUM_C = "chq_rollup_sum_c"
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
CHQ_VALUE_SCALED = "chq_value_scaled"
CHQ_VALUE_SQL = "chq_value_sql"

FIELD_SCOPE, FIELD_KEY, FIELD_KIND = "chq_scope", "chq_key", "chq_kind"
"""Metadata of an attribute's field: whose it is, its original key, its kind of value."""


def hist(part: str) -> str:
    """The histogram column of that part.

    >>> hist("positive_offset")
    'chq_hist_positive_offset'
    """
    return HIST_PREFIX + part


def dropped_attributes(owner: str) -> str:
    """How many attributes the owner's sender dropped; the owner is `resource_`, `scope_` or empty.

    >>> dropped_attributes("scope_")
    'chq_scope_dropped_attributes'
    """
    return f"{PREFIX}{owner}dropped_attributes"
