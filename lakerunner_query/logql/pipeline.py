"""Runs the stages of a query over a frame, each told which labels are looked at behind it.

    | json | status >= 500 | line_format "{{.msg}}"

The order of the stages is the query's; `_RUN` is the list of what there is. What works per distinct text in
Python, not in a kernel, is named by `fallbacks`, so that EXPLAIN can say it.

Lines are valid UTF-8: what was not when it came in is U+FFFD since, and a space in labels of `json`, `logfmt`
and `unpack`. How many labels a parser may make of how many lines is bounded in `stages/placing.py`, how many
keys in `stages/scanning.py`, how deep objects go in `kernels/json_scan.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lakerunner_query.logql.frame import SPECIAL, LogFrame, remembering
from lakerunner_query.logql.lang.ast import (
    Assign,
    Decolorize,
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
    LineFilter,
    LineFormat,
    Logfmt,
    LogQuery,
    Pattern,
    Regexp,
    Stage,
    Unpack,
)
from lakerunner_query.logql.stages.extract import EXTRACTED
from lakerunner_query.logql.stages.filters import label_filter, line_filter
from lakerunner_query.logql.stages.formats import label_format, labels_read, line_format
from lakerunner_query.logql.stages.json import json_fields, json_paths, unpacked
from lakerunner_query.logql.stages.labels import decolorized, kept_labels, without_labels
from lakerunner_query.logql.stages.logfmt import logfmt_keys, logfmt_pairs
from lakerunner_query.logql.stages.pattern_regexp import pattern_captures, regexp_groups
from lakerunner_query.logql.templates.chains import Computed, compiled
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import Labels
from resources.arrays import Int64s

# << Where log rows come from, as evaluation sees it: the lake's segments, or a list in memory in tests.


@dataclass(frozen=True, slots=True)
class Demand:
    """What of a row is looked at after the pipeline: less is read where less is wanted."""

    labels: frozenset[str] | None
    """None: all labels there are."""
    line: bool = True


@dataclass(frozen=True, slots=True)
class Buckets:
    """Lines counted by label set and time: bucket b covers `(start + b * width, start + (b + 1) * width]`."""

    labels: list[Labels]
    counts: Int64s
    """(label sets, buckets)."""
    bytes: Int64s
    """The same, of the lines' UTF-8 lengths; anything where they were not asked for."""


class LogSource(Protocol):
    def rows(self, query: LogQuery, from_ns: int, to_ns: int, demand: Demand) -> Iterator[LogFrame]:
        """Rows in `(from_ns, to_ns]` with all stages applied, in frames of bounded size, in any order."""
        ...

    def buckets(
        self,
        query: LogQuery,
        by: tuple[str, ...],
        start_ns: int,
        width_ns: int,
        count: int,
        *,
        with_bytes: bool,
    ) -> Buckets | None:
        """Lines by these labels and buckets, if that can be told without handing out rows, else None."""
        ...


# << Which labels anybody looks at, before each stage and after the last.
# <<
# <<     | json | status >= 500, counted by (app)  ->  before json: app, status;  before the filter: app,
# << status;
# <<                                                   behind it: app
# <<
# << Computed from the end: a stage adds what it reads itself; `keep` limits what went before. None means all
# << there are. A label that is dropped stays wanted, because a parser behind must not give its name
# << again. With
# << this in hand a parser writes down nothing that nobody reads.

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


@dataclass(frozen=True, slots=True)
class Moment:
    """When the query runs, and how it can be ended: templates ask, which may take long."""

    now_ns: int
    check: Callable[[], None] | None


Run = Callable[[LogFrame, Any, Wanted, Moment], LogFrame]


def _json(frame: LogFrame, stage: Json, wanted: Wanted, _moment: Moment) -> LogFrame:
    return json_paths(frame, stage.extractions, wanted) if stage.extractions else json_fields(frame, wanted)


def _logfmt(frame: LogFrame, stage: Logfmt, wanted: Wanted, _moment: Moment) -> LogFrame:
    return (logfmt_keys if stage.extractions else logfmt_pairs)(frame, stage, wanted)


_RUN: dict[type, Run] = {
    LineFilter: lambda frame, stage, _wanted, _moment: line_filter(frame, stage),
    LabelFilter: lambda frame, stage, _wanted, _moment: label_filter(frame, stage),
    Json: _json,
    Logfmt: _logfmt,
    Regexp: lambda frame, stage, wanted, _moment: regexp_groups(frame, stage, wanted),
    Pattern: lambda frame, stage, wanted, _moment: pattern_captures(frame, stage, wanted),
    Unpack: lambda frame, _stage, wanted, _moment: unpacked(frame, wanted),
    Decolorize: lambda frame, _stage, _wanted, _moment: decolorized(frame),
    Keep: lambda frame, stage, _wanted, _moment: kept_labels(frame, stage),
    Drop: lambda frame, stage, _wanted, _moment: without_labels(frame, stage),
    LineFormat: lambda frame, stage, _wanted, moment: line_format(
        frame, stage.template, moment.now_ns, moment.check
    ),
    LabelFormat: lambda frame, stage, _wanted, moment: label_format(
        frame, stage.operations, moment.now_ns, moment.check
    ),
}

_TAKE_AWAY = (Keep, Drop, LabelFormat)


def apply(
    frame: LogFrame,
    stages: Sequence[Stage],
    demand: Demand,
    now_ns: int,
    check: Callable[[], None] | None = None,
) -> LogFrame:
    """The rows that pass all stages, with the labels the demand asks for (and maybe others).

    `check` is called while templates run, and raises where the query was cancelled or is too late.
    """
    wanted, moment = wanted_by(stages, demand), Moment(now_ns, check)
    for number, stage in enumerate(stages):
        before = frame
        frame = _RUN[type(stage)](frame, stage, wanted[number + 1], moment)
        if isinstance(stage, _TAKE_AWAY) and parses(stages[number + 1 :]):
            frame = remembering(before, frame)
    return frame


def fallbacks(stages: Sequence[Stage]) -> list[str]:
    """Stages that make Python objects: of each distinct input of a template that is more than its labels."""
    return [
        f"{name}: Python per distinct input of the template"
        for stage in stages
        for name, templates in _templates(stage)
        if any(isinstance(piece, Computed) for text in templates for piece in compiled(text).pieces)
    ]


def _templates(stage: Stage) -> Iterator[tuple[str, list[str]]]:
    if isinstance(stage, LineFormat):
        yield "line_format", [stage.template]
    elif isinstance(stage, LabelFormat):
        yield "label_format", [one.template for one in stage.operations if isinstance(one, Assign)]
