"""The functions that run stages, one row per stage; `lang/stages.py` has the facts about each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lakerunner_query.logql.frame import LogFrame
from lakerunner_query.logql.lang.ast import (
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
    Unpack,
)
from lakerunner_query.logql.lang.stage_functions import Names
from lakerunner_query.logql.stages.filters import label_filter, line_filter
from lakerunner_query.logql.stages.formats import label_format, line_format
from lakerunner_query.logql.stages.json import json_fields, json_paths, unpack
from lakerunner_query.logql.stages.labels import decolorize, drop_labels, keep_labels
from lakerunner_query.logql.stages.logfmt import logfmt_keys, logfmt_pairs
from lakerunner_query.logql.stages.pattern_regexp import pattern_captures, regexp_groups


@dataclass(frozen=True, slots=True)
class Clock:
    """Time of the query, and a check that raises once it was cancelled or is too late."""

    now_ns: int
    check: Callable[[], None] | None


Run = Callable[[LogFrame, Any, Names, Clock], LogFrame]
"""Run a stage on a frame; the names are the labels that are looked at behind it."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """Function of one stage. No field has a default."""

    stage: type
    run: Run


def _json(frame: LogFrame, stage: Json, wanted: Names, _clock: Clock) -> LogFrame:
    return json_paths(frame, stage.extractions, wanted) if stage.extractions else json_fields(frame, wanted)


def _logfmt(frame: LogFrame, stage: Logfmt, wanted: Names, _clock: Clock) -> LogFrame:
    return (logfmt_keys if stage.extractions else logfmt_pairs)(frame, stage, wanted)


def _line_format(frame: LogFrame, stage: LineFormat, _wanted: Names, clock: Clock) -> LogFrame:
    return line_format(frame, stage.template, clock.now_ns, clock.check)


def _label_format(frame: LogFrame, stage: LabelFormat, _wanted: Names, clock: Clock) -> LogFrame:
    return label_format(frame, stage.operations, clock.now_ns, clock.check)


RUNS: tuple[RunRow, ...] = (
    RunRow(LineFilter, lambda frame, stage, _wanted, _clock: line_filter(frame, stage)),
    RunRow(LabelFilter, lambda frame, stage, _wanted, _clock: label_filter(frame, stage)),
    RunRow(Json, _json),
    RunRow(Logfmt, _logfmt),
    RunRow(Regexp, lambda frame, stage, wanted, _clock: regexp_groups(frame, stage, wanted)),
    RunRow(Pattern, lambda frame, stage, wanted, _clock: pattern_captures(frame, stage, wanted)),
    RunRow(Unpack, lambda frame, _stage, wanted, _clock: unpack(frame, wanted)),
    RunRow(Decolorize, lambda frame, _stage, _wanted, _clock: decolorize(frame)),
    RunRow(LineFormat, _line_format),
    RunRow(LabelFormat, _label_format),
    RunRow(Keep, lambda frame, stage, _wanted, _clock: keep_labels(frame, stage)),
    RunRow(Drop, lambda frame, stage, _wanted, _clock: drop_labels(frame, stage)),
)
RUN_OF: dict[type, Run] = {row.stage: row.run for row in RUNS}
