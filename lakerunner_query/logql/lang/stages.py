"""The stages of LogQL: one row per stage says how it is written and what planners need to know of it.

    | json | status >= 500 | line_format "{{.msg}}"

`stages/registry.py` has the functions that run them. To add a stage: a class in `ast.py`, its keyword in
`lexer.py`, a row here, a row there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from lakerunner_query.logql.lang.ast import (
    Decolorize,
    Drop,
    Json,
    Keep,
    LabelCondition,
    LabelFilter,
    LabelFormat,
    LabelMatch,
    LineFilter,
    LineFormat,
    Logfmt,
    Pattern,
    Regexp,
    Stage,
    Unpack,
)
from lakerunner_query.logql.lang.conditions import (
    TextSearch,
    compares_values,
    condition_fault,
    condition_text,
    label_filter,
    line_filter,
    line_filter_fault,
    line_filter_text,
    names_in,
    text_search,
)
from lakerunner_query.logql.lang.cursor import Cursor
from lakerunner_query.logql.lang.stage_functions import (
    Names,
    all_labels,
    always,
    any_label,
    drop,
    extracts,
    field_names,
    item_names,
    json,
    json_fault,
    json_text,
    keep,
    keep_names,
    label_format,
    label_format_can_fail,
    label_format_changes,
    label_format_fault,
    label_format_names,
    label_format_reads_line,
    label_format_templates,
    label_format_text,
    line_format,
    line_format_fault,
    line_format_text,
    logfmt,
    logfmt_fault,
    logfmt_names,
    logfmt_text,
    matcher_names,
    names_text,
    never,
    no_condition,
    no_fault,
    no_names,
    no_search,
    no_templates,
    pattern,
    pattern_text,
    regexp,
    renames,
    word_only,
)
from lakerunner_query.logql.lang.templates import runs_per_value, template_labels
from lakerunner_query.syntax import Matcher, Task


@dataclass(frozen=True, slots=True)
class StageRow:
    """Facts about one stage; functions take the stage. No field has a default."""

    stage: type
    keyword: str
    """Word behind `|`; empty for the filters, which begin with an operator or a label."""
    parse: Callable[[Cursor], Stage | Task[Stage]]
    text: Callable[[Any], str]
    """Canonical text, without the `|`."""
    fault: Callable[[Any], str]
    """Reason why the stage cannot work, if there is one."""
    labels_read: Callable[[Any, Names], Names]
    """Labels that decide what the stage does, when these are wanted behind it."""
    labels_passed: Callable[[Any], Names]
    """Labels that can come out of the stage, if it takes others away."""
    changes_label: Callable[[Any, str], bool]
    """A row may come out with another value of this label, or with or without it."""
    removes_labels: bool
    rebuilds_labels: Callable[[Any], bool]
    """Loki builds label sets anew behind it, without the empty ones."""
    parses: bool
    """Labels are made out of the line."""
    reads_line: Callable[[Any], bool]
    """Rows or labels behind the stage depend on the line."""
    needs_line: bool
    """The stage does not run on a frame without lines."""
    changes_line: bool
    drops_rows: bool
    uses_label_values: bool
    """Label values decide about rows, lines or values of other labels."""
    can_fail: Callable[[Any], bool]
    """A row may come out with `__error__`."""
    condition: Callable[[Any], LabelCondition | None]
    """Condition on labels, of a stage that is nothing else."""
    search: Callable[[Any], TextSearch | None]
    """Search of lines that a database can do, of a stage that is nothing else."""
    templates: Callable[[Any], tuple[tuple[str, str], ...]]
    """Templates, each with the name that errors call it; beyond plain text and labels they run in Python."""


def row_of(stage: Stage) -> StageRow:
    return ROWS[type(stage)]


def parse_stage(cursor: Cursor) -> Task[Stage]:
    """Parse the stage whose `|` has been taken."""
    row = _BY_KEYWORD.get(cursor.next.kind, ROWS[LabelFilter])
    parsed = row.parse(cursor)
    if isinstance(parsed, Generator):
        parsed = yield parsed
    return parsed


def stage_text(stage: Stage) -> str:
    """Print a stage in its canonical form.

    >>> stage_text(Logfmt(strict=True)), stage_text(Drop(("a", "b")))
    ('| logfmt --strict', '| drop a,b')
    """
    text = row_of(stage).text(stage)
    return text if isinstance(stage, LineFilter) else f"| {text}"


def condition_of(stage: Stage) -> LabelCondition | None:
    return row_of(stage).condition(stage)


def match_of(stage: Stage) -> Matcher | None:
    """Return the matcher of a label filter that is a single condition on a text."""
    condition = condition_of(stage)
    return condition.matcher if isinstance(condition, LabelMatch) else None


def search_of(stage: Stage) -> TextSearch | None:
    return row_of(stage).search(stage)


STAGES: tuple[StageRow, ...] = (
    StageRow(
        stage=LineFilter,
        keyword="",
        parse=line_filter,
        text=line_filter_text,
        fault=line_filter_fault,
        labels_read=no_names,
        labels_passed=all_labels,
        changes_label=never,
        removes_labels=False,
        rebuilds_labels=never,
        parses=False,
        reads_line=always,
        needs_line=True,
        changes_line=False,
        drops_rows=True,
        uses_label_values=False,
        can_fail=never,
        condition=no_condition,
        search=text_search,
        templates=no_templates,
    ),
    StageRow(
        stage=LabelFilter,
        keyword="",
        parse=label_filter,
        text=lambda stage: condition_text(stage.condition),
        fault=lambda stage: condition_fault(stage.condition),
        labels_read=lambda stage, _: frozenset(names_in(stage.condition)),
        labels_passed=all_labels,
        changes_label=never,
        removes_labels=False,
        rebuilds_labels=never,
        parses=False,
        reads_line=never,
        needs_line=False,
        changes_line=False,
        drops_rows=True,
        uses_label_values=True,
        can_fail=lambda stage: compares_values(stage.condition),
        condition=lambda stage: stage.condition,
        search=no_search,
        templates=no_templates,
    ),
    StageRow(
        stage=Json,
        keyword="json",
        parse=json,
        text=json_text,
        fault=json_fault,
        labels_read=field_names,
        labels_passed=all_labels,
        changes_label=extracts,
        removes_labels=False,
        rebuilds_labels=never,
        parses=True,
        reads_line=always,
        needs_line=True,
        changes_line=False,
        drops_rows=False,
        uses_label_values=False,
        can_fail=always,
        condition=no_condition,
        search=no_search,
        templates=no_templates,
    ),
    StageRow(
        stage=Logfmt,
        keyword="logfmt",
        parse=logfmt,
        text=logfmt_text,
        fault=logfmt_fault,
        labels_read=logfmt_names,
        labels_passed=all_labels,
        changes_label=extracts,
        removes_labels=False,
        rebuilds_labels=never,
        parses=True,
        reads_line=always,
        needs_line=True,
        changes_line=False,
        drops_rows=False,
        uses_label_values=False,
        can_fail=lambda stage: stage.strict,
        condition=no_condition,
        search=no_search,
        templates=no_templates,
    ),
    StageRow(
        stage=Regexp,
        keyword="regexp",
        parse=regexp,
        text=lambda stage: pattern_text("regexp", stage),
        fault=no_fault,
        labels_read=field_names,
        labels_passed=all_labels,
        changes_label=any_label,
        removes_labels=False,
        rebuilds_labels=never,
        parses=True,
        reads_line=always,
        needs_line=True,
        changes_line=False,
        drops_rows=False,
        uses_label_values=False,
        can_fail=never,
        condition=no_condition,
        search=no_search,
        templates=no_templates,
    ),
    StageRow(
        stage=Pattern,
        keyword="pattern",
        parse=pattern,
        text=lambda stage: pattern_text("pattern", stage),
        fault=no_fault,
        labels_read=field_names,
        labels_passed=all_labels,
        changes_label=any_label,
        removes_labels=False,
        rebuilds_labels=never,
        parses=True,
        reads_line=always,
        needs_line=True,
        changes_line=False,
        drops_rows=False,
        uses_label_values=False,
        can_fail=never,
        condition=no_condition,
        search=no_search,
        templates=no_templates,
    ),
    StageRow(
        stage=Unpack,
        keyword="unpack",
        parse=word_only(Unpack),
        text=lambda _: "unpack",
        fault=no_fault,
        labels_read=field_names,
        labels_passed=all_labels,
        changes_label=any_label,
        removes_labels=False,
        rebuilds_labels=never,
        parses=True,
        reads_line=always,
        needs_line=True,
        changes_line=True,
        drops_rows=False,
        uses_label_values=False,
        can_fail=always,
        condition=no_condition,
        search=no_search,
        templates=no_templates,
    ),
    StageRow(
        stage=Decolorize,
        keyword="decolorize",
        parse=word_only(Decolorize),
        text=lambda _: "decolorize",
        fault=no_fault,
        labels_read=no_names,
        labels_passed=all_labels,
        changes_label=never,
        removes_labels=False,
        rebuilds_labels=never,
        parses=False,
        reads_line=never,
        needs_line=True,
        changes_line=True,
        drops_rows=False,
        uses_label_values=False,
        can_fail=never,
        condition=no_condition,
        search=no_search,
        templates=no_templates,
    ),
    StageRow(
        stage=LineFormat,
        keyword="line_format",
        parse=line_format,
        text=line_format_text,
        fault=line_format_fault,
        labels_read=lambda stage, _: template_labels(stage.template, "line"),
        labels_passed=all_labels,
        changes_label=never,
        removes_labels=False,
        rebuilds_labels=never,
        parses=False,
        reads_line=never,
        needs_line=True,
        changes_line=True,
        drops_rows=False,
        uses_label_values=True,
        can_fail=lambda stage: runs_per_value(stage.template, "line"),
        condition=no_condition,
        search=no_search,
        templates=lambda stage: ((stage.template, "line"),),
    ),
    StageRow(
        stage=LabelFormat,
        keyword="label_format",
        parse=label_format,
        text=label_format_text,
        fault=label_format_fault,
        labels_read=label_format_names,
        labels_passed=all_labels,
        changes_label=label_format_changes,
        removes_labels=True,
        rebuilds_labels=renames,
        parses=False,
        reads_line=label_format_reads_line,
        needs_line=True,
        changes_line=False,
        drops_rows=False,
        uses_label_values=True,
        can_fail=label_format_can_fail,
        condition=no_condition,
        search=no_search,
        templates=label_format_templates,
    ),
    StageRow(
        stage=Keep,
        keyword="keep",
        parse=keep,
        text=lambda stage: names_text("keep", stage),
        fault=no_fault,
        labels_read=matcher_names,
        labels_passed=keep_names,
        changes_label=lambda stage, name: name not in stage.items,
        removes_labels=True,
        rebuilds_labels=always,
        parses=False,
        reads_line=never,
        needs_line=False,
        changes_line=False,
        drops_rows=False,
        uses_label_values=False,
        can_fail=never,
        condition=no_condition,
        search=no_search,
        templates=no_templates,
    ),
    StageRow(
        stage=Drop,
        keyword="drop",
        parse=drop,
        text=lambda stage: names_text("drop", stage),
        fault=no_fault,
        labels_read=matcher_names,
        labels_passed=all_labels,
        changes_label=lambda stage, name: name in item_names(stage),
        removes_labels=True,
        rebuilds_labels=always,
        parses=False,
        reads_line=never,
        needs_line=False,
        changes_line=False,
        drops_rows=False,
        uses_label_values=False,
        can_fail=never,
        condition=no_condition,
        search=no_search,
        templates=no_templates,
    ),
)
ROWS: dict[type, StageRow] = {row.stage: row for row in STAGES}
_BY_KEYWORD = {row.keyword: row for row in STAGES if row.keyword}
