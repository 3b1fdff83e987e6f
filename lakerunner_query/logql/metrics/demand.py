"""What of each line a metric query looks at, and which aggregations may group the lines themselves.

sum by (app) (count_over_time({job="api"} | json [5m]))

lines are counted by `app` at once, and `app` is the only label that anybody looks at. What is told of a line
with an error is no more than that there is one; its labels are read again when the query fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakerunner_query.logql.lang.ast import (
    Assign,
    Decolorize,
    Drop,
    Grouping,
    Json,
    Keep,
    LabelFormat,
    LineFilter,
    LineFormat,
    Logfmt,
    LogRange,
    Pattern,
    RangeAggregation,
    Regexp,
    Rename,
    Stage,
    Unpack,
    VectorAggregation,
)
from lakerunner_query.logql.metrics.context import Naming
from lakerunner_query.logql.pipeline import Demand, names_in

# << Stages that a metric query need not run: nobody looks at what they make.
# <<
# << sum(count_over_time({app="web"} | json | line_format "{{.msg}}" [5m]))   ->   {app="web"}
# <<
# << A template is left out where neither a filter nor a parser reads the line behind it; parsers are left out
# << where no label is looked at, so that a broken line there is a line like any other, as in Loki.

_PARSERS = (Json, Logfmt, Regexp, Pattern)
_OF_LINES = (*_PARSERS, LineFilter, Unpack)
"""Stages whose outcome depends on the line."""
_NAMELESS = (*_OF_LINES, Decolorize, Drop, Keep)
"""Stages that make nothing out of a label's value that is not a label itself."""
_LINE_IN_TEMPLATE = "__line__"


def simplified(wanted: LogRange, naming: Naming, *, of_bytes: bool) -> LogRange:
    """The range with what is left of its pipeline when series are told apart like this."""
    stages = wanted.query.stages if of_bytes else _without_templates(wanted.query.stages)
    if not (naming.is_without or naming.names or wanted.unwrap) and all(
        isinstance(stage, _NAMELESS) for stage in stages
    ):
        stages = tuple(s for at, s in enumerate(stages) if not _is_idle(stages, at, of_bytes=of_bytes))
    return replace(wanted, query=replace(wanted.query, stages=stages))


def _without_templates(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Without the templates of lines behind the last stage that reads the line."""
    last = max((at for at, stage in enumerate(stages) if _reads_line(stage)), default=-1)
    return tuple(s for at, s in enumerate(stages) if at < last or not isinstance(s, LineFormat))


def _reads_line(stage: Stage) -> bool:
    if isinstance(stage, LabelFormat):
        templates = [one.template for one in stage.operations if isinstance(one, Assign)]
        return any(_LINE_IN_TEMPLATE in template for template in templates)
    return isinstance(stage, _OF_LINES)


def _is_idle(stages: Sequence[Stage], number: int, *, of_bytes: bool) -> bool:
    """A parser of whose labels none is looked at; `unpack` only if its line is not either."""
    if isinstance(stages[number], Unpack):
        return not (of_bytes or any(map(_reads_line, stages[number + 1 :])))
    return isinstance(stages[number], _PARSERS)


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
