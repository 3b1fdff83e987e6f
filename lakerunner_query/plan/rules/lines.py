"""Rules about line filters: substring searches cost a tenth of a regex, and no filter costs nothing."""

from __future__ import annotations

from dataclasses import replace

from lakerunner_query.lang import regex
from lakerunner_query.lang.logql.ast import FilterOp, LineFilter
from lakerunner_query.plan.logical import LogPlan, Nothing, TakeRows

_PLAIN = {FilterOp.REGEX: FilterOp.CONTAINS, FilterOp.NOT_REGEX: FilterOp.NOT_CONTAINS}


def literal_line_regex(plan: TakeRows) -> LogPlan:
    """`|~ "timeout"` becomes `|= "timeout"`: a line regex without special characters is a search."""
    return _with_filters(plan, tuple(map(_literal, plan.source.filters)))


def drop_always_true(plan: TakeRows) -> LogPlan:
    """`|= ""` and `|~ ".*"` keep every line and go away."""
    return _with_filters(plan, tuple(f for f in plan.source.filters if f.op.is_negative or not _for_all(f)))


def never_matching_line(plan: TakeRows) -> LogPlan:
    """`!= ""` drops every line, since every line contains the empty text."""
    for one in plan.source.filters:
        if one.op.is_negative and _for_all(one):
            return Nothing(f"{one.op.value} of a text that is in every line")
    return plan


def repeated_filters(plan: TakeRows) -> LogPlan:
    """`|= "a" |= "a"` becomes `|= "a"`; also inside an `or` chain."""
    unique = (replace(f, values=tuple(dict.fromkeys(f.values))) for f in plan.source.filters)
    return _with_filters(plan, tuple(dict.fromkeys(unique)))


def _with_filters(plan: TakeRows, filters: tuple[LineFilter, ...]) -> TakeRows:
    return replace(plan, source=replace(plan.source, filters=filters))


def _literal(line: LineFilter) -> LineFilter:
    if line.op.is_regex and all(regex.literal(value) is not None for value in line.values):
        return replace(line, op=_PLAIN[line.op])
    return line


def _for_all(line: LineFilter) -> bool:
    """Whether one of the values is in every line."""
    return any(not value or (line.op.is_regex and value in {".*", "(?s).*", "^.*"}) for value in line.values)
