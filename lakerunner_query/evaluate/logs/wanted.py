"""Which labels anybody looks at, before each stage and after the last.

    | json | status >= 500, counted by (app)  ->  before json: app, status;  before the filter: app, status;
                                                  behind it: app

Computed from the end: a stage adds what it reads itself; `keep` limits what went before. None means all
there are. A label that is dropped stays wanted, because a parser behind must not give its name again. With
this in hand a parser writes down nothing that nobody reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lakerunner_query.evaluate.logs.columns import SPECIAL
from lakerunner_query.evaluate.logs.formatting import labels_read
from lakerunner_query.evaluate.logs.source import Demand
from lakerunner_query.evaluate.logs.stages.names import EXTRACTED
from lakerunner_query.lang.logql.ast import (
    Drop,
    Json,
    Keep,
    LabelAnd,
    LabelCompare,
    LabelCondition,
    LabelFilter,
    LabelFormat,
    LabelIp,
    LabelMatch,
    LabelOr,
    LineFormat,
    Logfmt,
    Pattern,
    Regexp,
    Stage,
    Unpack,
)
from lakerunner_query.syntax import Matcher

Wanted = frozenset[str] | None


_PARSERS = (Json, Logfmt, Regexp, Pattern, Unpack)


def parses(stages: Sequence[Stage]) -> bool:
    return any(isinstance(stage, _PARSERS) for stage in stages)


def wanted_by(stages: Sequence[Stage], demand: Demand) -> list[Wanted]:
    """Entry i: the labels that stage i or anything behind it looks at; the last entry is the demand."""
    found: list[Wanted] = [demand.labels]
    for number in range(len(stages) - 1, -1, -1):
        found.append(_before(stages[number], found[-1], parses(stages[number + 1 :])))
    return found[::-1]


def _before(stage: Stage, after: Wanted, parsed_later: bool) -> Wanted:
    match stage:
        case LabelFilter(condition):
            return _with(after, names_in(condition))
        case Json() | Logfmt() | Regexp() | Pattern() | Unpack():
            return _with(after, parsed_from(stage, after))
        case Keep(items) if items and not parsed_later:
            return _before_keep(items, after)
        case Keep(items) | Drop(items):
            return _with(after, _matched(items))
        case LineFormat() | LabelFormat():
            read = labels_read(stage)
            return None if read is None else _with(after, read)
        case _:
            return after


def _with(after: Wanted, names: Iterable[str]) -> Wanted:
    return None if after is None else after.union(names)


def parsed_from(stage: Stage, after: Wanted) -> Iterator[str]:
    """Labels that decide under which name a parser's fields go, or whether they count."""
    yield from (name.removesuffix(EXTRACTED) for name in after or ())
    if isinstance(stage, Logfmt):
        yield from (str(part) for one in stage.extractions for part in (one.name, *one.path[:1]))


def _matched(items: tuple[str | Matcher, ...]) -> Iterator[str]:
    return (item.name for item in items if isinstance(item, Matcher))


def names_in(condition: LabelCondition) -> Iterator[str]:
    """The labels a condition names. (What converts a value looks for an error, too: that is always there.)"""
    match condition:
        case LabelMatch(matcher):
            yield matcher.name
        case LabelCompare(name) | LabelIp(name):
            yield name
        case LabelAnd(left, right) | LabelOr(left, right):
            yield from names_in(left)
            yield from names_in(right)


def _before_keep(items: tuple[str | Matcher, ...], after: Wanted) -> Wanted:
    kept = SPECIAL.union(item.name if isinstance(item, Matcher) else item for item in items)
    return kept if after is None else after & kept
