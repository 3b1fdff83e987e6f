"""Which labels anybody looks at, before each stage and after the last.

    | json | status >= 500, counted by (app)  ->  before json: app, status;  before the filter: app, status;
                                                  behind it: app

Computed from the end: a stage adds what it reads itself and takes away what it makes or drops. None means
all there are. With this in hand a parser writes down nothing that nobody reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakerunner_query.evaluate.logs.columns import ERROR, ERROR_DETAILS, SPECIAL
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
from lakerunner_query.lang.matcher import Matcher

Wanted = frozenset[str] | None


def wanted_by(stages: Sequence[Stage], demand: Demand) -> list[Wanted]:
    """Entry i: the labels that stage i or anything behind it looks at; the last entry is the demand."""
    found: list[Wanted] = [demand.labels]
    for stage in reversed(stages):
        found.append(_before(stage, found[-1]))
    return found[::-1]


def _before(stage: Stage, after: Wanted) -> Wanted:
    match stage:
        case LabelFilter(condition):
            return None if after is None else after.union(names_in(condition))
        case Json() | Logfmt() | Regexp() | Pattern() | Unpack():
            return None if after is None else after | {name.removesuffix(EXTRACTED) for name in after}
        case Keep(items):
            return _before_keep(items, after)
        case Drop(items):
            return _before_drop(items, after)
        case LineFormat() | LabelFormat():
            read = labels_read(stage)
            return None if after is None or read is None else after | read
        case _:
            return after


def names_in(condition: LabelCondition) -> Iterator[str]:
    """The labels a condition looks at; what converts a value looks whether there is an error already."""
    match condition:
        case LabelMatch(matcher):
            yield matcher.name
        case LabelCompare(name) | LabelIp(name):
            yield from (name, ERROR, ERROR_DETAILS)
        case LabelAnd(left, right) | LabelOr(left, right):
            yield from names_in(left)
            yield from names_in(right)


def _before_keep(items: tuple[str | Matcher, ...], after: Wanted) -> Wanted:
    if not items:
        return after
    kept = SPECIAL.union(item.name if isinstance(item, Matcher) else item for item in items)
    return kept if after is None else after & kept


def _before_drop(items: tuple[str | Matcher, ...], after: Wanted) -> Wanted:
    return None if after is None else after.difference(item for item in items if isinstance(item, str))
