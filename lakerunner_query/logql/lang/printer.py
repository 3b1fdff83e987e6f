"""Stages of a pipeline as text: `|= "x"`, `| json a="b"`, `| status >= 500 or level="error"`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from lakerunner_query.gotext import durations, numbers
from lakerunner_query.gotext.durations import duration_text, size_text
from lakerunner_query.gotext.numbers import format_float
from lakerunner_query.gotext.strconv import LOGQL
from lakerunner_query.logql.lang.ast import (
    Assign,
    Binary,
    Cardinality,
    Conversion,
    Decolorize,
    Drop,
    Expr,
    Extraction,
    Grouping,
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
    LabelReplace,
    LineFilter,
    LineFormat,
    Literal,
    Logfmt,
    LogQuery,
    LogRange,
    Matching,
    Pattern,
    RangeAggregation,
    Regexp,
    Rename,
    Stage,
    Unit,
    Unpack,
    Unwrap,
    VectorAggregation,
    VectorOf,
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
    operands = (*map(LOGQL.quote, line.values), *map(_ip, line.ips))
    return f"{line.op.value} {' or '.join(operands)}"


def matcher_text(matcher: Matcher) -> str:
    return f"{matcher.name}{matcher.op.value}{LOGQL.quote(matcher.value)}"


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
            text = f"line_format {LOGQL.quote(stage.template)}"
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
            text = f"regexp {LOGQL.quote(stage.pattern)}"
        case Pattern():
            text = f"pattern {LOGQL.quote(stage.pattern)}"
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
            return numbers.format_float(condition.value, "f")


def _with_list(word: str, items: Iterable[str]) -> str:
    listed = ",".join(items)
    return f"{word} {listed}" if listed else word


def _extraction(extraction: Extraction) -> str:
    return f"{extraction.name}={LOGQL.quote(extraction.expression)}"


def _operation(operation: Rename | Assign) -> str:
    value = operation.source if isinstance(operation, Rename) else LOGQL.quote(operation.template)
    return f"{operation.name}={value}"


def _item(item: str | Matcher) -> str:
    return item if isinstance(item, str) else matcher_text(item)


def _ip(pattern: str) -> str:
    return f"ip({LOGQL.quote(pattern)})"


# << The canonical text of a tree: one line, what EXPLAIN shows and what equal queries have in common.
# <<
# << Spelled as Loki spells it, but that parsing it always gives an equal tree (a property test holds
# << this): Loki's
# << own text of `on ()` or of a small `vector` is another query.

_MILLISECOND = 1_000_000


def print_query(expr: Expr) -> str:
    """One line.

    >>> from lakerunner_query.logql.lang.parser import parse_expr
    >>> print_query(parse_expr('sum(rate({a="b",c!~`x`}|="e"or"f"[90m]))by(a)'))
    'sum by (a)(rate({a="b", c!~"x"} |= "e" or "f"[1h30m]))'
    """
    match expr:
        case LogQuery():
            text = log_query_text(expr)
        case RangeAggregation(range=ranged):
            text = f"{expr.op}({_parameter(expr.parameter)}{_range(ranged)}){_behind(expr.grouping)}"
        case VectorAggregation(expr=inner):
            text = f"{head(expr, ',')}({_parameter(expr.parameter)}{print_query(inner)})"
        case LabelReplace(expr=inner):
            text = f"label_replace({','.join((print_query(inner), *replacement(expr)))})"
        case Literal():
            text = number_text(expr.value)
        case VectorOf():
            text = f"vector({_fixed(expr.value)})"
        case Binary():
            left, right = print_query(expr.left), print_query(expr.right)
            text = f"({left} {operator_text(expr, ',', is_open=right.startswith('('))} {right})"
    return text


def log_query_text(query: LogQuery) -> str:
    return " ".join((selector_text(query.matchers), *map(stage_text, query.stages)))


def selector_text(matchers: tuple[Matcher, ...]) -> str:
    return "{" + ", ".join(map(matcher_text, matchers)) + "}"


def brackets_text(ranged: LogRange) -> str:
    return f"[{durations.text(ranged.range_ns // _MILLISECOND)}]"


def head(expr: VectorAggregation, separator: str) -> str:
    """The name with the grouping in front of the parentheses."""
    return f"{expr.op} {grouping_text(expr.grouping, separator)}" if expr.grouping else expr.op


def grouping_text(grouping: Grouping, separator: str) -> str:
    return f"{'without' if grouping.without else 'by'} ({separator.join(grouping.labels)})"


def replacement(expr: LabelReplace) -> list[str]:
    """The arguments behind the first."""
    return [LOGQL.quote(text) for text in (expr.destination, expr.replacement, expr.source, expr.pattern)]


def operator_text(expr: Binary, separator: str, *, is_open: bool) -> str:
    """The operator with what stands in front of the right side, which may begin with a parenthesis."""
    modifiers = " bool" if expr.return_bool else ""
    matching = expr.matching
    if matching == Matching():
        return f"{expr.op}{modifiers}"
    modifiers += f" {'on' if matching.on else 'ignoring'} ({separator.join(matching.labels)})"
    if matching.cardinality is Cardinality.ONE_TO_ONE:
        return f"{expr.op}{modifiers}"
    group = "group_left" if matching.cardinality is Cardinality.MANY_TO_ONE else "group_right"
    # without labels the parenthesis of the right side would be read as theirs
    include = f" ({separator.join(matching.include)})" if matching.include or is_open else ""
    return f"{expr.op}{modifiers} {group}{include}"


def _range(ranged: LogRange) -> str:
    unwrap = "" if ranged.unwrap is None else f" {unwrap_text(ranged.unwrap)}"
    offset = f" offset {duration_text(ranged.offset_ns)}" if ranged.offset_ns else ""
    return f"{log_query_text(ranged.query)}{unwrap}{brackets_text(ranged)}{offset}"


def _parameter(value: float | None) -> str:
    return "" if value is None else f"{parameter_text(value)},"


def parameter_text(value: float) -> str:
    return str(value) if isinstance(value, int) else number_text(value)


def _behind(grouping: Grouping | None) -> str:
    return "" if grouping is None else f" {grouping_text(grouping, ',')}"


def _fixed(value: float) -> str:
    """With six places, unless more are needed."""
    text = f"{value:f}"
    return text if float(text) == value else number_text(value)


def number_text(value: float) -> str:
    """Write a literal that reads back as this number; where there is none, the operation that gives it."""
    if math.isnan(value):
        return "(0 / 0)"
    if value == 0 and math.copysign(1, value) < 0:
        return "(0 * -1)"
    if math.isinf(value):
        return "(10 ^ 400)" if value > 0 else "(-10 ^ 401)"
    return format_float(value)
