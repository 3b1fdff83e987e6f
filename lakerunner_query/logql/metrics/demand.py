"""Rewrites of range aggregations: less of each line is read, fewer stages run, lines are grouped at once.

    sum by (app) (count_over_time({job="api"} | json [5m]))

Lines are counted by `app` at once, and `app` is the only label that anybody looks at. A line with an error is
only known to have one; its labels are read again when the query fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakerunner_query.logql.lang.aggregations import RANGE
from lakerunner_query.logql.lang.ast import Grouping, LogRange, RangeAggregation, Stage, VectorAggregation
from lakerunner_query.logql.lang.conditions import names_in
from lakerunner_query.logql.lang.stages import row_of
from lakerunner_query.logql.metrics.context import Naming
from lakerunner_query.logql.pipeline import Demand

EVERYTHING = Grouping(())


def simplify(ranged: LogRange, naming: Naming, *, of_bytes: bool) -> LogRange:
    """Leave out stages whose outcome nobody looks at when series are told apart like this.

        sum(count_over_time({app="web"} | json | line_format "{{.msg}}" [5m]))   ->   {app="web"}

    A stage that only changes the line goes where neither a filter nor a parser reads the line behind it.
    Parsers go where no label is looked at, so that a broken line there is a line like any other, as in Loki.
    """
    stages = ranged.query.stages if of_bytes else _without_last_lines(ranged.query.stages)
    if not (naming.is_without or naming.names or ranged.unwrap or any(map(_uses_label_values, stages))):
        stages = tuple(s for at, s in enumerate(stages) if not _is_idle(stages, at, of_bytes=of_bytes))
    return replace(ranged, query=replace(ranged.query, stages=stages))


def _without_last_lines(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    last = max((at for at, stage in enumerate(stages) if _reads_line(stage)), default=-1)
    return tuple(s for at, s in enumerate(stages) if at < last or not _only_changes_line(s))


def _only_changes_line(stage: Stage) -> bool:
    row = row_of(stage)
    return row.changes_line and not row.parses


def _uses_label_values(stage: Stage) -> bool:
    return row_of(stage).uses_label_values


def _reads_line(stage: Stage) -> bool:
    return row_of(stage).reads_line(stage)


def _is_idle(stages: Sequence[Stage], number: int, *, of_bytes: bool) -> bool:
    """Tell whether a stage only makes labels, and no line that anybody reads."""
    row = row_of(stages[number])
    line_is_read = row.changes_line and (of_bytes or any(map(_reads_line, stages[number + 1 :])))
    return row.parses and not line_is_read


def pushed_grouping(expr: VectorAggregation) -> Grouping | None:
    """Return the grouping that the range aggregation below may do itself, with the same answer."""
    below = expr.expr
    if not isinstance(below, RangeAggregation) or below.grouping is not None:
        return None
    if RANGE[below.op].merged_by != expr.op:
        return None
    grouping, unwrap = expr.grouping or EVERYTHING, below.range.unwrap
    if expr.op != "sum" and (unwrap is None or unwrap.label in grouping.labels):
        return None
    return grouping


def naming_of(expr: RangeAggregation, pushed: Grouping | None) -> Naming:
    """Return the labels of series: without a grouping, all but the one that became the sample."""
    grouping = expr.grouping or pushed
    if expr.op == "absent_over_time":
        return Naming(frozenset(), is_without=False)
    if grouping is not None and not grouping.without:
        return Naming(frozenset(grouping.labels), is_without=False)
    gone = frozenset(grouping.labels if grouping else ())
    if expr.range.unwrap is not None:
        gone |= {expr.range.unwrap.label}
    leaves_out = bool(grouping and grouping.labels) or any(
        row_of(one).rebuilds_labels(one) for one in expr.range.query.stages
    )
    return Naming(gone, is_without=True, drops_empty=leaves_out)


def demand_of(expr: RangeAggregation, naming: Naming) -> Demand:
    """Return what is read: labels of the series, the unwrapped one, and those of filters behind it."""
    line = RANGE[expr.op].counts_bytes
    if naming.is_without:
        return Demand(None, line)
    return Demand(naming.names | _unwrap_names(expr.range), line)


def _unwrap_names(ranged: LogRange) -> frozenset[str]:
    if ranged.unwrap is None:
        return frozenset()
    filtered = [names_in(one.condition) for one in ranged.unwrap.filters]
    return frozenset({ranged.unwrap.label}).union(*filtered)
