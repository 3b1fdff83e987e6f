"""Rules about filters: fewer and cheaper ones on lines, and the ones on labels that storage can answer.

A substring search costs a tenth of a regex, and no filter costs nothing. A label filter that no earlier stage
can have affected sees what is stored: labels of the stream, or structured metadata of the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from lakerunner_query.gotext import regexp
from lakerunner_query.logql.lang.ast import FilterOp, LabelMatch, LineFilter, Stage
from lakerunner_query.logql.lang.conditions import conjuncts
from lakerunner_query.logql.lang.stages import condition_of, row_of
from lakerunner_query.plan.logql import Nothing, Pipeline, RunStages
from lakerunner_query.syntax import Matcher

SPECIAL = "__"
"""Prefix of labels that stages make."""


def stream_narrowing(plan: RunStages) -> Pipeline:
    """`{a="x"} | b="y"` asks nothing of streams whose label b is not y; others may have b in metadata."""
    narrowing = tuple(dict.fromkeys(stored_matches(plan.stages)))
    return replace(plan, source=replace(plan.source, narrowing=narrowing))


def stored_matches(stages: Sequence[Stage]) -> Iterator[Matcher]:
    """Yield conditions on texts that every row must satisfy, on labels as they are stored."""
    for number, stage in enumerate(stages):
        condition = condition_of(stage)
        for one in conjuncts(condition) if condition is not None else ():
            if isinstance(one, LabelMatch) and is_stored(one.matcher, stages[:number]):
                yield one.matcher


def is_stored(matcher: Matcher, before: Sequence[Stage]) -> bool:
    name = matcher.name
    return not name.startswith(SPECIAL) and not any(
        row_of(stage).changes_label(stage, name) for stage in before
    )


_PLAIN = {FilterOp.REGEX: FilterOp.CONTAINS, FilterOp.NOT_REGEX: FilterOp.NOT_CONTAINS}
_ANYTHING = frozenset({".*", "(?s).*", "^.*"})


def literal_line_regex(plan: RunStages) -> Pipeline:
    """`|~ "timeout"` becomes `|= "timeout"`: a line regex without special characters is a search."""
    return _with_stages(plan, (_literal(s) if isinstance(s, LineFilter) else s for s in plan.stages))


def drop_always_true(plan: RunStages) -> Pipeline:
    """`|= ""` and `|~ ".*"` keep every line and go away."""
    return _with_stages(plan, (s for s in plan.stages if not _is_for_all(s) or _is_negative(s)))


def never_matching_line(plan: RunStages) -> Pipeline:
    """`!= ""` drops every line, since every line contains the empty text."""
    for one in plan.stages:
        if isinstance(one, LineFilter) and one.op.is_negative and _is_for_all(one):
            return Nothing(f"{one.op.value} of a text that is in every line")
    return plan


def line_filters_first(plan: RunStages) -> Pipeline:
    """`| json | level="error" |= "x"` becomes `|= "x" | json | level="error"`: neither changes lines."""
    found: list[Stage] = []
    others: list[Stage] = []
    for stage in plan.stages:
        if isinstance(stage, LineFilter):
            found.append(stage)
            continue
        others.append(stage)
        if row_of(stage).changes_line:
            found += others
            others = []
    return _with_stages(plan, (*found, *others))


def repeated_filters(plan: RunStages) -> Pipeline:
    """`|= "a" |= "a"` becomes `|= "a"`; also inside an `or` chain."""
    return _with_stages(plan, _without_repeats(plan.stages))


def _without_repeats(stages: Iterable[Stage]) -> Iterator[Stage]:
    seen: set[LineFilter] = set()
    for stage in stages:
        if not isinstance(stage, LineFilter):
            seen.clear()  # another line may stand there from here on
            yield stage
            continue
        once = replace(stage, values=tuple(dict.fromkeys(stage.values)))
        if once not in seen:
            seen.add(once)
            yield once


def _with_stages(plan: RunStages, stages: Iterable[Stage]) -> RunStages:
    return replace(plan, stages=tuple(stages))


def _literal(line: LineFilter) -> LineFilter:
    if line.op.is_regex and not line.ips and all(regexp.literal(value) is not None for value in line.values):
        return replace(line, op=_PLAIN[line.op])
    return line


def _is_negative(stage: Stage) -> bool:
    return isinstance(stage, LineFilter) and stage.op.is_negative


def _is_for_all(stage: Stage) -> bool:
    """Tell whether one of the values is in every line."""
    if not isinstance(stage, LineFilter) or stage.op.is_pattern:
        return False
    return any(not value or (stage.op.is_regex and value in _ANYTHING) for value in stage.values)
