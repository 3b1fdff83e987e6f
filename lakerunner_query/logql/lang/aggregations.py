"""The aggregations of LogQL: one row per operation over time and one per operation over series.

`metrics/counts.py` and `metrics/vectors.py` have the functions that compute them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RangeRow:
    """Facts about an aggregation over time. No field has a default."""

    name: str
    of_lines: bool
    of_numbers: bool
    """Numbers are those of `unwrap`."""
    takes_parameter: bool
    takes_grouping: bool
    counts_bytes: bool
    """Lines count with their length."""
    is_per_second: bool
    merged_by: str
    """Aggregation over series that gives the same, done over the lines at once; empty: none."""


@dataclass(frozen=True, slots=True)
class VectorRow:
    """Facts about an aggregation over series. No field has a default."""

    name: str
    takes_count: bool
    """The `k` of `topk`."""
    grouping_fault: str
    """Complaint about a grouping; empty where one may stand."""
    is_instant_only: bool
    orders: bool
    """The order of the series is part of the answer."""


_SORTS_ALL = "sort and sort_desc doesn't allow grouping by "

# fmt: off
RANGE: dict[str, RangeRow] = {row.name: row for row in (
    #        name                  lines  numbers param  group  bytes  second merged by
    RangeRow("rate",               True,  True,  False, False, False, True,  "sum"),
    RangeRow("rate_counter",       False, True,  False, False, False, False, ""),
    RangeRow("count_over_time",    True,  False, False, False, False, False, "sum"),
    RangeRow("bytes_rate",         True,  False, False, False, True,  True,  "sum"),
    RangeRow("bytes_over_time",    True,  False, False, False, True,  False, "sum"),
    RangeRow("absent_over_time",   True,  True,  False, False, False, False, ""),
    RangeRow("sum_over_time",      False, True,  False, False, False, False, "sum"),
    RangeRow("avg_over_time",      False, True,  False, True,  False, False, ""),
    RangeRow("min_over_time",      False, True,  False, True,  False, False, "min"),
    RangeRow("max_over_time",      False, True,  False, True,  False, False, "max"),
    RangeRow("first_over_time",    False, True,  False, True,  False, False, ""),
    RangeRow("last_over_time",     False, True,  False, True,  False, False, ""),
    RangeRow("stddev_over_time",   False, True,  False, True,  False, False, ""),
    RangeRow("stdvar_over_time",   False, True,  False, True,  False, False, ""),
    RangeRow("quantile_over_time", False, True,  True,  True,  False, False, ""),
)}
VECTOR: dict[str, VectorRow] = {row.name: row for row in (
    #         name           count  grouping fault                                        instant ordered
    VectorRow("sum",         False, "",                                                   False, False),
    VectorRow("avg",         False, "",                                                   False, False),
    VectorRow("min",         False, "",                                                   False, False),
    VectorRow("max",         False, "",                                                   False, False),
    VectorRow("count",       False, "",                                                   False, False),
    VectorRow("stddev",      False, "",                                                   False, False),
    VectorRow("stdvar",      False, "",                                                   False, False),
    VectorRow("topk",        True,  "",                                                   False, False),
    VectorRow("bottomk",     True,  "",                                                   False, False),
    VectorRow("approx_topk", True,  "grouping not allowed for approx_topk aggregation",   True,  False),
    VectorRow("sort",        False, _SORTS_ALL,                                           False, True),
    VectorRow("sort_desc",   False, _SORTS_ALL,                                           False, True),
)}
# fmt: on

RANGE_AGGREGATIONS = frozenset(RANGE)
VECTOR_AGGREGATIONS = frozenset(VECTOR)
UNWRAPPED = frozenset(name for name, row in RANGE.items() if row.of_numbers)
"""Range aggregations of the numbers that `unwrap` gives."""
COUNTED = frozenset(name for name, row in RANGE.items() if row.of_lines)
"""Range aggregations of the lines themselves."""
GROUPED = frozenset(name for name, row in RANGE.items() if row.takes_grouping)
"""Range aggregations that a grouping may follow."""
PARAMETRIC = frozenset(name for name, row in VECTOR.items() if row.takes_count)
UNGROUPED = frozenset(name for name, row in VECTOR.items() if row.grouping_fault)
"""Vector aggregations that may not be grouped."""
