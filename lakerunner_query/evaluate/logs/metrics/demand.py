"""What of each line a metric query looks at, and which aggregations may group the lines themselves.

sum by (app) (count_over_time({job="api"} | json [5m]))

lines are counted by `app` at once, and `app` is the only label that anybody looks at. What is told of a line
with an error is no more than that there is one; its labels are read again when the query fails.
"""

from __future__ import annotations

from lakerunner_query.evaluate.logs.metrics.series import Naming
from lakerunner_query.evaluate.logs.source import Demand
from lakerunner_query.evaluate.logs.wanted import names_in
from lakerunner_query.lang.logql.ast import (
    Drop,
    Grouping,
    Keep,
    LabelFormat,
    LogRange,
    RangeAggregation,
    Rename,
    Stage,
    VectorAggregation,
)

OF_BYTES = frozenset({"bytes_over_time", "bytes_rate"})
_SUMMED = frozenset({"count_over_time", "rate", "sum_over_time"}) | OF_BYTES
_EXTREME = {"max": "max_over_time", "min": "min_over_time"}
EVERYTHING = Grouping(())


def pushed_grouping(expr: VectorAggregation) -> Grouping | None:
    """The grouping that the range aggregation below may do itself, with the same answer."""
    below = expr.expr
    if not isinstance(below, RangeAggregation) or below.grouping is not None:
        return None
    grouping = expr.grouping or EVERYTHING
    if expr.op == "sum" and below.op in _SUMMED:
        return grouping
    unwrap = below.range.unwrap
    if _EXTREME.get(expr.op) == below.op and unwrap is not None and unwrap.label not in grouping.labels:
        return grouping
    return None


def naming_of(expr: RangeAggregation, pushed: Grouping | None) -> Naming:
    """What tells the series apart: without any grouping all labels but the one that became the sample."""
    grouping = expr.grouping or pushed
    if expr.op == "absent_over_time":
        return Naming(frozenset(), is_without=False)
    if grouping is not None and not grouping.without:
        return Naming(frozenset(grouping.labels), is_without=False)
    gone = frozenset(grouping.labels if grouping else ())
    if expr.range.unwrap is not None:
        gone |= {expr.range.unwrap.label}
    leaves_out = bool(grouping and grouping.labels) or any(map(_takes_away, expr.range.query.stages))
    return Naming(gone, is_without=True, drops_empty=leaves_out)


def _takes_away(stage: Stage) -> bool:
    """Loki builds a label set anew where a label may have gone, and then without the empty ones."""
    if isinstance(stage, LabelFormat):
        return any(isinstance(one, Rename) for one in stage.operations)
    return isinstance(stage, Keep | Drop)


def demand_of(expr: RangeAggregation, naming: Naming) -> Demand:
    """Labels of the series, the one that is unwrapped and those that filters behind it look at."""
    line = expr.op in OF_BYTES
    if naming.is_without:
        return Demand(None, line)
    return Demand(naming.names | _unwrapped(expr.range), line)


def _unwrapped(wanted: LogRange) -> frozenset[str]:
    if wanted.unwrap is None:
        return frozenset()
    looked_at = [names_in(one.condition) for one in wanted.unwrap.filters]
    return frozenset({wanted.unwrap.label}).union(*looked_at)
