"""Rules about label filters that no earlier stage can have had a hand in.

What such a filter sees is what is stored: labels of the stream, or structured metadata of the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lakerunner_query.logql.lang.ast import (
    Decolorize,
    Drop,
    Json,
    Keep,
    LabelAnd,
    LabelCondition,
    LabelFilter,
    LabelFormat,
    LabelMatch,
    LineFilter,
    LineFormat,
    Logfmt,
    Rename,
    Stage,
)
from lakerunner_query.plan.logical import Pipeline, RunStages
from lakerunner_query.syntax import Matcher

EXTRACTED = "_extracted"
SPECIAL = "__"
"""Labels that stages make begin so."""


def stream_narrowing(plan: RunStages) -> Pipeline:
    """`{a="x"} | b="y"` asks nothing of streams whose label b is not y; others may have b in metadata."""
    found = (one.matcher for one in stored_matches(plan.stages))
    return replace(plan, source=replace(plan.source, narrowing=tuple(dict.fromkeys(found))))


def stored_matches(stages: Sequence[Stage]) -> Iterator[LabelMatch]:
    """Text conditions that every row must satisfy, on labels as they are stored."""
    for number, stage in enumerate(stages):
        if isinstance(stage, LabelFilter):
            for one in _all_of(stage.condition):
                if isinstance(one, LabelMatch) and is_stored(one.matcher, stages[:number]):
                    yield one


def is_stored(matcher: Matcher, before: Sequence[Stage]) -> bool:
    name = matcher.name
    return not name.startswith(SPECIAL) and not any(may_change(stage, name) for stage in before)


def may_change(stage: Stage, name: str) -> bool:
    """Whether a row may come out of the stage with another value of the label, or with or without it."""
    match stage:
        case LineFilter() | LabelFilter() | LineFormat() | Decolorize():
            return False
        case Json(extractions=some) | Logfmt(extractions=some) if some:
            return any(name in {one.name, one.name + EXTRACTED} for one in some)
        case LabelFormat(operations=operations):
            return any(
                name == one.name or (isinstance(one, Rename) and name == one.source) for one in operations
            )
        case Keep(items=items):
            return name not in items
        case Drop(items=items):
            return any(name == (one.name if isinstance(one, Matcher) else one) for one in items)
        case _:
            return True


def _all_of(condition: LabelCondition) -> Iterator[LabelCondition]:
    if isinstance(condition, LabelAnd):
        yield from _all_of(condition.left)
        yield from _all_of(condition.right)
    else:
        yield condition
