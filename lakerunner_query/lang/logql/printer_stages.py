"""Stages of a pipeline as text: `|= "x"`, `| json a="b"`, `| status >= 500 or level="error"`."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from lakerunner_query.gotext import strconv
from lakerunner_query.gotext.durations import duration_text, size_text
from lakerunner_query.gotext.strconv import quote_logql
from lakerunner_query.lang.logql.ast import (
    Assign,
    Conversion,
    Decolorize,
    Drop,
    Extraction,
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
    Pattern,
    Regexp,
    Rename,
    Stage,
    Unit,
    Unpack,
    Unwrap,
)
from lakerunner_query.syntax import Matcher

_Parser = Json | Logfmt | Regexp | Pattern | Unpack
_Piped = _Parser | LabelFilter | LineFormat | LabelFormat | Keep | Drop | Decolorize


def stage_text(stage: Stage) -> str:
    """
    >>> stage_text(Logfmt(strict=True)), stage_text(Drop(("a", "b")))
    ('| logfmt --strict', '| drop a,b')
    """
    return filter_text(stage) if isinstance(stage, LineFilter) else f"| {_behind_pipe(stage)}"


def filter_text(line: LineFilter) -> str:
    operands = (*map(quote_logql, line.values), *map(_ip, line.ips))
    return f"{line.op.value} {' or '.join(operands)}"


def matcher_text(matcher: Matcher) -> str:
    return f"{matcher.name}{matcher.op.value}{quote_logql(matcher.value)}"


def unwrap_text(unwrap: Unwrap) -> str:
    return " ".join((unwrapped_text(unwrap), *map(stage_text, unwrap.filters)))


def unwrapped_text(unwrap: Unwrap) -> str:
    """Without the filters behind."""
    if unwrap.conversion is Conversion.NONE:
        return f"| unwrap {unwrap.label}"
    return f"| unwrap {unwrap.conversion.value}({unwrap.label})"


def _behind_pipe(stage: _Piped) -> str:
    match stage:
        case LabelFilter():
            text = condition_text(stage.condition)
        case LineFormat():
            text = f"line_format {quote_logql(stage.template)}"
        case LabelFormat():
            text = _with_list("label_format", map(_operation, stage.operations))
        case Keep():
            text = _with_list("keep", map(_item, stage.items))
        case Drop():
            text = _with_list("drop", map(_item, stage.items))
        case Decolorize():
            text = "decolorize"
        case _:
            text = _parser(stage)
    return text


def _parser(stage: _Parser) -> str:
    match stage:
        case Json():
            text = _with_list("json", map(_extraction, stage.extractions))
        case Logfmt():
            flags = (" --strict" if stage.strict else "") + (" --keep-empty" if stage.keep_empty else "")
            text = _with_list(f"logfmt{flags}", map(_extraction, stage.extractions))
        case Regexp():
            text = f"regexp {quote_logql(stage.pattern)}"
        case Pattern():
            text = f"pattern {quote_logql(stage.pattern)}"
        case Unpack():
            text = "unpack"
    return text


def condition_text(condition: LabelCondition) -> str:
    match condition:
        case LabelMatch():
            text = matcher_text(condition.matcher)
        case LabelIp():
            text = f"{condition.name}{'!=' if condition.negative else '='}{_ip(condition.pattern)}"
        case LabelCompare():
            text = f"{condition.name}{condition.op.value}{_measure(condition)}"
        case LabelAnd(left=left, right=right):
            text = f"( {condition_text(left)} , {condition_text(right)} )"
        case LabelOr(left=left, right=right):
            text = f"( {condition_text(left)} or {condition_text(right)} )"
    return text


def _measure(condition: LabelCompare) -> str:
    match condition.unit:
        case Unit.DURATION:
            return duration_text(round(Fraction(condition.value) * 1_000_000_000))
        case Unit.BYTES:
            return size_text(int(condition.value))
        case Unit.NUMBER:
            return strconv.text(condition.value)


def _with_list(word: str, items: Iterable[str]) -> str:
    listed = ",".join(items)
    return f"{word} {listed}" if listed else word


def _extraction(extraction: Extraction) -> str:
    return f"{extraction.name}={quote_logql(extraction.expression)}"


def _operation(operation: Rename | Assign) -> str:
    value = operation.source if isinstance(operation, Rename) else quote_logql(operation.template)
    return f"{operation.name}={value}"


def _item(item: str | Matcher) -> str:
    return item if isinstance(item, str) else matcher_text(item)


def _ip(pattern: str) -> str:
    return f"ip({quote_logql(pattern)})"
