"""The rules that the grammar does not have: types, values, and what Tempo parses but does not support.

    { 1 + "foo" = 1 }        both sides of an operator have the same type
    { status > ok }          and the operator knows it
    { kind = nil }           an intrinsic is always there
    { parent.a = 1 }         not supported

Operands are checked before what holds them, from left to right, and the first complaint is raised. Scalars
need no check of their own: aggregates and the literals that may stand beside them are all numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakerunner_query.errors import InvalidTraceQueryError, ParseError, UnsupportedTraceQueryError
from lakerunner_query.gotext.regexp import complaint
from lakerunner_query.traceql.lang.ast import (
    Aggregate,
    Arithmetic,
    Attribute,
    CompareOp,
    Comparison,
    FieldExpr,
    Group,
    Intrinsic,
    Literal,
    Logical,
    MathOp,
    MetricsAggregation,
    MetricsCompare,
    MetricsExpr,
    MetricsMath,
    Negation,
    Node,
    Not,
    Query,
    Ranking,
    ScalarFilter,
    Scope,
    SpansetFilter,
    Threshold,
    Type,
    children,
    walk,
)
from lakerunner_query.traceql.lang.functions import METRICS_FUNCTIONS
from lakerunner_query.traceql.lang.intrinsics import INTRINSICS
from lakerunner_query.traceql.lang.printer import print_node

_EQUALITY = frozenset({CompareOp.EQUAL, CompareOp.NOT_EQUAL})
_ORDER = frozenset({CompareOp.LESS, CompareOp.LESS_EQUAL, CompareOp.GREATER, CompareOp.GREATER_EQUAL})
_NUMBERS = frozenset({Type.INTEGER, Type.FLOAT, Type.DURATION})
_NUMERIC = frozenset({*_EQUALITY, *_ORDER, *MathOp})
_OPERATORS: dict[Type, frozenset[str]] = {
    Type.NIL: _EQUALITY,
    Type.BOOLEAN: _EQUALITY | {"&&", "||"},
    Type.INTEGER: _NUMERIC,
    Type.FLOAT: _NUMERIC,
    Type.DURATION: _NUMERIC,
    Type.STRING: frozenset(CompareOp),
    Type.STATUS: _EQUALITY,
    Type.KIND: _EQUALITY,
}
"""Operators between values of a type; an attribute takes all."""


def check(query: Query) -> None:
    """Raise for the first thing that a query may not do."""
    waiting: list[tuple[Node, bool]] = [(query.body, False)]
    while waiting:
        node, are_operands_checked = waiting.pop()
        if are_operands_checked:
            fault = _fault(node)
            if fault is not None:
                raise fault
        else:
            waiting.append((node, True))
            waiting += ((child, False) for child in reversed(children(node)))


def type_of(expr: FieldExpr) -> Type:
    """Return the type of an expression's values, `ATTRIBUTE` if only spans tell.

    >>> from lakerunner_query.traceql.lang.parser import parse
    >>> type_of(parse("{ duration * 2 > .a }").body.stages[0].condition.left)
    <Type.DURATION: 'duration'>
    """
    while True:
        match expr:
            case Literal(type=known):
                return known
            case Intrinsic(name=name):
                return INTRINSICS[name].type
            case Attribute():
                return Type.ATTRIBUTE
            case Comparison() | Logical():
                return Type.BOOLEAN
            case Not(operand=operand) | Negation(operand=operand):
                expr = operand
            case Arithmetic(left=left, right=right):
                known = type_of(left)
                if known != Type.ATTRIBUTE:
                    return known
                expr = right


def _fault(node: Node) -> ParseError | None:
    reason = _wrong(node)
    if reason:
        return InvalidTraceQueryError(reason, node.position)
    construct = _unsupported(node)
    return UnsupportedTraceQueryError(construct, node.position) if construct else None


def _wrong(node: Node) -> str:
    """Return the complaint about a node whose operands are right, empty if there is none."""
    match node:
        case Comparison() | Arithmetic() | Logical() | Not() | Negation():
            return _expression_fault(node)
        case SpansetFilter(condition=condition):
            fits = type_of(condition) in {Type.BOOLEAN, Type.ATTRIBUTE}
            reason = "span filter field expressions must resolve to a boolean"
        case Group(by=by):
            fits, reason = _references_span(by), "grouping field expressions must reference the span"
        case Aggregate(operand=operand) if operand is not None:
            fits = type_of(operand) in _NUMBERS | {Type.ATTRIBUTE}
            reason = "aggregate field expressions must resolve to a number type"
            if fits:
                fits, reason = (
                    _references_span(operand),
                    "aggregate field expressions must reference the span",
                )
        case MetricsAggregation() | MetricsCompare() | Ranking() | Threshold() | MetricsMath():
            return _metrics_fault(node)
        case _:
            return ""
    return "" if fits else f"{reason}: {print_node(node)}"


def _expression_fault(node: Comparison | Arithmetic | Logical | Not | Negation) -> str:
    match node:
        case Comparison(op=op, left=left, right=right):
            return _operands_fault(node, op, (left, right)) or _nil_fault(node) or _pattern_fault(node)
        case Arithmetic(op=op, left=left, right=right):
            return _operands_fault(node, op, (left, right))
        case Logical(op=op, operands=operands):
            return _operands_fault(node, op, operands)
        case Not(operand=operand):
            return _operand_fault(node, operand, frozenset({Type.BOOLEAN}))
        case Negation(operand=operand):
            return _operand_fault(node, operand, _NUMBERS)


def _unsupported(node: Node) -> str:
    """Return what Tempo parses here and refuses to evaluate, empty if it does not."""
    match node:
        case Attribute(of_parent=True):
            return "parent"
        case Intrinsic(name=name) if not INTRINSICS[name].is_supported:
            return f"intrinsic ({name})"
        case ScalarFilter(left=left) if not isinstance(left, Aggregate):
            return "a scalar filter whose left side is no aggregate"
        case ScalarFilter(right=right) if not isinstance(right, Literal):
            return "a scalar filter whose right side is no number"
        case MetricsAggregation(function=name, by=by) if len(by) > METRICS_FUNCTIONS[name].most_groups:
            return f"metrics group by {len(by)} values"
    return ""


def _operands_fault(node: FieldExpr, op: str, operands: Iterable[FieldExpr]) -> str:
    types = [type_of(operand) for operand in operands]
    for known in types[1:]:
        if not _match(types[0], known):
            return f"binary operations must operate on the same type: {print_node(node)}"
    if any(known != Type.ATTRIBUTE and op not in _OPERATORS[known] for known in types):
        return f"illegal operation for the given types: {print_node(node)}"
    return ""


def _match(left: Type, right: Type) -> bool:
    if left == right or {left, right} & {Type.ATTRIBUTE, Type.NIL}:
        return True
    return left.is_numeric and right.is_numeric


def _operand_fault(node: FieldExpr, operand: FieldExpr, types: frozenset[Type]) -> str:
    fits = type_of(operand) in types | {Type.ATTRIBUTE}
    return "" if fits else f"illegal operation for the given type: {print_node(node)}"


def _nil_fault(node: Comparison) -> str:
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if node.op != CompareOp.EQUAL or not (isinstance(other, Literal) and other.type == Type.NIL):
            continue
        if isinstance(one, Intrinsic):
            return f"{one.name}=nil is not valid because intrinsics cannot be nil"
        if isinstance(one, Attribute) and (one.scope, one.name) == (Scope.RESOURCE, "service.name"):
            return "resource.service.name=nil is not valid because resource.service.name cannot be nil"
    return ""


def _pattern_fault(node: Comparison) -> str:
    if node.op.is_regex and isinstance(node.right, Literal):
        return complaint(str(node.right.value))
    return ""


def _references_span(expr: FieldExpr) -> bool:
    return any(isinstance(one, Attribute | Intrinsic) for one in walk(expr))


def _metrics_fault(
    node: MetricsAggregation | MetricsCompare | Ranking | Threshold | MetricsMath,
) -> str:
    reason = ""
    match node:
        case MetricsAggregation(quantiles=quantiles):
            wrong = next((one for one in quantiles if not 0 <= one <= 1), None)
            reason = "" if wrong is None else f"quantile must be between 0 and 1: {wrong:g}"
        case MetricsCompare():
            reason = _compare_fault(node)
        case Ranking(expr=expr, limit=limit):
            reason = "" if limit > 0 else "limit must be greater than 0"
            reason = reason or _final_fault(node.op, expr)
        case Threshold(expr=expr, op=op):
            reason = _final_fault(op, expr)
        case MetricsMath(op=op, left=left, right=right):
            reason = _final_fault(op, left) or _final_fault(op, right)
    return reason


def _final_fault(op: str, expr: MetricsExpr | Literal) -> str:
    """Complain about a second stage behind series that take none."""
    return f"{op} cannot be used with compare()" if isinstance(expr, MetricsCompare) else ""


def _compare_fault(node: MetricsCompare) -> str:
    if node.limit <= 0:
        return "compare() top number of values must be integer greater than 0"
    if node.start_ns == node.end_ns == 0:
        return ""
    if node.start_ns <= 0 or node.end_ns <= 0:
        return "compare() timestamps must be integers greater than 0"
    return "" if node.start_ns < node.end_ns else "compare() end must be greater than its start"
