"""The parser of pipelines: spansets, scalar filters, stages, and metrics behind them.

    sequence     {…} | by(.a) | count() > 2        {…} | rate() by (.a) | topk(5)
    expression   {…} > {…} && ({…})                ({…} | rate()) / ({…} | rate())

A sequence in parentheses is an operand of an expression; its kind decides which operators may follow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakerunner_query.syntax import Task
from lakerunner_query.traceql.lang.ast import (
    TRUE,
    Aggregate,
    AggregateOp,
    Coalesce,
    CompareOp,
    Field,
    FieldExpr,
    Group,
    Literal,
    MetricsAggregation,
    MetricsCompare,
    MetricsExpr,
    Pipeline,
    Ranking,
    ScalarPipeline,
    Select,
    SpansetFilter,
    Stage,
    Threshold,
)
from lakerunner_query.traceql.lang.cursor import COMPARING, Cursor, expect_field, level_behind, unexpected
from lakerunner_query.traceql.lang.functions import AGGREGATES, METRICS_FUNCTIONS, RANKINGS, Argument
from lakerunner_query.traceql.lang.lexer import FLOAT, INTEGER, NUMBERS, STAGES, Token
from lakerunner_query.traceql.lang.operands import (
    COMPARISONS,
    PIPELINE_LEVELS,
    STRUCTURAL,
    Filter,
    Operand,
    Scalar,
    Series,
    Spans,
    accepts,
    combine,
    number,
)
from lakerunner_query.traceql.lang.parser_fields import field_expression, negate


@dataclass(frozen=True, slots=True)
class Stages:
    """A pipeline that nothing but its last stage ends."""

    pipeline: Pipeline
    start: Token
    pipe: Token
    """Token that makes it more than a spanset: the first `|`, or the first one of another stage."""


def sequence(cursor: Cursor, *, is_inside: bool) -> Task[Operand | Stages]:
    """Parse an operand, or stages with what may end them; `is_inside` of parentheses a count may."""
    start = cursor.next
    head: Operand | Group | Coalesce | Select
    if start.kind in {"by", "select"}:
        head = yield _stage(cursor)
    else:
        head = yield expression(cursor)
    match head:
        case Spans(node=node, pipe=None):
            stages: list[Stage] = [node]
            if cursor.next.kind != "|":
                return head
            mark = cursor.next
        case Filter(node=filtered, pipe=None):
            stages, mark = [filtered], start
        case Spans() | Scalar() | Filter() | Series():
            return head
        case _:
            stages, mark = [head], start
    found: Scalar | Series | None = yield _further_stages(cursor, stages, is_inside)
    if found is not None:
        return replace(found, start=start)
    return Stages(Pipeline(tuple(stages), stages[0].position), start, mark)


def _further_stages(cursor: Cursor, stages: list[Stage], is_inside: bool) -> Task[Scalar | Series | None]:
    """Append what follows behind each `|`; return the aggregate or function that ends the pipeline."""
    while bar := cursor.take_if("|"):
        token = cursor.next
        if token.kind in METRICS_FUNCTIONS:
            pipeline = Pipeline(tuple(stages), stages[0].position)
            series: MetricsExpr = yield _metrics(cursor, pipeline)
            series = yield second_stages(cursor, series)
            return Series(series, token)
        if token.kind in STAGES:
            stage: Stage = yield _stage(cursor)
            stages.append(stage)
            continue
        operand: Operand = yield expression(cursor)
        match operand:
            case Spans(node=node, pipe=None) | Filter(node=node, pipe=None):
                stages.append(node)
            case Scalar(node=Aggregate() as aggregate) if is_inside and cursor.next.kind == ")":
                pipeline = Pipeline(tuple(stages), stages[0].position)
                return Scalar(ScalarPipeline(pipeline, aggregate, bar.position), token, pipe=bar)
            case Spans(pipe=Token() as pipe) | Filter(pipe=Token() as pipe):
                raise unexpected(pipe)
            case Series(start=begin):
                raise unexpected(begin)
            case _:
                raise unexpected(cursor.next)
    return None


def expression(cursor: Cursor, least: int = 0) -> Task[Operand]:
    """Parse operands and the operators between them whose level is at least `least`."""
    left: Operand = yield _operand(cursor)
    while PIPELINE_LEVELS.get(cursor.next.kind, -1) >= least and accepts(left, cursor.next.kind):
        op = cursor.take()
        behind = COMPARING + 1 if op.kind in STRUCTURAL else level_behind(op.kind)
        right: Operand = yield expression(cursor, behind)
        left = combine(left, op, right)
    return left


def _operand(cursor: Cursor) -> Task[Operand]:
    token = cursor.next
    found: Operand
    if token.kind == "{":
        filtered: SpansetFilter = yield spanset_filter(cursor)
        found = Spans(filtered, token)
    elif token.kind == "(":
        found = yield _parenthesised(cursor)
    elif token.kind in AGGREGATES:
        aggregate: Aggregate = yield _aggregate(cursor)
        found = Scalar(aggregate, token, has_aggregate=True)
    elif token.kind in NUMBERS or token.kind == "-":
        found = Scalar(_number(cursor, *NUMBERS), token)
    else:
        raise unexpected(token)
    return found


def _number(cursor: Cursor, *kinds: str) -> Literal:
    sign = cursor.take_if("-")
    literal = cursor.expect(*kinds).literal
    signed = negate(literal, sign.position) if sign else literal
    return signed if isinstance(signed, Literal) else literal


def _parenthesised(cursor: Cursor) -> Task[Operand]:
    start = cursor.expect("(")
    inner: Operand | Stages = yield sequence(cursor, is_inside=True)
    match inner:
        case Filter(op=op) | Series(stage=Token() as op):
            raise unexpected(op)
        case Stages(pipeline=pipeline, pipe=pipe):
            found: Operand = Spans(pipeline, start, pipe, is_wrapped=True)
        case Spans():
            found = replace(inner, start=start, is_wrapped=True)
        case _:
            found = replace(inner, start=start)
    cursor.expect(")")
    return found


def spanset_filter(cursor: Cursor) -> Task[SpansetFilter]:
    position = cursor.expect("{").position
    if cursor.take_if("}"):
        return SpansetFilter(replace(TRUE, position=position), position)
    condition: FieldExpr = yield field_expression(cursor)
    cursor.expect("}")
    return SpansetFilter(condition, position)


def _aggregate(cursor: Cursor) -> Task[Aggregate]:
    token = cursor.take()
    cursor.expect("(")
    operand: FieldExpr | None = None
    if AGGREGATES[token.kind].takes_operand:
        operand = yield field_expression(cursor)
    cursor.expect(")")
    return Aggregate(AggregateOp(token.kind), operand, token.position)


def _stage(cursor: Cursor) -> Task[Group | Coalesce | Select]:
    """Parse `by(…)`, `coalesce()` or `select(…)`."""
    token = cursor.take()
    cursor.expect("(")
    stage: Group | Coalesce | Select
    match token.kind:
        case "by":
            by: FieldExpr = yield field_expression(cursor)
            stage = Group(by, token.position)
        case "select":
            stage = Select(_fields(cursor), token.position)
        case _:
            stage = Coalesce(token.position)
    cursor.expect(")")
    return stage


def _fields(cursor: Cursor) -> tuple[Field, ...]:
    fields = [expect_field(cursor)]
    while cursor.take_if(","):
        fields.append(expect_field(cursor))
    return tuple(fields)


def _metrics(cursor: Cursor, pipeline: Pipeline) -> Task[MetricsExpr]:
    """Parse a metrics function with its arguments and grouping."""
    token = cursor.take()
    row = METRICS_FUNCTIONS[token.kind]
    cursor.expect("(")
    if Argument.SELECTION in row.arguments:
        compared: MetricsCompare = yield _compared(cursor, pipeline, token)
        return compared
    operand = expect_field(cursor) if Argument.FIELD in row.arguments else None
    quantiles = _quantiles(cursor) if Argument.QUANTILES in row.arguments else ()
    cursor.expect(")")
    by: tuple[Field, ...] = ()
    if row.most_groups and cursor.take_if("by"):
        cursor.expect("(")
        by = _fields(cursor)
        cursor.expect(")")
    return MetricsAggregation(pipeline, row.name, operand, quantiles, by, token.position)


def _quantiles(cursor: Cursor) -> tuple[float, ...]:
    cursor.expect(",")
    numbers = [_number_of(cursor.expect(INTEGER, FLOAT))]
    while cursor.take_if(","):
        numbers.append(_number_of(cursor.expect(INTEGER, FLOAT)))
    return tuple(map(float, numbers))


def _number_of(token: Token) -> float:
    return token.value if isinstance(token.value, int | float) else 0


def _compared(cursor: Cursor, pipeline: Pipeline, token: Token) -> Task[MetricsCompare]:
    """Parse the arguments of `compare`: a filter, then a limit, then the ends of a time range."""
    selection: SpansetFilter = yield spanset_filter(cursor)
    found = MetricsCompare(pipeline, selection, position=token.position)
    if cursor.take_if(","):
        found = replace(found, limit=int(_number_of(cursor.expect(INTEGER))))
        if cursor.take_if(","):
            start = _number_of(cursor.expect(INTEGER))
            cursor.expect(",")
            end = _number_of(cursor.expect(INTEGER))
            found = replace(found, start_ns=int(start), end_ns=int(end))
    cursor.expect(")")
    return found


def second_stages(cursor: Cursor, expr: MetricsExpr) -> Task[MetricsExpr]:
    """Parse `| topk(5)` and `> 10` behind series."""
    while cursor.next.kind == "|" or cursor.next.kind in COMPARISONS:
        token = cursor.take()
        if token.kind == "|":
            ranking = cursor.expect(*RANKINGS)
            cursor.expect("(")
            limit = int(_number_of(cursor.expect(INTEGER)))
            cursor.expect(")")
            expr = Ranking(expr, ranking.kind, limit, ranking.position)
        else:
            right: Operand = yield expression(cursor, COMPARING + 1)
            expr = Threshold(expr, CompareOp(token.kind), number(right), token.position)
    return expr
