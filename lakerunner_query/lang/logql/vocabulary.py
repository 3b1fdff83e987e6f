"""The words of LogQL.

Case does not matter. Keywords are never label names. Calls are words of the language only in front of a
parenthesis (or of the grouping in front of one), so that a label may be called `sum` or `ip`.
"""

from __future__ import annotations

RANGE_AGGREGATIONS = frozenset(
    (
        *("rate", "rate_counter", "count_over_time", "bytes_rate", "bytes_over_time", "avg_over_time"),
        *("sum_over_time", "min_over_time", "max_over_time", "stddev_over_time", "stdvar_over_time"),
        *("quantile_over_time", "first_over_time", "last_over_time", "absent_over_time"),
    )
)
VECTOR_AGGREGATIONS = frozenset(
    (
        *("sum", "avg", "max", "min", "count", "stddev", "stdvar"),
        *("bottomk", "topk", "approx_topk", "sort", "sort_desc"),
    )
)
CONVERSIONS = frozenset({"duration", "duration_seconds", "bytes"})
CALLS = RANGE_AGGREGATIONS | VECTOR_AGGREGATIONS | CONVERSIONS | {"vector", "label_replace", "ip"}
STAGES = frozenset(
    (
        *("json", "logfmt", "regexp", "pattern", "unpack", "unwrap", "decolorize"),
        *("line_format", "label_format", "drop", "keep"),
    )
)
GROUPINGS = frozenset({"by", "without"})
SET_OPERATORS = frozenset({"and", "or", "unless"})
MATCHINGS = frozenset({"on", "ignoring", "group_left", "group_right", "bool", "offset"})
VARIANTS = frozenset({"variants", "of"})
KEYWORDS = STAGES | GROUPINGS | SET_OPERATORS | MATCHINGS | VARIANTS

UNWRAPPED = frozenset(
    (
        *("rate", "rate_counter", "absent_over_time", "first_over_time", "last_over_time"),
        *("avg_over_time", "sum_over_time", "min_over_time", "max_over_time"),
        *("stddev_over_time", "stdvar_over_time", "quantile_over_time"),
    )
)
"""Range aggregations of the numbers that `unwrap` gives."""
COUNTED = frozenset({"rate", "count_over_time", "bytes_rate", "bytes_over_time", "absent_over_time"})
"""Range aggregations of the lines themselves."""
GROUPED = frozenset(
    (
        *("avg_over_time", "min_over_time", "max_over_time", "first_over_time", "last_over_time"),
        *("stddev_over_time", "stdvar_over_time", "quantile_over_time"),
    )
)
"""Range aggregations that may be followed by a grouping."""
PARAMETRIC = frozenset({"topk", "bottomk", "approx_topk"})
UNGROUPED = frozenset({"approx_topk", "sort", "sort_desc"})
"""Vector aggregations that may not be grouped."""
