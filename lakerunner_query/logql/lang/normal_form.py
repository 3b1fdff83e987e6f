"""Pipelines have a normal form: two that keep the same rows with the same labels may be told equal.

    {b="1", a=~"x"} |= "q" |= "p" | level="error", app="web" | json

    matchers a="x" b="1";  lines "p" "q", matches app="web" level="error";  json;  nothing

Filters between two other stages are conditions that all have to hold, in any order. Comparisons of numbers
keep theirs: one that fails on a row hides those behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from lakerunner_query.gotext import regexp
from lakerunner_query.logql.lang.ast import (
    ERROR,
    SPECIAL,
    Drop,
    FilterOp,
    LabelCondition,
    LabelFilter,
    LabelMatch,
    LineFilter,
    LogQuery,
    Stage,
)
from lakerunner_query.logql.lang.conditions import conjuncts
from lakerunner_query.logql.lang.stages import condition_of, row_of
from lakerunner_query.syntax import Matcher, MatchOp

NOW = "now"
_PLAIN = {MatchOp.REGEX: MatchOp.EQUAL, MatchOp.NOT_REGEX: MatchOp.NOT_EQUAL}
_PLAIN_LINE = {FilterOp.REGEX: FilterOp.CONTAINS, FilterOp.NOT_REGEX: FilterOp.NOT_CONTAINS}


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions between two stages that are none."""

    lines: frozenset[LineFilter] = frozenset()
    matches: frozenset[Matcher] = frozenset()
    """Conditions on the texts of labels."""
    ordered: tuple[LabelCondition, ...] = ()
    """Conditions that can fail, or that look at failures."""


@dataclass(frozen=True, slots=True)
class NormalForm:
    """Matchers, and by turns filters and another stage; the first and the last are filters."""

    matchers: frozenset[Matcher]
    filters: tuple[Filters, ...]
    stages: tuple[Stage, ...]

    @property
    def last(self) -> Filters:
        return self.filters[-1]


def normal_form(query: LogQuery) -> NormalForm:
    runs: list[list[Stage]] = [[]]
    stages: list[Stage] = []
    for stage in query.stages:
        if isinstance(stage, LineFilter | LabelFilter):
            runs[-1].append(stage)
        else:
            stages.append(stage)
            runs.append([])
    return NormalForm(normal_matchers(query.matchers), tuple(map(filters_of, runs)), tuple(stages))


def normal_matchers(matchers: Iterable[Matcher]) -> frozenset[Matcher]:
    """Return the distinct matchers; those that everything satisfies go."""
    return frozenset(map(_plain, (one for one in matchers if not _is_for_all(one))))


def filters_of(stages: Iterable[Stage]) -> Filters:
    lines: set[LineFilter] = set()
    matches: set[Matcher] = set()
    ordered: list[LabelCondition] = []
    for stage in stages:
        if isinstance(stage, LineFilter):
            lines.update(_lines(stage))
        elif isinstance(stage, LabelFilter):
            for one in conjuncts(stage.condition):
                if not isinstance(one, LabelMatch) or one.matcher.name in SPECIAL:
                    ordered.append(one)
                elif not _is_for_all(one.matcher):
                    matches.add(_plain(one.matcher))
    return Filters(frozenset(lines), frozenset(matches), tuple(ordered))


def _lines(stage: LineFilter) -> Iterator[LineFilter]:
    """Yield a filter for each text that no line may have, or one of the texts of which a line has any."""
    op = stage.op
    if op.is_regex and not stage.ips and all(regexp.literal(one) is not None for one in stage.values):
        op = _PLAIN_LINE[op]
    if op.is_negative:
        yield from (LineFilter(op, (value,)) for value in stage.values)
        yield from (LineFilter(op, (), (ip,)) for ip in stage.ips)
    elif op is not FilterOp.CONTAINS or "" not in stage.values:
        yield LineFilter(op, tuple(sorted({*stage.values})), tuple(sorted({*stage.ips})))


def _plain(matcher: Matcher) -> Matcher:
    if matcher.op.is_regex and regexp.literal(matcher.value) is not None:
        return replace(matcher, op=_PLAIN[matcher.op])
    if matcher.op is MatchOp.REGEX and matcher.value == ".+":
        return replace(matcher, op=MatchOp.NOT_EQUAL, value="")
    if matcher.op is MatchOp.NOT_REGEX and matcher.value == ".+":
        return replace(matcher, op=MatchOp.EQUAL, value="")
    return matcher


def _is_for_all(matcher: Matcher) -> bool:
    return matcher.op is MatchOp.REGEX and matcher.value == ".*"


def is_told_apart(left: NormalForm, right: NormalForm) -> str:
    """Return how two pipelines differ before their last filters; nothing where they do not."""
    if len(left.stages) != len(right.stages) or left.stages != right.stages:
        return "their stages differ"
    if left.filters[:-1] != right.filters[:-1]:
        return "their filters before the last stage differ"
    if any(NOW in text for stage in left.stages for text, _ in row_of(stage).templates(stage)):
        return "a template looks at the time of the query"
    return ""


def keeps_stream_label(form: NormalForm, name: str) -> bool:
    """Tell if a label that every stream has comes out as it was; parsers call theirs otherwise then."""
    return not any(not row_of(one).parses and row_of(one).changes_label(one, name) for one in form.stages)


def is_without_errors(condition: LabelCondition) -> bool:
    """Tell if only rows without an error satisfy a condition: `__error__=""`."""
    if not isinstance(condition, LabelMatch) or condition.matcher.name != ERROR:
        return False
    plain = _plain(condition.matcher)
    return plain.op is MatchOp.EQUAL and not plain.value


def failing_stage(stages: Iterable[Stage]) -> Stage | None:
    """Return the last stage whose errors stay: no later one drops them, or their rows."""
    failing = None
    for stage in stages:
        condition = condition_of(stage)
        drops_rows = condition is not None and any(map(is_without_errors, conjuncts(condition)))
        if drops_rows or (isinstance(stage, Drop) and ERROR in stage.items):
            failing = None
        elif row_of(stage).can_fail(stage):
            failing = stage
    return failing
