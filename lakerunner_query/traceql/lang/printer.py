"""The printer of TraceQL writes a tree in one line, spelled as Tempo spells it.

    {span.a="x"&&(.b+1)*2>3}|count()>2   becomes   { (span.a = `x`) && (((.b + 1) * 2) > 3) } | count() > 2

`parse(print_query(tree)) == tree`; operands that are more than a field or a literal stand in parentheses. The
text of an expression is also the label of its groups: `by(span.cart.items % 2)`.
"""

from __future__ import annotations

import re

from lakerunner_query.gotext.durations import duration_text
from lakerunner_query.gotext.numbers import INT_MIN, format_float
from lakerunner_query.gotext.strconv import TRACEQL
from lakerunner_query.traceql.lang.ast import (
    TRUE,
    Aggregate,
    Arithmetic,
    Attribute,
    Coalesce,
    Combination,
    Comparison,
    Field,
    FieldExpr,
    Group,
    Intrinsic,
    Literal,
    Logical,
    MetricsAggregation,
    MetricsCompare,
    MetricsExpr,
    MetricsMath,
    Negation,
    Node,
    Not,
    Pipeline,
    Query,
    Ranking,
    ScalarArithmetic,
    ScalarExpr,
    ScalarFilter,
    ScalarPipeline,
    Select,
    SpansetExpr,
    SpansetFilter,
    Structural,
    Threshold,
    Type,
    walk,
)

_PLAIN_NAME = re.compile(r'[^\s{}()=~!<>&|^,"]++')
_SCOPED_NAME = re.compile(r"(?:span|resource)\.")


def print_query(query: Query) -> str:
    hints = ", ".join(f"{hint.name}={literal_text(hint.value)}" for hint in query.hints)
    return print_node(query.body) + (f" with ({hints})" if hints else "")


def print_node(node: Node) -> str:
    match node:
        case Attribute() | Intrinsic():
            text = field_text(node)
        case Literal():
            text = literal_text(node)
        case Comparison() | Arithmetic() | Logical() | Not() | Negation():
            text = _field_expression(node)
        case Aggregate() | ScalarArithmetic() | ScalarPipeline():
            text = _scalar(node)
        case MetricsAggregation() | MetricsCompare() | Ranking() | Threshold() | MetricsMath():
            text = _metrics(node)
        case _:
            text = _stage(node)
    return text


def field_text(field: Field) -> str:
    """Write an attribute or intrinsic, as labels of series show it.

    >>> from lakerunner_query.traceql.lang.ast import Scope
    >>> field_text(Attribute("team name", Scope.RESOURCE)), field_text(Intrinsic("span:id"))
    ('resource."team name"', 'span:id')
    """
    if isinstance(field, Intrinsic):
        return field.name
    scope = ".".join(filter(None, ("parent" if field.of_parent else "", field.scope.value)))
    is_scope = field.of_parent and not field.scope and _SCOPED_NAME.match(field.name)
    is_number = not scope and field.name[:1].isdigit()
    is_plain = _PLAIN_NAME.fullmatch(field.name) and not is_scope and not is_number
    name = field.name if is_plain else '"' + re.sub(r'(["\\])', r"\\\1", field.name) + '"'
    return f"{scope}.{name}"


def literal_text(literal: Literal) -> str:
    match literal.type, literal.value:
        case Type.NIL, _:
            text = "nil"
        case Type.STRING, str(value):
            text = f"`{value}`" if value.isprintable() and "`" not in value else TRACEQL.quote(value)
        case Type.BOOLEAN, value:
            text = "true" if value else "false"
        case Type.INTEGER, value:
            text = "minInt" if value == INT_MIN else str(value)
        case Type.DURATION, int(value):
            text = duration_text(value)
        case Type.FLOAT, float(value):
            text = format_float(value)
            text = text if "." in text or "e" in text else f"{text}.0"
        case _, value:
            text = str(value)
    return text


def _field_expression(expr: FieldExpr) -> str:
    match expr:
        case Comparison(op=op, left=left, right=right):
            return f"{_operand(left)} {op} {_operand(right)}"
        case Arithmetic(op=op, left=left, right=right):
            return f"{_operand(left, is_base=True)} {op} {_operand(right)}"
        case Logical(op=op, operands=operands):
            return f" {op} ".join(map(_operand, operands))
        case Not(operand=operand):
            return f"!{_operand(operand)}"
        case Negation(operand=operand):
            return f"-{_operand(operand, is_base=True)}"
    return print_node(expr)


def _operand(expr: FieldExpr, *, is_base: bool = False) -> str:
    """Write an operand; a minus in front of a base would belong to the whole operation."""
    text = print_node(expr)
    is_simple = isinstance(expr, Attribute | Intrinsic | Literal) and not (is_base and text[0] == "-")
    return text if is_simple else f"({text})"


def _scalar(expr: ScalarExpr) -> str:
    match expr:
        case Aggregate(op=op, operand=operand):
            return f"{op}({print_node(operand) if operand else ''})"
        case ScalarPipeline(pipeline=pipeline, aggregate=aggregate):
            return f"({_stages(pipeline)} | {_scalar(aggregate)})"
        case ScalarArithmetic(op=op, left=left, right=right):
            return f"({_scalar(left)} {op} {_scalar(right)})"
        case Literal():
            return literal_text(expr)


def _stages(pipeline: Pipeline) -> str:
    return " | ".join(map(_stage, pipeline.stages))


def _stage(node: Node) -> str:
    match node:
        case SpansetFilter(condition=condition):
            text = "{ }" if condition == TRUE else f"{{ {print_node(condition)} }}"
        case Structural(op=op, left=left, right=right) | Combination(op=op, left=left, right=right):
            is_piped = any(isinstance(one, Pipeline) for one in walk(node))
            text = f"{_spanset(left, is_piped)} {op} {_spanset(right, is_piped)}"
        case Pipeline():
            text = _stages(node)
        case ScalarFilter(op=op, left=left, right=right):
            text = f"{_scalar(left)} {op} {_scalar(right)}"
        case Group(by=by):
            text = f"by({print_node(by)})"
        case Select(fields=fields):
            text = f"select({', '.join(map(field_text, fields))})"
        case Coalesce():
            text = "coalesce()"
        case _:
            raise TypeError(f"no stage: {node}")
    return text


def _spanset(expr: SpansetExpr, is_piped: bool) -> str:
    """Write an operand; beside a pipeline each spanset stands in parentheses."""
    return _stage(expr) if isinstance(expr, SpansetFilter) and not is_piped else f"({_stage(expr)})"


def _metrics(expr: MetricsExpr | Literal) -> str:
    match expr:
        case Literal():
            return literal_text(expr)
        case MetricsAggregation():
            operand = () if expr.operand is None else (field_text(expr.operand),)
            arguments = (*operand, *map(_quantile, expr.quantiles))
            by = f" by ({', '.join(map(field_text, expr.by))})" if expr.by else ""
            return f"{_stages(expr.pipeline)} | {expr.function}({', '.join(arguments)}){by}"
        case MetricsCompare():
            return f"{_stages(expr.pipeline)} | compare({_compared(expr)})"
        case Ranking(expr=inner, op=name, limit=limit):
            return f"{_metrics(inner)} | {name}({limit})"
        case Threshold(expr=inner, op=op, value=value):
            return f"{_metrics(inner)} {op} {literal_text(value)}"
        case MetricsMath(op=op, left=left, right=right):
            return f"{_side(left)} {op} {_side(right)}"


def _quantile(value: float) -> str:
    return format_float(value, "f")


def _compared(expr: MetricsCompare) -> str:
    times = (expr.start_ns, expr.end_ns) if expr.start_ns or expr.end_ns else ()
    return ", ".join((_stage(expr.selection), *map(str, (expr.limit, *times))))


def _side(expr: MetricsExpr | Literal) -> str:
    return _metrics(expr) if isinstance(expr, Literal) else f"({_metrics(expr)})"
