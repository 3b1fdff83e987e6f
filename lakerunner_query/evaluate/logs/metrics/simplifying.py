"""Stages that a metric query need not run: nobody looks at what they make.

sum(count_over_time({app="web"} | json | line_format "{{.msg}}" [5m]))   ->   {app="web"}

A template is left out where neither a filter nor a parser reads the line behind it; parsers are left out
where no label is looked at, so that a broken line there is a line like any other, as in Loki.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakerunner_query.evaluate.logs.metrics.series import Naming
from lakerunner_query.lang.logql.ast import (
    Assign,
    Decolorize,
    Drop,
    Json,
    Keep,
    LabelFormat,
    LineFilter,
    LineFormat,
    Logfmt,
    LogRange,
    Pattern,
    Regexp,
    Stage,
    Unpack,
)

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
