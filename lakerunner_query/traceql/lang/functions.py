"""One row per metrics function, ranking, aggregate and hint: everything but the arithmetic.

    { kind = server } | quantile_over_time(duration, 0.9) by (name) | topk(5) with (exemplars=true)

The parser, the checks and the planner read these rows; the evaluator binds a computation to each name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from lakerunner_query.traceql.lang.ast import AggregateOp, Query, Type


class Argument(Enum):
    """The kinds of arguments of a metrics function, in the order in which they are written."""

    FIELD = "field"
    """An attribute or intrinsic."""
    QUANTILES = "quantiles"
    """One number or more, from 0 to 1."""
    SELECTION = "selection"
    """A spanset filter; then optionally how many values, then optionally the two ends of a time range."""


class Merge(Enum):
    """The way in which cells of the same step and series come together."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"
    MEAN = "mean"
    """Sums and counts add up, and are divided at the end."""
    BUCKETS = "buckets"
    """Counts per power of two add up."""
    BY_VALUE = "counts by value"


@dataclass(frozen=True, slots=True)
class MetricsFunction:
    """Facts about a function that turns spans into series. No field has a default."""

    name: str
    arguments: tuple[Argument, ...]
    most_groups: int
    """Upper bound of the fields in `by (…)`; 0: none may stand."""
    merge: Merge
    is_per_second: bool
    own_label: str
    """Label that the function adds to those of `by`; empty: none."""
    is_final: bool
    """Neither second stages nor arithmetic may follow."""


@dataclass(frozen=True, slots=True)
class AggregateRow:
    """Facts about an aggregate of a spanset. No field has a default."""

    op: AggregateOp
    takes_operand: bool


@dataclass(frozen=True, slots=True)
class RankingRow:
    name: str
    is_descending: bool


class Audience(Enum):
    SEARCH = "search"
    METRICS = "metrics"


@dataclass(frozen=True, slots=True)
class HintRow:
    """Facts about a hint; a value of another type is ignored, as an unknown hint is."""

    name: str
    types: frozenset[Type]
    audience: Audience


_NONE: tuple[Argument, ...] = ()
_FIELD, _SELECTION = (Argument.FIELD,), (Argument.SELECTION,)
_QUANTILES = (Argument.FIELD, Argument.QUANTILES)
_BOOLEAN, _NUMBER = frozenset({Type.BOOLEAN}), frozenset({Type.INTEGER, Type.FLOAT})
_MOST, _LESS = 5, 4
"""Bounds of Tempo: five labels, one of which may be the function's own."""

COUNT = "count_over_time"

# fmt: off
METRICS_FUNCTIONS: Mapping[str, MetricsFunction] = MappingProxyType({row.name: row for row in (
    #               name                   arguments    groups merge           second own label      final
    MetricsFunction("rate",                _NONE,       _MOST, Merge.SUM,      True,  "",            False),
    MetricsFunction(COUNT,                 _NONE,       _MOST, Merge.SUM,      False, "",            False),
    MetricsFunction("min_over_time",       _FIELD,      _MOST, Merge.MIN,      False, "",            False),
    MetricsFunction("max_over_time",       _FIELD,      _MOST, Merge.MAX,      False, "",            False),
    MetricsFunction("avg_over_time",       _FIELD,      _MOST, Merge.MEAN,     False, "",            False),
    MetricsFunction("sum_over_time",       _FIELD,      _MOST, Merge.SUM,      False, "",            False),
    MetricsFunction("quantile_over_time",  _QUANTILES,  _LESS, Merge.BUCKETS,  False, "p",           False),
    MetricsFunction("histogram_over_time", _FIELD,      _LESS, Merge.BUCKETS,  False, "__bucket",    False),
    MetricsFunction("compare",             _SELECTION,  0,     Merge.BY_VALUE, False, "__meta_type", True),
)})
RANKINGS: Mapping[str, RankingRow] = MappingProxyType({row.name: row for row in (
    #          name       largest first
    RankingRow("topk",    True),
    RankingRow("bottomk", False),
)})
AGGREGATES: Mapping[str, AggregateRow] = MappingProxyType({row.op.value: row for row in (
    #            op                 operand
    AggregateRow(AggregateOp.COUNT, False),
    AggregateRow(AggregateOp.MIN,   True),
    AggregateRow(AggregateOp.MAX,   True),
    AggregateRow(AggregateOp.AVG,   True),
    AggregateRow(AggregateOp.SUM,   True),
)})
HINTS: Mapping[str, HintRow] = MappingProxyType({row.name: row for row in (
    #       name            types               audience
    HintRow("most_recent",  _BOOLEAN,           Audience.SEARCH),
    HintRow("exemplars",    _BOOLEAN | _NUMBER, Audience.METRICS),
    HintRow("sample",       _BOOLEAN | _NUMBER, Audience.METRICS),
    HintRow("span_sample",  _BOOLEAN | _NUMBER, Audience.METRICS),
    HintRow("trace_sample", _BOOLEAN | _NUMBER, Audience.METRICS),
)})
# fmt: on


def hint(query: Query, name: str) -> bool | int | float | None:
    """Return the value of a hint, None if the query gives none of the right type.

    >>> from lakerunner_query.traceql.lang.parser import parse
    >>> hint(parse("{} with (most_recent=1, most_recent=true)"), "most_recent")
    True
    """
    types = HINTS[name].types
    for given in query.hints:
        value = given.value.value
        if given.name == name and given.value.type in types and not isinstance(value, str | None):
            return value
    return None
