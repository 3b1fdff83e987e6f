"""Runs the stages of a query over a frame, each told which labels are looked at behind it.

    | json | status >= 500 | line_format "{{.msg}}"

The order of the stages is the query's; `_RUN` is the list of what there is. What works per distinct text in
Python, not in a kernel, is named by `fallbacks`, so that EXPLAIN can say it.

Lines are valid UTF-8: what was not when it came in is U+FFFD since, and a space in labels of `json`, `logfmt`
and `unpack`. How many labels a parser may make of how many lines is bounded in `stages/placing.py`, how many
keys in `stages/scanning.py`, how deep objects go in `kernels/json_scan.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lakerunner_query.evaluate.logs.columns import remembering
from lakerunner_query.evaluate.logs.formatting import label_format, line_format
from lakerunner_query.evaluate.logs.frame import LogFrame
from lakerunner_query.evaluate.logs.source import Demand
from lakerunner_query.evaluate.logs.stages.captures import pattern_captures, regexp_groups
from lakerunner_query.evaluate.logs.stages.decolorizing import decolorized
from lakerunner_query.evaluate.logs.stages.json_fields import json_fields
from lakerunner_query.evaluate.logs.stages.json_paths import json_paths
from lakerunner_query.evaluate.logs.stages.keeping import kept_labels, without_labels
from lakerunner_query.evaluate.logs.stages.label_filters import label_filter
from lakerunner_query.evaluate.logs.stages.line_filters import line_filter
from lakerunner_query.evaluate.logs.stages.logfmt_keys import logfmt_keys
from lakerunner_query.evaluate.logs.stages.logfmt_pairs import logfmt_pairs
from lakerunner_query.evaluate.logs.stages.unpacking import unpacked
from lakerunner_query.evaluate.logs.templates.template import Computed, compiled
from lakerunner_query.evaluate.logs.wanted import Wanted, parses, wanted_by
from lakerunner_query.lang.logql.ast import (
    Assign,
    Decolorize,
    Drop,
    Json,
    Keep,
    LabelFilter,
    LabelFormat,
    LineFilter,
    LineFormat,
    Logfmt,
    Pattern,
    Regexp,
    Stage,
    Unpack,
)


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
