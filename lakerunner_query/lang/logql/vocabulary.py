"""The words of LogQL, so that a refusal can name the construct.

A word that is in neither set is an ordinary identifier: a label name, or a mistake.
"""

STAGES = frozenset(
    (
        *("json", "logfmt", "regexp", "pattern", "unpack", "unwrap", "decolorize"),
        *("line_format", "label_format", "drop", "keep", "distinct"),
    )
)
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
AGGREGATIONS = RANGE_AGGREGATIONS | VECTOR_AGGREGATIONS | {"vector", "label_replace", "variants"}
